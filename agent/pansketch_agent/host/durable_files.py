"""Files that survive a power cut: complete or absent."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp
from typing import BinaryIO

UNFINISHED = ".tmp"


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically and durably. Raises OSError; then the old content stays."""
    with replacing(path) as file:
        file.write(content)
    sync_folder(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` at the end; only its owner can read it. Raises OSError.

    Its temporary name cannot be guessed, so no other user can put a link there.
    """
    unfinished = None
    try:
        handle, unfinished = mkstemp(UNFINISHED, f"{path.name}.", path.parent)
        with open(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException as error:
        if unfinished is not None:
            Path(unfinished).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, none if it does not exist. Raises OSError if it cannot be read.

    From Python 3.13 on, `Path.glob` treats such a folder as an empty one.
    """
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
