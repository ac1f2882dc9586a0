"""The environment of a 32-bit board, for which PyPI has few wheels.

Debian has NumPy and other libraries for it, and the package depends on those. Two more have a
single C file each, which a cross compiler translates for Debian's Python. Nothing is emulated.
"""

import os
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from testbed.debian.release import BuildError, Release, run

# Debian's name of an architecture -> of its compiler, and of its Python's extension modules.
ARCHITECTURES = {
    "armhf": ("arm-linux-gnueabihf", "arm-linux-gnueabihf"),
    "i386": ("i686-linux-gnu", "i386-linux-gnu"),
}
SUITE, PYTHON = "trixie", "3.13"  # Debian 12 has an older NumPy than pyproject.toml allows
# Project -> its package in Debian. The versions are those of pyproject.toml.
FROM_DEBIAN = {
    "numpy": "python3-numpy (>= 1:1.26)",
    "paho-mqtt": "python3-paho-mqtt (>= 2.1)",
    "pyyaml": "python3-yaml (>= 6.0)",
    "pynacl": "python3-nacl (>= 1.5)",
}
# Project -> the folder of its modules in the source, and the file to be compiled there.
COMPILED = {"msgpack": ("msgpack", "_cmsgpack"), "msgspec": ("src/msgspec", "_core")}
FLAGS = ("-shared", "-fPIC", "-O2", "-DNDEBUG", "-fwrapv", "-w", "-s", "-Wl,--build-id=none")
SOURCES = ("*.c", "*.h", "*.pyx", "*.pyi")
LICENCES = ("LICENSE*", "COPYING*")


def build_modules(release: Release, lock: Path, arch: str, target: Path) -> None:
    """Writes the modules of `release`, and those of COMPILED in the versions of `lock`.

    Raises:
        BuildError: A source or a header cannot be had or compiled, or differs from the locked one.
    """
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*install, "--no-deps", "--no-compile", f"--target={target}", str(release.wheel))
    shutil.rmtree(target / "bin")
    folder = release.folder / f"compiled-{arch}"
    folder.mkdir()
    headers = _headers(folder / "headers", arch)
    for project, source in _sources(lock, folder / "sources"):
        modules, name = COMPILED[project]
        shutil.copytree(source / modules, target / project, ignore=shutil.ignore_patterns(*SOURCES))
        for licence in (each for pattern in LICENCES for each in source.glob(pattern)):
            shutil.copy(licence, target / project)
        _compile(source / modules / f"{name}.c", target / project, headers, arch)


def requirements(lock: str) -> str:
    """The part of a lock that is compiled here; the rest comes from Debian."""
    blocks = lock.replace("\\\n", "\0").splitlines(keepends=True)
    kept = (block for block in blocks if block.split("==")[0] in COMPILED)
    return "".join(kept).replace("\0", "\\\n")


def _sources(lock: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """(project, folder of its source). pip compares the files with the hashes of the lock."""
    folder.mkdir()
    wanted = folder / "requirements.txt"
    wanted.write_text(requirements(lock.read_text()))
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    fetch += ["--no-deps", f"--no-binary={','.join(COMPILED)}", "--require-hashes"]
    run(*fetch, "--dest", str(folder), "-r", str(wanted))
    for archive in sorted(folder.glob("*.tar.gz")):
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        yield archive.name.split("-")[0], folder / archive.name.removesuffix(".tar.gz")


def _headers(folder: Path, arch: str) -> Path:
    """The headers of Debian's Python for `arch`.

    apt verifies them. Its own lists stay as they are, and the command needs no root.
    """
    for part in ("lists/partial", "archives/partial"):
        (folder / part).mkdir(parents=True)
    (folder / "status").touch()
    mirror = os.environ.get("MIRROR", "http://deb.debian.org/debian")
    (folder / "sources.list").write_text(f"deb {mirror} {SUITE} main\n")
    settings = {
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder,
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "APT::Architecture": arch,
        "APT::Architectures": arch,
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    run(*apt, "update")
    run(*apt, "download", f"libpython{PYTHON}-dev", cwd=folder)
    (package,) = folder.glob("*.deb")
    run("dpkg-deb", "--extract", str(package), str(folder))
    return folder / "usr/include"


def _compile(source: Path, target: Path, headers: Path, arch: str) -> None:
    prefix, multiarch = ARCHITECTURES[arch]
    compiler = f"{prefix}-gcc"
    if shutil.which(compiler) is None:
        raise BuildError(f"{compiler} is missing (apt install gcc-{prefix})")
    suffix = f".cpython-{PYTHON.replace('.', '')}-{multiarch}.so"
    includes = [f"-I{headers}/python{PYTHON}", f"-I{headers}", f"-I{source.parents[1]}"]
    run(
        *(compiler, *FLAGS, *includes, f"-ffile-prefix-map={source.parent}=."),
        *(source.name, "-o", str(target / f"{source.stem}{suffix}"), "-lm"),
        cwd=source.parent,
    )
