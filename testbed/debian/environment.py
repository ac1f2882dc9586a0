"""The environment below /opt: one folder of modules that several versions of Python can import.

The wheels of one version of a library differ by extension modules. Their names bear the version of
the interpreter. So the environments of all interpreters are laid over one another.
"""

import shutil
import sys
from functools import cache
from pathlib import Path

from testbed.debian import compiled
from testbed.debian.programs import LOCKS, Program
from testbed.debian.release import Release, run

PYTHONS = ("3.11", "3.12", "3.13")  # Debian 12 and 13, Ubuntu 24.04
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}  # those with wheels; others: compiled.py
GLIBC = ("2_28", "2_27", "2_26", "2_17", "2014")  # Debian's architectures have newer ones
# A device never runs these: their removal saves a third of the bytes.
UNUSED = ("**/tests", "**/*.pyi", "numpy/f2py", "numpy/_core/include", "**/*.a")
# They differ by build, or name files that are not shipped.
RECORDS = ("*.dist-info/RECORD", "*.dist-info/WHEEL", "*.dist-info/direct_url.json", "bin")


def build(release: Release, program: Program, arch: str, root: Path) -> None:
    """Writes the environment of `program` below `root`, as it is to be on the device.

    Raises:
        BuildError: A wheel cannot be had, or differs from the locked one.
    """
    home = root / program.home.lstrip("/")
    modules = home / "lib/site-packages"
    shutil.copytree(_modules(release, program.lock, arch), modules)
    shutil.move(modules / "share", home / "share")
    system = "false" if arch in MACHINES else "true"
    (home / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = {system}\n")
    for python in pythons(arch):
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


def pythons(arch: str) -> tuple[str, ...]:
    """The versions of Python that a package for `arch` runs with."""
    return PYTHONS if arch in MACHINES else (compiled.PYTHON,)


def depends(arch: str) -> str:
    """The packages that dpkg installs first."""
    versions = pythons(arch)
    major, minor = versions[-1].split(".")
    needs = [f"python3 (>= {versions[0]})", f"python3 (<< {major}.{int(minor) + 1}~)"]
    needs += ["libc6 (>= 2.28)", "systemd-standalone-sysusers | systemd-sysusers"]
    if arch in compiled.ARCHITECTURES:
        needs += compiled.FROM_DEBIAN.values()
    return ", ".join(needs)


@cache
def _modules(release: Release, lock: str, arch: str) -> Path:
    """A folder with the modules of all interpreters; programs of one lock share it."""
    merged = release.folder / f"{lock}-{arch}"
    if arch not in MACHINES:
        compiled.build_modules(release, release.source / LOCKS / lock, arch, merged)
        return merged
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
