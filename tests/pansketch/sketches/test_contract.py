"""One contract for all sketches: a new family joins by an entry in FAMILIES."""

import numpy as np
import pytest

from pansketch import (
    SketchClosed,
    merge,
    os_entropy,
)
from tests.pansketch.sketches.families import FAMILIES, families, released

EXTREMES = (np.finfo(float).max, -np.finfo(float).max, 1e304, 5e-324, -5e-324, -0.0, np.inf, np.nan)

family = families(FAMILIES)
linear = families({name: family for name, family in FAMILIES.items() if family.linear})


def test_state_is_exactly_nbytes_before_and_after_a_million_updates(family):
    sketch = family.spec.start(os_entropy())

    def footprint():
        return _array_bytes(sketch, set())

    assert getattr(sketch, family.state).nbytes == family.spec.nbytes
    whole = footprint()
    for seed in range(10):
        sketch.update_many(family.draw(100_000, seed))
    assert getattr(sketch, family.state).nbytes == family.spec.nbytes
    assert footprint() == whole


def _array_bytes(thing, seen):
    """Bytes of every array reachable from an object."""
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    if isinstance(thing, list | tuple):
        return sum(_array_bytes(each, seen) for each in thing)
    return sum(_array_bytes(each, seen) for each in getattr(thing, "__dict__", {}).values())


def test_one_sketch_of_both_halves_equals_the_merge_of_two(linear, no_noise):
    spec = linear.spec
    first, second = linear.draw(200, 1), linear.draw(300, 2)
    together = released(spec, np.concatenate([first, second]), no_noise, None)
    apart = merge([released(spec, rows, no_noise, None) for rows in (first, second)])
    assert (together.counters == apart.counters).all()


@pytest.mark.parametrize("batch", [1, 9, 64])
def test_no_value_of_a_reading_faults(linear, batch):
    """A fault is a warning of NumPy: a line in a log, which only this reading wrote."""
    sketch = linear.spec.start(os_entropy())
    values = np.array([(a, b) for a in EXTREMES for b in EXTREMES])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for begin in range(0, len(values), batch):
            sketch.update_many(values[begin : begin + batch])


def test_two_snapshots_are_protected_by_a_draw_between_them_and_by_nothing_else(linear):
    """All counters' fresh noise is 0 with a probability far below 1e-6. It has scale 1 or more and
    two draws, in ten counters or more."""
    sketch = linear.spec.start(os_entropy())

    def snapshot():
        return getattr(sketch, linear.state).astype(np.int64)

    first = snapshot()
    assert (snapshot() == first).all(), "no reading between them, and that shows"
    sketch.rerandomise(os_entropy())
    assert (snapshot() != first).any()
    shift = []
    for _ in range(2):
        before = snapshot()
        sketch.update_many(np.array([[0.5, 1.0]]))
        shift.append(snapshot() - before)
    assert shift[0].any()
    assert (shift[0] == shift[1]).all(), "the same reading is the same exact difference"


def test_a_second_release_and_a_late_reading_are_refused(family):
    sketch = family.spec.start(os_entropy())
    sketch.release(os_entropy())
    with pytest.raises(SketchClosed):
        sketch.release(os_entropy())
    with pytest.raises(SketchClosed):
        sketch.update_many(family.draw(1))
    with pytest.raises(SketchClosed):
        sketch.rerandomise(os_entropy())


def test_a_released_sketch_holds_nothing(family):
    sketch = family.spec.start(os_entropy())
    sketch.update_many(family.draw(50))
    sketch.release(os_entropy())
    assert not getattr(sketch, family.state).any()
