"""One .deb: the environment, what the system reads of it, and the scripts that dpkg runs."""

import argparse
import gzip
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import shtab
from argparse_manpage.manpage import Manpage

from testbed.debian import compiled, environment
from testbed.debian.programs import FILES, LOCKS, SCRIPTS, Program
from testbed.debian.release import Release, run
from testbed.reference.command_line import PROGRAMS as PARSERS

CREDENTIALS = "etc/pansketch/credentials"
CONTROL = """\
Package: {package}
Version: {version}
Architecture: {arch}
Maintainer: pansketch <pansketch@localhost>
Installed-Size: {kibibytes}
Depends: {depends}
Section: net
Priority: optional
Description: {summary}
{description}
"""


def write_package(release: Release, program: Program, arch: str, out: Path) -> Path:
    """Builds the package of a program for an architecture; the path of the .deb.

    Raises:
        BuildError: A wheel cannot be had, or differs from the locked one.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        environment.build(release, program, arch, root)
        _write_files(release, program, arch, root)
        _write_control(release, program, arch, root)
        _settle(root, release.epoch)
        path = out / f"{program.package}_{release.version}_{arch}.deb"
        command = ["dpkg-deb", "--root-owner-group", "-Zzstd", "-z12", "--build"]
        run(*command, str(root), str(path), SOURCE_DATE_EPOCH=str(release.epoch))
    return path


def _write_files(release: Release, program: Program, arch: str, root: Path) -> None:
    package, deploy = program.package, release.source / "deploy"
    share = root / program.home.lstrip("/") / "share/pansketch"
    shutil.copyfile(
        release.source / "docs/reference/config.schema.json", share / "config.schema.json"
    )
    unit = (deploy / f"systemd/{package}.service").read_text()
    unit = unit.replace("/opt/pansketch/bin/", f"{program.home}/bin/")
    if program.config.endswith("collector.yaml"):
        unit = unit.replace("/etc/pansketch/config.yaml", program.config)
    _write(root / f"usr/lib/systemd/system/{package}.service", unit)
    users = (deploy / "systemd/sysusers.conf").read_text().splitlines()
    (own,) = (line for line in users if line.startswith(f"u {package} "))
    _write(root / f"usr/lib/sysusers.d/{package}.conf", f"{own}\n")
    if program.name != "keeper":  # `init` makes its file, with a key
        starter = (release.source / FILES / "config.yaml").read_text()
        _write(root / program.config.lstrip("/"), program.fill(starter))
    (root / CREDENTIALS).mkdir(parents=True)
    for command in program.commands:
        link = root / "usr/bin" / command
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"{program.home}/bin/{command}")
        parser = PARSERS[command][0]()
        parser.prog = command
        _write(root / f"usr/share/man/man1/{command}.1.gz", _manual(release, program, parser))
        completion = shtab.complete(parser, shell="bash")
        _write(root / f"usr/share/bash-completion/completions/{command}", completion)
    documents = root / "usr/share/doc" / package
    _write(documents / "copyright", (release.source / "LICENSE").read_text())
    changes = (release.source / "CHANGELOG.md").read_bytes()
    _write(documents / "changelog.gz", gzip.compress(changes, mtime=0))
    _write(documents / "sbom.cdx.json", _materials(release, program, arch))


def _manual(release: Release, program: Program, parser: argparse.ArgumentParser) -> bytes:
    data = {
        "project_name": program.package,
        "version": release.version,
        "description": program.summary,
        "manual_title": "pansketch",
        "date": _date(release.epoch),
    }
    return gzip.compress(str(Manpage(parser, data)).encode(), mtime=0)


def _date(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d")


def _materials(release: Release, program: Program, arch: str) -> bytes:
    """The components of the environment in CycloneDX format, without those of Debian."""
    lock = release.source / LOCKS / program.lock
    if arch in compiled.ARCHITECTURES:
        part = release.folder / f"{program.lock}-{arch}.txt"
        part.write_text(compiled.requirements(lock.read_text()))
        lock = part
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible"]
    command += ["--pyproject", str(release.source / "pyproject.toml"), str(lock)]
    return run(*command, PYTHONWARNINGS="ignore")


def _write_control(release: Release, program: Program, arch: str, root: Path) -> None:
    control = root / "DEBIAN"
    sizes = sum(path.lstat().st_size for path in _files(root))
    _write(
        control / "control",
        CONTROL.format(
            package=program.package,
            version=release.version,
            arch=arch,
            kibibytes=sizes // 1024 + 1,
            depends=environment.depends(arch),
            summary=program.summary,
            description="".join(f" {line}\n" for line in program.description.splitlines())[:-1],
        ),
    )
    if program.name != "keeper":
        _write(control / "conffiles", f"{program.config}\n")
    sums = (
        f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n"
        for path in _files(root)
        if not path.is_symlink() and control not in path.parents
    )
    _write(control / "md5sums", "".join(sums))
    for name in SCRIPTS:
        text = (release.source / FILES / name).read_text()
        _write(control / name, program.fill(text))


def _files(root: Path) -> Iterator[Path]:
    return (path for path in sorted(root.rglob("*")) if path.is_symlink() or path.is_file())


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def _settle(root: Path, epoch: int) -> None:
    """Modes and times that no machine decides."""
    for path in [*root.rglob("*"), root]:
        if not path.is_symlink():
            runs = path.is_dir() or path.parent.name == "bin" or path.name in SCRIPTS
            path.chmod(0o755 if runs else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    (root / CREDENTIALS).chmod(0o700)
