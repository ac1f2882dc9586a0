"""The packages of a release, and a runner for the programs that pack them."""

import os
from dataclasses import dataclass
from pathlib import Path

from pansketch_fleet.child_process import run_child


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
    """The standard output of a program. Raises BuildError with its last line after a failure."""
    done = run_child(command, cwd=cwd, env={**os.environ, **environ})
    if done.returncode:
        lines = done.stderr.decode(errors="replace").split("\n")
        last_line = next((line for line in reversed(lines) if line.strip()), "")
        raise BuildError(
            f"{Path(command[0]).name} ended with {done.returncode}: {last_line.strip()}"
        )
    return bytes(done.stdout)
