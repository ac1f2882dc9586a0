"""The environment below /opt: one folder of modules that several versions of Python can import.

The wheels of one version of a library differ by extension modules. Their names bear the version of
the interpreter. So the environments of all interpreters are laid over one another.
"""

import os
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pansketch_fleet.child_process import run_child
from testbed.debian.programs import LOCKS, Program

PYTHONS = ("3.11", "3.12", "3.13")  # Debian 12 and 13, Ubuntu 24.04
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
GLIBC = ("2_28", "2_27", "2_26", "2_17", "2014")  # Debian's architectures have newer ones
# Nobody runs these on a device: their removal saves a third of the bytes.
UNUSED = ("**/tests", "**/*.pyi", "numpy/f2py", "numpy/_core/include", "**/*.a")
# They differ by build, or name files that are not shipped.
RECORDS = ("*.dist-info/RECORD", "*.dist-info/WHEEL", "*.dist-info/direct_url.json", "bin")


class BuildError(Exception):
    """A program that builds a part of a package failed."""


@dataclass(frozen=True)
class Release:
    """A commit: its files, its wheel, its version, and its time in unix seconds. `folder`: room for
    what packages share."""

    folder: Path
    source: Path
    wheel: Path
    version: str
    epoch: int


def run(*command: str, cwd: Path | None = None, **environ: str) -> bytes:
    """What a program prints. Raises BuildError with its last line where it fails."""
    done = run_child(command, cwd=cwd, env={**os.environ, **environ})
    if done.returncode:
        lines = done.stderr.decode(errors="replace").split("\n")
        said = next((line for line in reversed(lines) if line.strip()), "")
        raise BuildError(f"{Path(command[0]).name} ended with {done.returncode}: {said.strip()}")
    return bytes(done.stdout)


def build(release: Release, program: Program, arch: str, root: Path) -> None:
    """Writes the environment of `program` below `root`, as it is to be on the device.

    Raises:
        BuildError: A wheel cannot be had, or differs from the locked one.
    """
    home = root / program.home.lstrip("/")
    modules = home / "lib/site-packages"
    shutil.copytree(_modules(release, program.lock, arch), modules)
    shutil.move(modules / "share", home / "share")
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    for python in PYTHONS:
        (home / f"lib/python{python}").mkdir()
        (home / f"lib/python{python}/site-packages").symlink_to("../site-packages")
    (home / "bin").mkdir()
    (home / "bin/python3").symlink_to("/usr/bin/python3")
    for name, module in program.commands.items():
        script = home / "bin" / name
        script.write_text(
            f"#!{program.home}/bin/python3\nimport sys\n\nfrom {module}.__main__ import main\n\n"
            "sys.exit(main())\n"
        )
        script.chmod(0o755)


@cache
def _modules(release: Release, lock: str, arch: str) -> Path:
    """A folder with the modules of all interpreters; programs of one lock share it."""
    merged = release.folder / f"{lock}-{arch}"
    for number, python in enumerate(PYTHONS):
        part = release.folder / f"{lock}-{arch}-{python}"
        locked = release.source / LOCKS / lock
        _install(part, arch, python, ["--require-hashes", "-r", str(locked)])
        if not number:
            _install(part, arch, python, [str(release.wheel)])
        lay_over(merged, part)
        shutil.rmtree(part)
    remove_unused(merged)
    return merged


def _install(target: Path, arch: str, python: str, what: list[str]) -> None:
    platforms = [f"--platform=manylinux{'_' * (g != '2014')}{g}_{MACHINES[arch]}" for g in GLIBC]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-compile", "--only-binary=:all:", f"--python-version={python}"]
    command += [*platforms, f"--target={target}", "--upgrade", *what]
    run(*command)


def lay_over(modules: Path, part: Path) -> None:
    """Adds what `part` has to `modules`; a file that is there already stays."""
    modules.mkdir(parents=True, exist_ok=True)
    for pattern in RECORDS:
        for found in list(part.glob(pattern)):
            shutil.rmtree(found) if found.is_dir() else found.unlink()
    for source in sorted(part.rglob("*")):
        target = modules / source.relative_to(part)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif not target.exists():
            shutil.copyfile(source, target)


def remove_unused(modules: Path) -> None:
    """Deletes what no device runs."""
    for pattern in UNUSED:
        for found in sorted(modules.glob(pattern)):
            if found.is_dir():
                shutil.rmtree(found)
            elif found.exists():
                found.unlink()
