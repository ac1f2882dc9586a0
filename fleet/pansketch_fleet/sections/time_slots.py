"""Public slots of time that limit the readings of a span: at most one reading in each.

For sources of events, only the first seconds of a slot are open. Memory reveals whether a slot has
had its reading, but no longer than that. For polled sources the agent polls once a slot, and there
is no such state. A replay's slots follow from the times of its file, which contains the readings
themselves. (docs/decisions/0005-span-slots.md)
"""

from dataclasses import dataclass
from math import floor
from typing import Literal

from pansketch import Span
from pansketch_fleet.settings.settings import ReadingStream, Stream
from pansketch_fleet.settings.sources import (
    PolledSource,
    ReplaySource,
    Source,
)
from pansketch_fleet.units import duration_text

MICROSECONDS = 1_000_000
OPEN_SECONDS = 10
MAX_OPEN_SECONDS = 60
# Below it hardly a reading in a hundred is absorbed, so the configuration must state it.
MIN_OPEN_SHARE = 0.01

ArrivalKind = Literal["event", "poll", "replay"]


@dataclass(frozen=True)
class TimeSlots:
    """Slots of `length` microseconds that start at its multiples; the first `opened` are open."""

    length: int
    opened: int

    def number(self, at: float) -> int:
        """Return the slot of a moment in seconds."""
        return _microseconds(at) // self.length

    def is_open(self, at: float) -> bool:
        """Return whether a moment lies in the open part of its slot."""
        return _microseconds(at) % self.length < self.opened

    @property
    def share(self) -> float:
        """The open share of the time."""
        return self.opened / self.length


def arrival_kind(source: Source) -> ArrivalKind:
    """Return the cause of a source's times: events, the agent's polls, or a replayed file."""
    if isinstance(source, ReplaySource):
        return "replay"
    return "poll" if isinstance(source, PolledSource) else "event"


def slots_for(span: Span, open_seconds: int | None = None) -> TimeSlots:
    """Return slots that limit any stretch of the span's length to one reading less than allowed.

    One is spare, because removing a stretch may admit a later reading into its last slot.
    `open_seconds`: of each slot; None or more than a slot: all of it (with two readings a span:
    half). Raises ValueError for a span of one reading.
    """
    _check(span)
    # One microsecond more than needed: a time is rounded to whole ones.
    stretch = span.seconds * MICROSECONDS + 1
    whole = _divided(stretch, max(span.max_readings - 2, 1))
    if open_seconds is None or open_seconds * MICROSECONDS >= whole:
        return TimeSlots(whole if span.max_readings > 2 else 2 * whole, whole)
    opened = open_seconds * MICROSECONDS
    # A stretch meets the open parts that begin in it, or less than `opened` before it.
    return TimeSlots(_divided(stretch + opened, span.max_readings - 1), opened)


def polling_slots(span: Span) -> TimeSlots:
    """Return slots for one poll each.

    One more reading than allowed spans more than a stretch, wherever in its slot each falls.
    Removing a reading admits no other. Raises as `slots_for`.
    """
    _check(span)
    length = _divided(span.seconds * MICROSECONDS + 1, span.max_readings - 1)
    return TimeSlots(length, length)


def slots_of(stream: Stream) -> TimeSlots | None:
    """Return a stream's slots; None if its unit is no span."""
    unit = stream.plan.privacy.unit
    if not isinstance(unit, Span) or not isinstance(stream, ReadingStream):
        return None
    if arrival_kind(stream.source) == "poll":
        return polling_slots(unit)
    return slots_for(unit, stream.open_seconds)


def slots_text(stream: Stream) -> str | None:
    """Explain a stream's slots; None if its unit is no span."""
    slots = slots_of(stream)
    if slots is None:
        return None
    length = f"{slots.length / MICROSECONDS:.6g} s"
    match arrival_kind(stream.source):
        case "poll":
            return f"{length}: the sensor is polled once in it, and no state is kept"
        case "replay":
            where = "it" if slots.share == 1 else "its first half"
            return f"{length}, by the times of the file: of the rows in {where} the first is taken"
    seconds = f"{slots.opened / MICROSECONDS:.6g} s"
    return (
        f"{length}, open for its first {seconds} ({100 * slots.share:.2g} % of the time): of the "
        "readings in that part the first is taken, all others are dropped; whether it had its "
        f"reading is in memory for {seconds} at most"
    )


def refusal(span: Span, open_seconds: int) -> str | None:
    """Return why the slots of a span of events would be too rarely open, with the fix, or None."""
    slots = slots_for(span, open_seconds)
    if slots.share >= MIN_OPEN_SHARE:
        return None
    stretch = span.seconds * MICROSECONDS + 1 + slots.opened
    enough = 1 + _divided(stretch, int(slots.opened / MIN_OPEN_SHARE))
    minutes = duration_text(slots.length // MICROSECONDS)
    return (
        f"would take readings in the first {open_seconds} s of every {minutes} only, for what a "
        "slot has had may be in memory no longer, and drop the others; write max_readings: "
        f"{enough} or more, take a source that is polled, or write open: {open_seconds}s to have "
        "it so"
    )


def _check(span: Span) -> None:
    if span.max_readings < 2:
        raise ValueError("a span needs 2 readings or more: one of them covers a step-in")


def _microseconds(at: float) -> int:
    whole = floor(at)
    return whole * MICROSECONDS + int((at - whole) * MICROSECONDS)


def _divided(number: int, by: int) -> int:
    """Divide, rounded up."""
    return -(-number // by)
