"""How two numbers vary together: noise must not make it weaker."""

from dataclasses import replace

import numpy as np
import pytest

from pansketch import Attribute, Domain
from pansketch.generators.pairwise import denoising, fit
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.denoising import KeptSum, consistent, covariation
from pansketch.generators.pairwise.marginals import Margin, independent

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
    """70 tables of one stream; noise of 60 on cells of 98 readings on average.

    Of 240 tables the correlation .612 was found too large by .0061 on average. It was too small by
    .0187 in the control, which shrinks no cell alone and keeps no covariance. The deviations of the
    mean of 70 are .0014 and .0010. The limit is 5 of them from both, so a false alarm has a
    probability below 1e-6.
    """
    truth, alone = exact()
    generator = np.random.default_rng(5)
    missing, control = missed(monkeypatch, truth, alone, 60.0, 70, generator)
    assert abs(np.mean(missing)) < 0.0133
    assert np.mean(control) > 0.0133


def test_correlations_of_other_streams_err_less(monkeypatch):
    """Streams of two random seasons each, with tails, on which no constant was set.

    Of five dozens of streams with 8 tables each, the mean absolute bias of a correlation was .022
    to .050; in the control .047 to .076. It was less in each dozen.
    """
    generator, errors = np.random.default_rng(7), []
    for _ in range(12):
        truth, alone = seasons(generator)
        both = missed(monkeypatch, truth, alone, 40.0, 8, generator)
        errors.append([np.abs(np.mean(each)) for each in both])
    mean, control = np.mean(errors, axis=0)
    assert mean < 0.05
    assert mean < control


def seasons(generator, count=100_000):
    """Two numbers with random slopes and heavy tails in two random seasons: as `exact`."""
    middles, slopes, spread = generator.normal(size=(3, 2))
    warm, (x, own) = (generator.random(count) < 0.6).astype(int), generator.laplace(size=(2, count))
    x = 0.8 * x + middles[warm]
    y = slopes[warm] * x + (0.3 + abs(spread[warm])) * own
    x, y = (np.clip(each, LOW, HIGH - 1e-9) for each in (x, y))
    table = np.histogram2d(x, y, bins=1 << BITS, range=[(LOW, HIGH)] * 2)[0]
    ends = {"bins": 1 << FINE, "range": (LOW, HIGH)}
    return table, [np.histogram(each, **ends)[0].astype(np.float64) for each in (x, y)]


def missed(monkeypatch, truth, alone, noise, tables, generator):
    """By how much correlations are too small in so many tables, and without both remedies."""
    margins = [Table((axis,), (FINE,), each, 1e-2) for axis, each in enumerate(alone)]
    found, control = [], []
    for _ in range(tables):
        counts = truth + noise * generator.normal(size=truth.shape)
        released = [Table((0, 1), (BITS, BITS), counts, noise**2), *margins]
        fitted = fit.fit_views(NUMBERS, released)
        with monkeypatch.context() as patch:
            patch.setattr(fit, "covariation", lambda *_: None)
            patch.setattr(denoising, "FAR", 1e9)
            without = fit.fit_views(NUMBERS, released, like=fitted)
        for told, each in ((found, fitted), (control, without)):
            told.append(correlation(truth) - correlation(each.tables[0].counts))
    return found, control


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


def test_what_noise_drowns_is_no_covariance():
    """The same sum beyond what is expected, under a little noise and under much, which is a control
    of the other; the sum of a correlation of 1 bounds both."""
    truth, alone = exact()
    margins = {axis: Margin(FINE, each) for axis, each in enumerate(alone)}
    values = [MIDDLES - MIDDLES @ truth.sum(axis=axis) / truth.sum() for axis in (1, 0)]
    parts = {}
    for noise, sum_beyond in ((1.0, 300.0), (1e5, 300.0), (1.0, 1e9)):
        table = Table((0, 1), (BITS, BITS), truth, noise**2)
        expected = independent(table, margins)
        told = covariation(table, expected, expected, values)
        assert told is not None
        moved = replace(table, counts=expected + sum_beyond * told.weights)
        kept = covariation(moved, expected, expected, values)
        assert kept is not None
        beyond = kept.value - float(np.vdot(kept.weights, expected))
        parts[noise, sum_beyond] = beyond / sum_beyond
    assert parts[1.0, 300.0] == pytest.approx(1, abs=0.01)
    assert parts[1e5, 300.0] == pytest.approx(0, abs=0.01)
    assert parts[1.0, 1e9] < 0.01


def test_readings_in_one_cell_have_no_covariance():
    """In two cells they have one: the control."""
    for cells, none in ((1, True), (2, False)):
        held = np.zeros(8)
        held[:cells] = 100.0
        margins = {axis: Margin(3, held) for axis in (0, 1)}
        table = Table((0, 1), (3, 3), np.outer(held, held) / held.sum(), 1.0)
        values = [np.where(held > 0, np.arange(8.0) - (cells - 1) / 2, 0.0)] * 2
        kept = covariation(table, *[independent(table, margins)] * 2, values)
        assert (kept is None) is none
