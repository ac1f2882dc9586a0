"""Levels of slots: one number of keys from all of them, with an error that holds, or a refusal."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from pansketch import DistinctSpec, NoEstimate, distinct_keys
from pansketch.sketches.level_occupancy import level_shares, level_sizes
from tests.pansketch.sketches.distinct.bitmaps import key_privacy, release_of, released

ALPHA = 1e-6
RUNS = 300
BAR = 0.05


def levels(epsilon=1.0, intrusion="announced", **changes):
    return DistinctSpec(key_privacy(epsilon, intrusion), **changes)


def simulated(spec, keys, seed):
    """A bitmap's bits as keys thrown at random leave them: quick, also for a billion keys."""
    rng = np.random.default_rng([seed, keys])
    full = np.zeros(spec.tracked, np.bool_)
    start = 0
    thrown = rng.multinomial(keys, level_shares(len(spec.levels)))
    for size, count in zip(spec.levels, thrown, strict=True):
        # With 40 keys a slot every slot is full but with probability below 1e-12.
        full[start + rng.integers(size, size=min(int(count), 40 * size))] = True
        start += size
    channel = spec.estimator.channel
    return (rng.random(spec.tracked) < np.where(full, channel.full, channel.empty)).astype(np.int64)


def scores(spec, keys):
    """(estimate - truth) / standard error of each run."""
    found = [release_of(spec, simulated(spec, keys, run)).distinct() for run in range(RUNS)]
    return np.array([(each.value - keys) / each.standard_error for each in found])


def spread_p_value(values):
    """Two-sided, of the variance of nearly standard normal values around their own mean of 0."""
    tail = stats.chi2.cdf(np.sum(values**2), len(values))
    return 2 * min(tail, 1 - tail)


def test_sizes_use_every_bit_and_fit_any_memory():
    assert level_sizes(8 * 4096) == (2993, *15 * (1985,))
    for bits in (1, 7, 8, 40, 64, 1000, 8 << 24):
        sizes = level_sizes(bits)
        assert sum(sizes) == bits
        assert min(sizes) >= 1
        assert level_shares(len(sizes)).sum() == 1
    assert level_shares(4).tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 8]


def test_the_planned_error_is_at_most_five_percent_over_four_decades():
    spec = levels()
    assert spec.nbytes == 4096
    for keys in np.geomspace(3e3, 1e7, 60).astype(int).tolist():
        assert spec.planned_error(keys) <= BAR * keys
    assert spec.planned_error(1000) > BAR * 1000  # The control: fewer keys are too few.


@pytest.mark.parametrize("keys", [0, 300, 3000, 100_000, 10_000_000])
def test_errors_hold(keys):
    """False alarms: ALPHA for each number of keys. Errors that are 1.5 times off must fail."""
    spec = levels(release="bitmap")
    values = scores(spec, keys)
    assert spread_p_value(values) > ALPHA
    assert 2 * stats.norm.sf(abs(values.mean()) * sqrt(RUNS)) > ALPHA
    for wrong in (1.5, 1 / 1.5):
        assert spread_p_value(values / wrong) < ALPHA


def test_errors_hold_where_hashing_is_the_noise():
    """The number of keys is fixed: errors that take it as Poisson must fail."""
    spec = levels(30.0, release="bitmap")
    found = [release_of(spec, simulated(spec, 3000, run)).distinct() for run in range(RUNS)]
    values = np.array([each.value - 3000 for each in found])
    errors = np.array([each.standard_error for each in found])
    assert spread_p_value(values / errors) > ALPHA
    assert spread_p_value(values / np.sqrt(errors**2 + 3000)) < ALPHA


@pytest.mark.parametrize("form", ["count", "bitmap"])
def test_a_sketch_counts_any_number_of_keys(form):
    """Through hashing, state, noise and release; beyond five errors once in 10**6 runs."""
    for keys in (0, 50, 5000, 400_000):
        spec = levels(6.0, "silent", release=form, hash_key=keys)
        found = released(spec, np.arange(keys)).distinct()
        assert abs(found.value - keys) <= 5 * found.standard_error
        assert found.standard_error <= max(40, 0.06 * keys)


def test_a_union_counts_a_shared_key_once():
    """False alarm below ALPHA in each. The control: the sum of the three is not the union."""
    spec = levels(8.0, "silent", release="bitmap")
    parts = [
        released(spec, np.arange(start, start + 60_000), device)
        for device, start in (("a", 0), ("b", 20_000), ("c", 40_000))
    ]
    union, total = distinct_keys(parts, "shared"), distinct_keys(parts)
    assert abs(union.value - 100_000) <= 5 * union.standard_error
    assert abs(total.value - 180_000) <= 5 * total.standard_error
    assert abs(total.value - 100_000) > 5 * total.standard_error


def test_errors_of_unions_hold():
    """False alarm: ALPHA. Three devices hold half of the keys each. Errors 1.5 times as large must
    fail."""
    spec = levels(4.0, release="bitmap")
    values = []
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        keys = np.arange(20_000) + 20_000 * run
        slots = spec.for_window(run)
        held = [keys[rng.random(len(keys)) < 0.5] for _ in range(3)]
        truth = len(set(np.concatenate(held).tolist()))
        parts = [released(slots, each, name) for each, name in zip(held, "abc", strict=True)]
        found = distinct_keys(parts, "shared")
        values.append((found.value - truth) / found.standard_error)
    assert spread_p_value(np.array(values)) > ALPHA
    assert spread_p_value(np.array(values) / 1.5) < ALPHA


def test_too_many_keys_are_refused_and_not_guessed():
    spec = levels(release="bitmap")
    for keys in (10**9, 10**12):
        with pytest.raises(NoEstimate, match="no empty slot on any of 16 levels"):
            spec.planned_error(keys)
        for run in range(RUNS // 10):
            with pytest.raises(NoEstimate, match="raise memory or epsilon"):
                release_of(spec, simulated(spec, keys, run)).distinct()
    assert spec.planned_error(10**8) < BAR * 10**8


def test_a_union_of_noise_is_refused():
    spec = levels(1.0, "silent", release="bitmap")
    parts = [released(spec, np.arange(1000), f"d{i}") for i in range(12)]
    with pytest.raises(NoEstimate, match="union of 12 bitmaps"):
        distinct_keys(parts, "shared")


@pytest.mark.parametrize(("counter", "devices"), [(-1, 1), (2, 1), (4, 3)])
def test_a_forged_bitmap_is_refused(counter, devices):
    spec = levels(release="bitmap", memory=64)
    counters = np.zeros(spec.tracked, np.int64)
    counters[7] = counter
    with pytest.raises(ValueError, match="no bitmaps"):
        release_of(spec, counters, devices).distinct()


def test_counts_of_levels_have_no_sum():
    spec = levels()
    with pytest.raises(ValueError, match="add their estimates"):
        release_of(spec, [500] * 16, 2).distinct()
    with pytest.raises(ValueError, match="counts do not tell which keys they share"):
        distinct_keys([released(spec, [1], device) for device in "ab"], "shared")
