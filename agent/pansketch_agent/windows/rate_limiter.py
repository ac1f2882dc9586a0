"""At most `max_readings` of a span: one reading a public slot of time, whatever comes.

A count of the readings so far would be an exact count in memory. Instead time is cut into slots
(fleet/pansketch_fleet/sections/time_slots.py), and the only thing kept is the next slot that may
take a reading. It differs with and without a reading while the slot's open part lasts, which is
some seconds; then the clock moves it on for everybody. (docs/decisions/0005-span-slots.md)
"""

import numpy as np
import numpy.typing as npt

from pansketch_agent.sources.readings import FloatArray, Rows, drop
from pansketch_fleet.sections.time_slots import MICROSECONDS, TimeSlots

IntArray = npt.NDArray[np.int64]

_NEVER = -(2**62)
_CLOSED = _NEVER - 1


class SpanLimiter:
    """Leaves the first reading of every open slot, and makes the others NaN: the sketch drops them.

    A reading ends its slot whatever it holds, also when it is malformed: no value is looked at.
    `begun`: when a live source begins, in the seconds of its clock. A whole slot passes unused
    then, because nobody remembers what the process before it took in.
    """

    def __init__(self, slots: TimeSlots, begun: float | None = None) -> None:
        self._slots = slots
        self._next = _NEVER if begun is None else slots.number(begun) + 2

    def tick(self, now: float) -> None:
        """A live source's clock has come to `now`: a slot whose open part is over is closed, with
        or without a reading."""
        number = self._slots.number(now)
        self._next = max(self._next, number if self._slots.is_open(now) else number + 1)

    def limit(self, at: FloatArray, rows: Rows) -> None:
        """Overwrites, in place, the rows that come too many or too late by NaN.

        `at`: their times, float64[n]. A row of an earlier slot than one that was taken is too late.
        """
        if not len(at):
            return
        numbers = self._numbers(at)
        before = np.concatenate(([self._next - 1], np.maximum.accumulate(numbers)[:-1]))
        np.maximum(before, self._next - 1, out=before)
        drop(rows, numbers <= before)
        self._next = max(self._next, int(numbers.max()) + 1)

    def _numbers(self, at: FloatArray) -> IntArray:
        """Times in seconds, float64[n] -> the numbers of their slots; _CLOSED in a closed part."""
        whole = np.floor(at)
        moments = whole.astype(np.int64) * MICROSECONDS
        moments += ((at - whole) * MICROSECONDS).astype(np.int64)
        numbers = moments // self._slots.length
        numbers[moments % self._slots.length >= self._slots.opened] = _CLOSED
        return numbers
