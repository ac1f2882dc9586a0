"""Absorbing readings: counter increments beside a bare histogram, and one reading at a time."""

from functools import partial

import numpy as np
import numpy.typing as npt

from benchmarks.beijing import FloatArray, default_spec
from benchmarks.row import Row, at_least
from benchmarks.timing import fastest
from pansketch import HierarchySketch, os_entropy

IntArray = npt.NDArray[np.int64]

READINGS = 65_536
BINS = 1024
DEFAULT_FANOUT = 4
RATIO, SINGLE_RATE = 0.6, 10_000
SINGLES = 2_000


def run(quick: bool) -> list[Row]:
    generator = np.random.default_rng(1)
    columns = generator.integers(0, BINS, READINGS)
    readings = generator.random((READINGS, 2)) * [100.0, 1000.0] - [40.0, 0.0]
    repeats = 15 if quick else 60
    many = [_many(fanout, columns, readings, repeats) for fanout in (2, 4, 8)]
    return [*many, _single(readings, 3 if quick else 10)]


def _many(fanout: int, columns: IntArray, readings: FloatArray, repeats: int) -> Row:
    """Only increments of counters that exist count: one exact one, and `rows` a sketched level."""
    spec = default_spec(fanout)
    sketch = spec.start(os_entropy())
    increments = 1 + spec.rows * len(spec.sketched_levels)
    bare, ours = fastest(
        [
            partial(np.bincount, columns, minlength=BINS),
            partial(sketch.update_many, readings),
        ],
        repeats,
    )
    ratio = bare * increments / ours
    note = f"{increments} increments a reading, {READINGS * increments / ours / 1e6:.0f} M/s"
    name = f"update_many, fanout {fanout}"
    if fanout != DEFAULT_FANOUT:
        return Row(name, ratio, "x bincount", note=note)
    return at_least(name, ratio, "x bincount", RATIO, note)


def _single(readings: FloatArray, repeats: int) -> Row:
    sketch = default_spec().start(os_entropy())
    (best,) = fastest([partial(_one_by_one, sketch, readings)], repeats)
    return at_least("one reading at a time", SINGLES / best, "readings/s", SINGLE_RATE)


def _one_by_one(sketch: HierarchySketch, readings: FloatArray) -> None:
    for place in range(SINGLES):
        sketch.update_many(readings[place : place + 1])
