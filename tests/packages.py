"""The Debian packages that tests need beside Python's: which are missing, and their installation.

`python tests/packages.py [PACKAGE...]` installs the missing ones of those (or of all). It needs
root, or sudo without a password. Without them it prints a line and exits with 0, since
tests/conftest.py then skips and counts the tests that need them.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

Fixture = TypeVar("Fixture", bound=Callable[..., object])

# Debian package -> its programs and files for the tests. Each line is met by any one of them. A
# file is a name with a slash, which may have a *.
PACKAGES: Mapping[str, Sequence[tuple[str, ...]]] = {
    "chromium": [("chromium", "chromium-browser", "google-chrome")],
    "libfaketime": [("/usr/lib/*/faketime/libfaketimeMT.so.1",)],
    "mosquitto": [("mosquitto",), ("mosquitto_passwd",)],
    "openssl": [("openssl",)],
    "postgresql": [("/usr/lib/postgresql/*/bin/initdb",), ("/usr/lib/postgresql/*/bin/postgres",)],
    "prometheus": [("prometheus",), ("promtool",)],
    "systemd": [("systemd-analyze",)],
}
# Debian leaves this folder, which holds mosquitto, out of the search path of ordinary users.
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


def needs(*packages: str) -> Callable[[Fixture], Fixture]:
    """Marks a fixture, below `@pytest.fixture`: so is marked every test that uses it."""

    def mark(fixture: Fixture) -> Fixture:
        fixture.needs = packages  # type: ignore[attr-defined]
        return fixture

    return mark


def missing(packages: Iterable[str] = PACKAGES) -> list[str]:
    """Those of the packages of which something is not on this machine."""
    return [name for name in packages if not all(any(map(_is_here, one)) for one in PACKAGES[name])]


def _is_here(name: str) -> bool:
    if "/" in name:
        return any(Path("/").glob(name.lstrip("/")))
    return shutil.which(name, path=PATH) is not None


def command(packages: Iterable[str]) -> str:
    """The command that installs them, for people to copy."""
    become = "" if os.geteuid() == 0 else "sudo "
    return f"{become}apt-get install --yes --no-install-recommends {' '.join(packages)}"


def main(packages: Sequence[str]) -> int:
    """Exit code 0: all installable packages are present.

    1: CI is set and a package is missing, or an installed one lacks its files. 2: the table has no
    such package.
    """
    unknown = sorted(set(packages) - set(PACKAGES))
    if unknown:
        return _say(f"not one of {', '.join(PACKAGES)}: {', '.join(unknown)}", 2)
    wanted = missing(packages or PACKAGES)
    if not wanted:
        return 0
    why = _install(wanted)
    still = missing(wanted)
    if still and not why:
        return _say(f"apt-get has installed {' '.join(still)}, but not what is needed of it", 1)
    if still:
        return _say(f"{why}; missing: {' '.join(still)}", int(bool(os.environ.get("CI"))))
    return 0


def _install(wanted: Sequence[str]) -> str:
    """Installs them; the reason why not where that fails, else nothing."""
    if shutil.which("apt-get", path=PATH) is None:
        return "this system has no apt-get"
    become = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if become and not _succeeds([*become, "true"]):
        return "only root may install Debian packages"
    _say(f"installing the Debian packages that the tests need: {' '.join(wanted)}", 0)
    apt = [*become, "/usr/bin/env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    install = ["install", "--yes", "--no-install-recommends", *wanted]
    for words in (["update"], install):
        if not _succeeds([*apt, *words], shows=True):
            return f"apt-get {words[0]} failed"
    return ""


def _succeeds(words: Sequence[str], shows: bool = False) -> bool:
    """Runs it; what it complains of is shown where wanted, what it does never."""
    errors = None if shows else subprocess.DEVNULL
    quiet, nothing = subprocess.DEVNULL, subprocess.DEVNULL
    try:
        return subprocess.run(words, stdin=nothing, stdout=quiet, stderr=errors).returncode == 0
    except OSError:  # There is none, or none that this user may run.
        return False


def _say(line: str, code: int) -> int:
    print(line, file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
