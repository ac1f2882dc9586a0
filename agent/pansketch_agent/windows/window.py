"""Windows: public slices of time with the sketches of a stream, all released, including empty ones.

The schedule follows from the device's name and the configuration, never from a reading. Time is an
argument: of a live stream the clock's, of a replay each row's own. All devices of a fleet give a
window the same number, which determines the public hash key of a sketch of keys.

The wall clock only labels a live stream's windows. A clock that is set forward ends windows early;
one that is set back a little lengthens the open one. A clock that is set back further, or that
starts in 1970, would keep a window open for years. Time then continues by the monotonic clock until
the wall clock has caught up.
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
from pansketch_agent.sources.readings import FloatArray, Rows, to_absorb
from pansketch_fleet.settings.device_spec import schedule_offset, window_index

MAX_EMPTY = 4096  # Windows in one gap; more than that is a clock that was set, or a broken time.
MAX_HELD_SECONDS = 60
MAX_EPOCHS_OF_MASKS = 1.25  # The longest life of masks, by the monotonic clock.


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
        """The number of epochs of a window."""
        return -(-self.window_seconds // (self.epoch_seconds or self.window_seconds))

    def epoch(self, at: float) -> int:
        """Return the epoch of a moment within its window, from 0."""
        into = int(at // 1 - self.offset) % self.window_seconds
        return into // (self.epoch_seconds or self.window_seconds)

    def index(self, at: float) -> int:
        """Return the window of a moment, in unix seconds."""
        return int((at // 1 - self.offset) // self.window_seconds)

    def indices(self, at: FloatArray) -> npt.NDArray[np.int64]:
        """Return the windows of moments, float64[n] in unix seconds."""
        return (np.floor(at).astype(np.int64) - self.offset) // self.window_seconds

    def first_from(self, at: int) -> int:
        """Return the first window that begins at `at` or later."""
        return -((self.offset - at) // self.window_seconds)

    def span(self, index: int) -> WindowBounds:
        start = self.offset + index * self.window_seconds
        return WindowBounds(start, start + self.window_seconds)

    def split(self, at: FloatArray, rows: Rows) -> Iterator[tuple[int, int, Rows]]:
        """Cut rows with their times float64[n] at the bounds of windows and epochs.

        Yields (index, epoch, rows). The rows are in order, as `RowOrder` checks; only within a
        window may a row of an earlier epoch follow.
        """
        into = (np.floor(at).astype(np.int64) - self.offset) % self.window_seconds
        length, epochs = self.epoch_seconds or self.window_seconds, self.epochs
        newest = np.maximum.accumulate(self.indices(at) * epochs + into // length)
        for begin, end in _runs(newest):
            yield *divmod(int(newest[begin]), epochs), rows[begin:end]


def _runs(numbers: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return begin and end of every run of equal numbers."""
    if not len(numbers):
        return []
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    return list(pairwise(cuts))


def schedule_for(device: str, window_seconds: int, epoch_seconds: int | None = None) -> Schedule:
    """Return the device's schedule, which the collector knows, too."""
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

    Every sketch absorbs the same rows, with noise of its own, so the losses of a reading add up.
    `released_until`: end of the last window that was ever debited; earlier windows stay closed.
    `live`: a jump over more than MAX_EMPTY windows means that the clock was set, so these windows
    are skipped. Otherwise the jump raises GapError.

    `start`: starts masked sketches, whose label is debited with the first mask. None: sketches with
    local noise, whose label comes with the release.

    `base`: the first spec of the newest open window, before derivation for that window.
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
        self._start_blinded, self._epoch = start, 0
        self._masked_at: float | None = None  # By that clock; None: not read since the last masks.
        self._specs: list[tuple[float, Sequence[Spec]]] = [(-inf, specs)]
        self.base = specs[0]
        # A clock that starts in 1970 has no earlier window.
        self._floor = schedule.first_from(released_until) if released_until or live else None
        self._next: int | None = None
        self._sketches: Sketches = ()

    @property
    def open_start(self) -> int | None:
        """Start of the open window, or of the first that may open; None: any may."""
        number = self._floor if self._next is None else self._next
        return None if number is None else self._schedule.span(number).start

    def advance_to(self, index: int) -> Iterator[ClosedWindow]:
        """Advance time to the window `index`: yield each window before it, then open it.

        Must be exhausted. A step back in time closes and opens nothing.
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
        """Add the masks of an epoch of the window `index`.

        In a live stream they count for all epochs that passed without a tick. `up`: its monotonic
        clock, in seconds, which masks follow while the wall clock is set back.
        """
        if index == self._next:
            self._refresh(self._sketches, epoch)
        if up is None or self._schedule.epoch_seconds is None:
            return
        if self._masked_at is None:
            self._masked_at = up
        elif up - self._masked_at > MAX_EPOCHS_OF_MASKS * self._schedule.epoch_seconds:
            self.rerandomise()
            self._masked_at = up

    def _refresh(self, sketches: Sketches, epoch: int) -> None:
        """Add masks until `epoch`.

        The release states the number of epochs, which no reading may change. So a replay's window
        has masks of all epochs; a live stream's number depends on the clock alone.
        """
        while self._epoch < epoch:
            self._epoch = epoch if self._live else self._epoch + 1
            self._masked_at = None
            for sketch in sketches:
                if isinstance(sketch, BlindedSketch):
                    sketch.begin_epoch(self._rng)

    def skip_until(self, until: int) -> None:
        """Skip windows that begin before `until`, and drop an open one."""
        first = self._schedule.first_from(until)
        if self._next is None:
            self._floor = first if self._floor is None else max(first, self._floor)
        elif self._next < first:
            self._next, self._sketches = first, ()

    def rescale(self, later: Sequence[tuple[int, Spec]]) -> None:
        """Use other first specs for windows that open later: (start in unix seconds, spec), in
        order.

        An open window keeps its spec.
        """
        others = self._specs[0][1][1:]
        self._specs[1:] = [(at, (spec, *others)) for at, spec in later]

    def absorb(self, index: int | None, rows: Rows) -> None:
        """Add rows to the window `index`, None: to the open one.

        A closed window absorbs nothing, and rows before the first window are left out.
        """
        if index not in (None, self._next):
            return
        wanted: Any = to_absorb(rows)
        for sketch in self._sketches:
            sketch.update_many(wanted)

    def rerandomise(self, waiting: ClosedWindow | None = None) -> None:
        """Draw fresh noise in the open and in the blocked sketches: an intrusion was announced.

        Sketches of keys absorb no more keys instead.
        """
        for sketch in (*self._sketches, *(waiting.sketches if waiting else ())):
            sketch.rerandomise(self._rng)

    def finish(self) -> Iterator[ClosedWindow]:
        """Yield the open window, if there is one: time has ended."""
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
        if self._start_blinded is not None:
            return self._start_blinded(specs, span)
        number = window_index(start, self._schedule.window_seconds)
        return tuple(spec.for_window(number).start(self._rng) for spec in specs)


def far_behind(wall: float, open_start: int, window_seconds: int) -> bool:
    """Return whether the clock is too far before the start of a window to wait for it.

    The limit is a window or a minute, whichever is longer.
    """
    return wall < open_start - max(window_seconds, MAX_HELD_SECONDS)


class WindowClock:
    """Time that never falls behind an open window, for any wall clock."""

    def __init__(self, window_seconds: int) -> None:
        self._window_seconds = window_seconds
        self._newest: tuple[float, float] | None = None  # it, and the monotonic clock's seconds
        self.adrift = False  # True if the clock is so far behind that time continues without it.

    def now(self, wall: float, up: float, open_start: int | None) -> float:
        """Return unix seconds, from the wall clock and the monotonic clock.

        `open_start`: of the stream's open window, or of the first that may open; None: any may.
        """
        self.adrift = open_start is not None and far_behind(wall, open_start, self._window_seconds)
        if open_start is None or not self.adrift:
            self._newest = (wall, up)
            return wall
        newest, then = self._newest or (open_start, up)
        self._newest = (max(float(open_start), newest + up - then), up)
        return self._newest[0]
