"""Moment releases, training readings and their features, for the tests of M2M."""

import numpy as np

from pansketch import (
    Attribute,
    Domain,
    MomentsSpec,
    Privacy,
    Release,
    WindowId,
)
from pansketch.generators import Training
from pansketch.generators.moments.training_points import uniform
from pansketch_audit.mechanisms.zero_noise import NoNoise
from tests.seeded_noise import noise_of_test

SQUARE = Domain([Attribute("a", low=0, high=1), Attribute("b", low=0, high=1)])
STATION = Domain(
    [
        Attribute("temp", low=-40, high=60),
        Attribute("pm25", low=0, high=1000, scale="log"),
        Attribute("wind", categories=("N", "E", "S")),
    ]
)
SMALL = {"rff": {"m": 60, "sigma": 0.5}, "race": {"rows": 12, "width": 24}, "hist": {"bins": 20}}


def spec_of(features, domain=SQUARE, epsilon=1.0, **sizes):
    return MomentsSpec(domain, Privacy(epsilon=epsilon), features, **(SMALL[features] | sizes))


def training_of(spec, points=8000, **choice):
    rows = uniform(spec.domain, points, np.random.default_rng(3))
    return Training(spec, rows, **choice)


def released(spec, rows, sequence=1):
    sketch = spec.start(noise_of_test())
    sketch.update_many(rows)
    return sketch.release(noise_of_test(), WindowId("d", "s", sequence))


def noiseless(spec, rows):
    """The exact sums, declared to hold no noise."""
    sketch = spec.start(NoNoise())
    sketch.update_many(rows)
    exact = sketch.release(NoNoise())
    return Release(spec, exact.windows, 0, exact.counters.copy())


def clusters(count, seed, domain=SQUARE):
    """Four heaps of readings: nothing like the training's even spread."""
    generator = np.random.default_rng(seed)
    centres = generator.random((4, domain.dimension))
    points = centres[generator.integers(0, 4, count)]
    return np.clip(points + generator.normal(0, 0.05, points.shape), 0, 1)


def even(count, seed):
    return np.random.default_rng(seed).random((count, 2))


def station(count, seed=0):
    generator = np.random.default_rng(seed)
    wind = generator.choice(3, count, p=[0.6, 0.3, 0.1])
    return np.column_stack([generator.normal(12, 9, count), generator.exponential(50, count), wind])


def variance(scale):
    return 1 / (2 * np.sinh(0.5 / float(scale)) ** 2)
