"""Windows: public slices of time, with the sketches of a stream, all released, also the empty ones.

The schedule comes from the device's name and the configuration, never from a reading. Time comes
in as an argument: of a live stream the clock's, of a replay each row's own. All devices of a fleet
give a window the same number, from which a sketch of keys has its public hash key.

The wall clock only labels a live stream's windows. A clock that is set forward ends windows early;
one that is set back a little makes the open one longer. One that is set back further, or that wakes
in 1970, would keep a window open for years. Time then goes on from where it was, by the seconds
that no one can set, until the clock has caught up.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch import Sketch, Spec
from pansketch.blinding import BlindedSketch
from pansketch.randomness import KeyEntropy
from pansketch_agent.sources.readings import FloatArray, Rows, drop, to_absorb
from pansketch_fleet.settings.device_spec import schedule_offset, window_index

MAX_EMPTY = 4096  # Windows in one gap; more than that is a clock that was set, or a broken time.
MAX_HELD_SECONDS = 60
MAX_EPOCHS_OF_MASKS = 1.25  # How long masks last by the clock that nobody can set.


class GapError(Exception):
    """A replay jumps over more than MAX_EMPTY windows; `start` is the last one before."""

    def __init__(self, start: int) -> None:
        self.start = start
        super().__init__(f"more than {MAX_EMPTY} windows without a row")


@dataclass(frozen=True)
class WindowBounds:
    """The window [start, end) in unix seconds."""

    start: int
    end: int


@dataclass(frozen=True)
class Schedule:
    """Numbered windows of `window_seconds` that begin `offset` seconds after its multiples.

    `epoch_seconds`: how long masks last; None: as long as a window.
    """

    window_seconds: int
    offset: int
    epoch_seconds: int | None = None

    @property
    def epochs(self) -> int:
        """How many epochs a window has."""
        return -(-self.window_seconds // (self.epoch_seconds or self.window_seconds))

    def epoch(self, at: float) -> int:
        """The epoch of a moment within its window, from 0."""
        into = int(at // 1 - self.offset) % self.window_seconds
        return into // (self.epoch_seconds or self.window_seconds)

    def index(self, at: float) -> int:
        """The window that holds a moment, in unix seconds."""
        return int((at // 1 - self.offset) // self.window_seconds)

    def first_from(self, at: int) -> int:
        """The first window that begins at `at` or later."""
        return -((self.offset - at) // self.window_seconds)

    def span(self, index: int) -> WindowBounds:
        start = self.offset + index * self.window_seconds
        return WindowBounds(start, start + self.window_seconds)

    def split(self, at: FloatArray, rows: Rows) -> Iterator[tuple[int, int, Rows]]:
        """Cuts rows with their times float64[n] at the bounds of windows and epochs: (index, epoch,
        rows) in order.

        A row of an earlier window than a row before it comes too late and is left out.
        """
        seconds = np.floor(at).astype(np.int64) - self.offset
        length, epochs = self.epoch_seconds or self.window_seconds, self.epochs
        index, into = np.divmod(seconds, self.window_seconds)
        newest = np.maximum.accumulate(index * epochs + into // length)
        for begin, end in _runs(newest):
            window, epoch = divmod(int(newest[begin]), epochs)
            late = index[begin:end] != window
            part = rows[begin:end]
            if late.any():
                drop(part, late)
            yield window, epoch, part


def _runs(numbers: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Begin and end of every stretch of equal numbers."""
    if not len(numbers):
        return []
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    return list(pairwise(cuts))


def schedule_for(device: str, window_seconds: int, epoch_seconds: int | None = None) -> Schedule:
    """The device's schedule, which the collector knows too."""
    return Schedule(window_seconds, schedule_offset(device, window_seconds), epoch_seconds)


Sketches = tuple[Sketch | BlindedSketch, ...]
Start = Callable[[Sequence[Spec], WindowBounds], tuple[BlindedSketch, ...]]


@dataclass(frozen=True)
class ClosedWindow:
    """A window that is over, with its sketches, still secret, in the order of the specs."""

    span: WindowBounds
    sketches: Sketches


class Windows:
    """The windows of one source, one open at a time, each with a sketch of every spec.

    Every sketch absorbs the same rows. Each has noise of its own, so what a reading pays adds up.
    `released_until`: end of the last window that was ever debited; windows before it are closed for
    good. `live`: a jump over more than MAX_EMPTY windows is the clock being set, and those windows
    are left out; without it, it raises GapError.

    `start`: what starts masked sketches, whose label is debited with the first mask; None: sketches
    with noise of their own, whose label comes with the release.

    `base`: the first spec of the newest window that was opened, from which its own is derived.
    """

    def __init__(
        self,
        specs: Sequence[Spec],
        schedule: Schedule,
        rng: KeyEntropy,
        released_until: int = 0,
        live: bool = True,
        start: Start | None = None,
    ) -> None:
        self._schedule, self._rng, self._live = schedule, rng, live
        self._begin, self._epoch = start, 0
        self._masked_at: float | None = None  # By that clock; None: since the last look at it.
        self._specs: list[tuple[float, Sequence[Spec]]] = [(-inf, specs)]
        self.base = specs[0]
        # A clock that wakes in 1970 has no window that began before.
        self._floor = schedule.first_from(released_until) if released_until or live else None
        self._next: int | None = None
        self._sketches: Sketches = ()

    @property
    def begun(self) -> int | None:
        """Start of the window that is open, or of the first that may be; None: any may."""
        number = self._floor if self._next is None else self._next
        return None if number is None else self._schedule.span(number).start

    def reach(self, index: int) -> Iterator[ClosedWindow]:
        """Time has come to the window `index`: yields each window before it, then opens it.

        Must be exhausted. Going back in time closes and opens nothing.
        """
        if self._next is None:
            self._next = index if self._floor is None else max(index, self._floor)
        if index - self._next > MAX_EMPTY:
            if not self._live:
                raise GapError(self._schedule.span(self._next).start)
            if self._sketches:
                yield self._close()
            self._next = index
        while self._next < index:
            yield self._close()
        if not self._sketches and self._next == index:
            self._sketches = self._start(index)

    def refresh(self, index: int, epoch: int, up: float | None = None) -> None:
        """Time has come to an epoch of the window `index`: its masks are added. In a live stream
        they stand for all epochs that passed without a look at the clock.

        `up`: of a live stream, seconds of the clock that nobody can set. While the other one is set
        back, masks follow this one: its adversary must not have them stay.
        """
        if index == self._next:
            self._refresh(self._sketches, epoch)
        if up is None or self._schedule.epoch_seconds is None:
            return
        longest = MAX_EPOCHS_OF_MASKS * self._schedule.epoch_seconds
        if self._masked_at is not None and up - self._masked_at > longest:
            self.rerandomise()
            self._masked_at = None
        if self._masked_at is None:
            self._masked_at = up

    def _refresh(self, sketches: Sketches, epoch: int) -> None:
        """A replay's window has masks of all its epochs: the release tells their number, and
        whether a reading was in an epoch must not change it. A live stream's number depends on the
        clock alone."""
        while self._epoch < epoch:
            self._epoch = epoch if self._live else self._epoch + 1
            self._masked_at = None
            for sketch in sketches:
                if isinstance(sketch, BlindedSketch):
                    sketch.begin_epoch(self._rng)

    def skip_until(self, until: int) -> None:
        """No window that begins before `until` is closed any more; one that is open is dropped."""
        first = self._schedule.first_from(until)
        if self._next is None:
            self._floor = first if self._floor is None else max(first, self._floor)
        elif self._next < first:
            self._next, self._sketches = first, ()

    def rescale(self, later: Sequence[tuple[int, Spec]]) -> None:
        """Windows that are opened from now on, and start at one of these times or later, have that
        spec instead of the first one: (unix seconds, spec), in order. An open one stays as it is.
        """
        others = self._specs[0][1][1:]
        self._specs[1:] = [(at, (spec, *others)) for at, spec in later]

    def absorb(self, index: int | None, rows: Rows) -> None:
        """Adds rows to the window `index`, None: to the open one. A window that is over takes no
        more, and before the first one rows are left out.
        """
        if index not in (None, self._next):
            return
        wanted: Any = to_absorb(rows)
        for sketch in self._sketches:
            sketch.update_many(wanted)

    def rerandomise(self, waiting: ClosedWindow | None = None) -> None:
        """An announced intrusion: the open sketches, and those that wait for their release, draw
        fresh noise; those of keys take no more in instead."""
        for sketch in (*self._sketches, *(waiting.sketches if waiting else ())):
            sketch.rerandomise(self._rng)

    def finish(self) -> Iterator[ClosedWindow]:
        """No more time will come: yields the open window, if one is."""
        if self._sketches:
            yield self._close()

    def _close(self) -> ClosedWindow:
        assert self._next is not None
        sketches = self._sketches or self._start(self._next)
        if not self._live:
            self._refresh(sketches, self._schedule.epochs - 1)
        self._sketches = ()
        self._next += 1
        return ClosedWindow(self._schedule.span(self._next - 1), sketches)

    def _start(self, index: int) -> Sketches:
        span = self._schedule.span(index)
        start, self._epoch, self._masked_at = span.start, 0, None
        specs = [specs for begins, specs in self._specs if begins <= start][-1]
        self.base = specs[0]
        if self._begin is not None:
            return self._begin(specs, span)
        number = window_index(start, self._schedule.window_seconds)
        return tuple(spec.for_window(number).start(self._rng) for spec in specs)


def far_behind(wall: float, begun: int, window_seconds: int) -> bool:
    """Whether the clock is further before the start of a window than is worth waiting for: more
    than a window, and more than a minute.
    """
    return wall < begun - max(window_seconds, MAX_HELD_SECONDS)


class Timeline:
    """Time that never leaves an open window behind, whatever the wall clock does."""

    def __init__(self, window_seconds: int) -> None:
        self._window_seconds = window_seconds
        self._newest: tuple[float, float] | None = None  # it, and the monotonic clock's seconds
        self.adrift = False  # Whether the clock is so far behind that time goes on without it.

    def now(self, wall: float, up: float, begun: int | None) -> float:
        """Unix seconds, from the wall clock's and the monotonic clock's. `begun`: start of the
        stream's open window, or of the first that it may open; None: any may be.
        """
        self.adrift = begun is not None and far_behind(wall, begun, self._window_seconds)
        if begun is None or not self.adrift:
            self._newest = (wall, up)
            return wall
        newest, then = self._newest or (begun, up)
        self._newest = (max(float(begun), newest + up - then), up)
        return self._newest[0]
