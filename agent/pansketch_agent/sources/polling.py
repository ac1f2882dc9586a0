"""Sources that the agent asks, on a public tick: the time of a reading tells nothing about it."""

import threading
from collections.abc import Callable, Iterator

import numpy as np

from pansketch_agent.host.clock import Clock
from pansketch_agent.sources.memory_scrub import overwrite_freed_floats, overwrite_freed_texts
from pansketch_agent.sources.readings import FloatArray, Readings
from pansketch_fleet.sections.time_slots import TimeSlots


def polled(
    measure: Callable[[FloatArray], None],
    count: int,
    interval_seconds: float,
    clock: Clock,
    stop: threading.Event,
    slots: TimeSlots | None = None,
) -> Iterator[Readings]:
    """One reading at every multiple of the interval on the wall clock, until `stop` is set.

    `measure`: writes the values of `count` attributes now, float64[count], NaN where there is none.
    `slots`: of a span; by the clock that no one can set, at most one tick in each asks, the others
    pass. Two whole slots pass at first, because nobody remembers the process before.
    """
    at, values = np.zeros(1), np.zeros((1, count))
    following = 0 if slots is None else slots.number(clock.monotonic()) + 3
    try:
        while not clock.wait(stop, interval_seconds - clock.now() % interval_seconds):
            if slots is not None and slots.number(clock.monotonic()) < following:
                continue
            measure(values[0])
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
