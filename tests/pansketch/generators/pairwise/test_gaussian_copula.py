"""Copulas: the angle is found in noise, independence stays, and cells are no limit."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from benchmarks.error_bars.short_streams import exact, noisy
from pansketch import Attribute, Domain, Privacy, View, ViewsSpec
from pansketch.generators import pairwise
from pansketch.generators.pairwise import dependence_tree, fit
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.denoising import shrunk
from pansketch.generators.pairwise.dependence_tree import particles
from pansketch.generators.pairwise.fit import ViewFit, fit_views
from pansketch.generators.pairwise.gaussian_copula import (
    dependent,
    finer,
    likeliest_angle,
    scores_inside,
    turned,
)
from pansketch.generators.pairwise.marginals import Margin, independent
from pansketch.generators.pairwise.particles import joint_of

BITS, READINGS = 3, 10_000
FINE = 6
NUMBERS = Domain([Attribute("x", low=-4, high=4), Attribute("y", low=-4, high=4)])
KINDS = Domain([Attribute("x", categories=tuple("abcdefgh")), NUMBERS.attributes[1]])


def counts(angle, bits, generator):
    """So many readings of two normal numbers in the cells of both."""
    first, other = generator.normal(size=(2, READINGS))
    second = np.sin(angle) * first + np.cos(angle) * other
    ends = np.linspace(-4, 4, (1 << bits) + 1)
    return np.histogram2d(first.clip(-4, 3.99), second.clip(-4, 3.99), (ends, ends))[0]


def table_and_margins(angle, generator, deviation=1.0):
    """A noisy table of coarse cells, and finer margins without noise."""
    fine = counts(angle, FINE, generator)
    ways = 1 << FINE - BITS
    coarse = fine.reshape(1 << BITS, ways, 1 << BITS, ways).sum(axis=(1, 3))
    noisy = coarse + deviation * generator.normal(size=coarse.shape)
    margins = {axis: Margin(FINE, fine.sum(axis=1 - axis)) for axis in (0, 1)}
    return Table((0, 1), (BITS, BITS), noisy, deviation**2), margins, fine


def angle_of(table, margins):
    return likeliest_angle(table, margins, turned(table, margins))


def apart(found, truth):
    """Total variation of the shares."""
    return float(np.abs(found / found.sum() - truth / truth.sum()).sum() / 2)


@pytest.mark.parametrize("angle", [-1.5, -0.7, 0.4, 1.1, 1.5])
def test_quarters_hold_what_the_normal_distribution_has(angle):
    """Both numbers are below their medians with probability 1/4 + angle / 2 pi (Sheppard, 1899)."""
    halves = {axis: Margin(1, np.array([0.5, 0.5])) for axis in (0, 1)}
    table = Table((0, 1), (1, 1), np.zeros((2, 2)), 1.0)
    assert dependent(table, halves, angle)[0, 0] == pytest.approx(0.25 + angle / (2 * np.pi))


@pytest.mark.parametrize("angle", [-1.0, 0.0, 0.5, 1.3])
def test_cells_follow_normal_numbers(angle):
    """The cells of 10,000 readings deviate by at most six roots of their expected number and 6;
    with another angle, the control, they do not. A Poisson number does so with probability below
    1e-8, and there are 64 cells."""
    table, _, fine = table_and_margins(angle, np.random.default_rng(1))
    told = {axis: Margin(FINE, fine.sum(axis=1 - axis)) for axis in (0, 1)}
    truth = fine.reshape(8, 8, 8, 8).sum(axis=(1, 3))
    for tried in (angle, angle - 0.4):
        expected = dependent(table, told, tried)
        inside = np.abs(truth - expected) <= 6 * np.sqrt(np.maximum(expected, 0)) + 6
        assert inside.all() == (tried == angle)


@pytest.mark.parametrize("angle", [-1.2, 0.6, 1.45])
def test_an_angle_is_found_where_no_cell_stands_out(angle):
    """Noise of 100 on cells of 156 readings on average. The errors of 40 angles had root mean
    squares of 0.02 to 0.05. The control takes the same noise without the dependence."""
    generator, found = np.random.default_rng(2), {True: [], False: []}
    for _ in range(40):
        table, margins, _ = table_and_margins(angle, generator, 100.0)
        for there, angles in found.items():
            lost = table.counts - dependent(table, margins, angle) + independent(table, margins)
            angles.append(angle_of(table if there else replace(table, counts=lost), margins))
    errors = {there: np.sqrt(np.mean((np.array(a) - angle) ** 2)) for there, a in found.items()}
    assert errors[True] < 0.15
    assert not errors[False] < 0.15
    # Shrinking makes at least a third of pure noise nothing at all: two thirds on average, so 40
    # with fewer than 8 have probability below 1e-7.
    assert np.count_nonzero(np.array(found[False]) == 0.0) >= 8


def test_near_duplicates_are_near_inside_cells():
    """Records on 64 x 64 cells from a table of 8 x 8. Their total variation was 0.05, and 0.64
    without the copula, the control: that of independence inside cells, which noise hardly changes.
    """
    generator = np.random.default_rng(3)
    table, margins, fine = table_and_margins(1.5, generator, 30.0)
    fit = fit_views(NUMBERS, [table, *alone(margins)])
    found = []
    for angles in (fit.angles, {}):
        joint = joint_of(ViewFit(fit.margins, fit.tables, angles), 1 << 15, generator)
        cells = [joint.cells[axis] >> fit.margins[axis].bits - FINE for axis in (0, 1)]
        held = np.bincount(cells[0] * 64 + cells[1], joint.weights, 64 * 64)
        found.append(apart(held.reshape(64, 64), fine))
    assert found[0] < 0.4
    assert not found[1] < 0.4


def alone(margins):
    """Tables of the margins, nearly without noise."""
    return [Table((axis,), (FINE,), each.counts, 1e-2) for axis, each in margins.items()]


def test_a_finer_table_keeps_cells_and_margins():
    table, margins, _ = table_and_margins(0.9, np.random.default_rng(4))
    kept = fit_views(NUMBERS, [table, *alone(margins)])
    fine = finer(kept.tables[0], kept.margins, 0.9)
    assert fine.bits == (FINE, FINE)
    for axis in (0, 1):
        np.testing.assert_allclose(fine.along(axis), kept.margins[axis].at(FINE), atol=20)
    held = fine.counts.reshape(8, 8, 8, 8).sum(axis=(1, 3))
    assert apart(held, kept.tables[0].counts) < 0.01


def test_categories_have_no_copula():
    """Their codes have no order; the same counts of numbers have one, which is the control."""
    table, margins, _ = table_and_margins(1.2, np.random.default_rng(5))
    first = Table((0,), (BITS,), margins[0].at(BITS), 1e-2)
    tables = [table, first, alone(margins)[1]]
    assert not fit_views(KINDS, tables).angles
    assert fit_views(NUMBERS, tables).angles


def test_noise_that_drowns_a_table_is_no_dependence():
    """Noise of 1000 on cells of 156 readings on average, of independent numbers. Over 40 tables the
    mean angle was 0.11, and the norm of what is kept beyond independence 0.64 of its own, with
    deviations of a table of 0.14 and 0.24. The bounds are six deviations of a mean of 40 away, so a
    false alarm has a probability below 1e-6. The control understates the noise tenfold."""
    generator, found = np.random.default_rng(4), {True: [], False: []}
    for _ in range(40):
        table, margins, _ = table_and_margins(0.0, generator, 1000.0)
        expected = independent(table, margins)
        for right, figures in found.items():
            told = table if right else replace(table, variance=table.variance / 100)
            kept = np.linalg.norm(shrunk(told, expected, expected).counts - expected)
            angle = abs(angle_of(told, margins))
            figures.append((angle, kept / np.linalg.norm(expected)))
    means = {right: np.mean(figures, axis=0) for right, figures in found.items()}
    assert (means[True] < (0.25, 1.3)).all()
    assert not (means[False] < (0.25, 1.3)).any()


def test_near_duplicates_are_near_inside_cells_that_no_table_divides(monkeypatch):
    """1,024 cells alone, 8 in their pair: finer tables tell 128 of them apart. Half of such numbers
    differ by less than 0.0095 standard deviations, and half of the records by less than 0.008. The
    control, 0.023, has no order inside the 128 cells. Both are medians of 16,000."""
    angle, bits = np.arcsin(0.9999), 10
    generator = np.random.default_rng(11)
    ends = np.linspace(-4, 4, (1 << bits) + 1)
    shares = np.diff([NormalDist().cdf(end) for end in ends.tolist()])
    margins = {axis: Margin(bits, READINGS * shares) for axis in (0, 1)}
    table = Table((0, 1), (BITS, BITS), np.zeros((8, 8)), 1.0)
    table = replace(table, counts=np.maximum(dependent(table, margins, angle), 0.0))

    def distance():
        cells = particles([table], margins, {(0, 1): angle}, 1 << 15, generator)
        first, second = ((ends[:-1] + ends[1:])[cells[axis]] / 2 for axis in (0, 1))
        middle = np.abs(first) < 0.67
        return float(np.median(np.abs(first - second)[middle]))

    assert distance() < 0.014
    monkeypatch.setattr(dependence_tree, "unexplained", lambda *_: 1.0)
    assert not distance() < 0.014


@pytest.mark.parametrize(
    ("angle", "given", "low", "high"),
    [(-1.2, 0.5, -0.2, 0.4), (0.3, 2, -7, 7), (1.4, 0.5, -0.2, 0.4)],
)
def test_scores_inside_a_cell_follow_the_copula(angle, given, low, high):
    """Of 20,000 scores, the share below the middle of the cell. It has a deviation of 0.0035 at
    most, and the logistic distribution is off by 0.032. The control is the opposite angle."""
    normal, middle = NormalDist(np.sin(angle) * given, np.cos(angle)), (low + high) / 2
    share = (normal.cdf(middle) - normal.cdf(low)) / (normal.cdf(high) - normal.cdf(low))
    each = [np.full(20_000, float(value)) for value in (given, low, high)]
    for turn in (angle, -angle):
        random = np.random.default_rng(12).random(20_000)
        scores = scores_inside(each[0], each[1], each[2], turn, random)
        assert ((low <= scores) & (scores <= high)).all()
        assert bool(abs((scores < middle).mean() - share) < 0.05) is (turn == angle)


def test_numbers_hang_together_where_both_have_a_value(monkeypatch):
    """All randomness is seeded. A quarter of the readings lacks `y`, most of them where `x` is low,
    and a tenth has an atom of `x`. Control: without a copula where there are atoms."""
    rng = np.random.default_rng(5)
    x, other = rng.normal(size=(2, READINGS))
    y = 0.9 * x + np.sqrt(1 - 0.81) * other
    x[rng.random(READINGS) < 0.1] = -9
    y[rng.random(READINGS) < np.where(x < 0, 0.4, 0.1)] = np.nan
    both = (x > -9) & ~np.isnan(y)
    truth = np.corrcoef(x[both], y[both])[0, 1]
    domain = Domain(
        [
            Attribute("x", low=-8, high=8, atoms=(-9,)),
            Attribute("y", low=-8, high=8, atoms=("missing",)),
        ]
    )
    views = (View(("x",), (8,), 300_000), View(("y",), (8,), 300_000))
    spec = ViewsSpec(domain, Privacy(1.0), (*views, View(("x", "y"), (3, 3), 400_000)))
    told = exact(spec, np.column_stack([x, y]))

    def off():
        found, noise = [], np.random.default_rng(6)
        for _ in range(4):
            records = pairwise(noisy(told, 10, noise), particles=2048).sample(20_000, noise)
            held = (records[:, 0] > -9) & ~np.isnan(records[:, 1])
            found.append(np.corrcoef(records[held].T)[0, 1] - truth)
        return np.sqrt(np.mean(np.square(found)))

    near = off()
    assert near < 0.15
    monkeypatch.setattr(fit, "has_copula", lambda each: not each.atoms)
    assert off() > 2 * near
