"""One source at work: in a thread of its own, with its windows and their releases.

A reading goes from the source straight into the sketches, under the lock that the window's tick
takes too. There is no queue between them.

Of a live stream the clock alone, in `tick`, ends windows and writes to disk and log. A reading that
arrives after a window's end and before the tick that sees it belongs to that window: no moment that
somebody could see depends on it, and it is counted once. The lock is held for one block of readings
at a time (of standard input at most 256), so a tick waits for no more than that.
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
from pansketch_agent.windows.rate_limiter import SpanLimiter
from pansketch_agent.windows.window import ClosedWindow, GapError, Schedule, Timeline, Windows

LOG = logging.getLogger(__name__)

Publish = Callable[[ClosedWindow, bool | None], None]
WaitForRoom = Callable[[], bool]


@dataclass(frozen=True)
class Blocked:
    """A closed window whose release may have to wait for room in the outbox."""

    closed: ClosedWindow


class StreamWorker:
    """Runs the streams of one source, in its thread and by ticks of the main thread.

    `names`: one for each sketch; the first one names the worker. `publish` makes the releases of a
    closed window; its second argument says whether the clock was synchronised, None for a replay.
    `once` stops after the first. `limiter`: for a stream whose unit is a span. `wait_for_room`: of
    a replay, waits until the outbox has room for the releases; False: the agent stops. `live`:
    windows end by the clock, in `tick`; otherwise by the times of the readings, and the streams are
    over with their source.

    `done` is set when nothing more will be published; then `failure` is one line, or empty; a
    `fatal` one means that no stream may publish. The end of a live source, its failure and its
    messages are logged when their window ends.
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
        self._timeline = Timeline(schedule.window_seconds)
        self._blocked: Blocked | None = None
        self._mutex = threading.Lock()
        self._released = False
        self._index: int | None = None  # The newest window that the clock has come to.
        self._news, self._said = "", ""
        self._over: str | None = None  # Why a live source has ended, "" where nothing failed.

    def run(self, source: Iterator[Readings], clock: Clock, stop: threading.Event) -> None:
        """Absorbs the source until it ends or `stop` is set. Never raises: see `failure`."""
        try:
            # Readings are clipped before arithmetic. What may fault all the same must not warn.
            with np.errstate(all="ignore"):
                self._absorb_all(source, clock, stop)
        except Exception as error:
            if self.live:
                # As text: an error's frames hold readings.
                self._over = explain(error, self.name)
            else:
                self._fail(error)

    def say(self, text: str) -> None:
        """Logs what a live source has to say of itself at the end of the window, if it is news: the
        moment of a program's end may be data."""
        with self._mutex:
            self._news = text

    def tick(self, clock: Clock) -> None:
        """The clock has moved: a live stream's windows and slots end here, reading or none."""
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
                over = self._over if ended else None
                if over:
                    self.stop(over)
                    return
                # A live stream never waits for room.
                for _ in self._advance(index, clock):
                    pass
                self._windows.refresh(index, self._schedule.epoch(now), clock.monotonic())
                if ended:
                    self._tell(over is not None)
        except Exception as error:
            self._fail(error)

    def stop(self, failure: str) -> None:
        """Nothing more is released; `failure`: one line that says why."""
        self.failure = failure
        LOG.error("%s", failure)
        self.done.set()

    def skip_until(self, until: int) -> None:
        """No window that begins before `until` is released any more."""
        with self._mutex:
            self._windows.skip_until(until)

    @property
    def spec(self) -> Spec:
        """Of its newest window: that of the configuration, or one on published scales."""
        return self._windows.base

    def rescale(self, later: Sequence[tuple[int, Spec]]) -> None:
        """See `Windows.rescale`."""
        with self._mutex:
            self._windows.rescale(later)

    def rerandomise(self) -> None:
        """An announced intrusion: every sketch of this stream that is not released draws fresh
        noise before this returns."""
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
            self._over = ""
        else:
            self._end_replay(clock)

    def absorb(self, readings: Readings, clock: Clock) -> None:
        """Limits and absorbs a block of readings; of a replay it also ends windows, and waits for
        room in the outbox before each release. Raises what publishing or waiting raises."""
        self._run(self._feed(readings, clock))

    def _run(self, steps: Iterator[Blocked]) -> None:
        """Runs the steps under the lock, and waits between them without it: an announced intrusion
        does not wait for a collector."""
        while True:
            with self._mutex:
                self._blocked = next(steps, None)
            if self._blocked is None:
                return
            assert self._wait_for_room is not None
            if not self._wait_for_room():
                return

    def _limit(self, readings: Readings, clock: Clock) -> None:
        """Live readings are limited by the time that no one can set, a replay's by their own."""
        if self._limiter is None:
            return
        at = np.full(len(readings.at), clock.monotonic()) if self.live else readings.at
        self._limiter.limit(at, readings.rows)

    def _feed(self, readings: Readings, clock: Clock) -> Iterator[Blocked]:
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
        for closed in self._windows.reach(index):
            yield from self._release(closed, clock)
            if self.done.is_set():
                return

    def _release(self, closed: ClosedWindow, clock: Clock) -> Iterator[Blocked]:
        if self._wait_for_room is not None:
            yield Blocked(closed)
        if self.done.is_set():
            return  # Stopped from outside, maybe while it waited.
        self._publish(closed, self._synchronised(clock) if self.live else None)
        self._released = True
        if self._once:
            self.done.set()

    def _synchronised(self, clock: Clock) -> bool | None:
        """Whether the label of a live window that closes now can be relied on."""
        return False if self._timeline.adrift else clock.synchronised()

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

    def _tell(self, over: bool) -> None:
        """A live window is over: what happened to its source is told now."""
        if self._news != self._said:
            LOG.warning("%s: %s", self.name, self._news)
            self._said = self._news
        if over:
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
