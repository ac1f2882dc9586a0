"""How a span is kept to its readings: public slots of time, at most one reading in each.

Where readings come when they like, only the first part of a slot is open, for seconds: whether the
slot has had its reading is a fact about a reading, and no longer in memory than that. Where they
are polled, the agent asks once a slot, and there is no such fact. A replay's slots are cut from the
times of its file, which holds the readings themselves. (docs/decisions/0005-span-slots.md)
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
# Below it hardly a reading in a hundred is taken: nobody wants that without having said so.
MIN_OPEN_SHARE = 0.01

Comes = Literal["event", "poll", "replay"]


@dataclass(frozen=True)
class TimeSlots:
    """Slots of `length` microseconds from multiples of it on; only the first `opened` are open."""

    length: int
    opened: int

    def number(self, at: float) -> int:
        """The slot of a moment in seconds."""
        return _microseconds(at) // self.length

    def is_open(self, at: float) -> bool:
        """Whether a moment lies in the open part of its slot."""
        return _microseconds(at) % self.length < self.opened

    @property
    def share(self) -> float:
        """How much of the time is open."""
        return self.opened / self.length


def comes(source: Source) -> Comes:
    """What decides when a source's readings come: the world, the agent's ticks, or a file."""
    if isinstance(source, ReplaySource):
        return "replay"
    return "poll" if isinstance(source, PolledSource) else "event"


def slots_for(span: Span, open_seconds: int | None = None) -> TimeSlots:
    """The slots that keep any stretch of the span's length to one reading less than it may have.

    One is spare because a stretch that is taken away may let a later reading into its last slot.
    `open_seconds`: of each slot, None or more than there are: all of it (with two readings a span:
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
    """Slots for one poll each: one more reading than a stretch may have is further apart than that,
    wherever in its slot each falls. Nothing steps into another's place. Raises as `slots_for`."""
    _check(span)
    length = _divided(span.seconds * MICROSECONDS + 1, span.max_readings - 1)
    return TimeSlots(length, length)


def slots_of(stream: Stream) -> TimeSlots | None:
    """A stream's slots; None where its unit is no span."""
    unit = stream.plan.privacy.unit
    if not isinstance(unit, Span) or not isinstance(stream, ReadingStream):
        return None
    if comes(stream.source) == "poll":
        return polling_slots(unit)
    return slots_for(unit, stream.open_seconds)


def slots_text(stream: Stream) -> str | None:
    """What somebody has to know of a stream's slots; None where its unit is no span."""
    slots = slots_of(stream)
    if slots is None:
        return None
    length = f"{slots.length / MICROSECONDS:.6g} s"
    match comes(stream.source):
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
    """Why readings that come when they like cannot be kept to this span without more being said;
    None where they can."""
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
    """Rounded up."""
    return -(-number // by)
