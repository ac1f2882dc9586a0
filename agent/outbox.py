"""The outbox: releases that wait until the collector has them, the exact bytes, on disk.

Configuration never touches what is in it. When it is full it takes nothing new, or drops its
oldest, as configured; both are counted. Neither looks at anything but sizes and order.
"""

import logging
import threading
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent.adoption import adopt
from agent.aside import dropped_in, keep_refused, note_dropped
from agent.records import Key, cost
from agent.segments import Segments
from fleet.profiles import DEFAULT_OUTBOX, OutboxRules

__all__ = ["Key", "Outbox", "OutboxFullError", "largest_release"]

LOG = logging.getLogger(__name__)

MOST_SEGMENT_BYTES = 2**20
HOLD_SECONDS = 5.0  # How long `when_unacknowledged` waits for an ack before it writes.
MOST_HELD_BYTES = 2**20


class OutboxFullError(Exception):
    """No room for one more release."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One that waits: the number of its put, and what it may take on disk."""

    number: int
    cost: int


class Outbox:
    """The folder `outbox` with at most `capacity_bytes` of segments. Safe for several threads.

    Raises OSError when the folder cannot be made or read.
    """

    def __init__(
        self, folder: Path, capacity_bytes: int, rules: OutboxRules = DEFAULT_OUTBOX
    ) -> None:
        self.folder, self._rules = folder, rules
        self._capacity_bytes = capacity_bytes
        self._mutex = threading.Lock()
        self._streams: dict[str, dict[Key, _Entry]] = {}
        self._held: dict[Key, bytes] = {}
        self._held_since: dict[Key, float] = {}
        self._unwritten = False
        self._put = self._cost = 0
        self._segments = Segments(folder, _slack(capacity_bytes))
        self.dropped, self._counted = dropped_in(folder), True
        with self._mutex:
            self._adopt()
            for key, place in self._segments.places.items():
                self._enter(key, place.size)

    @property
    def put_so_far(self) -> int:
        """The newest release's number; they count up from 1, what lay here at the start too."""
        return self._put

    @property
    def held(self) -> int:
        """How many releases are in memory only."""
        return len(self._held)

    def waiting(self) -> list[Key]:
        """What waits, oldest first."""
        with self._mutex:
            entries = [item for keys in self._streams.values() for item in keys.items()]
        return [key for key, _ in sorted(entries, key=lambda item: item[1].number)]

    def counts(self) -> dict[str, int]:
        """How many releases of each stream wait."""
        with self._mutex:
            return {stream: len(keys) for stream, keys in self._streams.items() if keys}

    def oldest(self, stream: str, count: int, besides: Container[Key]) -> list[Key]:
        """The stream's oldest releases that wait, but for some."""
        with self._mutex:
            keys = self._streams.get(stream, {})
            return list(islice((key for key in keys if key not in besides), count))

    def newer(self, stream: str, number: int, count: int, besides: Container[Key]) -> list[Key]:
        """The stream's oldest releases that were put after the `number`th, but for some."""
        with self._mutex:
            keys = [key for key in self._backwards(stream, number) if key not in besides]
        return keys[: -count - 1 : -1]

    def __contains__(self, key: Key) -> bool:
        return key in self._streams.get(key.stream, ())

    def __len__(self) -> int:
        return sum(self.counts().values())

    def has_room(self, size_bytes: int) -> bool:
        """Whether a release of this size can be put now without dropping another."""
        with self._mutex:
            return self._fits(size_bytes)

    def put(self, key: Key, payload: bytes) -> None:
        """On disk before it returns, or held for HOLD_SECONDS at most where the rules say so.

        Raises OutboxFullError, or OSError when the disk refuses; the release is then counted as
        dropped.
        """
        with self._mutex:
            try:
                self._make_room(len(payload))
                if not self._may_hold(len(payload)):
                    self._write(key, payload)
                else:
                    self._held[key] = payload
            except (OutboxFullError, OSError):
                self._count_dropped()
                raise
            self._enter(key, len(payload))
            self._count_what_was_not()

    def read(self, key: Key) -> bytes | None:
        """The bytes as they were put; None when they are damaged and were set aside."""
        with self._mutex:
            if key not in self:
                return None
            if key in self._held:
                return self._held[key]
            payload = self._segments.read(key)
            if payload is None:
                self._leave_all_lost()
            return payload

    def forget(self, key: Key) -> None:
        """The collector has it."""
        with self._mutex:
            if key in self:
                self._remove(key)

    def refuse(self, key: Key) -> None:
        """The collector will never take it: keeps the bytes in `refused` for people to look at."""
        payload = self.read(key)
        with self._mutex:
            if payload is None or key not in self:
                return
            try:
                keep_refused(self.folder, key.filename, payload)
            except OSError as error:
                LOG.error("%s cannot be kept in refused (%s)", key.filename, error.strerror)
            self._remove(key)

    def persist_overdue(self, now: float) -> None:
        """Writes what was held too long; `now` in monotonic seconds. Call it at each tick."""
        with self._mutex:
            for key in list(self._held):
                if now - self._held_since.setdefault(key, now) < HOLD_SECONDS:
                    continue
                try:
                    self._persist(key)
                    self._unwritten = False
                except OSError as error:
                    self._held_since[key] = now
                    self._say_unwritten(key, error)

    def close(self) -> None:
        """Writes what is held, and leaves no empty segment behind. What the disk does not take is
        dropped: counted and said."""
        with self._mutex:
            for key in list(self._held):
                try:
                    self._persist(key)
                except OSError as error:
                    self._drop_held(key, error)
            self._segments.close()
            self._count_what_was_not()

    def _adopt(self) -> None:
        try:
            adopt(self.folder, self._segments.append)
        except OSError as error:
            LOG.error("%s: releases stay as they lie (%s)", self.folder, error.strerror)

    def _backwards(self, stream: str, number: int) -> Iterator[Key]:
        """The stream's releases after the `number`th, newest first."""
        for key, entry in reversed(self._streams.get(stream, {}).items()):
            if entry.number <= number:
                return
            yield key

    def _enter(self, key: Key, size_bytes: int) -> None:
        self._put += 1
        self._leave(key)
        entry = _Entry(self._put, cost(size_bytes))
        self._streams.setdefault(key.stream, {})[key] = entry
        self._cost += entry.cost

    def _leave(self, key: Key) -> None:
        entry = self._streams.get(key.stream, {}).pop(key, None)
        if entry is not None:
            self._cost -= entry.cost

    def _leave_all_lost(self) -> None:
        for keys in self._streams.values():
            for key in [k for k in keys if k not in self._segments.places and k not in self._held]:
                self._leave(key)

    def _remove(self, key: Key) -> None:
        self._leave(key)
        if self._held.pop(key, None) is None:
            self._segments.forget(key)
        self._held_since.pop(key, None)

    def _fits(self, size_bytes: int) -> bool:
        return self._cost + cost(size_bytes) <= capacity_for_releases(self._capacity_bytes)

    def _make_room(self, size_bytes: int) -> None:
        while not self._fits(size_bytes):
            firsts = [next(iter(keys.items())) for keys in self._streams.values() if keys]
            if self._rules.policy != "drop_oldest" or not firsts:
                raise OutboxFullError
            key, _ = min(firsts, key=lambda item: item[1].number)
            # Counted and said before it is gone: after a crash in between it is sent all the same.
            self._count_dropped()
            LOG.error(
                "the outbox is full: release %d of %s, the oldest, is dropped (dropped so far: %d)",
                key.sequence,
                key.stream,
                self.dropped,
            )
            self._remove(key)

    def _may_hold(self, size_bytes: int) -> bool:
        held_bytes = sum(map(len, self._held.values()))
        patient = self._rules.persist == "when_unacknowledged"
        return patient and held_bytes + size_bytes <= MOST_HELD_BYTES

    def _write(self, key: Key, payload: bytes) -> None:
        with suppress(OSError):  # Where a segment cannot be rewritten there may be room to append.
            self._segments.shrink(self._capacity_bytes - cost(len(payload)))
        self._segments.append(key, payload)

    def _persist(self, key: Key) -> None:
        """Writes one that is held. Raises OSError when the disk refuses; then it is held still."""
        self._write(key, self._held[key])
        del self._held[key]
        self._held_since.pop(key, None)

    def _say_unwritten(self, key: Key, error: OSError) -> None:
        """Once, until one can be written again: they stay in memory, and are sent anyway."""
        if not self._unwritten:
            LOG.error("%s cannot be written yet (%s)", key.filename, error.strerror)
        self._unwritten = True

    def _drop_held(self, key: Key, error: OSError) -> None:
        self._count_dropped()
        what, why = f"{key.stream}: release {key.sequence}", error.strerror
        LOG.error("%s is dropped: the outbox cannot be written (%s)", what, why)
        self._remove(key)

    def _count_dropped(self) -> None:
        self.dropped += 1
        self._counted = note_dropped(self.folder, self.dropped)

    def _count_what_was_not(self) -> None:
        """Drops that a full disk kept from being counted on it."""
        if not self._counted:
            self._counted = note_dropped(self.folder, self.dropped)


def capacity_for_releases(capacity_bytes: int) -> int:
    """How much of the capacity the releases that wait may cost together."""
    return capacity_bytes - _slack(capacity_bytes)


def largest_release(capacity_bytes: int) -> int:
    """The largest release that an outbox of this capacity can ever hold."""
    return capacity_for_releases(capacity_bytes) - cost(0)


def _slack(capacity_bytes: int) -> int:
    """The size of a segment. One of them is left free, so that whole ones can go, unrewritten."""
    return min(capacity_bytes // 16, MOST_SEGMENT_BYTES)
