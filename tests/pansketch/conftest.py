"""Driven sources of noise and a spec of every family, for the library's tests."""

from fractions import Fraction

import numpy as np
import pytest

from pansketch import Attribute, Domain, HierarchySpec, Privacy


class NoNoise:
    """An `Entropy` that adds nothing, so that a test sees what the construction itself does."""

    def __init__(self):
        self.named = 0

    def add_discrete_laplace(self, scale, counters):
        assert scale > 0

    def identifier(self):
        self.named += 1
        return self.named


class KnownNoise(NoNoise):
    """An `Entropy` that adds a fixed pseudo-random tape and remembers it."""

    def __init__(self, seed):
        super().__init__()
        self._generator = np.random.default_rng(seed)
        self.draws: list[tuple[Fraction, np.ndarray]] = []

    def add_discrete_laplace(self, scale, counters):
        drawn = self._generator.integers(-50, 50, len(counters)).astype(counters.dtype)
        self.draws.append((scale, drawn))
        counters += drawn


@pytest.fixture
def no_noise():
    return NoNoise()


@pytest.fixture
def known_noise():
    return KnownNoise


@pytest.fixture
def weather():
    return Domain(
        [
            Attribute("temp", low=-40, high=60, unit="degC"),
            Attribute("pm25", low=0, high=1000, unit="ug/m3", scale="log"),
        ]
    )


@pytest.fixture
def make_spec(weather):
    """A small hierarchy with exact and sketched levels; keyword arguments override its sizes."""

    def make(**changes):
        sizes = {"depth": 12, "k": 16, "width": 64, "rows": 2, "fanout": 4} | changes
        domain = sizes.pop("domain", weather)
        privacy = sizes.pop("privacy", Privacy(epsilon=1.0))
        return HierarchySpec(domain, privacy, **sizes)

    return make


@pytest.fixture
def readings():
    """Readings inside the weather domain: float64[n, 2]."""

    def draw(count, seed=0):
        generator = np.random.default_rng(seed)
        return np.column_stack(
            [generator.normal(12, 9, count), np.exp(generator.normal(4, 0.8, count))]
        )

    return draw
