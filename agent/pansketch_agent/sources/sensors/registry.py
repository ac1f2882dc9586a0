"""The kinds of sensors that a configuration names, polled on a public tick."""

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isnan
from pathlib import Path

from pansketch_agent.host.clock import Clock
from pansketch_agent.sources.polling import polled
from pansketch_agent.sources.readings import FloatArray, Readings
from pansketch_agent.sources.sensors import hwmon, iio, onewire
from pansketch_fleet.sections.time_slots import TimeSlots
from pansketch_fleet.settings.sources import (
    SensorKind,
    SensorSource,
)

MEASURES: dict[SensorKind, Callable[[str, Path], float]] = {
    "iio": iio.measure,
    "hwmon": hwmon.measure,
    "w1": onewire.measure,
}


def readings(
    source: SensorSource,
    names: tuple[str, ...],
    clock: Clock,
    stop: threading.Event,
    root: Path,
    slots: TimeSlots | None = None,
) -> Iterator[Readings]:
    """Yield the sensors of `names`, in order, on the source's tick; for a span, one a slot."""
    measure = MEASURES[source.kind]
    measures = [partial(measure, source.sensors[name], root) for name in names]
    return polled(each_of(measures), len(names), source.interval_seconds, clock, stop, slots)


def each_of(measures: Sequence[Callable[[], float]]) -> Callable[[FloatArray], None]:
    """Return a function that reads one sensor after the other; NaN for a missing value."""

    def measure(values: FloatArray) -> None:
        for place, value in enumerate(measures):
            values[place] = value()

    return measure


def unreadable(source: SensorSource, names: tuple[str, ...], root: Path) -> list[str]:
    """Return those of `names` whose sensor gives no data now."""
    measure = MEASURES[source.kind]
    return [name for name in names if isnan(measure(source.sensors[name], root))]
