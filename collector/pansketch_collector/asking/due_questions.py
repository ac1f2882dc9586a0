"""The releases about which a question is due; pure.

A window belongs to the period, counted from 1970, in which it starts. A period is over when the
last window that starts in it has ended on every device. The collector then waits for the stream's
lateness, counted from the last release of the period that came. So an offline collector, or devices
that replay old readings, still give one question for each period. No device delays a question for
ever: arrivals count for so many times the lateness after the first one. Releases that arrive after
their period's question go into the next question of its level.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pansketch_fleet.settings.device_spec import MAX_OFFSET_SECONDS
from pansketch_fleet.settings.settings import AnswerLevel

MAX_WAITS = 9  # times the lateness, after the first release of a period that came


@dataclass(frozen=True)
class WaitingPeriod:
    """Releases of one stream, spec and set of keepers that no question of a level lists, whose
    windows start in one period. `first_received`, `last_received`: in unix seconds."""

    period: int
    first_received: int
    last_received: int


@dataclass(frozen=True)
class DuePeriod:
    """A question that is due: about the period of this number. `listed`: the periods that its
    windows start in, of which the earlier ones are those of late releases."""

    period: int
    listed: tuple[int, ...]


def over(period: int, level: AnswerLevel, window_seconds: int) -> int:
    """When the last window that starts in a period has ended on all devices, in unix seconds."""
    offset = min(window_seconds // 10, MAX_OFFSET_SECONDS)
    return (period + 1) * level.every_seconds + offset


def due(
    waiting: Sequence[WaitingPeriod],
    asked: int | None,
    level: AnswerLevel,
    window_seconds: int,
    lateness_seconds: int,
    now: int,
) -> list[DuePeriod]:
    """The questions that are due, the earliest first.

    `asked`: the number of the last period that was asked about; None for none.
    """
    found: dict[int, list[WaitingPeriod]] = {}
    for each in waiting:
        period = each.period if asked is None else max(each.period, asked + 1)
        found.setdefault(period, []).append(each)
    return [
        DuePeriod(period, tuple(sorted(each.period for each in held)))
        for period, held in sorted(found.items())
        if now
        >= lateness_seconds
        + max(over(period, level, window_seconds), _arrived(held, lateness_seconds, now))
    ]


def _arrived(held: Sequence[WaitingPeriod], lateness_seconds: int, now: int) -> int:
    """When the last of these came that a question waits for, in unix seconds. Times after `now` are
    of a clock that was set back since: a question waits for none of them."""
    times = [time for each in held for time in (each.first_received, each.last_received)]
    past = [time for time in times if time <= now]
    return min(max(past), min(past) + MAX_WAITS * lateness_seconds) if past else 0


def parts(loads: Sequence[float], most: int) -> list[slice]:
    """Windows in as few questions as their order allows.

    `loads`: the part that each takes of what one question may list; `most`: how many it may list. A
    window that takes more than all is alone.
    """
    found, first, load = [], 0, 0.0
    for number, each in enumerate(loads):
        if number > first and (load + each > 1 or number - first >= most):
            found.append(slice(first, number))
            first, load = number, 0.0
        load += each
    return [*found, slice(first, len(loads))] if loads else []
