"""The kinds of sensors that a configuration names, polled on a public tick.

The time of a reading tells nothing about it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isnan
from pathlib import Path

import numpy as np

from pansketch_agent.host.clock import Clock
from pansketch_agent.sources.memory_scrub import overwrite_freed_floats, overwrite_freed_texts
from pansketch_agent.sources.readings import Readings
from pansketch_agent.sources.sensors import hwmon, iio, onewire
from pansketch_fleet.settings.settings import SensorKind, SensorSource
from pansketch_fleet.settings.time_slots import TimeSlots


def polled(
    measures: Sequence[Callable[[], float]],
    interval_seconds: float,
    clock: Clock,
    stop: threading.Event,
    slots: TimeSlots | None = None,
) -> Iterator[Readings]:
    """One reading at every multiple of the interval on the wall clock, until `stop` is set.

    `measures`: each attribute's value now, NaN when there is none. `slots`: of a span; by the clock
    that no one can set, at most one tick in each asks its sensors, the others pass. Two whole slots
    pass at first, because nobody remembers the process before.
    """
    at, values = np.zeros(1), np.zeros((1, len(measures)))
    following = 0 if slots is None else slots.number(clock.monotonic()) + 3
    try:
        while not clock.wait(stop, interval_seconds - clock.now() % interval_seconds):
            if slots is not None and slots.number(clock.monotonic()) < following:
                continue
            for place, measure in enumerate(measures):
                values[0, place] = measure()
            # A slow sensor may take a second; its reading belongs to the window of now.
            at[0] = clock.now()
            if slots is not None:
                following = slots.number(clock.monotonic()) + 1
            yield Readings(at, values)
            values.fill(0)
            overwrite_freed_floats()
            overwrite_freed_texts()
    finally:
        values.fill(0)


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
    """The sensors of `names`, in their order, on the source's tick; of a span, one a slot."""
    measure = MEASURES[source.kind]
    measures = [partial(measure, source.sensors[name], root) for name in names]
    return polled(measures, source.interval_seconds, clock, stop, slots)


def silent(source: SensorSource, names: tuple[str, ...], root: Path) -> list[str]:
    """Those of `names` whose sensor gives no data now."""
    measure = MEASURES[source.kind]
    return [name for name in names if isnan(measure(source.sensors[name], root))]
