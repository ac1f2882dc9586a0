"""Files that survive a power cut: whole or not there at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp
from typing import BinaryIO

UNFINISHED = ".tmp"


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file atomically and durably. Raises OSError; then the old content still stands."""
    with replacing(path) as file:
        file.write(content)
    sync_folder(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path`, whole, at the end; readable for its owner alone. Its
    name until then cannot be guessed, so nobody can put a link there. Raises OSError."""
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
    """The names in a folder, none where there is no such folder. Raises OSError where it cannot be
    read, which `Path.glob` takes for an empty one from Python 3.13 on."""
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
