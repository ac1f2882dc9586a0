"""A stream's fleet at work: planned, sketched, released, merged, and synthetic records of it."""

from functools import cache

import numpy as np

from benchmarks.six import STREAMS, FloatArray, Stream
from pansketch import (
    Expected,
    Partition,
    Privacy,
    Release,
    Spec,
    ViewsSpec,
    WindowId,
    merge,
    os_entropy,
    pairwise,
    plan_views,
)

RECORDS = 100_000
MEMORY = 1 << 20


def released(stream: Stream, spec: Spec, windows: int = 1) -> Release:
    """Every device's every window, sketched and released by itself, then merged."""
    rng, releases = os_entropy(), []
    for device, readings in enumerate(stream.devices()):
        for number, part in enumerate(np.array_split(readings, windows)):
            sketch = spec.start(rng)
            sketch.update_many(part)
            releases.append(sketch.release(rng, WindowId(f"device-{device}", "s", number)))
    return merge(releases)


def planned(stream: Stream, privacy: Privacy, windows: int = 1) -> ViewsSpec:
    """The planner's views for a fleet that expects what there is."""
    devices = len(stream.devices())
    readings = len(stream.truth) // (devices * windows)
    expected = Expected(readings, devices, windows)
    return plan_views(stream.domain, privacy, MEMORY, expected).spec


def sampled(model: Partition) -> FloatArray:
    return model.sample(RECORDS, np.random.default_rng(0))


@cache
def shown() -> FloatArray:
    """Records at epsilon 1, silent, one window a device: those of the picture."""
    spec = planned(STREAMS[0], Privacy(1.0))
    return sampled(pairwise(released(STREAMS[0], spec)))
