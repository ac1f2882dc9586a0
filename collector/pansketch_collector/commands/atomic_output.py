"""Atomic output files: written beside their name, then renamed."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from pansketch_collector.errors import CommandError, wrong
from pansketch_fleet.text_table import discard_stdout


@contextmanager
def writing(name: str) -> Iterator[TextIO]:
    """A text file that appears under `name` after the block succeeds; "-" is standard output.

    A pipe, a device or another special file is opened directly. Raises CommandError when the folder
    does not exist, or the disk fails.
    """
    if name == "-":
        yield from _to_stdout()
        return
    path = Path(name)
    if path.is_dir() or not path.parent.is_dir():
        raise wrong(f"cannot write {name}: name a file in an existing folder, or - for stdout")
    try:
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8", newline="") as file:
                yield file
            return
        with _beside(path) as (file, unfinished):
            yield file
            file.flush()
            os.fsync(file.fileno())
            # Private while incomplete; then the usual permissions.
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            os.replace(unfinished, path)
    except OSError as error:
        raise CommandError(f"cannot write {name}: {error.strerror or error}") from error


def _to_stdout() -> Iterator[TextIO]:
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe, as in `| head`
        discard_stdout()
        raise
    except OSError as error:
        discard_stdout()
        raise CommandError(f"cannot write to stdout: {error.strerror or error}") from error


@contextmanager
def _beside(path: Path) -> Iterator[tuple[TextIO, str]]:
    handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file, unfinished
    finally:
        Path(unfinished).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
