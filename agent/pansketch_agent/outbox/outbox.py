"""The outbox: unacknowledged releases, as identical bytes, on disk.

Configuration never changes its content. A full outbox rejects new releases or drops its oldest, as
configured, and counts both. Both depend on sizes and order only.
"""

import logging
import threading
from collections.abc import Callable, Collection, Container
from contextlib import suppress
from itertools import accumulate
from math import inf
from pathlib import Path

from pansketch_agent.outbox.backlog import (
    Backlog,
    PayloadFacts,
    append_within,
    capacity_for_releases,
    expire,
    slack,
    with_space,
)
from pansketch_agent.outbox.dead_letters import (
    DropCounter,
    keep_refused,
    max_refused_bytes,
    requeue_files,
)
from pansketch_agent.outbox.records import Key, cost
from pansketch_agent.outbox.segments import Segments
from pansketch_agent.outbox.write_behind import WriteBehind
from pansketch_fleet.settings.profiles import DEFAULT_OUTBOX, OutboxRules

__all__ = ["Key", "Outbox", "OutboxFullError"]
LOG = logging.getLogger(__name__)
AGING_SECONDS = 60  # Each pass reads the times of all kept releases.


class OutboxFullError(Exception):
    """The outbox has no space for one more release."""


class Outbox:
    """The folder `outbox` with at most `capacity_bytes` of segments. Safe for several threads.
    Raises OSError when the folder cannot be created or read.
    """

    def __init__(
        self, folder: Path, capacity_bytes: int, rules: OutboxRules = DEFAULT_OUTBOX
    ) -> None:
        self.folder, self._rules = folder, rules
        self._capacity_bytes, self._aged_at = capacity_bytes, -inf
        self._mutex = threading.Lock()
        self._backlog = Backlog()
        self._unwritten = WriteBehind(self._write)
        self._segments = Segments(folder, slack(capacity_bytes))
        self._drops = DropCounter(folder)
        with self._mutex:
            for key, position in self._segments.positions.items():
                if key not in self._segments.kept:
                    self._backlog.add(key, position.size)

    @property
    def put_count(self) -> int:
        """The number of the newest release, from 1, including those found at the start."""
        return self._backlog.put_count

    @property
    def dropped(self) -> int:
        """The number of releases that this outbox has ever dropped."""
        return self._drops.count

    @property
    def buffered(self) -> int:
        """The number of releases in memory only."""
        return len(self._unwritten)

    def queued(self) -> list[Key]:
        """Return the queued releases, oldest first."""
        with self._mutex:
            return self._backlog.in_order()

    def counts(self) -> dict[str, int]:
        """Return the number of queued releases of each stream."""
        with self._mutex:
            return self._backlog.counts()

    def oldest(self, stream: str, count: int, excluding: Container[Key]) -> list[Key]:
        """Return the stream's oldest queued releases, except some."""
        with self._mutex:
            return self._backlog.oldest(stream, count, excluding)

    def newer(self, stream: str, number: int, count: int, excluding: Container[Key]) -> list[Key]:
        """Return the stream's oldest releases that were put after the `number`th, except some."""
        with self._mutex:
            return self._backlog.newer(stream, number, count, excluding)

    def number(self, key: Key) -> int:
        """Return the number of a release's put, see `put_count`; 0 if it is not queued."""
        return self._backlog.number(key)

    def __contains__(self, key: Key) -> bool:
        return key in self._backlog

    def __len__(self) -> int:
        return sum(self.counts().values())

    def has_room(self, size_bytes: int) -> bool:
        """Return whether a release of this size fits now without dropping another."""
        with self._mutex:
            return self._fits(size_bytes)

    def put(self, key: Key, payload: bytes) -> None:
        """Write a release to disk, or buffer it for at most BUFFER_SECONDS if the rules allow.

        Raises OutboxFullError, or OSError when the disk refuses; it then counts as dropped.
        """
        with self._mutex:
            try:
                self._make_room(len(payload))
                if self._may_buffer(len(payload)):
                    self._unwritten.add(key, payload)
                else:
                    self._write(key, payload)
            except (OutboxFullError, OSError):
                self._drops.add()
                raise
            self._backlog.add(key, len(payload))
            self._drops.flush()

    def read(self, key: Key) -> bytes | None:
        """Return the bytes of a release; None if they were damaged, and their segment renamed."""
        with self._mutex:
            if key not in self:
                return None
            buffered = self._unwritten.get(key)
            payload = self._segments.read(key) if buffered is None else buffered
            if payload is None:
                self._forget_lost()
            else:
                self._backlog.note(key, payload)
            return payload

    def facts(self, key: Key) -> PayloadFacts | None:
        """Return digest, size and end of the window; None if it is not queued, or damaged."""
        with self._mutex:
            known = self._backlog.facts(key)
        if known is None and (payload := self.read(key)) is not None:
            with self._mutex:
                return self._backlog.note(key, payload)
        return known

    def forget(self, key: Key) -> None:
        """Remove a release."""
        with self._mutex:
            if key in self:
                self._remove(key)

    def acknowledged(self, key: Key, at: float) -> None:
        """Remove an acknowledged release from the queue; `at`: unix seconds.

        The rules may keep it on disk for a collector that loses its database. Releases acknowledged
        before the clock was set age from now on.
        """
        with self._mutex:
            if key not in self:
                return
            if key in self._unwritten or not self._rules.keep_seconds:
                self._remove(key)
                return
            self._backlog.remove(key)
            self._segments.keep(key, max(0, int(at)))
            if abs(at - self._aged_at) >= AGING_SECONDS:
                self._aged_at = at
                expire(self._segments, int(at), self._rules.keep_seconds)

    def newest_kept_payloads(self) -> dict[str, bytes]:
        """Return, for each stream, the newest of the acknowledged releases that are kept."""
        newest: dict[str, Key] = {}
        with self._mutex:
            for key in self._segments.kept:
                newest[key.stream] = max(key, newest.get(key.stream, key))
            found = {stream: self._segments.read(key) for stream, key in newest.items()}
        return {stream: payload for stream, payload in found.items() if payload is not None}

    def kept(self) -> set[Key]:
        """Return the acknowledged releases that are kept."""
        with self._mutex:
            return set(self._segments.kept)

    def requeued(self) -> set[Key]:
        """Return the queued releases that were acknowledged before."""
        with self._mutex:
            return set(self._segments.requeued)

    def forget_kept(self, unwanted: Callable[[Key], bool]) -> None:
        """Remove kept releases, durably: their numbers may be reused then. Raises OSError."""
        with self._mutex:
            self._segments.forget_kept([key for key in self._segments.kept if unwanted(key)])

    def requeue(self, keys: Collection[Key]) -> list[Key]:
        """Queue kept releases again, oldest first, as far as they fit: these.

        Before `note_requeued` they are queued until the next start only.
        """
        with self._mutex:
            known = sorted(key for key in keys if key in self._segments.kept)
            room = capacity_for_releases(self._capacity_bytes) - self._backlog.cost
            costs = accumulate(cost(self._segments.positions[key].size) for key in known)
            fitting = [key for key, total in zip(known, costs, strict=True) if total <= room]
            self._segments.requeue(fitting)
            for key in fitting:
                self._backlog.add(key, self._segments.positions[key].size)
        return fitting

    def note_requeued(self) -> None:
        """Write to disk which releases are queued again. Raises OSError as `with_space`."""
        with self._mutex:
            with_space(self._segments, self._segments.note_requeued)

    def refuse(self, key: Key) -> None:
        """Move a release that no collector stores to `refused`. Raises OSError: it stays queued."""
        payload = self.read(key)
        with self._mutex:
            if payload is None or key not in self:
                return
            keep_refused(self.folder, key, payload, max_refused_bytes(self._capacity_bytes))
            self._remove(key)

    def requeue_refused(self) -> int:
        """Requeue dead letters, oldest first, as far as they fit: their number. Raises OSError."""
        refused, before = self.folder / "refused", len(self)
        with self._mutex, suppress(OutboxFullError):
            if refused.is_dir():
                requeue_files(refused, self._readmit)
        return len(self) - before

    def persist_overdue(self, now: float) -> None:
        """Write releases that were buffered too long; `now`: monotonic seconds. For each tick."""
        with self._mutex:
            self._unwritten.write_overdue(now)

    def close(self) -> None:
        """Write buffered releases, remove an empty segment, and drop what the disk refuses."""
        with self._mutex:
            for key, error in self._unwritten.write_all():
                self._drop_buffered(key, error)
            self._segments.close()
            self._drops.flush()

    def _readmit(self, key: Key, payload: bytes) -> bool:
        if key in self._unwritten or key in self._segments.positions:
            return payload == (self._unwritten.get(key) or self._segments.read(key))
        if not self._fits(len(payload)):
            raise OutboxFullError
        self._write(key, payload)
        self._backlog.add(key, len(payload))
        return True

    def _forget_lost(self) -> None:
        for key in self._backlog.in_order():
            if key not in self._segments.positions and key not in self._unwritten:
                self._backlog.remove(key)

    def _remove(self, key: Key) -> None:
        self._backlog.remove(key)
        if not self._unwritten.remove(key):
            self._segments.forget(key)

    def _fits(self, size_bytes: int) -> bool:
        return self._backlog.cost + cost(size_bytes) <= capacity_for_releases(self._capacity_bytes)

    def _make_room(self, size_bytes: int) -> None:
        while not self._fits(size_bytes):
            key = self._backlog.first()
            if self._rules.policy != "drop_oldest" or key is None:
                raise OutboxFullError
            # Counted and logged first: after a crash in between it is still sent.
            self._drops.add()
            LOG.error(
                "the outbox is full: release %d of %s, the oldest, is dropped (dropped so far: %d)",
                key.sequence,
                key.stream,
                self.dropped,
            )
            self._remove(key)

    def _may_buffer(self, size_bytes: int) -> bool:
        buffers = self._rules.persist == "when_unacknowledged"
        return buffers and self._unwritten.fits(size_bytes)

    def _write(self, key: Key, payload: bytes) -> None:
        append_within(self._segments, key, payload, self._capacity_bytes)

    def _drop_buffered(self, key: Key, error: OSError) -> None:
        self._drops.add()
        what, why = f"{key.stream}: release {key.sequence}", error.strerror
        LOG.error("%s is dropped: the outbox cannot be written (%s); free the disk", what, why)
        self._remove(key)
