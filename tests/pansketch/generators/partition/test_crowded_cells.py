"""Errors of questions that cut cells whose readings crowd: side by side, in a tail, at an end.

All randomness is seeded. An answer is compared with two standard errors, and the control is smooth
readings, whose errors must not be wider.
"""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.error_bars.short_streams import exact, noisy
from pansketch import Attribute, CellsSpec, Domain, HierarchySpec, Privacy
from pansketch.generators import Partition, density, privhp
from pansketch.generators.partition.box_overlap import Cells, densities_beside, steepness

MANY, DRAWS = 20_000, 4
PLANE = Domain([Attribute("x", 0, 100), Attribute("y", 0, 100)])


def models(rows, spec, fit, seed=1):
    told, drawn = exact(spec, rows.copy()), np.random.default_rng(seed)
    return [fit(noisy(told, 1, drawn)) for _ in range(DRAWS)]


def boxes(*shares, knots=()):
    """Equal cells of one attribute, and so many readings that they are no small sample."""
    many = len(shares)
    scale = {"scale": "learned", "knots": knots} if knots else {}
    edges = np.arange(many + 1)[:, None] / many
    domain = Domain([Attribute("x", 0, 100, **scale)])
    return Partition(domain, edges[:-1], edges[1:], 1e12 * np.array(shares))


def covers(found, real):
    return abs(found.value - real) <= 2 * found.standard_error + 1e-9


def test_two_spikes_side_by_side_stand_out_together():
    edges = np.arange(9.0)
    for held, alone, together in (
        ([0, 0, 4, 4, 0, 0, 0, 0], 0.0, 1.0),
        ([1, 1, 8, 8, 1, 1, 1, 1], 0.0, 0.75),
        ([0, 0, 4, 0, 0, 0, 0, 0], 1.0, 1.0),
        ([4, 4, 4, 4, 4, 4, 4, 4], 0.0, 0.0),  # The controls: even, and an end of even readings.
        ([0, 0, 4, 4, 4, 4, 4, 4], 0.0, 0.0),
    ):
        below = np.concatenate([[0], np.cumsum(held)])
        assert steepness(edges, below)[2] == pytest.approx(alone)
        assert steepness(edges, below, pairs=True)[2] == pytest.approx(together)


@pytest.mark.parametrize("spikes", [(40.0, 41.0), (49.99, 50.01)])
def test_a_cut_between_two_spikes_has_the_error_of_either(spikes):
    drawn = np.random.default_rng(1)
    rows = np.column_stack([drawn.choice(spikes, MANY), 100 * drawn.random(MANY)])
    sizes = {"depth": 20, "k": 256, "width": 1024, "rows": 1}
    hierarchy, cells = HierarchySpec(PLANE, Privacy(1.0), **sizes), CellsSpec(PLANE, Privacy(1.0))
    for model in (*models(rows, hierarchy, privhp), *models(rows, cells, density)):
        answers = getattr(model, "partition", model)
        for place in (39.7, 40.2, 40.6, 41.3, 49.7, 50.3):
            assert covers(answers.cdf("x", place), np.mean(rows[:, 0] <= place))
        assert covers(answers.mean("x"), rows[:, 0].mean())


def test_a_quantile_may_be_at_the_other_end_of_its_cell():
    """Readings that are clipped to the bounds are at one end of the first and the last cell."""
    clipped = boxes(0.05, 0.3, 0.3, 0.3, 0.05)
    for part, real in ((0.049, 0.0), (0.001, 19.9), (0.999, 80.1), (0.951, 100.0)):
        assert covers(clipped.quantile("x", part), real)
    even = boxes(*[1.0] * 8)
    assert even.quantile("x", 0.45).standard_error == pytest.approx(12.5 / np.sqrt(12), rel=1e-4)


def test_readings_of_a_tail_may_crowd_beside_a_denser_cell():
    """A learned scale's last cell is long, and most of its readings are where it begins."""
    knots = (0.0, 10.0, 12.0, 14.0, 100.0)
    tail = boxes(0.25, 0.25, 0.25, 0.25, knots=knots)
    for place in (15.0, 16.0, 20.0):
        part = (place - 14) / 86
        for times in (1, 5, 86 / 4):  # as dense as the cell; half as dense as the one before it
            assert covers(tail.cdf("x", place), 0.75 + 0.25 * min(times * part, 1.0))
    assert covers(tail.quantile("x", 0.99), 14.1)
    ratios = densities_beside(tail.domain.attributes[0], np.arange(5) / 4, np.arange(5) / 4)
    np.testing.assert_allclose(ratios[:, 3], [86 / 2, 0])
    # The control: where the density changes little, a part has what it had.
    smooth = boxes(0.1, 0.15, 0.2, 0.25, 0.2, 0.1)
    cell, inside = 1e12 * 0.25, 0.1
    found = smooth.count(f"x <= {100 * (3 + inside) / 6}").standard_error
    assert found == pytest.approx(cell * np.sqrt(inside * (1 - inside) / 3), rel=1e-4)


def test_noise_that_is_kept_positive_is_an_error_of_a_distribution():
    """Cells of noise alone hold readings; replicates have them with either sign."""
    drawn = np.random.default_rng(3)
    rows = np.clip(drawn.exponential(8, (MANY, 2)), 0, 100)
    for model in models(rows, CellsSpec(PLANE, Privacy(1.0), depth=10), density):
        for place in (40.6, 53.1, 71.9):
            found = model.partition.cdf("x", place)
            assert covers(found, np.mean(rows[:, 0] <= place))
            assert found.standard_error < 0.02


def test_a_quantile_is_anywhere_in_a_cell_that_stands_out():
    """Also where cells show that most of them are even inside. Control: an even cell."""
    cells = {0: Cells(3, rougher=0.1)}
    crowded = replace(boxes(0.6, 0.1, 0.1, 0.05, 0.05, 0.05, 0.03, 0.02), cells=cells)
    even = replace(boxes(*[1 / 8] * 8), cells=cells)
    width = 100 / 8
    for q in (0.15, 0.3, 0.45):
        reach = 2 * crowded.quantile("x", q).standard_error
        assert reach >= 0.45 * width
    assert 2 * even.quantile("x", 0.3).standard_error < 0.05 * width
