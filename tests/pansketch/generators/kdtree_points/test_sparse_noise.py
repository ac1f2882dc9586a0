"""Empty cells that pass a threshold: drawn one by one (Algorithm 4) and by their gaps (5)."""

from fractions import Fraction
from functools import partial
from math import exp, log

import numpy as np
import pytest
from scipy import stats

from pansketch.generators.kdtree_points.sparse_noise import (
    _gap_scale,
    _kept,
    _kept_bits,
    chance_above,
    check_passing,
    explicit_passing,
    implicit_passing,
    min_threshold,
)
from tests.seeded_noise import noise_of_test

SCALE = Fraction(7, 2)
RUNS = 1500
ALARM = 1e-7


def runs_of(passing, cells=200, scale=SCALE, threshold=5):
    """The number of passing cells in every run, and all their indices and values."""
    rng = noise_of_test()
    found = [passing(cells, scale, threshold, rng) for _ in range(RUNS)]
    counts = np.array([len(indices) for indices, _ in found])
    return counts, *(np.concatenate(part) for part in zip(*found, strict=True))


def likeness(first, second):
    """p-values of two-sample tests of the counts, the indices and the values."""
    return [stats.ks_2samp(a, b).pvalue for a, b in zip(first, second, strict=True)]


@pytest.fixture(scope="module")
def explicit_runs():
    return runs_of(explicit_passing)


def test_implicit_and_explicit_sampling_are_alike(explicit_runs):
    """Kolmogorov-Smirnov tests at 1e-7 each, conservative for ties: a false alarm below 3e-7."""
    assert min(likeness(runs_of(implicit_passing), explicit_runs)) > ALARM


@pytest.mark.parametrize(
    ("changes", "part"),
    [({"threshold": 6}, 0), ({"cells": 180}, 1), ({"scale": Fraction(4)}, 2)],
    ids=["threshold", "cells", "scale"],
)
def test_the_two_sample_tests_notice_a_wrong_sampler(explicit_runs, changes, part):
    """The control: one threshold higher, a tenth fewer cells, a seventh more noise."""
    assert likeness(runs_of(implicit_passing, **changes), explicit_runs)[part] < ALARM


def test_a_trillion_empty_cells():
    """The number that pass, and by how much, against their laws over 400 runs.

    The number is Poisson with a mean of up to 8,000 in total, within 6 deviations. The mean excess
    is that of as many geometric draws, within 6 of its deviations. A false alarm is below 1e-8. The
    limits are below 8 and 9 %; a threshold one higher would lower the count by 22 %.
    """
    cells, scale, rng = 1 << 40, Fraction(4), noise_of_test()
    threshold = min_threshold(scale, 20 / cells)
    expected = 400 * cells * chance_above(scale, threshold)
    found = [implicit_passing(cells, scale, threshold, rng) for _ in range(400)]
    for indices, values in found:
        assert (np.diff(indices) > 0).all()
        assert (indices < cells).all()
        assert (values > threshold).all()
    excess = np.concatenate([values for _, values in found]) - threshold - 1
    assert abs(len(excess) - expected) < 6 * np.sqrt(expected)
    ratio = exp(-1 / scale)
    mean, deviation = ratio / (1 - ratio), np.sqrt(ratio) / (1 - ratio)
    assert abs(excess.mean() - mean) < 6 * deviation / np.sqrt(len(excess))


@pytest.mark.parametrize("cells", [0, 1, 2])
def test_few_cells(cells):
    for passing in (implicit_passing, explicit_passing):
        for _ in range(50):
            indices, values = passing(cells, Fraction(20), 0, noise_of_test())
            assert len(indices) <= cells
            assert set(indices) <= set(range(cells))
            assert (values > 0).all()


@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(1), Fraction(100, 3)])
@pytest.mark.parametrize("threshold", [0, 1, 40])
def test_chance_and_threshold_are_those_of_discrete_laplace_noise(scale, threshold):
    decay = exp(-1 / scale)
    values = np.arange(threshold + 1, threshold + 4000)
    expected = np.sum(decay**values) * (1 - decay) / (1 + decay)
    assert chance_above(scale, threshold) == pytest.approx(expected, rel=1e-9)
    chance = chance_above(scale, threshold) * (1 + 1e-9)
    if chance > 0:
        assert min_threshold(scale, chance) == threshold
        assert min_threshold(scale, chance / 1.1) > threshold


@pytest.mark.parametrize(("scale", "threshold"), [(SCALE, 0), (SCALE, 5), (Fraction(2), 50)])
def test_candidates_are_kept_with_the_right_probability(scale, threshold):
    gap = _gap_scale(chance_above(scale, threshold))
    exact = partial(_kept_bits, scale, threshold, gap)
    share = chance_above(scale, threshold) / -np.expm1(-1 / float(gap))
    assert exact(64) / 2**64 == pytest.approx(share, rel=1e-9)
    assert 0.5 < share < 1
    assert exact(192) >> 128 == exact(64)


class Coins:
    """An entropy whose fair coins spell these words."""

    def __init__(self, *words):
        self.words = list(words)

    def fill_bernoulli(self, chance, bits):
        assert chance.probability == 0.5
        for place in range(0, len(bits), 64):
            word = np.array([self.words.pop(0)], np.uint64)
            bits[place : place + 64] = np.unpackbits(word.view(np.uint8))


def test_a_tie_is_read_on():
    """A uniform that begins like the probability is decided by its following words, exactly."""
    exact = partial(_kept_bits, SCALE, 5, _gap_scale(chance_above(SCALE, 5)))
    first, second, third = (int(exact(64 * n)) & (2**64 - 1) for n in (1, 2, 3))

    def kept(*words):
        coins = Coins(*words)
        (found,) = _kept(1, exact, coins)
        assert not coins.words
        return bool(found)

    assert kept(first - 1)
    assert not kept(first + 1)
    assert kept(first, second - 1)
    assert not kept(first, second + 1)
    assert kept(first, second, third - 1)
    assert not kept(first, second, third + 1)


def test_too_many_cells_are_refused_by_what_is_public():
    check_passing(1 << 22, SCALE, 0, explicit=True)
    check_passing(1 << 40, SCALE, int(SCALE * 20), explicit=False)
    with pytest.raises(ValueError, match="too many to visit"):
        check_passing(1 << 23, SCALE, 0, explicit=True)
    with pytest.raises(ValueError, match="would pass"):
        check_passing(1 << 40, SCALE, int(SCALE * log(2)), explicit=False)
