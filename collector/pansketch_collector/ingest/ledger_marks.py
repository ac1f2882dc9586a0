"""Marks: what each device is told, retained, of what is stored of it.

A device whose ledger was lost or rolled back sees there that it released windows which it does not
know of, and one whose acknowledged releases are missing sees that the database was restored. A
device's mark is published when its birth comes, and at most once a minute when it has changed.
Where other processes store releases too, this one looks for them in the database.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pansketch import WindowId
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage.tables.connection import ERRORS
from pansketch_collector.storage.tables.holdings import HighWaterMark
from pansketch_collector.validation.verdicts import Accepted, Presence, Verdict
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import MAX_STREAMS, Mark, StreamMark

CHANGED_SECONDS = 60.0
BIRTH_SECONDS = 1.0
LOOK_SECONDS = 0.5
SEARCH_SECONDS = 5.0  # between two looks for releases of others

log = logging.getLogger("collector")


class MarkPublisher(Protocol):
    """Where marks go: `pansketch_collector.mqtt.connection.CollectorClient`."""

    @property
    def connected(self) -> bool: ...
    def announce(self, topic: str, payload: bytes, qos: int = 1) -> None: ...


class LedgerMarkStore(Protocol):
    """Where marks come from: `pansketch_collector.storage.store.Store`."""

    @property
    def generation(self) -> str: ...
    def high_water(self, device: str) -> list[HighWaterMark]: ...
    def stored_after(self, number: int | None) -> tuple[int, list[str]]: ...


@dataclass
class _Stream:
    """All that is known of one stream of a device: by incarnation its highest sequence number and
    its last window's end."""

    windows: int = 0
    ledgers: dict[bytes, tuple[int, int]] = field(default_factory=dict)

    def add(self, incarnation: bytes, sequence: int, window_end: int, windows: int) -> None:
        last = self.ledgers.get(incarnation, (0, 0))
        self.ledgers[incarnation] = max(last[0], sequence), max(last[1], window_end)
        self.windows += windows

    def mark(self) -> StreamMark:
        incarnation, (sequence, end) = max(self.ledgers.items(), key=lambda item: item[1][1])
        return StreamMark(incarnation.hex(), sequence, end, self.windows)


class Marks:
    """The marks of one serving process, for one thread."""

    def __init__(
        self, fleet: str, shelf: LedgerMarkStore, outlet: MarkPublisher, shares: bool = False
    ) -> None:
        """`shares`: others store releases too. Raises one of ERRORS."""
        self._fleet, self._shelf, self._outlet = fleet, shelf, outlet
        self._shares, self._search, self._failed = shares, 0.0, False
        self._newest = shelf.stored_after(None)[0] if shares else 0
        self._known: dict[str, dict[str, _Stream]] = {}
        self._published: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._look = 0.0

    def heard(self, _message: Incoming, verdict: Verdict) -> None:
        """Notes whose mark is due. Only of devices that the store has room for, or that have
        releases, so it is bounded."""
        match verdict:
            case Presence(device, status) if status.state == "online":
                self._plan(device, BIRTH_SECONDS)
            case Accepted(window) if not self._shares:
                self._note(window)
                self._plan(window.device, CHANGED_SECONDS)
            case _:
                pass

    def step(self, uptime: float) -> None:
        """Publishes what is due, while the broker is there."""
        if uptime >= self._look and self._outlet.connected:
            self._look = uptime + LOOK_SECONDS
            self._try(uptime, lambda due: due <= uptime)

    def finish(self) -> None:
        """The process ends: what has changed is published now."""
        if not self._outlet.connected:
            return
        # The first statement after a server was restarted fails, and only then it is known.
        for _ in range(2):
            self._search = 0.0
            self._try(self._look, lambda due: True)
            if not self._failed:
                return

    def _plan(self, device: str, pause_seconds: float) -> None:
        due = self._published.get(device, -pause_seconds) + pause_seconds
        self._due[device] = min(due, self._due.get(device, due))

    def _note(self, window: WindowId) -> None:
        """A release was stored. A device that nothing was published of yet is read when that is."""
        streams = self._known.get(window.device)
        if streams is not None:
            stream = streams.setdefault(window.stream, _Stream())
            stream.add(window.incarnation, window.sequence, window.end, 1)

    def _try(self, uptime: float, due: Callable[[float], bool]) -> None:
        """A database that cannot be read now is left for the next turn."""
        try:
            if self._shares and uptime >= self._search:
                self._search = uptime + SEARCH_SECONDS
                self._find()
            self._publish(uptime, due)
            self._failed = False
        except ERRORS as error:
            if not self._failed:
                log.warning("marks of devices cannot be read now (%s); retrying", error)
            self._failed = True

    def _find(self) -> None:
        """Notes of which devices releases were stored, by whichever process."""
        self._newest, found = self._shelf.stored_after(self._newest)
        for device in found:
            self._known.pop(device, None)
            self._plan(device, CHANGED_SECONDS)

    def _publish(self, uptime: float, due: Callable[[float], bool]) -> None:
        for device in [name for name, at in self._due.items() if due(at)]:
            mark = Mark(self._shelf.generation, self._streams(device))
            del self._due[device]
            self._published[device] = uptime
            self._outlet.announce(topics.mark(self._fleet, device), mark.encode(), 0)

    def _streams(self, device: str) -> dict[str, StreamMark]:
        if device not in self._known:
            streams: dict[str, _Stream] = {}
            for each in self._shelf.high_water(device):
                stream = streams.setdefault(each.stream, _Stream())
                stream.add(each.incarnation, each.sequence, each.window_end, each.windows)
            self._known[device] = streams
        names = sorted(self._known[device])[:MAX_STREAMS]
        return {name: self._known[device][name].mark() for name in names}
