"""Small files of /sys: one number or a line each, in texts so short that they can be overwritten.

See agent/pansketch_agent/sources/memory_scrub.py for what becomes of their places.
"""

import os
from collections.abc import Iterator
from pathlib import Path

MAX_BYTES = 400


def text(path: Path) -> str:
    """What the file says, up to MAX_BYTES. Raises OSError; ValueError when it is no ASCII."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(handle, MAX_BYTES).decode("ascii")
    finally:
        os.close(handle)


def number(path: Path) -> float:
    """The number that the file holds. Raises OSError or ValueError."""
    said = text(path)
    if "_" in said:
        raise ValueError  # Python would take it for a separator of digits.
    return float(said)


def label(path: Path) -> str:
    """A name that a file gives, or nothing. It is shown on terminals, and a part of a place."""
    try:
        name = text(path).strip()
    except (OSError, ValueError):
        return ""
    return name if name.isprintable() and "/" not in name else ""


def folders(parent: Path, prefix: str) -> list[Path]:
    """The folders prefix0, prefix1, ... in the order of their numbers."""
    return sorted(parent.glob(f"{prefix}[0-9]*"), key=lambda path: (len(path.name), path.name))


def called(parent: Path, prefix: str, name: str, labelled: str) -> Iterator[Path]:
    """The folders that are `name`, or whose file `labelled` says so; _ and - are alike."""
    wanted = name.replace("-", "_")
    for folder in folders(parent, prefix):
        if name == folder.name or wanted == label(folder / labelled).replace("-", "_"):
            yield folder
