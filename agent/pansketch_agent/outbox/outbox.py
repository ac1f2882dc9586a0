"""The outbox: releases that wait until the collector has them, the exact bytes, on disk.

Configuration never touches what is in it. When it is full it takes nothing new, or drops its
oldest, as configured; both are counted. Neither looks at anything but sizes and order.
"""

import logging
import threading
from collections.abc import Callable, Collection, Container
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

from pansketch_agent.host.clock import is_set
from pansketch_agent.outbox.backlog import Backlog, PayloadFacts, capacity_for_releases, slack
from pansketch_agent.outbox.dead_letters import (
    DropCounter,
    adopt,
    keep_refused,
    room_for_refused,
)
from pansketch_agent.outbox.records import Key, cost
from pansketch_agent.outbox.segments import Segments
from pansketch_agent.outbox.write_behind import WriteBehind
from pansketch_fleet.settings.profiles import DEFAULT_OUTBOX, OutboxRules

__all__ = ["Key", "Outbox", "OutboxFullError"]

LOG = logging.getLogger(__name__)


class OutboxFullError(Exception):
    """No room for one more release."""


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
        self._backlog = Backlog()
        self._unwritten = WriteBehind(self._write)
        self._segments = Segments(folder, slack(capacity_bytes))
        self._drops = DropCounter(folder)
        with self._mutex:
            for key, place in self._segments.places.items():
                if key not in self._segments.kept:
                    self._backlog.enter(key, place.size)

    @property
    def put_so_far(self) -> int:
        """The newest release's number; they count up from 1, what lay here at the start too."""
        return self._backlog.put

    @property
    def dropped(self) -> int:
        """How many releases this outbox has ever dropped."""
        return self._drops.count

    @property
    def held(self) -> int:
        """How many releases are in memory only."""
        return len(self._unwritten)

    def waiting(self) -> list[Key]:
        """What waits, oldest first."""
        with self._mutex:
            return self._backlog.in_order()

    def counts(self) -> dict[str, int]:
        """How many releases of each stream wait."""
        with self._mutex:
            return self._backlog.counts()

    def oldest(self, stream: str, count: int, besides: Container[Key]) -> list[Key]:
        """The stream's oldest releases that wait, but for some."""
        with self._mutex:
            return self._backlog.oldest(stream, count, besides)

    def newer(self, stream: str, number: int, count: int, besides: Container[Key]) -> list[Key]:
        """The stream's oldest releases that were put after the `number`th, but for some."""
        with self._mutex:
            return self._backlog.newer(stream, number, count, besides)

    def number(self, key: Key) -> int:
        """Of its put, see `put_so_far`; 0 for what does not wait."""
        return self._backlog.number(key)

    def __contains__(self, key: Key) -> bool:
        return key in self._backlog

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
                if self._may_hold(len(payload)):
                    self._unwritten.add(key, payload)
                else:
                    self._write(key, payload)
            except (OutboxFullError, OSError):
                self._drops.add()
                raise
            self._backlog.enter(key, len(payload))
            self._drops.flush()

    def read(self, key: Key) -> bytes | None:
        """The bytes as they were put; None when they are damaged and were set aside."""
        with self._mutex:
            if key not in self:
                return None
            held = self._unwritten.get(key)
            payload = self._segments.read(key) if held is None else held
            if payload is None:
                self._leave_all_lost()
            else:
                self._backlog.note(key, payload)
            return payload

    def facts(self, key: Key) -> PayloadFacts | None:
        """Digest, size and end of the window; None for one that is not queued, or is damaged. Reads
        the disk only for a release that was not read before."""
        with self._mutex:
            known = self._backlog.facts(key)
        if known is None and (payload := self.read(key)) is not None:
            with self._mutex:
                return self._backlog.note(key, payload)
        return known

    def forget(self, key: Key) -> None:
        """Nobody needs it any more."""
        with self._mutex:
            if key in self:
                self._remove(key)

    def acknowledged(self, key: Key, at: float) -> None:
        """The collector has it, says this second (unix): it does not wait any more, and is kept for
        a collector that loses it, where the rules say so and it is on disk. What was acknowledged
        before the clock was set ages from now on: nobody knows its age."""
        with self._mutex:
            if key not in self:
                return
            if key in self._unwritten or not self._rules.keep_seconds:
                self._remove(key)
                return
            self._backlog.leave(key)
            self._segments.keep(key, max(0, int(at)))
            if is_set(at):
                self._date_again(int(at))
            self._segments.expire(int(at) - self._rules.keep_seconds)

    def newest_kept(self) -> dict[str, bytes]:
        """Of each stream the last release among the acknowledged ones that are kept."""
        newest: dict[str, Key] = {}
        with self._mutex:
            for key in self._segments.kept:
                newest[key.stream] = max(key, newest.get(key.stream, key))
            found = {stream: self._segments.read(key) for stream, key in newest.items()}
        return {stream: payload for stream, payload in found.items() if payload is not None}

    def kept(self) -> set[Key]:
        """The acknowledged releases that are kept."""
        with self._mutex:
            return set(self._segments.kept)

    def published(self) -> set[Key]:
        """The releases that wait again after they were acknowledged."""
        with self._mutex:
            return set(self._segments.again)

    def forget_kept(self, unwanted: Callable[[Key], bool]) -> None:
        """Lets go of some of the acknowledged releases, which is on disk before it returns: their
        numbers may name others then. Raises OSError; nothing of their segment is let go."""
        with self._mutex:
            self._segments.forget_kept([key for key in self._segments.kept if unwanted(key)])

    def wait_again(self, keys: Collection[Key]) -> list[Key]:
        """Those of the kept releases that there is room for, oldest first, wait again, also after a
        restart. Raises OSError when the disk does not take the note; then they are only kept."""
        with self._mutex:
            known = sorted(key for key in keys if key in self._segments.kept)
            room = capacity_for_releases(self._capacity_bytes) - self._backlog.cost
            costs = accumulate(cost(self._segments.places[key].size) for key in known)
            again = [key for key, taken in zip(known, costs, strict=True) if taken <= room]
            self._segments.wait_again(again)
            for key in again:
                self._backlog.enter(key, self._segments.places[key].size)
        return again

    def refuse(self, key: Key) -> None:
        """The collector will never take it: moves the bytes into `refused`.

        Raises OSError when the disk does not take them there; then they stay where they are.
        """
        payload = self.read(key)
        with self._mutex:
            if payload is None or key not in self:
                return
            room = room_for_refused(self._capacity_bytes)
            keep_refused(self.folder, key.filename, payload, room)
            self._remove(key)

    def take_back(self) -> int:
        """Puts what lies in `refused` back among the releases that wait, oldest first and as far as
        there is room: how many. Raises OSError when the disk refuses."""
        refused, before = self.folder / "refused", len(self)
        with self._mutex, suppress(OutboxFullError):
            if refused.is_dir():
                adopt(refused, self._readmit)
        return len(self) - before

    def persist_overdue(self, now: float) -> None:
        """Writes what was held too long; `now` in monotonic seconds. Call it at each tick."""
        with self._mutex:
            self._unwritten.write_overdue(now)

    def close(self) -> None:
        """Writes what is held, and leaves no empty segment behind. What the disk does not take is
        dropped: counted and said."""
        with self._mutex:
            for key, error in self._unwritten.write_all():
                self._drop_held(key, error)
            self._segments.close()
            self._drops.flush()

    def _date_again(self, at: int) -> None:
        for key in [key for key, dated in self._segments.kept.items() if not is_set(dated)]:
            self._segments.keep(key, at)

    def _readmit(self, key: Key, payload: bytes) -> None:
        if not self._fits(len(payload)):
            raise OutboxFullError
        self._write(key, payload)
        self._backlog.enter(key, len(payload))

    def _leave_all_lost(self) -> None:
        for key in self._backlog.in_order():
            if key not in self._segments.places and key not in self._unwritten:
                self._backlog.leave(key)

    def _remove(self, key: Key) -> None:
        self._backlog.leave(key)
        if not self._unwritten.remove(key):
            self._segments.forget(key)

    def _fits(self, size_bytes: int) -> bool:
        return self._backlog.cost + cost(size_bytes) <= capacity_for_releases(self._capacity_bytes)

    def _make_room(self, size_bytes: int) -> None:
        while not self._fits(size_bytes):
            key = self._backlog.first()
            if self._rules.policy != "drop_oldest" or key is None:
                raise OutboxFullError
            # Counted and said before it is gone: after a crash in between it is sent all the same.
            self._drops.add()
            LOG.error(
                "the outbox is full: release %d of %s, the oldest, is dropped (dropped so far: %d)",
                key.sequence,
                key.stream,
                self.dropped,
            )
            self._remove(key)

    def _may_hold(self, size_bytes: int) -> bool:
        waits = self._rules.persist == "when_unacknowledged"
        return waits and self._unwritten.fits(size_bytes)

    def _write(self, key: Key, payload: bytes) -> None:
        while self._segments.disk_bytes > self._capacity_bytes - cost(len(payload)):
            if not self._segments.yield_kept():
                break
        with suppress(OSError):  # Where a segment cannot be rewritten there may be room to append.
            self._segments.shrink(self._capacity_bytes - cost(len(payload)))
        self._segments.append(key, payload)

    def _drop_held(self, key: Key, error: OSError) -> None:
        self._drops.add()
        what, why = f"{key.stream}: release {key.sequence}", error.strerror
        LOG.error("%s is dropped: the outbox cannot be written (%s); free the disk", what, why)
        self._remove(key)
