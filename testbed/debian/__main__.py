"""python -m testbed.debian: Debian packages of the last commit, the same bytes each time."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from testbed.debian import environment
from testbed.debian.compiled import ARCHITECTURES
from testbed.debian.programs import LOCKS, PROGRAMS
from testbed.debian.release import BuildError, Release, run

REPOSITORY = Path(__file__).parents[2]
ARCHS = (*environment.MACHINES, *ARCHITECTURES)
EXTRAS = {"agent.txt": ["blinded", "signed"], "collector.txt": ["collector", "signed"]}


def main(argv: Sequence[str] | None = None) -> int:
    """0: the packages are written; 1: something of them cannot be had; 2: wrong input."""
    parser = argparse.ArgumentParser("python -m testbed.debian", description=__doc__)
    parser.add_argument(
        "program", nargs="*", choices=[*PROGRAMS, []], help=f"{', '.join(PROGRAMS)} (default: all)"
    )
    parser.add_argument(
        "--arch",
        action="append",
        choices=ARCHS,
        help="the architecture of the boards; repeatable (default: this machine's)",
    )
    parser.add_argument("--out", type=Path, default=Path("out/deb"), help="default: %(default)s")
    parser.add_argument(
        "--lock", action="store_true", help="choose the newest versions, write the locks, and end"
    )
    options = parser.parse_args(argv)
    try:
        return _lock() if options.lock else _build(options)
    except BuildError as error:
        return _fail(str(error), 1)


def _build(options: argparse.Namespace) -> int:
    missing = [name for name in ("dpkg-deb", "git") if shutil.which(name) is None]
    if missing:
        return _fail(f"{' and '.join(missing)} is missing: packages are built on Debian")
    archs = options.arch or [_output("dpkg", "--print-architecture")]
    if unknown := set(archs) - set(ARCHS):
        return _fail(
            f"no packages for {', '.join(unknown)}: pass --arch, one of {', '.join(ARCHS)}"
        )
    if "collector" in options.program and not set(archs) <= set(environment.MACHINES):
        return _fail(f"the collector has packages for {', '.join(environment.MACHINES)} only")
    if _output("git", "status", "--porcelain"):
        print("what is not committed is left out", file=sys.stderr)
    options.out.mkdir(parents=True, exist_ok=True)
    # Only the extra `deb` has what it imports.
    from testbed.debian.package import write_package

    with tempfile.TemporaryDirectory() as folder:
        release = _export(Path(folder))
        for name, arch in product(options.program or PROGRAMS, archs):
            if name != "collector" or arch in environment.MACHINES:
                path = write_package(release, PROGRAMS[name], arch, options.out)
                print(f"{path} {path.stat().st_size / 1e6:.1f} MB", flush=True)
    return 0


def _export(folder: Path) -> Release:
    """The last commit's files and its wheel."""
    source = folder / "source"
    source.mkdir()
    archive = str(folder / "source.tar")
    run("git", "archive", f"--output={archive}", "HEAD", cwd=REPOSITORY)
    run("tar", "-xf", archive, cwd=source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    run(*build, "--no-deps", "--wheel-dir", str(folder), str(source))
    (wheel,) = folder.glob("*.whl")
    epoch = int(_output("git", "log", "-1", "--format=%ct"))
    return Release(folder, source, wheel, wheel.name.split("-")[1], epoch)


def _lock() -> int:
    """Writes the exact versions and hashes of what each program needs, for all machines."""
    for name, extras in EXTRAS.items():
        chosen = [word for extra in extras for word in ("--extra", extra)]
        command = ["uv", "pip", "compile", "--quiet", "--universal", "--fork-strategy=fewest"]
        command += ["--python-version=3.11", "--generate-hashes", "--no-annotate", "--no-header"]
        target = str(REPOSITORY / LOCKS / name)
        command += ["--upgrade", *chosen, "--output-file", target, "pyproject.toml"]
        run(sys.executable, "-m", *command, cwd=REPOSITORY)
        print(target)
    return 0


def _output(*command: str) -> str:
    return run(*command, cwd=REPOSITORY).decode().strip()


def _fail(line: str, code: int = 2) -> int:
    print(f"testbed.debian: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
