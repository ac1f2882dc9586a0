"""How two numbers vary together: noise must not make it weaker."""

from dataclasses import replace

import numpy as np
import pytest

from pansketch import Attribute, Domain
from pansketch.generators.pairwise import fit
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.denoising import KeptSum, consistent, covariation, independent
from pansketch.generators.pairwise.marginals import Margin

BITS, FINE = 5, 8
LOW, HIGH = -8, 8
NUMBERS = Domain([Attribute(name, low=LOW, high=HIGH) for name in "xy"])
MIDDLES = (np.arange(1 << BITS) + 0.5) * (HIGH - LOW) / (1 << BITS) + LOW


def readings(count=100_000):
    """Two numbers in two seasons, which no copula of one angle describes; of a fixed seed."""
    generator = np.random.default_rng(3)
    warm, (x, own) = generator.random(count) < 0.5, generator.normal(size=(2, count))
    y = np.where(warm, 1.5 - 0.9 * x, -1.5 + 0.2 * x) + 0.5 * own
    return x + np.where(warm, 1.5, -1.5), y


def exact():
    """Counts in the cells of both, and finer ones of each."""
    both, ends = readings(), (LOW, HIGH)
    table = np.histogram2d(*both, bins=1 << BITS, range=[ends, ends])[0]
    alone = [np.histogram(each, bins=1 << FINE, range=ends)[0].astype(np.float64) for each in both]
    return table, alone


def correlation(counts):
    shares = counts / counts.sum()
    sides = [shares.sum(axis=1), shares.sum(axis=0)]
    x, y = (MIDDLES - side @ MIDDLES for side in sides)
    return (x @ shares @ y) / np.sqrt((sides[0] @ x**2) * (sides[1] @ y**2))


def test_noise_does_not_make_correlations_weaker(monkeypatch):
    """60 tables of one stream; noise of 60 on cells of 98 readings on average.

    Of 240 tables the correlation .612 was found too small by .0044 on average, and by .0190 without
    the covariance, which is the control. The deviations of the mean of 60 are .0009 and .0011. So
    the limit is 5 of them from both, and a false alarm has a probability below 1e-6.
    """
    truth, alone = exact()
    margins = [Table((axis,), (FINE,), each, 1e-2) for axis, each in enumerate(alone)]
    generator, missing = np.random.default_rng(5), {"kept": [], "control": []}
    for _ in range(60):
        noisy = Table((0, 1), (BITS, BITS), truth + 60 * generator.normal(size=truth.shape), 3600.0)
        kept = fit.fit_views(NUMBERS, [noisy, *margins])
        with monkeypatch.context() as patch:
            patch.setattr(fit, "covariation", lambda *_: None)
            control = fit.fit_views(NUMBERS, [noisy, *margins], like=kept)
        for name, found in (("kept", kept), ("control", control)):
            missing[name].append(correlation(truth) - correlation(found.tables[0].counts))
    limit = 0.011
    assert abs(np.mean(missing["kept"])) < limit
    assert np.mean(missing["control"]) > limit


def noisy_table(noise, seed=0, cells=8):
    """A table with noise, its margins without, and weights of a sum."""
    generator = np.random.default_rng(seed)
    truth = 1000 * generator.dirichlet(np.full(cells**2, 0.5)).reshape(cells, cells)
    bits = cells.bit_length() - 1
    margins = {axis: Margin(bits, truth.sum(axis=1 - axis)) for axis in (0, 1)}
    table = Table(
        (0, 1), (bits, bits), truth + noise * generator.normal(size=truth.shape), noise**2
    )
    values = np.linspace(-1, 1, cells)
    weights = np.outer(values, values)
    return truth, table, margins, weights / np.linalg.norm(weights)


@pytest.mark.parametrize("noise", [5.0, 20.0])
def test_the_nearest_table_keeps_a_sum_and_the_margins(noise):
    """No other table that has both is nearer; the truth is one. The control keeps no sum."""
    truth, table, margins, weights = noisy_table(noise)
    kept = KeptSum(weights, float(np.vdot(weights, truth)))
    found, control = consistent(table, margins, kept), consistent(table, margins)
    apart = ((found.counts - table.counts) ** 2).sum()
    assert found.counts.min() >= 0
    for axis, margin in margins.items():
        assert np.abs(found.along(axis) - margin.counts).sum() < 1
    assert abs(np.vdot(weights, found.counts) - kept.value) < noise / 5
    assert abs(np.vdot(weights, control.counts) - kept.value) > noise / 5
    assert ((truth - table.counts) ** 2).sum() > apart
    assert ((control.counts - table.counts) ** 2).sum() < apart


@pytest.mark.parametrize("wanted", [-1000.0, 1000.0])
def test_a_sum_that_no_table_has_leaves_the_margins(wanted):
    """Noise may ask for one. The control: it is missed."""
    _, table, margins, weights = noisy_table(20.0)
    found = consistent(table, margins, KeptSum(weights, wanted))
    assert found.counts.min() >= 0
    for axis, margin in margins.items():
        assert np.abs(found.along(axis) - margin.counts).sum() < 1
    assert abs(np.vdot(weights, found.counts) - wanted) > 100


def test_what_noise_explains_is_no_covariance():
    """A sum that is off by a deviation of its noise, and one by ten, which is the control; the sum
    of a correlation of 1 bounds both."""
    truth, alone = exact()
    margins = {axis: Margin(FINE, each) for axis, each in enumerate(alone)}
    values, found = [MIDDLES - MIDDLES @ truth.sum(axis=axis) / truth.sum() for axis in (1, 0)], {}
    for deviations in (1, 10, 1e6):
        table = Table((0, 1), (BITS, BITS), truth, 3600.0)
        expected = independent(table, margins)
        told = covariation(table, expected, margins, values)
        assert told is not None
        moved = replace(table, counts=expected + 60 * deviations * told.weights)
        kept = covariation(moved, expected, margins, values)
        assert kept is not None
        found[deviations] = kept.value - float(np.vdot(kept.weights, expected))
    assert found[1] == pytest.approx(0, abs=1)
    assert found[10] == pytest.approx(600 * (1 - 4 / 100), abs=1)
    assert found[1e6] < 1e6


def test_readings_in_one_cell_have_no_covariance():
    """In two cells they have one: the control."""
    for cells, none in ((1, True), (2, False)):
        held = np.zeros(8)
        held[:cells] = 100.0
        margins = {axis: Margin(3, held) for axis in (0, 1)}
        table = Table((0, 1), (3, 3), np.outer(held, held) / held.sum(), 1.0)
        values = [np.where(held > 0, np.arange(8.0) - (cells - 1) / 2, 0.0)] * 2
        kept = covariation(table, independent(table, margins), margins, values)
        assert (kept is None) is none
