"""Records drawn from the weighted points of a moment sketch."""

import numpy as np
import pytest

from pansketch import Attribute, Domain, MomentsSpec, Privacy
from pansketch.generators import EmptyModel, m2m
from pansketch.generators.moments.training_points import WeightedPoints
from tests.seeded_noise import noise_of_test

DOMAIN = Domain([Attribute("temp", -40, 60), Attribute("wind", categories=("calm", "north"))])
PRIVACY = Privacy(100, unit="reading", intrusion="announced")


def model_of(rows, **sizes):
    sketch = MomentsSpec(DOMAIN, PRIVACY, **sizes).start(noise_of_test())
    sketch.update_many(rows)
    return m2m(sketch.release(noise_of_test()), points=4000)


def test_weights_are_the_nearest_that_are_not_negative_and_keep_their_sum():
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.normal(15, 8, 5000), rng.integers(0, 2, 5000)])
    model = model_of(rows)
    raw, found = model.weights(), model.sampler()
    assert raw.min() < 0 <= found.weights.min()
    assert found.weights.sum() == pytest.approx(len(raw), rel=1e-9)
    kept = found.weights > 0
    shift = raw[kept] - found.weights[kept]
    assert np.ptp(shift) < 1e-9  # what is kept is lowered by one number,
    assert raw[~kept].max() <= shift[0] + 1e-9  # and nothing above it is dropped
    assert found.points is model.rows


def test_points_come_up_as_often_as_they_weigh():
    """Of n draws each point's number is binomial: six standard deviations, four points, so that a
    right sampler fails with probability below 1e-8."""
    shares = np.array([0.5, 0.0, 0.3, 0.2])
    points = np.arange(8.0).reshape(4, 2)
    drawn = WeightedPoints(points, 4 * shares).sample(100_000, np.random.default_rng())
    counts = np.array([(drawn == point).all(axis=1).sum() for point in points])
    assert counts.sum() == 100_000
    limits = 6 * np.sqrt(100_000 * shares * (1 - shares))
    assert np.all(np.abs(counts - 100_000 * shares) <= limits)
    # The control: even weights would be seen.
    assert abs(counts[0] - 25_000) > limits[0]


def test_samples_lie_in_the_domain_and_near_the_readings():
    """At epsilon 100 noise is nothing; features leave the mean within a tenth of the range."""
    rows = np.column_stack([np.full(5000, 30.0), np.ones(5000)])
    drawn = model_of(rows).sampler().sample(20_000, np.random.default_rng(2))
    assert drawn.min(axis=0)[0] >= -40
    assert drawn.max(axis=0)[0] <= 60
    assert set(np.unique(drawn[:, 1])) <= {0.0, 1.0}
    assert abs(drawn[:, 0].mean() - 30) < 10
    assert drawn[:, 1].mean() > 0.75


def test_no_record_is_generated():
    spec = MomentsSpec(DOMAIN, Privacy(0.001, unit="reading", intrusion="announced"))
    # The noisy number of no readings is below zero every other time: one of 60 is.
    released = (spec.start(noise_of_test()).release(noise_of_test()) for _ in range(60))
    model = m2m(next(each for each in released if each.counters[0] < 0), points=1000)
    with pytest.raises(EmptyModel):
        model.sampler()
    with pytest.raises(ValueError, match="negative"):
        WeightedPoints(np.zeros((1, 2)), np.ones(1)).sample(-1, np.random.default_rng())
    assert WeightedPoints(np.zeros((1, 2)), np.ones(1)).sample(
        0, np.random.default_rng()
    ).shape == (0, 2)
