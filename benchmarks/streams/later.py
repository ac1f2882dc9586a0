"""Streams that were made after the code that is measured on them: nothing was tuned on them.

Once a constant is changed for one of them, it belongs into another module and others take its
place. All readings are synthetic, from a fixed seed.
"""

from functools import partial

import numpy as np

from benchmarks.datasets.small_streams import FloatArray, Stream
from benchmarks.streams.machines import devices
from pansketch import Attribute, Domain

DAY = 1440  # minutes

BICYCLES = Domain(
    [
        Attribute("start", low=0, high=DAY, unit="min", step=1),
        Attribute("duration", low=0, high=86_400, unit="s", step=1),
        Attribute("distance", low=0, high=100_000, unit="m", step=10),
        Attribute("age", low=0, high=120, step=1),
    ]
)
TILLS = Domain(
    [
        Attribute("minute", low=0, high=DAY, unit="min", step=1),
        Attribute("amount", low=0, high=5000, unit="EUR", step=0.01),
        Attribute("articles", low=0, high=500, step=1),
        Attribute("discount", low=0, high=100, unit="%", step=1),
    ]
)
TIDES = Domain(
    [
        Attribute("level", low=-20, high=20, unit="m", step=0.01),
        Attribute("wave", low=0, high=30, unit="m"),
        Attribute("wind", low=0, high=75, unit="m/s", step=0.1),
        Attribute("pressure", low=850, high=1100, unit="hPa", step=0.1),
    ]
)


def _bicycles(rng: np.random.Generator) -> FloatArray:
    """Hires of a station in a month. Commuters ride at two hours of the day, a tenth of all hires
    end where they began, and a few bicycles are not returned for hours."""
    many = 3500
    commutes = rng.random(many) < 0.55
    hour = np.where(rng.random(many) < 0.5, 8.2, 17.4) + 0.6 * rng.standard_normal(many)
    start = 60 * np.where(commutes, hour, 9 + 12 * rng.beta(2, 2, many))
    metres = np.exp(np.where(commutes, 8.0, 7.6) + 0.5 * rng.standard_normal(many))
    speed = np.where(commutes, 4.6, 3.1) * np.exp(0.2 * rng.standard_normal(many))
    duration = 60 + metres / speed
    kept = rng.random(many) < 0.02
    duration = np.where(kept, 3600 * (1 + rng.pareto(1.2, many)), duration)
    distance = np.where(rng.random(many) < 0.1, 0.0, metres)
    age = np.where(rng.random(many) < 0.08, 30, 16 + 60 * rng.beta(1.6, 3, many))
    return np.stack([start, duration, distance, age], axis=1)


def _tills(rng: np.random.Generator) -> FloatArray:
    """Receipts of a shop in a week: prices end in 99 cents, and few customers have a discount."""
    many = 2800
    articles = 1 + rng.negative_binomial(1, 0.12, many)
    price = np.floor(np.exp(0.9 + 0.7 * rng.standard_normal(many))) + 0.99
    amount = articles * price * np.where(articles > 1, rng.uniform(0.8, 1.2, many), 1.0)
    discount = np.where(rng.random(many) < 0.12, rng.choice([5, 10, 20, 50], many), 0)
    hour = np.where(rng.random(many) < 0.4, 17.5, 11) + 1.7 * rng.standard_normal(many)
    minute = 60 * np.clip(hour, 7, 21)
    return np.stack([minute, amount * (1 - discount / 100), articles, discount], axis=1)


def _tides(rng: np.random.Generator) -> FloatArray:
    """A month of a gauge every fifteen minutes, with one storm."""
    hours = np.arange(2880) / 4
    phase = rng.uniform(0, 2 * np.pi, 2)
    spring = 1 + 0.4 * np.cos(2 * np.pi * hours / 354 + phase[0])
    storm = np.exp(-(((hours - rng.uniform(100, 600)) / 14) ** 2))
    wind = 6 * rng.weibull(1.9, len(hours)) + 22 * storm
    pressure = 1013 - 42 * storm + 6 * np.sin(hours / 60) + 0.5 * rng.standard_normal(len(hours))
    tide = 2.1 * spring * np.sin(2 * np.pi * hours / 12.42 + phase[1])
    level = tide + 1.4 * storm + 0.04 * rng.standard_normal(len(hours))
    wave = 0.02 * wind**1.6 * np.exp(0.25 * rng.standard_normal(len(hours)))
    return np.stack([level, wave, wind, pressure], axis=1)


LATER = (
    Stream("later: bicycles", BICYCLES, partial(devices, BICYCLES, 4, _bicycles)),
    Stream("later: tills", TILLS, partial(devices, TILLS, 5, _tills)),
    Stream("later: tides", TIDES, partial(devices, TIDES, 6, _tides)),
)
