"""Releases in memory that an early ack saves from the disk. Overdue ones are written."""

import logging
from collections.abc import Callable, Iterator

from pansketch_agent.outbox.records import Key

LOG = logging.getLogger(__name__)

BUFFER_SECONDS = 5.0  # `when_unacknowledged` waits so long for an ack before it writes.
MAX_BUFFERED_BYTES = 2**20


class WriteBehind:
    """Queued releases that are in memory only. Not safe for several threads.

    `write` writes one to disk, or raises OSError: the release then stays in memory.
    """

    def __init__(self, write: Callable[[Key, bytes], None]) -> None:
        self._write = write
        self._payloads: dict[Key, bytes] = {}
        self._since: dict[Key, float] = {}
        self._failing = False

    def __len__(self) -> int:
        return len(self._payloads)

    def __contains__(self, key: Key) -> bool:
        return key in self._payloads

    def get(self, key: Key) -> bytes | None:
        return self._payloads.get(key)

    def fits(self, size_bytes: int) -> bool:
        return sum(map(len, self._payloads.values())) + size_bytes <= MAX_BUFFERED_BYTES

    def add(self, key: Key, payload: bytes) -> None:
        self._payloads[key] = payload

    def remove(self, key: Key) -> bool:
        """Remove a release, and return whether it was in memory."""
        self._since.pop(key, None)
        return self._payloads.pop(key, None) is not None

    def write_overdue(self, now: float) -> None:
        """Write the releases that are older than BUFFER_SECONDS; `now` in monotonic seconds."""
        for key in list(self._payloads):
            if now - self._since.setdefault(key, now) < BUFFER_SECONDS:
                continue
            try:
                self._write_out(key)
                self._failing = False
            except OSError as error:
                self._since[key] = now
                self._log_failure(key, error)

    def write_all(self) -> Iterator[tuple[Key, OSError]]:
        """Write all, and yield each that the disk refuses."""
        for key in list(self._payloads):
            try:
                self._write_out(key)
            except OSError as error:
                yield key, error

    def _write_out(self, key: Key) -> None:
        self._write(key, self._payloads[key])
        self.remove(key)

    def _log_failure(self, key: Key, error: OSError) -> None:
        """Log once until a write succeeds. The releases stay in memory, and are sent anyway."""
        if not self._failing:
            LOG.error("%s cannot be written yet (%s); free the disk", key.filename, error.strerror)
        self._failing = True
