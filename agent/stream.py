"""One stream at work: its source in a thread of its own, its windows, its releases.

A reading goes from the source straight into the sketch, under the lock that the window's tick takes
too. There is no queue between them.
"""

import logging
import threading
from collections.abc import Callable, Iterator

import numpy as np

from agent.clock import Clock, utc_text
from agent.ledger import DailyCapError, LedgerError
from agent.limiter import SpanLimiter
from agent.sources.readings import NotOfferedError, Readings, SourceError
from agent.timeline import Timeline
from agent.window import Closed, GapError, Schedule, Windows

LOG = logging.getLogger(__name__)

Publish = Callable[[Closed], None]
Room = Callable[[], bool]


class StreamWork:
    """Runs one stream. `publish` makes a release of a closed window; `once` stops after the first.

    `limiter`: for a stream whose unit is a span. `room`: waits until there is room for a release,
    and says whether there is. `live`: windows end by the clock, in `tick`; otherwise by the times
    of the readings, and the stream is over with its source. `done` is set when nothing more will
    be published; then `failure` is one line, or empty; a `fatal` one means that no stream may
    publish.
    """

    def __init__(
        self,
        name: str,
        schedule: Schedule,
        windows: Windows,
        publish: Publish,
        live: bool,
        once: bool,
        limiter: SpanLimiter | None = None,
        room: Room | None = None,
    ) -> None:
        self.name, self.live = name, live
        self.done = threading.Event()
        self.failure = ""
        self.fatal = False
        self._schedule, self._windows, self._publish, self._once = schedule, windows, publish, once
        self._limiter, self._room = limiter, room
        self._timeline = Timeline(schedule.window_seconds)
        self._waiting: Closed | None = None
        self._mutex = threading.Lock()
        self._last_index: int | None = None
        self._released = False

    @property
    def adrift(self) -> bool:
        """Whether windows go on by elapsed time, because the clock is far behind them."""
        return self._timeline.adrift

    def run(self, source: Iterator[Readings], clock: Clock, stop: threading.Event) -> None:
        """Absorbs the source until it ends or `stop` is set. Never raises: see `failure`."""
        try:
            for readings in source:
                with self._mutex:
                    self._limit(readings, clock)
                    self._feed(readings)
                if self.done.is_set() or stop.is_set():
                    return
            self._end(clock, stop)
        except Exception as error:
            self._fail(error)

    def tick(self, clock: Clock) -> None:
        """The clock has moved: a live stream's windows and slots end here, reading or none."""
        if not self.live or self.done.is_set():
            return
        try:
            with self._mutex:
                if self._limiter is not None:
                    self._limiter.tick(clock.monotonic())
                index = self._schedule.index(self._now(clock))
                self._advance(index)
                if self._last_index is not None and index > self._last_index:
                    self.done.set()
        except Exception as error:
            self._fail(error)

    def rerandomise(self) -> None:
        """An announced intrusion: every sketch of this stream that is not released draws fresh
        noise before this returns."""
        try:
            with self._mutex:
                self._windows.rerandomise(self._waiting)
        except Exception as error:
            self._fail(error)

    def _limit(self, readings: Readings, clock: Clock) -> None:
        """Live readings are limited by the time that no one can set, a replay's by their own."""
        if self._limiter is None:
            return
        at = np.full(len(readings.at), clock.monotonic()) if self.live else readings.at
        self._limiter.limit(at, readings.rows)

    def _feed(self, readings: Readings) -> None:
        for index, rows in self._schedule.split(readings.at, readings.rows):
            self._advance(index)
            if self.done.is_set():
                return
            self._windows.absorb(index, rows)

    def _advance(self, index: int) -> None:
        for closed in self._windows.reach(index):
            self._release(closed)
            if self.done.is_set():
                return

    def _release(self, closed: Closed) -> None:
        if self._room is not None and not self._wait_for_room(closed, self._room):
            return
        self._publish(closed)
        self._released = True
        if self._once:
            self.done.set()

    def _wait_for_room(self, closed: Closed, room: Room) -> bool:
        """Lets go of the lock meanwhile: an announced intrusion does not wait for a collector."""
        self._waiting = closed
        self._mutex.release()
        try:
            return room()
        finally:
            self._mutex.acquire()
            self._waiting = None

    def _now(self, clock: Clock) -> float:
        """The time by which a live stream's windows go."""
        adrift = self._timeline.adrift
        now = self._timeline.now(clock.now(), clock.monotonic(), self._windows.begun)
        if self._timeline.adrift and not adrift:
            LOG.warning(
                "%s: the clock is behind the windows up to %s; they go on by elapsed time until it "
                "has caught up; set it",
                self.name,
                utc_text(now),
            )
        return now

    def _end(self, clock: Clock, stop: threading.Event) -> None:
        if stop.is_set():
            return
        if self.live:
            self._end_live(clock)
            return
        with self._mutex:
            for closed in self._windows.finish():
                self._release(closed)
        if not self._released:
            LOG.info("%s: the source has no window that is not released already", self.name)
        self.done.set()

    def _end_live(self, clock: Clock) -> None:
        """The window goes on to its public end: when a source ends is not for the world to see."""
        with self._mutex:
            self._last_index = self._schedule.index(self._now(clock))
        end = utc_text(self._schedule.span(self._last_index).end)
        LOG.info("%s: the source has ended; its window is released at %s", self.name, end)

    def _fail(self, error: Exception) -> None:
        self.failure = explain(error, self.name)
        self.fatal = isinstance(error, LedgerError)
        LOG.error("%s", self.failure)
        self.done.set()


def explain(error: Exception, stream: str) -> str:
    """One line about a failure. The text of an unforeseen one may hold a value: says only where."""
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
