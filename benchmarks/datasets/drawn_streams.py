"""Streams drawn at random, other ones for each seed, so that no setting is tuned on them.

A stream has one to seven attributes that depend on each other, and 900 to 300,000 readings a
window. Each attribute has a shape from SHAPES. Bounds are up to fifty times as wide as its
readings, at round numbers. Many attributes are rounded, and half of these have a `step` stated.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import poisson

from benchmarks.datasets.small_streams import FloatArray, Stream
from pansketch import Attribute, Domain

MOST_ATTRIBUTES, FLEETS, WINDOWS = 7, (3, 10, 30), (300, 1000, 3000, 10_000)
LOOSE = (1.0, 1.2, 3.0, 10.0, 50.0)  # times as wide as the readings
ROUNDED, STATED = 0.6, 0.5  # shares of attributes that are rounded, and of these with a `step`
POINTS = 8  # of a step, between which readings are at least
EDGE = 1e-9  # of ranks: no nearer to 0 and 1
COUNTED = ("counts", "runs")

Shape = Callable[[np.random.Generator, FloatArray], FloatArray]
"""(draws, ranks in the unit interval float64[n]) -> readings float64[n]"""


def streams(seed: int, many: int) -> list[Stream]:
    """The same for the same seed."""
    return [_stream(seed, number) for number in range(many)]


def _stream(seed: int, number: int) -> Stream:
    domain, fleet = _drawn(seed, number)
    shape = f"{domain.dimension} attributes, {len(fleet)} devices of {len(fleet[0]):,}"
    return Stream(f"drawn {seed}-{number}, {shape}", domain, partial(_devices, seed, number))


def _devices(seed: int, number: int) -> tuple[FloatArray, ...]:
    return _drawn(seed, number)[1]


@lru_cache(maxsize=1)
def _drawn(seed: int, number: int) -> tuple[Domain, tuple[FloatArray, ...]]:
    rng = np.random.default_rng([seed, number])
    dimension = int(rng.integers(1, MOST_ATTRIBUTES + 1))
    devices, window = int(rng.choice(FLEETS)), int(rng.choice(WINDOWS))
    attributes, columns = [], []
    for name, ranks in zip("abcdefg", _dependent(rng, devices * window, dimension).T, strict=False):
        shape = str(rng.choice(list(SHAPES)))
        attribute, column = _within_bounds(rng, name, SHAPES[shape](rng, ranks), shape in COUNTED)
        attributes.append(attribute)
        columns.append(column)
    return Domain(attributes), tuple(np.array_split(np.stack(columns, axis=1), devices))


def _dependent(rng: np.random.Generator, many: int, dimension: int) -> FloatArray:
    """Ranks by a Gaussian copula of one or two factors: float64[many, dimension]."""
    factors = int(rng.integers(1, 3))
    loads = rng.standard_normal((factors, dimension)) * rng.choice([0.0, 0.5, 1.0, 3.0], dimension)
    scores = rng.standard_normal((many, factors)) @ loads + rng.standard_normal((many, dimension))
    return np.asarray(ndtr(scores / np.sqrt(1 + (loads**2).sum(axis=0))))


def _within_bounds(
    rng: np.random.Generator, name: str, readings: FloatArray, counted: bool
) -> tuple[Attribute, FloatArray]:
    """An attribute as an operator may state it, and the readings, rounded or not."""
    first, last = float(readings.min()), float(readings.max())
    loose = float(rng.choice(LOOSE))
    wide = max((last - first) * loose, 1e-3)
    low = 0.0 if first >= 0 and rng.random() < 0.6 else first - rng.random() * (wide - last + first)
    wide = max(wide, last - low)
    round_number = 10.0 ** np.floor(np.log10(wide))
    low = float(np.floor(10 * low / round_number) * round_number / 10)
    high = low + float(np.ceil(2 * wide / round_number) * round_number / 2)
    while high <= last:
        high += round_number / 2
    step = 1.0 if counted else 10.0 ** float(rng.integers(-3, 2))
    rounded = counted or (rng.random() < ROUNDED and step * POINTS < last - first)
    stated = rounded and rng.random() < STATED and step * POINTS < high - low
    if rounded:
        readings = np.round(readings / step) * step
    attribute = Attribute(name, low=low, high=high, step=step if stated else None)
    return attribute, np.clip(readings, low, high)


def _normal(ranks: FloatArray) -> FloatArray:
    return np.asarray(ndtri(np.clip(ranks, EDGE, 1 - EDGE)))


def _exponential(ranks: FloatArray) -> FloatArray:
    return -np.log(np.maximum(1 - ranks, EDGE))


def _lumps(rng: np.random.Generator, ranks: FloatArray) -> FloatArray:
    centres = np.sort(rng.uniform(0, 100, 12))
    chosen = centres[np.minimum((12 * ranks).astype(np.intp), 11)]
    return np.asarray(chosen + 0.3 * rng.standard_normal(len(ranks)))


def _zeros(rng: np.random.Generator, ranks: FloatArray) -> FloatArray:
    none = rng.uniform(0.3, 0.95)
    return np.where(ranks < none, 0.0, 5 * np.exp(_normal((ranks - none) / (1 - none))))


def _levels(rng: np.random.Generator, ranks: FloatArray) -> FloatArray:
    chosen = rng.permutation(8)[np.minimum((8 * ranks**2).astype(np.intp), 7)]
    return np.asarray(12.5 * chosen, np.float64)


def _faults(rng: np.random.Generator, ranks: FloatArray) -> FloatArray:
    faulty = rng.random(len(ranks)) < rng.uniform(0.001, 0.03)
    return np.where(faulty, rng.choice([0.0, 200.0]), 80 + 4 * _normal(ranks))


def _heaped(rng: np.random.Generator, ranks: FloatArray) -> FloatArray:
    """People prefer multiples of five."""
    told = np.exp(3 + 0.8 * _normal(ranks))
    return np.where(rng.random(len(ranks)) < 0.6, 5 * np.round(told / 5), np.round(told))


SHAPES: dict[str, Shape] = {
    "normal": lambda _, ranks: 20 + 5 * _normal(ranks),
    "narrow": lambda _, ranks: 50 + 0.05 * _normal(ranks),
    "lognormal": lambda rng, ranks: np.exp(2 + rng.uniform(0.5, 1.5) * _normal(ranks)),
    "pareto": lambda rng, ranks: 10 * np.exp(_exponential(ranks) / rng.uniform(1.3, 3)),
    "exponential": lambda _, ranks: 30 * _exponential(ranks),
    "arcsine": lambda _, ranks: 50 - 50 * np.cos(np.pi * ranks),
    "uniform": lambda _, ranks: 100 * ranks,
    "two peaks": lambda _, ranks: np.where(
        ranks < 0.7, 10 + _normal(ranks / 0.7), 40 + 3 * _normal((ranks - 0.7) / 0.3)
    ),
    "lumps": _lumps,
    "zeros": _zeros,
    "counts": lambda rng, ranks: poisson.ppf(np.minimum(ranks, 1 - EDGE), rng.uniform(0.5, 20)),
    "runs": lambda _, ranks: np.floor(_exponential(ranks) / 0.22),
    "levels": _levels,
    "faults": _faults,
    "heaped": _heaped,
    "clipped": lambda _, ranks: np.clip(60 + 25 * _normal(ranks), 0, 100),
}
