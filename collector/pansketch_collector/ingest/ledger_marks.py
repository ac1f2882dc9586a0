"""Marks: retained messages that tell each device which of its releases the collector stores.

A device whose ledger was lost or rolled back finds released windows in its mark that its ledger
lacks. A device whose acknowledged releases are missing learns that the database was restored. The
collector publishes a device's mark after its birth message, and after changes at most once a
minute. If other processes store releases too, this process searches the database for them.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pansketch import WindowId
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage.tables.connection import ERRORS
from pansketch_collector.storage.tables.holdings import HighWaterMark
from pansketch_collector.validation.verdicts import Accepted, DeviceStatus, Outcome
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import MAX_STREAMS, Mark, StreamMark

CHANGED_SECONDS = 60.0
BIRTH_SECONDS = 1.0
POLL_SECONDS = 0.5
SEARCH_SECONDS = 5.0  # between two searches for releases that other processes stored

log = logging.getLogger("collector")


class MarkPublisher(Protocol):
    """Publishes marks: `pansketch_collector.mqtt.connection.CollectorClient`."""

    @property
    def connected(self) -> bool: ...
    def announce(self, topic: str, payload: bytes, qos: int = 1) -> None: ...


class LedgerMarkStore(Protocol):
    """The source of marks: `pansketch_collector.storage.store.Store`."""

    @property
    def generation(self) -> str: ...
    def high_water(self, device: str) -> list[HighWaterMark]: ...
    def stored_after(self, number: int | None) -> tuple[int, list[str]]: ...


@dataclass
class _Stream:
    """One stream of a device: its stored windows, and by incarnation the highest sequence number
    and the end of the last window (unix seconds)."""

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
        self, fleet: str, store: LedgerMarkStore, publisher: MarkPublisher, shares: bool = False
    ) -> None:
        """`shares`: other processes store releases too. Raises one of ERRORS."""
        self._fleet, self._store, self._publisher = fleet, store, publisher
        self._shares, self._next_search, self._failed = shares, 0.0, False
        self._newest = store.stored_after(None)[0] if shares else 0
        self._streams_by_device: dict[str, dict[str, _Stream]] = {}
        self._published: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._next_poll = 0.0

    def on_committed(self, _message: Incoming, outcome: Outcome) -> None:
        """Schedules the mark of a device. The store limits the number of devices, which bounds the
        memory."""
        match outcome:
            case DeviceStatus(device, status) if status.state == "online":
                self._schedule(device, BIRTH_SECONDS)
            case Accepted(window) if not self._shares:
                self._add_release(window)
                self._schedule(window.device, CHANGED_SECONDS)
            case _:
                pass

    def step(self, uptime: float) -> None:
        """Publishes the marks that are due while the broker is connected."""
        if uptime >= self._next_poll and self._publisher.connected:
            self._next_poll = uptime + POLL_SECONDS
            self._publish_due_marks(uptime, lambda due: due <= uptime)

    def finish(self) -> None:
        """Publishes all changed marks before the process ends."""
        if not self._publisher.connected:
            return
        # A restart of the server shows only when the next statement fails, so retry once.
        for _ in range(2):
            self._next_search = 0.0
            self._publish_due_marks(self._next_poll, lambda due: True)
            if not self._failed:
                return

    def _schedule(self, device: str, pause_seconds: float) -> None:
        due = self._published.get(device, -pause_seconds) + pause_seconds
        self._due[device] = min(due, self._due.get(device, due))

    def _add_release(self, window: WindowId) -> None:
        """Adds a stored release. A device without a published mark is read when its mark is
        published."""
        streams = self._streams_by_device.get(window.device)
        if streams is not None:
            stream = streams.setdefault(window.stream, _Stream())
            stream.add(window.incarnation, window.sequence, window.end, 1)

    def _publish_due_marks(self, uptime: float, due: Callable[[float], bool]) -> None:
        """Publishes the marks that are due; a failed read of the database is retried at the next
        turn."""
        try:
            if self._shares and uptime >= self._next_search:
                self._next_search = uptime + SEARCH_SECONDS
                self._find_releases()
            self._publish(uptime, due)
            self._failed = False
        except ERRORS as error:
            if not self._failed:
                log.warning("marks of devices cannot be read now (%s); retrying", error)
            self._failed = True

    def _find_releases(self) -> None:
        """Schedules the marks of devices whose releases any process stored since the last
        search."""
        self._newest, found = self._store.stored_after(self._newest)
        for device in found:
            self._streams_by_device.pop(device, None)
            self._schedule(device, CHANGED_SECONDS)

    def _publish(self, uptime: float, due: Callable[[float], bool]) -> None:
        for device in [name for name, at in self._due.items() if due(at)]:
            mark = Mark(self._store.generation, self._streams(device))
            del self._due[device]
            self._published[device] = uptime
            self._publisher.announce(topics.mark(self._fleet, device), mark.encode(), 0)

    def _streams(self, device: str) -> dict[str, StreamMark]:
        if device not in self._streams_by_device:
            streams: dict[str, _Stream] = {}
            for each in self._store.high_water(device):
                stream = streams.setdefault(each.stream, _Stream())
                stream.add(each.incarnation, each.sequence, each.window_end, each.windows)
            self._streams_by_device[device] = streams
        names = sorted(self._streams_by_device[device])[:MAX_STREAMS]
        return {name: self._streams_by_device[device][name].mark() for name in names}
