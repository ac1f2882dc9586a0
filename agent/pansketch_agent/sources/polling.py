"""Polled sources, on a public tick: the time of a reading reveals nothing about it."""

import threading
from collections.abc import Callable, Iterator

import numpy as np

from pansketch_agent.host.clock import Clock
from pansketch_agent.sources.readings import (
    FloatArray,
    Readings,
    overwrite_freed_floats,
    overwrite_freed_texts,
)
from pansketch_fleet.sections.time_slots import TimeSlots


def polled(
    measure: Callable[[FloatArray], None],
    count: int,
    interval_seconds: float,
    clock: Clock,
    stop: threading.Event,
    slots: TimeSlots | None = None,
) -> Iterator[Readings]:
    """Yield one reading at every multiple of the interval on the wall clock, until `stop` is set.

    `measure`: writes the current values of `count` attributes, float64[count], NaN for a missing
    one. `slots`: of a span; by the monotonic clock, at most one tick in each slot polls. The first
    two whole slots are skipped, because an earlier process may have polled in them.
    """
    at, values = np.zeros(1), np.zeros((1, count))
    next_slot = 0 if slots is None else slots.number(clock.monotonic()) + 3
    try:
        while not clock.wait(stop, interval_seconds - clock.now() % interval_seconds):
            if slots is not None and slots.number(clock.monotonic()) < next_slot:
                continue
            measure(values[0])
            # A slow sensor may take a second; its reading belongs to the window of now.
            at[0] = clock.now()
            if slots is not None:
                next_slot = slots.number(clock.monotonic()) + 1
            yield Readings(at, values)
            values.fill(0)
            overwrite_freed_floats()
            overwrite_freed_texts()
    finally:
        values.fill(0)
