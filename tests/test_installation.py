"""What somebody meets who installed less than a program needs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from {module} import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("module", "package", "says"),
    [
        ("collector.__main__", "rich", "pip install '.[collector]' in a clone"),
        ("demo.launch", "amqtt", "make demo installs it"),
    ],
)
def test_a_missing_extra_is_one_line(module, package, says):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(module=module, package=package)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (1, 2)
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_an_agent_needs_no_extra():
    """The control: what a device runs does not notice that rich and amqtt are away."""
    for package in ("rich", "amqtt", "matplotlib", "opendp"):
        program = WITHOUT.format(module="agent.__main__", package=package)
        done = subprocess.run(
            [sys.executable, "-c", program.replace("main()", "main(['validate'])")],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
