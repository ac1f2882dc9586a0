"""Agent and collector start where only the dependencies of a device are installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import SECONDS

ROOT = Path(__file__).parents[2]
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
    ("module", "words"),
    [("pansketch_agent.__main__", ["validate"]), ("pansketch_collector.__main__", ["--help"])],
)
@pytest.mark.parametrize(
    "package", ["rich", "amqtt", "matplotlib", "fastapi", "pyarrow", "opendp", "nacl"]
)
def test_what_a_device_installs_starts_both_programs(module, words, package):
    done = start(module, words, package)
    assert done.returncode == 0, done.stderr


def test_what_is_missing_is_found_out():
    """The control: a package that every program needs."""
    done = start("pansketch_agent.__main__", ["validate"], "numpy")
    assert done.returncode != 0
    assert "No module named 'numpy'" in done.stderr


def start(module, words, package):
    program = WITHOUT.format(module=module, package=package)
    return subprocess.run(
        [sys.executable, "-c", program.replace("main()", f"main({words!r})")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
