"""The queued releases in memory: their order, numbers and cost on disk."""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import islice

from pansketch import WireError
from pansketch.wire import peek_any
from pansketch_agent.outbox.records import Key, cost
from pansketch_fleet.protocol.messages import digest

MAX_SEGMENT_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class PayloadFacts:
    """Facts of a payload that delivery needs after its transmission. `window_end`: unix seconds."""

    digest: str
    size: int
    window_end: int


@dataclass(frozen=True, slots=True)
class _Entry:
    """A queued release: the number of its put, and the most that it may take on disk."""

    number: int
    cost: int


class Backlog:
    """Queued releases by stream, oldest first. `put`: the newest one's number, from 1.

    `cost`: the most that all of them may take on disk, in bytes.
    """

    def __init__(self) -> None:
        self._streams: dict[str, dict[Key, _Entry]] = {}
        self._facts: dict[
            Key, PayloadFacts
        ] = {}  # Of those that were read: few, in a long backlog.
        self.put = self.cost = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._streams.get(key.stream, ())

    def in_order(self) -> list[Key]:
        """All, oldest first."""
        entries = [item for keys in self._streams.values() for item in keys.items()]
        return [key for key, _ in sorted(entries, key=lambda item: item[1].number)]

    def counts(self) -> dict[str, int]:
        """The number of queued releases of each stream that has some."""
        return {stream: len(keys) for stream, keys in self._streams.items() if keys}

    def oldest(self, stream: str, count: int, besides: Container[Key]) -> list[Key]:
        keys = self._streams.get(stream, {})
        return list(islice((key for key in keys if key not in besides), count))

    def newer(self, stream: str, number: int, count: int, besides: Container[Key]) -> list[Key]:
        """The stream's oldest releases after the `number`th, but for some."""
        keys = [key for key in self._backwards(stream, number) if key not in besides]
        return keys[: -count - 1 : -1]

    def number(self, key: Key) -> int:
        """Of its put; 0 for one that is not queued."""
        entry = self._streams.get(key.stream, {}).get(key)
        return entry.number if entry is not None else 0

    def first(self) -> Key | None:
        """The oldest of all."""
        firsts = [next(iter(keys.items())) for keys in self._streams.values() if keys]
        return min(firsts, key=lambda item: item[1].number)[0] if firsts else None

    def enter(self, key: Key, size_bytes: int) -> None:
        """Queues a release as the newest one."""
        self.put += 1
        self.leave(key)
        entry = _Entry(self.put, cost(size_bytes))
        self._streams.setdefault(key.stream, {})[key] = entry
        self.cost += entry.cost

    def leave(self, key: Key) -> None:
        self._facts.pop(key, None)
        entry = self._streams.get(key.stream, {}).pop(key, None)
        if entry is not None:
            self.cost -= entry.cost

    def facts(self, key: Key) -> PayloadFacts | None:
        """Those that were noted; None before."""
        return self._facts.get(key)

    def note(self, key: Key, payload: bytes) -> PayloadFacts:
        """Notes the facts of a queued release, so that an ack needs no read of the disk."""
        facts = self._facts.get(key) or PayloadFacts(
            digest(payload), len(payload), window_end(payload)
        )
        if key in self:
            self._facts[key] = facts
        return facts

    def _backwards(self, stream: str, number: int) -> Iterator[Key]:
        """The stream's releases after the `number`th, newest first."""
        for key, entry in reversed(self._streams.get(stream, {}).items()):
            if entry.number <= number:
                return
            yield key


def capacity_for_releases(capacity_bytes: int) -> int:
    """How much of the capacity the queued releases may cost together."""
    return capacity_bytes - slack(capacity_bytes)


def largest_release(capacity_bytes: int) -> int:
    """The largest release that an outbox of this capacity can ever hold."""
    return capacity_for_releases(capacity_bytes) - cost(0)


def slack(capacity_bytes: int) -> int:
    """The size of a segment. One of them is left free, so that whole ones can go, unrewritten."""
    return min(capacity_bytes // 16, MAX_SEGMENT_BYTES)


def window_end(payload: bytes) -> int:
    """When the window of a release of this device ends; 0 for one that cannot be read."""
    try:
        return max(window.end for window in peek_any(payload).windows)
    except WireError:
        return 0
