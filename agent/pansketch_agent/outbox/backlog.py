"""The queued releases in memory: their order, numbers and cost on disk."""

import errno
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from pansketch import WireError
from pansketch.wire import read_any_header
from pansketch_agent.host.clock import is_set
from pansketch_agent.outbox.records import Key, cost
from pansketch_agent.outbox.segments import Segments
from pansketch_fleet.protocol.messages import digest

MAX_SEGMENT_BYTES = 2**20
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class PayloadFacts:
    """The facts of a payload that delivery needs after its transmission. `window_end`: unix
    seconds.
    """

    digest: str
    size: int
    window_end: int


@dataclass(frozen=True, slots=True)
class _Entry:
    """A queued release: the number of its put, and its maximum size on disk in bytes."""

    number: int
    cost: int


class Backlog:
    """Queued releases by stream, oldest first. `put_count`: the number of the newest one, from 1.

    `cost`: the maximum size of all of them on disk, in bytes.
    """

    def __init__(self) -> None:
        self._streams: dict[str, dict[Key, _Entry]] = {}
        self._facts: dict[
            Key, PayloadFacts
        ] = {}  # Of those that were read: few, in a long backlog.
        self.put_count = self.cost = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._streams.get(key.stream, ())

    def in_order(self) -> list[Key]:
        """Return all releases, oldest first."""
        entries = [item for keys in self._streams.values() for item in keys.items()]
        return [key for key, _ in sorted(entries, key=lambda item: item[1].number)]

    def counts(self) -> dict[str, int]:
        """Return the number of queued releases of each stream that has some."""
        return {stream: len(keys) for stream, keys in self._streams.items() if keys}

    def oldest(self, stream: str, count: int, excluding: Container[Key]) -> list[Key]:
        keys = self._streams.get(stream, {})
        return list(islice((key for key in keys if key not in excluding), count))

    def newer(self, stream: str, number: int, count: int, excluding: Container[Key]) -> list[Key]:
        """Return the stream's oldest releases after the `number`th, except some."""
        keys = [key for key in self._backwards(stream, number) if key not in excluding]
        return keys[: -count - 1 : -1]

    def number(self, key: Key) -> int:
        """Return the number of a release's put; 0 if it is not queued."""
        entry = self._streams.get(key.stream, {}).get(key)
        return entry.number if entry is not None else 0

    def first(self) -> Key | None:
        """Return the oldest release of all streams."""
        firsts = [next(iter(keys.items())) for keys in self._streams.values() if keys]
        return min(firsts, key=lambda item: item[1].number)[0] if firsts else None

    def add(self, key: Key, size_bytes: int) -> None:
        """Queue a release as the newest one."""
        self.put_count += 1
        self.remove(key)
        entry = _Entry(self.put_count, cost(size_bytes))
        self._streams.setdefault(key.stream, {})[key] = entry
        self.cost += entry.cost

    def remove(self, key: Key) -> None:
        self._facts.pop(key, None)
        entry = self._streams.get(key.stream, {}).pop(key, None)
        if entry is not None:
            self.cost -= entry.cost

    def facts(self, key: Key) -> PayloadFacts | None:
        """Return the recorded facts, or None."""
        return self._facts.get(key)

    def note(self, key: Key, payload: bytes) -> PayloadFacts:
        """Record the facts of a queued release, so that an ack needs no read of the disk."""
        facts = self._facts.get(key) or PayloadFacts(
            digest(payload), len(payload), window_end(payload)
        )
        if key in self:
            self._facts[key] = facts
        return facts

    def _backwards(self, stream: str, number: int) -> Iterator[Key]:
        """Yield the stream's releases after the `number`th, newest first."""
        for key, entry in reversed(self._streams.get(stream, {}).items()):
            if entry.number <= number:
                return
            yield key


def capacity_for_releases(capacity_bytes: int) -> int:
    """Return the part of the capacity, in bytes, for queued releases."""
    return capacity_bytes - slack(capacity_bytes)


def largest_release(capacity_bytes: int) -> int:
    """Return the largest release, in bytes, that fits into an outbox of this capacity."""
    return capacity_for_releases(capacity_bytes) - cost(0)


def slack(capacity_bytes: int) -> int:
    """Return the size of a segment. One segment stays free, so that whole ones go without a
    rewrite.
    """
    return min(capacity_bytes // 16, MAX_SEGMENT_BYTES)


def window_end(payload: bytes) -> int:
    """Return the end of the window of a release, in unix seconds; 0 if it cannot be read."""
    try:
        return max(window.end for window in read_any_header(payload).windows)
    except WireError:
        return 0


def expire(segments: Segments, now: int, keep_seconds: int) -> None:
    """Remove the releases acknowledged before `keep_seconds`; `now`: unix seconds.

    Releases acknowledged before the clock was set age from now on.
    """
    undated = [key for key, at in segments.kept.items() if not is_set(at)]
    for key in undated if is_set(now) else ():
        segments.keep(key, now)
    segments.expire(now - keep_seconds)


def append_within(segments: Segments, key: Key, payload: bytes, capacity_bytes: int) -> None:
    """Append a release, and keep the segments within the capacity if queued ones allow it.

    Raises OSError as `with_space`.
    """
    limit = capacity_bytes - cost(len(payload))
    while segments.disk_bytes > limit and segments.yield_kept():
        pass
    with suppress(OSError):
        # If a segment cannot be rewritten, there may still be space to append.
        segments.shrink(limit)
    with_space(segments, lambda: segments.append(key, payload))


def with_space(segments: Segments, write: Callable[[], None]) -> None:
    """Write, and on a full disk again once kept releases are removed, the oldest segment first.

    Raises OSError when the disk refuses; if it is full, no kept release is left.
    """
    while True:
        try:
            write()
        except OSError as error:
            if error.errno not in DISK_FULL or not segments.yield_kept():
                raise
            with suppress(OSError):
                segments.shrink(0)
        else:
            return
