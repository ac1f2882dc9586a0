"""Protection of a reading in moment sketches: sensitivity, noise, and the exact loss."""

from fractions import Fraction
from math import pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pansketch import MomentsSpec, Privacy, Release, Span, WindowId, encode
from pansketch.sketches.moments.projections import ANGLE_BITS, ONE, circle
from pansketch_audit.exact.readings import largest_loss
from pansketch_audit.mechanisms.mechanism import (
    PRODUCTION,
    Mechanism,
    claim,
    publish,
    views_of,
)
from pansketch_audit.mechanisms.subjects import Subject
from pansketch_audit.mechanisms.zero_noise import NoNoise
from tests.pansketch.sketches.moments.specs import SIZES, UNIT, counters_of, readings, spec_of

any_reading = arrays.arrays(
    np.float64, 3, elements=st.floats(-1e6, 1e6) | st.sampled_from([-40, 0, 1, 2, 60, 1000])
)


@given(reading=any_reading, features=st.sampled_from(list(SIZES)), key=st.integers(0, 99))
def test_no_reading_moves_the_counters_further_than_the_declared_sensitivity(
    reading, features, key
):
    spec = spec_of(features, hash_key=key)
    number, *sums = counters_of(spec, [reading], NoNoise()).tolist()
    assert number == 1
    assert sum(map(abs, sums)) <= spec.map.sensitivity


def test_the_sensitivity_of_every_angle_is_known_by_looking_at_all_of_them():
    cosines, sines = circle()
    largest = int((np.abs(cosines) + np.abs(sines)).max())
    assert spec_of("rff", m=20).map.sensitivity == 10 * largest
    # A step for the rounding of both, and no more: sqrt(2) is what real features would have.
    assert sqrt(2) * ONE <= largest <= sqrt(2) * ONE + 1


def test_the_declared_sensitivity_is_reached(no_noise):
    for features in ("race", "hist"):
        spec = spec_of(features)
        sums = counters_of(spec, readings(1), no_noise)[1:]
        assert np.abs(sums).sum() == spec.map.sensitivity


def test_the_table_of_the_circle_rounds_alike_on_all_platforms():
    """No entry is so near the middle of two steps that a last digit could decide."""
    angles = (np.arange(1 << ANGLE_BITS) + 0.5) * 2 * pi / (1 << ANGLE_BITS)
    for table, function in zip(circle(), (np.cos, np.sin), strict=True):
        exact = ONE * function(angles)
        assert (np.rint(exact) == table).all()
        assert np.abs(np.abs(exact - np.floor(exact)) - 0.5).min() > 2**-19


def test_scales_spend_the_budget_exactly(spec):
    number, features = spec.scales
    assert 1 / number + spec.map.sensitivity / features == 1
    assert 1 / number == Fraction(1, 50)


def test_a_span_is_protected_by_what_its_readings_share():
    span = spec_of("hist", privacy=Privacy(epsilon=1.0, unit=Span(60, 4)))
    assert span.scales == tuple(4 * scale for scale in spec_of("hist").scales)
    assert span.guarantee.reading_micro == 250_000


@pytest.mark.parametrize(("intrusion", "times"), [("silent", 2), ("announced", 1)])
def test_every_counter_gets_its_noise_at_the_start_and_in_silent_mode_at_the_release(
    intrusion, times, known_noise, no_noise
):
    spec = spec_of("rff", privacy=Privacy(epsilon=1.0, intrusion=intrusion))
    entropy = known_noise(1)
    noisy = counters_of(spec, readings(9), entropy)
    assert [scale for scale, _ in entropy.draws] == [*spec.scales] * times
    drawn = sum(
        np.concatenate([draws for _, draws in entropy.draws[2 * time : 2 * time + 2]])
        for time in range(times)
    )
    assert (noisy - drawn == counters_of(spec, readings(9), no_noise)).all()


def test_an_announced_intrusion_draws_once_more(spec, known_noise):
    entropy = known_noise(1)
    sketch = spec.start(entropy)
    sketch.rerandomise(entropy)
    assert sketch.release(entropy).draws == 3
    assert len(entropy.draws) == 6


class Halved:
    """An `Entropy` that draws half the noise that was asked for."""

    def __init__(self, entropy):
        self._entropy = entropy

    def add_discrete_laplace(self, scale, counters):
        self._entropy.add_discrete_laplace(scale / 2, counters)

    def identifier(self):
        return self._entropy.identifier()


def two_bins(intrusion):
    privacy = Privacy(epsilon=1.0, intrusion=intrusion)
    spec = MomentsSpec(UNIT, privacy, features="hist", bins=2, count_share=0.25)
    return Subject("moments", spec, np.array([[0.25], [0.75]]), lambda sketch: sketch._counters)


@pytest.mark.parametrize("intrusion", ["silent", "announced"])
def test_the_exact_loss_of_snapshot_and_release_is_epsilon(intrusion):
    """Over every neighbouring pair and moment of the snapshot. With few draws, tapes of more than
    one size are run, and the ratio is the same over all of them."""
    subject = two_bins(intrusion)
    for view in views_of(subject):
        reach = 1 if view in ("terminal", "published") else 0
        loss = largest_loss(PRODUCTION, subject, view, reach)
        assert loss.exact
        assert loss.value == pytest.approx(float(claim(subject, view)), abs=1e-12)


def test_half_the_noise_is_found_out():
    subject = two_bins("announced")
    halved = Mechanism(lambda spec, rng: spec.start(Halved(rng)), publish)
    loss = largest_loss(halved, subject, "published", reach=1)
    assert loss.value == pytest.approx(2.0, abs=1e-12)


def test_a_release_with_very_many_readings_still_fits_its_bound(spec):
    counters = np.full(sum(spec.blocks), spec.map.one << 32, np.int64)
    counters[::2] *= -1
    release = Release(spec, (WindowId("d", "s", 1),), 2, counters)
    assert len(encode(release)) <= spec.max_release_nbytes
