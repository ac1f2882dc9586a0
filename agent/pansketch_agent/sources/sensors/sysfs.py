"""Small files of /sys: one number or line each, in texts so short that they can be overwritten.

See agent/pansketch_agent/sources/readings.py for their memory.
"""

import os
from collections.abc import Iterator
from pathlib import Path

MAX_BYTES = 400


def text(path: Path) -> str:
    """Return the content of the file, up to MAX_BYTES. Raises OSError; ValueError if it is no
    ASCII.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(handle, MAX_BYTES).decode("ascii")
    finally:
        os.close(handle)


def number(path: Path) -> float:
    """Return the number in the file. Raises OSError or ValueError."""
    content = text(path)
    if "_" in content:
        raise ValueError  # Python would take it for a separator of digits.
    return float(content)


def label(path: Path) -> str:
    """Return the name in a file, or "". It is shown on terminals, and part of a sensor's name."""
    try:
        name = text(path).strip()
    except (OSError, ValueError):
        return ""
    return name if name.isprintable() and "/" not in name else ""


def folders(parent: Path, prefix: str) -> list[Path]:
    """Return the folders prefix0, prefix1, ... in the order of their numbers."""
    return sorted(parent.glob(f"{prefix}[0-9]*"), key=lambda path: (len(path.name), path.name))


def matching(parent: Path, prefix: str, name: str, labelled: str) -> Iterator[Path]:
    """Yield the folders with this name, or whose file `labelled` has it; _ and - are alike."""
    wanted = name.replace("-", "_")
    for folder in folders(parent, prefix):
        if name == folder.name or wanted == label(folder / labelled).replace("-", "_"):
            yield folder
