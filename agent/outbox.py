"""The outbox: releases on disk until the collector has them. One file each, the exact bytes.

Configuration never touches it. When it is full it takes nothing new; what is in it stays. A file
that a power cut or a worn card has damaged is set aside, and the rest goes on.
"""

import logging
import re
import threading
from dataclasses import dataclass
from pathlib import Path

from agent.files import UNFINISHED, replace_file, sync_folder
from pansketch import WireError, peek

LOG = logging.getLogger(__name__)

MOST_ASIDE = 64  # Files kept in `damaged` and in `refused`, the newest.
_NAME = re.compile(r"(\d{12,18})\.([a-z0-9-]{1,64})\.release")


class OutboxFullError(Exception):
    """No room for one more release."""


@dataclass(frozen=True, order=True)
class Key:
    """Names one release of this device."""

    sequence: int
    stream: str

    @property
    def filename(self) -> str:
        return f"{self.sequence:012d}.{self.stream}.release"


class Outbox:
    """The folder `outbox` with at most `capacity_bytes` of releases. Safe for several threads.

    Raises OSError when the folder cannot be made or read.
    """

    def __init__(self, folder: Path, capacity_bytes: int) -> None:
        self.folder = folder
        self._capacity_bytes = capacity_bytes
        self._mutex = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for unfinished in folder.glob(f"*{UNFINISHED}"):
            unfinished.unlink()
        self._sizes = {
            Key(int(match[1]), match[2]): path.stat().st_size
            for path in folder.iterdir()
            if (match := _NAME.fullmatch(path.name)) and path.is_file()
        }

    def waiting(self) -> list[Key]:
        """What waits, in the order of sequence numbers."""
        with self._mutex:
            return sorted(self._sizes)

    def __contains__(self, key: Key) -> bool:
        return key in self._sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def has_room(self, size_bytes: int) -> bool:
        """Whether a release of this size can be put now."""
        with self._mutex:
            return self._fits(size_bytes)

    def put(self, key: Key, payload: bytes) -> None:
        """On disk before it returns. Raises OutboxFullError, or OSError when the disk refuses."""
        with self._mutex:
            if not self._fits(len(payload)):
                raise OutboxFullError
            replace_file(self.folder / key.filename, payload)
            self._sizes[key] = len(payload)

    def read(self, key: Key) -> bytes | None:
        """The bytes as they were put; None when they are damaged and were set aside."""
        with self._mutex:
            if key not in self._sizes:
                return None
            try:
                payload = (self.folder / key.filename).read_bytes()
                if _is_release(payload, key):
                    return payload
            except OSError:
                pass
            self._set_aside(key, "damaged")
        LOG.warning("%s is damaged; set aside in %s/damaged", key.filename, self.folder)
        return None

    def forget(self, key: Key) -> None:
        """The collector has it."""
        with self._mutex:
            if self._sizes.pop(key, None) is not None:
                (self.folder / key.filename).unlink(missing_ok=True)
                sync_folder(self.folder)

    def refuse(self, key: Key) -> None:
        """The collector will never take it: keeps the file in `refused` for a person to look at."""
        with self._mutex:
            self._set_aside(key, "refused")

    def _fits(self, size_bytes: int) -> bool:
        return sum(self._sizes.values()) + size_bytes <= self._capacity_bytes

    def _set_aside(self, key: Key, name: str) -> None:
        if self._sizes.pop(key, None) is None:
            return
        aside = self.folder / name
        aside.mkdir(exist_ok=True, mode=0o700)
        path = self.folder / key.filename
        if path.exists():
            path.replace(aside / path.name)
        for old in sorted(aside.iterdir())[:-MOST_ASIDE]:
            old.unlink()
        sync_folder(self.folder)


def _is_release(payload: bytes, key: Key) -> bool:
    """Whether the bytes pass the wire's checksum and are the release that the file's name says."""
    try:
        windows = peek(payload).windows
    except WireError:
        return False
    return [(window.sequence, window.stream) for window in windows] == [(key.sequence, key.stream)]
