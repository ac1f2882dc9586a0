"""One source with its windows and their releases, in a thread of its own.

A reading goes from the source directly into the sketches, under the lock that the window's tick
also takes. There is no queue between them.

For a live stream only the clock, in `tick`, ends windows and writes to disk and log. A reading
between a window's end and the tick that sees it counts in that window. So no observable moment
depends on it, and it counts once. The lock is held for one block of readings at a time, of standard
input at most 256. So a tick waits no longer than that.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pansketch import Spec
from pansketch_agent.host.clock import Clock, utc_text
from pansketch_agent.ledger.ledger import DailyCapError, LedgerError
from pansketch_agent.sources.readings import NotOfferedError, Readings, SourceError
from pansketch_agent.windows.rate_limiter import RowOrder, SpanLimiter
from pansketch_agent.windows.window import ClosedWindow, GapError, Schedule, WindowClock, Windows

LOG = logging.getLogger(__name__)

Publish = Callable[[ClosedWindow, bool | None], None]
WaitForRoom = Callable[[], bool]


@dataclass(frozen=True)
class Blocked:
    """A closed window whose release may have to wait for space in the outbox."""

    closed: ClosedWindow


class StreamWorker:
    """Runs the streams of one source, in its thread and by ticks of the main thread.

    `names`: one for each sketch; the first one names the worker. `publish` writes the releases of a
    closed window. Its second argument states whether the clock was synchronised, None for a replay.
    `once` stops after the first window. `limiter`: for a stream whose unit is a span.
    `wait_for_room`: for a replay, waits until the releases fit into the outbox; False: the agent
    stops. `live`: windows end by the clock, in `tick`. Otherwise they end by the times of the
    readings, and the streams end with their source.

    `done` is set when nothing more will be published; then `failure` is one line, or empty. After a
    `fatal` one no stream may publish. The end of a live source, its failure and its messages are
    logged when their window ends.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        schedule: Schedule,
        windows: Windows,
        publish: Publish,
        live: bool,
        once: bool,
        limiter: SpanLimiter | None = None,
        wait_for_room: WaitForRoom | None = None,
    ) -> None:
        self.names, self.live = names, live
        self.name = names[0]
        self.done = threading.Event()
        self.failure = ""
        self.fatal = False
        self._schedule, self._windows, self._publish, self._once = schedule, windows, publish, once
        self._limiter, self._wait_for_room = limiter, wait_for_room
        self._order = RowOrder([schedule.indices, *([limiter.slots] if limiter else [])])
        self._timeline = WindowClock(schedule.window_seconds)
        self._blocked: Blocked | None = None
        self._mutex = threading.Lock()
        self._released = False
        self._index: int | None = None  # The newest window that the clock has reached.
        self._message, self._logged = "", ""
        self._source_end: str | None = None  # Why a live source has ended, "" without a failure.

    def run(self, source: Iterator[Readings], clock: Clock, stop: threading.Event) -> None:
        """Absorb the source until it ends or `stop` is set. Never raises: see `failure`."""
        try:
            # Readings are clipped before arithmetic. A remaining fault must not warn.
            with np.errstate(all="ignore"):
                self._absorb_all(source, clock, stop)
        except Exception as error:
            if self.live:
                # As text: an error's frames hold readings.
                self._source_end = explain(error, self.name)
            else:
                self._fail(error)

    def report(self, text: str) -> None:
        """Log a message of a live source when its window ends, if it is new.

        The moment at which a program ends may be data.
        """
        with self._mutex:
            self._message = text

    def tick(self, clock: Clock) -> None:
        """End the windows and slots of a live stream by the clock, with or without a reading."""
        if not self.live or self.done.is_set():
            return
        try:
            with self._mutex:
                if self._limiter is not None:
                    self._limiter.tick(clock.monotonic())
                now = self._now(clock)
                index = self._schedule.index(now)
                ended = self._index is not None and index > self._index
                self._index = index if self._index is None else max(index, self._index)
                source_end = self._source_end if ended else None
                if source_end:
                    self.stop(source_end)
                    return
                # A live stream never waits for room.
                for _ in self._advance(index, clock):
                    pass
                self._windows.refresh(index, self._schedule.epoch(now), clock.monotonic())
                if ended:
                    self._log_source_state(source_end is not None)
        except Exception as error:
            self._fail(error)

    def stop(self, failure: str) -> None:
        """Stop all releases; `failure`: one line that states why."""
        self.failure = failure
        LOG.error("%s", failure)
        self.done.set()

    def skip_until(self, until: int) -> None:
        """Skip the windows that begin before `until`."""
        with self._mutex:
            self._windows.skip_until(until)

    @property
    def spec(self) -> Spec:
        """The spec of its newest window: of the configuration, or with published scales."""
        return self._windows.base

    @property
    def open_start(self) -> int | None:
        """See `Windows.open_start`."""
        return self._windows.open_start

    def rescale(self, later: Sequence[tuple[int, Spec]]) -> None:
        """See `Windows.rescale`."""
        with self._mutex:
            self._windows.rescale(later)

    def rerandomise(self) -> None:
        """Draw fresh noise in every unreleased sketch before this returns: an intrusion was
        announced.
        """
        try:
            with self._mutex:
                self._windows.rerandomise(self._blocked.closed if self._blocked else None)
        except Exception as error:
            self._fail(error)

    def _absorb_all(self, source: Iterator[Readings], clock: Clock, stop: threading.Event) -> None:
        for readings in source:
            self.absorb(readings, clock)
            if self.done.is_set() or stop.is_set():
                return
        if stop.is_set():
            return
        if self.live:
            self._source_end = ""
        else:
            self._end_replay(clock)

    def absorb(self, readings: Readings, clock: Clock) -> None:
        """Limit and absorb a block of readings. Raises what publishing or waiting raises.

        For a replay it also ends windows, and waits for space in the outbox before each release.
        SourceError: its rows are not in the order of their windows or slots.
        """
        self._run(self._feed(readings, clock))

    def _run(self, steps: Iterator[Blocked]) -> None:
        """Run the steps under the lock, and wait between them without it.

        So an announced intrusion does not wait for a collector.
        """
        while True:
            with self._mutex:
                self._blocked = next(steps, None)
            if self._blocked is None:
                return
            assert self._wait_for_room is not None
            if not self._wait_for_room():
                return

    def _limit(self, readings: Readings, clock: Clock) -> None:
        """Limit live readings by the monotonic clock, and a replay's by their own times."""
        if self._limiter is None:
            return
        at = np.full(len(readings.at), clock.monotonic()) if self.live else readings.at
        self._limiter.limit(at, readings.rows)

    def _feed(self, readings: Readings, clock: Clock) -> Iterator[Blocked]:
        if not self.live:
            self._order.check(readings.at, readings.rows)
        self._limit(readings, clock)
        if self.live:
            self._windows.absorb(None, readings.rows)
            return
        for index, epoch, rows in self._schedule.split(readings.at, readings.rows):
            yield from self._advance(index, clock)
            if self.done.is_set():
                return
            self._windows.refresh(index, epoch)
            self._windows.absorb(index, rows)

    def _advance(self, index: int, clock: Clock) -> Iterator[Blocked]:
        for closed in self._windows.advance_to(index):
            yield from self._release(closed, clock)
            if self.done.is_set():
                return

    def _release(self, closed: ClosedWindow, clock: Clock) -> Iterator[Blocked]:
        if self._wait_for_room is not None:
            yield Blocked(closed)
        if self.done.is_set():
            return  # Stopped from outside, perhaps during the wait.
        self._publish(closed, self._synchronised(clock) if self.live else None)
        self._released = True
        if self._once:
            self.done.set()

    def _synchronised(self, clock: Clock) -> bool | None:
        """Return whether the label of a live window that closes now is reliable."""
        return False if self._timeline.adrift else clock.synchronised()

    def _now(self, clock: Clock) -> float:
        """Return the time that the windows of a live stream follow."""
        adrift = self._timeline.adrift
        now = self._timeline.now(clock.now(), clock.monotonic(), self._windows.open_start)
        if self._timeline.adrift and not adrift:
            LOG.warning(
                "%s: the clock is behind the windows up to %s; they go on by elapsed time until it "
                "has caught up; set it, or if the windows are wrong, give the device a new name",
                self.name,
                utc_text(now),
            )
        return now

    def _log_source_state(self, source_end: bool) -> None:
        """Log events of the source, because a live window is over."""
        if self._message != self._logged:
            LOG.warning("%s: %s", self.name, self._message)
            self._logged = self._message
        if source_end:
            LOG.info("%s: the source has ended; its last window is released", self.name)
            self.done.set()

    def _end_replay(self, clock: Clock) -> None:
        self._run(
            step for closed in self._windows.finish() for step in self._release(closed, clock)
        )
        if not self._released:
            LOG.info("%s: the source has no window that is not released already", self.name)
        self.done.set()

    def _fail(self, error: Exception) -> None:
        self.fatal = isinstance(error, LedgerError)
        self.stop(explain(error, self.name))


def explain(error: Exception, stream: str) -> str:
    """Return one line about a failure. For an unforeseen error: only its place, as its text may
    have data.
    """
    if isinstance(error, GapError):
        after = utc_text(error.start)
        return f"{stream}: {error} after {after}; check the column 'time', or use longer windows"
    if isinstance(error, LedgerError):
        return str(error)
    if isinstance(error, SourceError | NotOfferedError | DailyCapError):
        return f"{stream}: {error}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}" if trace else "nowhere"
    return f"{stream}: stopped by {type(error).__name__} at {place}; please report this"
