"""Estimates of distinct counters: unbiased, with errors that hold, or a refusal."""

from fractions import Fraction
from itertools import product
from math import exp, log, sqrt

import numpy as np
import pytest
from scipy import stats

from pansketch import (
    DistinctSpec,
    Estimate,
    distinct_keys,
    merge,
)
from pansketch.sketches.slot_occupancy import Channel, occupancy_of_bitmaps, occupancy_of_count
from tests.pansketch.sketches.distinct.bitmaps import (
    hashed,
    key_privacy,
    release_of,
    released,
    sampled,
)

ALPHA = 1e-6
RUNS = 300


# Limits of the true spread of (estimate - truth) / standard error.
SPREADS = 0.94, 1.06
CHANNELS = [Channel(0.2, 0.8), Channel(0.5, 0.6), Channel(0.1, 0.4)]


def chance_of(bits, full, channel):
    """Of these released bits of one slot, which is full on some devices."""
    ones = [channel.full if held else channel.empty for held in full]
    return np.prod([one if bit else 1 - one for one, bit in zip(ones, bits, strict=True)])


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("devices", [1, 2, 4])
def test_a_union_is_unbiased_and_so_is_its_variance(channel, devices):
    """Exactly: 10**devices slots, full on the same devices, whose bits turn out in every way as
    often as they do on average."""
    for full in product([False, True], repeat=devices):
        ways = list(product([0, 1], repeat=devices))
        chances = [chance_of(bits, full, channel) for bits in ways]
        often = np.round(np.array(chances) * 10**devices).astype(int)
        everywhere = np.repeat([sum(bits) for bits in ways], often)
        assert len(everywhere) == 10**devices
        found = occupancy_of_bitmaps(everywhere, channel, devices)
        assert found.share == pytest.approx(int(any(full)), abs=1e-9)
        alone = [occupancy_of_bitmaps(np.array([sum(bits)]), channel, devices) for bits in ways]
        variance = sum(
            chance * (each.share - any(full)) ** 2
            for chance, each in zip(chances, alone, strict=True)
        )
        assert found.noise * len(everywhere) == pytest.approx(variance, rel=1e-9)


def test_bitmaps_of_one_device_and_a_count_agree():
    """A count is the sum of a bitmap; without noise of its own its estimate is the same."""
    bits = np.arange(500) % 3 // 2
    one = occupancy_of_bitmaps(bits, CHANNELS[0], 1)
    other = occupancy_of_count(float(bits.sum()), CHANNELS[0], 0.0, 500, 1)
    assert one.share == pytest.approx(other.share, rel=1e-12)
    assert one.noise == pytest.approx(other.noise, rel=1e-9)


def one_window(spec, count):
    def run(window, generator):
        keys = drawn(generator, spec, count)
        return released(spec.for_window(window), keys).distinct(), count

    return run


def disjoint(spec, devices, count, combine):
    def run(window, generator):
        parts = np.split(drawn(generator, spec, devices * count), devices)
        here = spec.for_window(window)
        releases = [released(here, part, f"d{i}") for i, part in enumerate(parts)]
        return combine(releases), devices * count

    return run


def overlapping(spec, devices, count, each):
    def run(window, generator):
        keys = drawn(generator, spec, count)
        parts = [generator.choice(keys, each, replace=False) for _ in range(devices)]
        here = spec.for_window(window)
        releases = [released(here, part, f"d{i}") for i, part in enumerate(parts)]
        truth = len(np.unique(np.concatenate(parts)))
        return distinct_keys(releases, "shared"), truth

    return run


def drawn(generator, spec, count):
    if spec.universe is None:
        return generator.integers(0, 1 << 63, count)
    return generator.choice(spec.universe, count, replace=False)


def added(releases):
    return merge(releases).distinct()


# Large enough that no window is refused: the empty share is ten of its standard errors above 0.
CROWDED = hashed(expected_keys=16_384, memory=2048)
CASES = {
    "hashed, half a key a slot": one_window(hashed(), 2048),
    "hashed, one key a slot": one_window(hashed(), 4096),
    "hashed, three keys a slot": one_window(CROWDED, 3 * CROWDED.slots),
    "hashed, a quarter tracked": one_window(hashed(expected_keys=16_384), 20_000),
    "hashed, bitmap": one_window(hashed(4.0, release="bitmap"), 4096),
    "sampled, few": one_window(sampled(), 200),
    "sampled, most": one_window(sampled(), 18_000),
    "sampled, dwork": one_window(sampled(variant="dwork"), 6000),
    "sampled, disjoint counts merged": disjoint(sampled(2.0), 4, 2000, added),
    "sampled, disjoint counts, full": disjoint(sampled(4.0), 4, 4500, distinct_keys),
    "hashed, disjoint counts": disjoint(hashed(), 4, 3000, distinct_keys),
    "hashed, union": overlapping(hashed(4.0, release="bitmap"), 3, 4096, 2000),
    "sampled, union": overlapping(sampled(4.0, release="bitmap"), 3, 9000, 4000),
}


def deviations(run, runs=RUNS):
    generator = np.random.default_rng(11)
    results = [run(window, generator) for window in range(runs)]
    return np.array([(found.value - truth) / found.standard_error for found, truth in results])


def honest(deviations):
    """Return whether their mean square is that of a normal variable with a spread within SPREADS.

    It also tests that as many lie within two standard errors as expected if 93 % do in the long
    run. False alarm: at most ALPHA, by the quantiles of chi-squared and of the binomial.
    """
    total, runs = float(np.sum(deviations**2)), len(deviations)
    low, high = stats.chi2.ppf([ALPHA / 4, 1 - ALPHA / 4], runs) * np.square(SPREADS)
    least = stats.binom.ppf(ALPHA / 2, runs, 0.93)
    return low < total < high and np.sum(np.abs(deviations) <= 2) >= least


@pytest.mark.parametrize("run", CASES.values(), ids=CASES.keys())
def test_errors_are_as_large_as_stated(run):
    assert honest(deviations(run))


@pytest.mark.parametrize("factor", [0.5, 1.6])
def test_errors_that_are_too_small_or_too_large_would_be_noticed(factor):
    """Negative control."""
    assert not honest(deviations(one_window(sampled(), 6000)) * factor)


def test_the_bias_of_second_order_is_taken_off():
    """-slots ln(empty) alone is too high by slots times variance / (2 empty**2), which is
    subtracted. At three keys a slot it is a twentieth of a standard error."""
    spec = CROWDED
    bias = []
    for window in range(20):
        release = released(spec.for_window(window), np.arange(3 * spec.slots))
        empty = 1 - spec.estimator.occupancy(release.counters, 1).share
        found = release.distinct()
        plain = log(empty) / log(1 - 1 / spec.slots)
        # The stated error is half the distance to two standard errors less of the empty share.
        relative = (1 - exp(2 * found.standard_error * log(1 - 1 / spec.slots))) / 2
        expected = -(relative**2) / 2 / log(1 - 1 / spec.slots)
        assert plain - found.value == pytest.approx(expected, rel=1e-6)
        bias.append((plain - found.value) / found.standard_error)
    assert 0.03 < np.mean(bias) < 0.07


@pytest.mark.parametrize("keys", [0, 1000, 4096, 9000])
@pytest.mark.parametrize("spec", [hashed(), sampled(), hashed(4.0, release="bitmap")])
def test_the_planned_error_is_what_a_window_then_has(spec, keys):
    """Each error is within some 10 % of it; the mean of 20 is off by 20 % with probability below
    ALPHA."""
    found = [
        released(spec.for_window(w), drawn(np.random.default_rng(w), spec, keys)).distinct()
        for w in range(20)
    ]
    errors = [each.standard_error for each in found]
    assert np.mean(errors) == pytest.approx(spec.planned_error(keys), rel=0.2)


def test_density_is_a_share_of_the_universe():
    release = released(sampled(), np.arange(5000))
    keys, density = release.distinct(), release.density()
    assert density.value == keys.value / 20_000
    assert density.standard_error == keys.standard_error / 20_000
    with pytest.raises(ValueError, match="open universe has no density"):
        released(hashed(), [1]).density()


def test_negative_estimates_are_given_as_they_are():
    spec = sampled()
    found = release_of(spec, [0]).distinct()
    assert found.value < -found.standard_error


def test_disjoint_keys_add_over_specs_and_windows():
    releases = [
        released(hashed(), np.arange(500)),
        released(hashed().for_window(3), np.arange(700), "e"),
        released(hashed(3.0, memory=256), np.arange(90), "f"),
        released(sampled(), np.arange(4000)),
        merge([released(sampled(3.0, release="bitmap"), [5, 6], device) for device in "gh"]),
    ]
    parts = [release.distinct() for release in releases]
    found = distinct_keys(releases)
    assert found.value == pytest.approx(sum(part.value for part in parts))
    error = sqrt(sum(part.standard_error**2 for part in parts))
    assert found.standard_error == pytest.approx(error)


def test_disjoint_samples_of_one_universe_are_estimated_together():
    """As their merged counts are: the more of one set are in the sample, the fewer of another."""
    parts = [released(sampled(), np.arange(i, 20_000, 4), f"d{i}") for i in range(4)]
    alone = [part.distinct() for part in parts]
    found, merged = distinct_keys(parts), merge(parts).distinct()
    assert found == Estimate(
        pytest.approx(merged.value), pytest.approx(merged.standard_error, rel=1e-2)
    )
    assert found.value == pytest.approx(sum(each.value for each in alone))
    assert found.standard_error < sqrt(sum(each.standard_error**2 for each in alone))


def test_announced_counts_have_no_noise_of_the_output():
    spec = DistinctSpec(key_privacy(2.0, "announced"), universe=4096, memory=512)
    silent = DistinctSpec(key_privacy(4.0), universe=4096, memory=512, output_share=Fraction(1, 2))
    assert spec.chances == silent.chances
    assert spec.planned_error(100) < silent.planned_error(100)
