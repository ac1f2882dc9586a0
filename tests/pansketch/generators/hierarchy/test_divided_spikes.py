"""Errors of readings of one frequent value, which noise or shared counters divide among cells.

An error is compared with 3 standard errors. Most of one is the doubt where the value is, which an
answer never exceeds by more than sqrt(2). Noise is less than a tenth of it. So a false alarm is an
error of noise of 15 of its deviations, and its probability is less than 1e-6.
"""

from dataclasses import replace

import numpy as np
import pytest

from pansketch import Attribute, Domain, HierarchySpec, Privacy, WindowId, merge
from pansketch.generators import combine, privhp
from pansketch.generators.hierarchy.cell_counts import IMPOSSIBLE, told_apart
from pansketch.generators.partition import cut_boxes
from tests.seeded_noise import noise_of_test

X, Y = Attribute("x", -40, 60), Attribute("y", 0, 100)
MANY, RELEASES = 3600, 10
BARS = 3


def fitted(rows, domain, **sizes):
    spec = HierarchySpec(domain, Privacy(1.0), rows=1, **sizes)
    releases = []
    for number, part in enumerate(np.array_split(rows, RELEASES)):
        sketch = spec.start(noise_of_test())
        sketch.update_many(part.copy())
        releases.append(sketch.release(noise_of_test(), WindowId(str(number), "s", 1)))
    return privhp(merge(releases))


def of_two(column, drawn, step=None):
    rows = np.column_stack([column, drawn.uniform(20, 30, MANY)])
    domain = Domain([replace(each, step=step) for each in (X, Y)])
    return fitted(rows, domain, depth=21, k=512, width=512, fanout=8, hash_key=7)


def test_the_error_covers_a_value_whose_readings_another_attribute_divides():
    """No deep cell holds enough of them to stand out, so noise decides on which side they are."""
    drawn = np.random.default_rng(1)
    column = drawn.choice([-40.0, 10.0, 60.0], MANY, p=[0.1, 0.6, 0.3])
    for model in (of_two(column, drawn), combine([of_two(column, drawn)] * 2)):
        for found, real in (
            (model.cdf("x", 10), np.mean(column <= 10)),
            (model.share("x > 10"), np.mean(column > 10)),
            (model.share("x > 10 & y > 0"), np.mean(column > 10)),
            (model.alone(0).cdf("x", 10), np.mean(column <= 10)),
        ):
            assert abs(found.value - real) < BARS * found.standard_error


def test_a_smooth_density_needs_no_wider_error():
    """The control. Its step is stated, and far narrower than a cell."""
    drawn = np.random.default_rng(2)
    model = of_two(drawn.uniform(-40, 60, MANY), drawn, step=1e-4)
    assert model.shown is not None
    narrow = replace(model, shown=None, replicate=lambda: model.replicates)
    ratios = [
        model.cdf("x", x).standard_error / narrow.cdf("x", x).standard_error
        for x in (-30, -17, 3, 12, 25, 41, 52)
    ]
    assert np.median(ratios) < 1.05


def test_the_error_holds_readings_that_are_multiples_of_an_unstated_step(monkeypatch):
    """Noise divides the readings of each multiple among cells beside it, where none are. The
    control: without that possibility most errors do not hold it. All randomness is seeded."""
    drawn = np.random.default_rng(5)
    speeds = np.round(drawn.gamma(1.6, 2.0, 400_000), 1)
    domain = Domain([replace(X, low=0, high=50), Y])
    rows = np.column_stack([speeds, drawn.normal(50, 8, len(speeds))])
    model = fitted(rows, domain, depth=24, k=4096, width=4096, fanout=8, hash_key=7)
    limits = np.quantile(speeds, np.arange(1, 20) / 20).tolist()

    def within():
        found = [model.cdf("x", limit) for limit in limits]
        off = [abs(e.value - np.mean(speeds <= x)) for e, x in zip(found, limits, strict=True)]
        return np.mean([one <= 2 * e.standard_error for one, e in zip(off, found, strict=True)])

    assert within() > 0.8
    monkeypatch.setattr(cut_boxes, "UNSTATED", 0.0)
    assert within() < 0.6


@pytest.mark.parametrize("value", [20.3, -33.0, 47.0])
def test_siblings_that_share_a_counter_are_not_told_apart(value):
    """All readings have one value, and its cell shares a counter with a cell beside it."""
    domain, deepest = Domain([X]), 0
    sizes = {"depth": 12, "k": 64, "width": 64, "fanout": 4}
    path = np.array([int((value + 40) / 100 * 4096)], np.uint64)
    for key in range(1000):
        spec = HierarchySpec(domain, Privacy(1.0), rows=1, hash_key=key, **sizes)
        level = spec.levels[-1]
        family = (path >> np.uint64(2) << np.uint64(2)) + np.arange(4, dtype=np.uint64)
        columns = level.hash.table(family)[0]
        (deepest,) = np.flatnonzero(family == path)
        twins = np.flatnonzero(columns == columns[deepest])
        if len(twins) == 2:
            break
    assert len(twins) == 2
    counts = np.array([[50.0, 50.0, 50.0, 50.0]])
    parent, limits = np.array([1e6]), np.ones((1, 4))
    apart = told_apart(level, family, counts, parent, limits)[0]
    assert not apart[twins].any()
    assert apart.sum() == 4 - sum(np.sum(columns == each) > 1 for each in columns)
    # A sibling that cannot be holds none of the counter.
    counts[0, twins[twins != deepest]] = IMPOSSIBLE
    assert told_apart(level, family, counts, parent, limits)[0, deepest]
    assert not told_apart(level, family, counts, np.array([1.9]), limits).any()
    model = fitted(np.full((MANY, 1), value), domain, hash_key=key, **sizes)
    start = model.domain.boxes(family[twins[1:]], 12)[0].item() * 100 - 40
    found, real = model.cdf("x", start - 0.001), float(value < start)
    assert abs(found.value - real) < BARS * found.standard_error
    assert 0.1 < found.value < 0.9
