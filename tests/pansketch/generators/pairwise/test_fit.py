"""The steps from noisy views to tables that agree, each against what it is meant to compute."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize

from pansketch import Attribute, Domain
from pansketch.generators.pairwise import denoising
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.denoising import (
    CLOSE,
    LIKELY,
    STEPS,
    consistent,
    shrunk,
)
from pansketch.generators.pairwise.fit import fit_views
from pansketch.generators.pairwise.marginals import Margin, independent, resolutions_of
from pansketch.generators.pairwise.multiresolution import Resolution, nested_fit
from pansketch.generators.pairwise.particles import Target, raked
from pansketch.generators.simplex import isotonic, onto_simplex

NUMBERS = st.floats(-1e3, 1e3)


@pytest.mark.parametrize("cells", [16, 13])
def test_nested_resolutions_are_fitted_by_least_squares(cells):
    """Counts and variances of cumulatives as dense generalised least squares has them, also where
    the last parents have fewer children."""
    generator = np.random.default_rng(cells)
    resolutions, design, precisions, counts = [], [], [], []
    for bits in (0, 1, 2, 4):
        width = 1 << (4 - bits)
        rows = np.add.reduceat(np.eye(cells), np.arange(0, cells, width), axis=0)
        count, precision = generator.normal(size=len(rows)), generator.uniform(0.2, 3, len(rows))
        resolutions.append(Resolution(bits, count, precision))
        design.append(rows)
        precisions.append(precision)
        counts.append(count)
    matrix, weights = np.vstack(design), np.concatenate(precisions)
    covariance = np.linalg.inv(matrix.T @ (weights[:, None] * matrix))
    best = covariance @ matrix.T @ (weights * np.concatenate(counts))
    cumulative = np.tril(np.ones((cells, cells)))
    fitted = nested_fit(resolutions)
    assert np.allclose(fitted.counts, best)
    assert np.allclose(fitted.variances, np.diag(cumulative @ covariance @ cumulative.T))


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=NUMBERS))
@settings(max_examples=50, deadline=None)
def test_isotonic_is_the_nearest_rising_sequence_of_each_row(rows):
    nearest = [optimize.isotonic_regression(row).x for row in rows]
    assert np.allclose(isotonic(rows), nearest)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 8973.653873900934])
def test_isotonic_leaves_values_that_are_alike_exactly_alike(value):
    """A difference by rounding would count as a reading."""
    row = np.array([0.0, 0.0, 2.0, 1.0, *[value + 2] * 30])
    assert np.ptp(isotonic(row[None])[0, 4:]) == 0.0


@given(hnp.arrays(np.float64, st.integers(1, 40), elements=NUMBERS), st.floats(0.1, 1e4))
@settings(max_examples=50, deadline=None)
def test_nearest_shares_are_shares_and_satisfy_the_optimum(values, total):
    found = onto_simplex(values, total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total)
    moved = (values - found)[found > 0]  # All that is left is lowered by one number.
    assert np.ptp(moved) < 1e-6
    assert (values[found == 0] <= moved.mean() + 1e-6).all()


def table_and_margins(shape=(8, 4), noise=0.0, seed=0):
    generator = np.random.default_rng(seed)
    truth = 1000 * generator.dirichlet(np.full(np.prod(shape), 0.5)).reshape(shape)
    bits = tuple(int(np.log2(cells)) for cells in shape)
    axes = tuple(range(len(shape)))
    margins = {
        axis: Margin(bits[axis], truth.sum(axis=tuple(a for a in axes if a != axis)))
        for axis in axes
    }
    noisy = truth + noise * generator.normal(size=shape)
    return truth, Table(axes, bits, noisy, max(noise, 1e-3) ** 2), margins


@pytest.mark.parametrize("noise", [20.0, 2000.0])
@pytest.mark.parametrize("shape", [(8, 4), (4, 4, 2), (32, 32)])
def test_a_consistent_table_has_the_margins_and_is_nearest(shape, noise):
    """Also where noise outweighs all readings by far."""
    truth, table, margins = table_and_margins(shape, noise)
    found = consistent(table, margins)
    assert found.counts.min() >= 0
    for axis, margin in margins.items():
        assert np.abs(found.along(axis) - margin.counts).sum() < 1
    # No other table with these margins is nearer; the truth is one.
    generator, apart = np.random.default_rng(1), ((found.counts - table.counts) ** 2).sum()
    others = [truth, independent(table, margins)]
    for part in generator.random(20):
        others.append(part * others[0] + (1 - part) * others[1])
    assert all(((each - table.counts) ** 2).sum() > apart * (1 - 1e-6) - 1 for each in others)


def test_margins_agree_although_some_cells_are_known_to_be_empty(monkeypatch):
    """Such cells tell of the noise, so each attribute has its own estimate of the total. The
    control has 0.1 % more readings of one attribute: no table has that margin beside the other, and
    the search for one goes on in vain."""
    generator = np.random.default_rng(9)
    domain = Domain([Attribute("x", low=0, high=1), Attribute("y", low=0, high=1)])
    known = (np.arange(64) < 32) | (np.arange(64) % 4 == 0)
    both = 900 + 300 * generator.normal(size=(16, 16))
    alone = np.where(known, 5000 + 300 * generator.normal(size=64), 0.0)
    released = [
        Table((0, 1), (4, 4), both, 300.0**2),
        Table((1,), (6,), alone, 300.0**2, (known,)),
    ]
    own = [nested_fit(resolutions_of(released, axis)).counts.sum() for axis in (0, 1)]
    assert abs(own[0] / own[1] - 1) > 3 * CLOSE
    searched = mock.Mock(side_effect=denoising._Dual._curvature)
    monkeypatch.setattr(denoising._Dual, "_curvature", lambda *given: searched(*given))
    fit = fit_views(domain, released)
    for axis, margin in fit.margins.items():
        missed = np.abs(fit.tables[0].along(axis) - margin.at(4)).sum()
        assert missed <= CLOSE * fit.total
    assert searched.call_count < STEPS
    consistent(released[0], {0: fit.margins[0], 1: Margin(6, 1.001 * fit.margins[1].counts)})
    assert searched.call_count >= STEPS


def test_shrinking_keeps_what_stands_out_and_drops_what_does_not():
    truth, table, margins = table_and_margins((16, 16), noise=0.01)
    expected = independent(table, margins)
    assert np.abs(shrunk(table, expected, expected).counts - truth).max() < 0.5
    _, table, _ = table_and_margins((16, 16), noise=1000.0)
    left = shrunk(table, expected, expected).counts - expected
    assert np.abs(left).sum() < 0.5 * np.abs(table.counts - expected).sum()
    rough = shrunk(table, expected, expected, LIKELY).counts - expected
    assert (rough**2).sum() >= (left**2).sum()


def test_shrinking_brings_tables_nearer_to_the_truth():
    """300 noisy tables of weak dependence, noise as large as the cells.

    Of 2,000 tables the mean squared error fell to 0.061 of the noise's; the mean of 300 deviates
    from that by 0.0015, so the limit is never met by chance. The control is the table itself.
    """
    generator = np.random.default_rng(3)
    expected = np.full((16, 16), 40.0)
    truth = expected + 10 * np.outer(np.linspace(-1, 1, 16), np.linspace(-1, 1, 16))
    before, after = [], []
    for _ in range(300):
        noisy = Table((0, 1), (4, 4), truth + 40 * generator.normal(size=(16, 16)), 1600.0)
        before.append(((noisy.counts - truth) ** 2).mean())
        after.append(((shrunk(noisy, expected, expected).counts - truth) ** 2).mean())
    limit = 0.1 * 1600
    assert np.mean(after) < limit
    assert np.mean(before) > limit


def test_cells_that_noise_outweighs_stay_as_expected(monkeypatch):
    """A crowd in one corner, dependent there; noise of 20 on cells of which most have none. The
    control shrinks resolutions alone, and leaves noise where no reading is."""
    margin = 1000 * 0.6 ** np.arange(16.0)
    expected = np.outer(margin, margin) / margin.sum()
    truth = expected * (1 + 0.5 * np.outer(*[np.cos(np.arange(16.0))] * 2))
    noise = 20 * np.random.default_rng(7).normal(size=truth.shape)
    table, rare = Table((0, 1), (4, 4), truth + noise, 400.0), expected < 0.5
    found = shrunk(table, expected, expected).counts
    monkeypatch.setattr(denoising, "FAR", 1e9)
    control = shrunk(table, expected, expected).counts
    off, off_control = (np.abs(each - truth) for each in (found, control))
    assert off[rare].sum() < off_control[rare].sum() / 2
    assert off[~rare].sum() < 1.1 * off_control[~rare].sum()


def test_raking_meets_tables_that_agree():
    generator = np.random.default_rng(4)
    first, second = generator.integers(0, 4, (2, 5000))
    wanted = 5000 * generator.dirichlet(np.ones(16))
    targets = [
        Target(4 * first + second, wanted),
        Target(second, wanted.reshape(4, 4).sum(axis=0)),
    ]
    weights = raked(targets, np.ones(5000))
    for target in targets:
        assert np.allclose(target.held(weights), target.counts, rtol=1e-3)
    assert not np.allclose(targets[0].held(np.ones(5000)), wanted, rtol=1e-3)  # The control.
