"""A machine without the Debian packages that tests need: installed, or left out and counted."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import packages
from tests.waiting import SECONDS

TESTS = Path(__file__).parents[1]
CONTRIBUTING = (TESTS.parent / "CONTRIBUTING.md").read_text()
CHROMIUM = "apt-get install --yes --no-install-recommends chromium"
SUITE = """\
import shutil, subprocess
import pytest
from tests.packages import needs

@pytest.fixture
@needs("chromium")
def browser():
    return shutil.which("chromium")

def test_by_fixture(browser):
    subprocess.run([browser], check=True)

@pytest.mark.needs("chromium")
def test_by_mark():
    subprocess.run(["chromium"], check=True)

def test_of_nothing():
    assert True
"""
FORGOTTEN = 'import subprocess\ndef test_it():\n    subprocess.run(["chromium"], check=True)\n'
SKIPPED = 'import pytest\ndef test_it():\n    pytest.skip("today")\n'
MODULE_SKIPPED = 'import pytest\npytest.importorskip("no_such_module")\n'


class Machine:
    """Programs are found in `bin`, which is empty, and nowhere else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tests").mkdir()
        (folder / "bin").mkdir()
        for name in ("conftest.py", "packages.py"):
            shutil.copy(TESTS / name, folder / "tests" / name)

    def has(self, name: str, script: str = "#!/bin/sh\n") -> None:
        (self.folder / "bin" / name).write_text(script)
        (self.folder / "bin" / name).chmod(0o755)

    def _run(self, *words: str, ci: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.folder / "bin"), "PYTHONPATH": str(self.folder), "CI": ci}
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def installs(self, *packages: str, ci: str = "") -> subprocess.CompletedProcess[str]:
        return self._run("tests/packages.py", *packages, ci=ci)

    def tests(self, text: str, ci: str = "") -> subprocess.CompletedProcess[str]:
        (self.folder / "tests/test_it.py").write_text(text)
        words = ("--rootdir", ".", "--import-mode=importlib", "-q", "-p", "no:cacheprovider")
        return self._run("-m", "pytest", *words, "tests", ci=ci)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_tests_without_their_package_are_left_out_and_counted(machine):
    done = machine.tests(SUITE)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^missing: .*\bchromium\b.*; the tests that need them", done.stdout, re.M)
    last = done.stdout.splitlines()[-2:]
    assert "1 passed, 2 skipped" in last[1]
    assert re.fullmatch(rf"left out: 2 tests; to run all: (sudo )?{CHROMIUM}", last[0])


def test_with_their_package_they_run(machine):
    machine.has("chromium")
    done = machine.tests(SUITE)
    assert (done.returncode, "left out: " in done.stdout) == (0, False), done.stdout
    assert "3 passed" in done.stdout


def test_in_ci_nothing_may_be_missing(machine):
    done = machine.tests(SUITE, ci="true")
    assert done.returncode not in (0, 1)
    assert "missing: chromium" in done.stderr
    assert "passed" not in done.stdout


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (FORGOTTEN, "does not say that it needs chromium"),
        (SKIPPED, "only a missing package is a reason"),
        (MODULE_SKIPPED, "only a missing package is a reason"),
        ('import pytest\n@pytest.mark.needs("emacs")\ndef test_it(): ...\n', "emacs"),
    ],
)
def test_a_forgotten_mark_and_another_reason_to_skip_are_failures(machine, text, why):
    machine.has("chromium")
    done = machine.tests(text)
    assert done.returncode != 0
    assert why in done.stdout


APT = """\
#!/bin/sh
echo "$@" >> {folder}/asked
case "$*" in *install*) echo '#!/bin/sh' > {folder}/bin/chromium
/bin/chmod 755 {folder}/bin/chromium;; esac
"""
SUDO = '#!/bin/sh\nshift\nexec "$@"\n'


def test_what_is_missing_is_installed_where_that_is_allowed(machine):
    machine.has("apt-get", APT.format(folder=machine.folder))
    machine.has("sudo", SUDO)
    machine.has("true")
    done = machine.installs("chromium", ci="true")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert done.stderr.endswith("that the tests need: chromium\n")
    update, install = (machine.folder / "asked").read_text().splitlines()
    assert update.endswith("update")
    assert install.endswith("install --yes --no-install-recommends chromium")
    again = machine.installs("chromium", ci="true")
    assert (again.returncode, again.stderr) == (0, "")


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
@pytest.mark.parametrize(
    ("programs", "why"),
    [
        ({}, "this system has no apt-get"),
        ({"apt-get": "exit 100", "sudo": SUDO, "true": ""}, "apt-get update failed"),
        ({"apt-get": "exit 0", "sudo": SUDO, "true": ""}, "but not what is needed of it"),
    ],
)
def test_what_cannot_be_installed_is_said(machine, programs, why, ci, code):
    for name, script in programs.items():
        machine.has(name, f"#!/bin/sh\n{script}\n")
    done = machine.installs("chromium", ci=ci)
    assert why in done.stderr.splitlines()[-1]
    assert "chromium" in done.stderr.splitlines()[-1]
    assert done.returncode == (1 if "but not what" in why else code)


def test_a_user_without_sudo_is_told_so(machine, monkeypatch, capsys):
    machine.has("apt-get", APT.format(folder=machine.folder))
    machine.has("sudo", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", str(machine.folder / "bin"))
    monkeypatch.setattr(packages, "PATH", str(machine.folder / "bin"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("CI", raising=False)
    assert packages.main(["chromium"]) == 0
    assert capsys.readouterr().err == "only root may install Debian packages; missing: chromium\n"
    assert packages.command(["chromium"]).startswith("sudo apt-get install ")
    assert not (machine.folder / "asked").exists()


def test_an_unknown_package_is_wrong_input(machine):
    done = machine.installs("emacs")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "emacs" in done.stderr


def test_the_page_for_contributors_names_them_all():
    (sentence,) = re.findall(r"programs of Debian packages: ([^.]*)\.", CONTRIBUTING)
    assert set(sentence.replace("\n", " ").split(", ")) == set(packages.PACKAGES)
