"""Releases that leave the outbox without being stored: dead-lettered and dropped ones.

Each dead-lettered release is kept as a file and can be requeued. Dropped ones are counted.
"""

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pansketch import WireError
from pansketch.wire import read_any_header
from pansketch_agent.host.durable_files import names_in, replace_file, sync_folder
from pansketch_agent.outbox.records import Key
from pansketch_fleet.protocol.messages import digest

LOG = logging.getLogger(__name__)

BLOCK_BYTES = 4096  # A file costs whole blocks of its disk.
MIN_ROOM_BYTES = 16 * BLOCK_BYTES
_COUNT = re.compile(rb"[0-9]{1,15}\n?")  # More than any count, and exact in JSON.


def max_refused_bytes(capacity_bytes: int) -> int:
    """Return the limit of the files in `refused`, in whole blocks, beside an outbox of this
    capacity.
    """
    return max(capacity_bytes // 4, MIN_ROOM_BYTES)


def keep_refused(folder: Path, key: Key, payload: bytes, max_bytes: int) -> None:
    """Write the release to `refused`, for people and for `outbox retry --refused`.

    A dead letter of the same name stays: it is of a ledger that was lost. Beyond `max_bytes` the
    oldest files are removed; each is counted and logged. Raises OSError.
    """
    refused = folder / "refused"
    refused.mkdir(exist_ok=True, mode=0o700)
    path = refused / key.filename
    if path.exists() and path.read_bytes() != payload:
        path = path.with_suffix(f".{digest(payload)}.release")
    replace_file(path, payload)
    files = sorted(path for path in refused.iterdir() if path.is_file())
    used = sum(_blocks(path) for path in files)
    for old in files:
        if used <= max_bytes:
            break
        used -= _blocks(old)
        note_count(folder / "refused-dropped", refused_dropped_in(folder) + 1)
        old.unlink()
        LOG.error("%s is removed: refused releases take more than %d bytes", old, max_bytes)
    sync_folder(refused)


def _blocks(path: Path) -> int:
    return -(-path.stat().st_size // BLOCK_BYTES) * BLOCK_BYTES


def refused_in(folder: Path) -> list[Path]:
    """Return the dead-lettered releases of an outbox, oldest first."""
    return sorted((folder / "refused").glob("*.release"))


def count_dead_letters(folder: Path) -> int:
    """Count the files that need a person's attention: dead letters and damaged segments. Raises
    OSError.
    """
    segments = [name for name in names_in(folder) if name.endswith(".segment.bad")]
    refused = [name for name in names_in(folder / "refused") if name != "damaged"]
    return sum(map(len, (segments, refused, names_in(folder / "refused" / "damaged"))))


def dropped_in(folder: Path) -> int:
    """Return how many releases an outbox has ever dropped, by its disk; 0 for a damaged file."""
    return _count_in(folder / "dropped")


def refused_dropped_in(folder: Path) -> int:
    """Return how many dead-lettered releases were ever removed for lack of space, by the disk."""
    return _count_in(folder / "refused-dropped")


def _count_in(path: Path) -> int:
    try:
        content = path.read_bytes()
    except OSError:
        return 0
    return int(content) if _COUNT.fullmatch(content) else 0


class DropCounter:
    """Counts the dropped releases, in memory and on disk.

    `count`: those of this outbox so far, including those before a restart.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.count, self._noted = folder, dropped_in(folder), True

    def add(self) -> None:
        self.count += 1
        self._noted = note_count(self._folder / "dropped", self.count)

    def flush(self) -> None:
        """Write a count that a full disk has refused."""
        if not self._noted:
            self._noted = note_count(self._folder / "dropped", self.count)


def note_count(path: Path, count: int) -> bool:
    """Write a count, and return whether it is on disk. A full disk cannot take it."""
    with suppress(OSError):
        replace_file(path, b"%d\n" % count)
        return True
    return False


_NAME = re.compile(r"(\d{12,18})\.([a-z0-9-]{1,64})(?:\.[0-9a-f]{32})?\.release")


def requeue_files(folder: Path, append: Callable[[Key, bytes], bool]) -> None:
    """Append every release of the folder, in the order of their names, and remove its file.

    `append` returns False if another release has this name, of a ledger that was lost; the file
    then stays. An invalid file is moved to `damaged`. Raises OSError, and what `append` raises;
    later files then stay.
    """
    found = [(path, key_of(path.name)) for path in sorted(folder.iterdir())]
    for path, key in found:
        if key is None:
            continue
        payload = path.read_bytes()
        if _is_release(payload, key):
            if append(key, payload):
                path.unlink()
            else:
                LOG.warning("%s stays: the outbox has another release of this name", path)
        else:
            (folder / "damaged").mkdir(exist_ok=True, mode=0o700)
            path.replace(folder / "damaged" / path.name)
            LOG.warning("%s is damaged; moved to %s/damaged", path.name, folder)
        sync_folder(folder)


def key_of(filename: str) -> Key | None:
    """Return the release in a file, or None for another name.

    The name is `SEQUENCE.STREAM.release`, or `SEQUENCE.STREAM.DIGEST.release` if that was taken.
    """
    match = _NAME.fullmatch(filename)
    return None if match is None else Key(int(match[1]), match[2])


def _is_release(payload: bytes, key: Key) -> bool:
    """Return whether the bytes pass the wire's checksum and match the name of the file."""
    try:
        windows = read_any_header(payload).windows
    except WireError:
        return False
    return [(window.sequence, window.stream) for window in windows] == [(key.sequence, key.stream)]
