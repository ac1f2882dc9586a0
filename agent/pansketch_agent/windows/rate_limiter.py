"""At most `max_readings` of a span: one reading for each public slot of time.

A count of the readings so far would be an exact count in memory. Instead time is cut into slots
(fleet/pansketch_fleet/sections/time_slots.py), and the only state is the next slot that may have a
reading. A reading changes it while the slot's open part lasts, for some seconds. Then the clock
advances it in any case. (docs/decisions/0005-span-slots.md)

A replay has one window open at a time, and its rows move time on. A row of an earlier window than a
row before it could not be absorbed. Without that row before it, it could. So one reading would
decide about any number of others, which no epsilon covers. Such a file is refused instead.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from pansketch_agent.sources.readings import FloatArray, Rows, SourceError, drop
from pansketch_fleet.sections.time_slots import MICROSECONDS, TimeSlots

IntArray = npt.NDArray[np.int64]

Numbers = Callable[[FloatArray], IntArray]

NOT_IN_ORDER = "the rows of the file are not in the order of their times; sort them by time"
_NEVER = -(2**62)
_CLOSED = _NEVER - 1


class SpanLimiter:
    """Leaves the first reading of every open slot, and drops the others.

    Any reading ends its slot, also a malformed one: no value is examined. `started`: when a live
    source starts, in the seconds of its clock. A whole slot stays unused then, because an earlier
    process may have used it.
    """

    def __init__(self, slots: TimeSlots, started: float | None = None) -> None:
        self._slots = slots
        self._next = _NEVER if started is None else slots.number(started) + 2

    def tick(self, now: float) -> None:
        """Close a slot whose open part is over at `now`, with or without a reading."""
        number = self._slots.number(now)
        self._next = max(self._next, number if self._slots.is_open(now) else number + 1)

    def limit(self, at: FloatArray, rows: Rows) -> None:
        """Drop, in place, the rows that are too many or too late.

        `at`: their times, float64[n]. A row of a slot before a used one is too late.
        """
        if not len(at):
            return
        numbers = self._numbers(at)
        before = np.concatenate(([self._next - 1], np.maximum.accumulate(numbers)[:-1]))
        np.maximum(before, self._next - 1, out=before)
        drop(rows, numbers <= before)
        self._next = max(self._next, int(numbers.max()) + 1)

    def slots(self, at: FloatArray) -> IntArray:
        """Return the slots of times in seconds, float64[n]."""
        return self._moments(at) // self._slots.length

    def _numbers(self, at: FloatArray) -> IntArray:
        """Return the slots of times in seconds, float64[n]; _CLOSED in a closed part."""
        moments = self._moments(at)
        numbers = moments // self._slots.length
        numbers[moments % self._slots.length >= self._slots.opened] = _CLOSED
        return numbers

    def _moments(self, at: FloatArray) -> IntArray:
        whole = np.floor(at)
        moments = whole.astype(np.int64) * MICROSECONDS
        moments += ((at - whole) * MICROSECONDS).astype(np.int64)
        return moments


class RowOrder:
    """Checks rows of a replay, block after block. `numbers`: of windows, and of slots if any.

    A row before the window or slot of the first row has no valid time, and is left out. No other
    row decides about that: the time of the first row is public.
    """

    def __init__(self, numbers: Sequence[Numbers]) -> None:
        self._numbers = numbers
        self._first: list[int] = []
        self._newest: list[int] = []

    def check(self, at: FloatArray, rows: Rows) -> None:
        """Check the next rows and their times, float64[n] in seconds. Raises SourceError.

        Drops, in place, the rows before the first one.
        """
        if not len(at):
            return
        found = np.array([numbers(at) for numbers in self._numbers])
        if not self._first:
            self._first = self._newest = found[:, 0].tolist()
        early = np.any(found < np.array(self._first)[:, None], axis=0)
        drop(rows, early)
        steps = np.column_stack((self._newest, found[:, ~early]))
        if (np.diff(steps, axis=1) < 0).any():
            raise SourceError(NOT_IN_ORDER)
        self._newest = steps[:, -1].tolist()
