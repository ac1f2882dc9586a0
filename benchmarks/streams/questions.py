"""Questions to a model of a stream, whose true answers are known: drawn at random, of one attribute
and of two.

A pair of attributes in no view has no answer but what its margins allow. Its error is a bound, so
its kinds have names of their own.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import combinations
from itertools import pairwise as pairwise_of
from typing import NamedTuple

import numpy as np

from benchmarks.datasets.small_streams import FloatArray, Stream
from pansketch import Attribute, Estimate
from pansketch.generators import Estimates, FittedModel

ALONE = ("mean", "quantile", "cdf", "share", "variance", "histogram")
TOGETHER = ("count", "density", "covariance")
BOUND = "bound on a "  # before the kind of a pair in no view
AGAIN = 4  # quantiles, cdf and shares each, asked of an attribute; and counts of a pair
PAIRS = 4  # of which a fleet is asked
BINS = 12

Found = Estimate | Estimates


class Question(NamedTuple):
    """`truth`: of the readings, a number or an array. `scale`: of them, in the same unit. `ask`:
    the answer of a model."""

    kind: str
    truth: float | FloatArray
    scale: float | FloatArray
    ask: Callable[[FittedModel], Found]


def alone(stream: Stream, rows: FloatArray, rng: np.random.Generator) -> Iterator[Question]:
    """Of one attribute, drawn at random, at random values."""
    place = int(rng.integers(stream.domain.dimension))
    attribute, column = stream.domain.attributes[place], rows[:, place]
    name, there = attribute.name, column[np.isfinite(column)]
    if attribute.categories is not None:
        for code, category in enumerate(attribute.categories):
            truth = float((column == code).mean())
            yield Question("share", truth, 1.0, partial(_share, wanted={name: category}))
        return
    for _ in range(AGAIN):
        low, high = _between(attribute, there, rng)
        truth = float(((column >= low) & (column <= high)).mean())
        yield Question("share", truth, 1.0, partial(_share, wanted={name: (low, high)}))
    if attribute.cyclic:
        return
    spread = float(there.std())
    yield Question("mean", float(there.mean()), spread, partial(_mean, name=name))
    yield Question("variance", spread**2, spread**2, partial(_variance, name=name))
    for share in rng.uniform(0.03, 0.97, AGAIN).tolist():
        at = float(np.quantile(there, share, method="inverted_cdf"))
        yield Question("quantile", at, spread, partial(_quantile, name=name, share=share))
        x = _off(attribute, at)
        yield Question("cdf", float((there <= x).mean()), 1.0, partial(_cdf, name=name, x=x))
    texts, inside = _bins(attribute, there, column, rng)
    yield Question("histogram", inside.mean(axis=1), 1.0, partial(_histogram, bins=[texts]))


def together(
    stream: Stream,
    rows: FloatArray,
    windows: int,
    rng: np.random.Generator,
    viewed: Collection[tuple[str, str]] | None = None,
) -> Iterator[Question]:
    """Of pairs of attributes that are numbers; their covariances all at once. `viewed`: the pairs
    that a view has, names in order; None: all are."""
    domain = stream.domain
    numbers = [domain.index(name) for name in domain.numbers]
    pairs = list(combinations(numbers, 2))

    def kind(name: str, pair: tuple[int, int]) -> str:
        names = tuple(sorted(domain.names[n] for n in pair))
        return name if viewed is None or names in viewed else BOUND + name

    for pick in rng.permutation(len(pairs))[:PAIRS]:
        pair, bins, both = pairs[pick], [], []
        for _ in range(AGAIN):  # The model of a pair is made once, and many counts cost little.
            inside = np.ones(len(rows), np.bool_)
            wanted: dict[str, tuple[float, float] | str] = {}
            for place in pair:
                attribute, column = domain.attributes[place], rows[:, place]
                low, high = _between(attribute, column[np.isfinite(column)], rng)
                inside &= (column >= low) & (column <= high)
                wanted[attribute.name] = (low, high)
            many, count = float(windows * len(rows)), windows * float(inside.sum())
            yield Question(kind("count", pair), count, many, partial(_count, wanted=wanted))
        for place in pair:
            attribute, column = domain.attributes[place], rows[:, place]
            texts, found = _bins(attribute, column[np.isfinite(column)], column, rng)
            bins.append(texts)
            both.append(found.astype(np.float64))
        shares = both[0] @ both[1].T / len(rows)
        yield Question(kind("density", pair), shares, 1.0, partial(_histogram, bins=bins))
    names = tuple(domain.names[n] for n in numbers)
    for name in dict.fromkeys(kind("covariance", pair) for pair in pairs):
        alike = [pair for pair in pairs if kind("covariance", pair) == name]
        truth, scale = np.array([_covariance_of(rows[:, pair]) for pair in alike]).T
        places = [(numbers.index(a), numbers.index(b)) for a, b in alike]
        ask = partial(_covariances, names=names, places=places)
        yield Question(name, truth, scale, ask)


def _covariance_of(rows: FloatArray) -> tuple[float, float]:
    """The covariance of two attributes, where neither is missing, and the product of deviations."""
    both = np.cov(rows[np.isfinite(rows).all(axis=1)].T, bias=True)
    return float(both[0, 1]), float(np.sqrt(both[0, 0] * both[1, 1]))


def _off(attribute: Attribute, value: float) -> float:
    """Between values, so that there are no ties."""
    return value + (attribute.step or 0.0) / 2


def _between(
    attribute: Attribute, there: FloatArray, rng: np.random.Generator
) -> tuple[float, float]:
    ends = np.sort(rng.uniform(0, 1, 2))
    low, high = (_off(attribute, float(each)) for each in np.quantile(there, ends))
    return low, high


def _bins(
    attribute: Attribute, there: FloatArray, column: FloatArray, rng: np.random.Generator
) -> tuple[list[str], FloatArray]:
    """Bins of equal width over nearly all readings, and which readings each has: [bins, n]."""
    low, high = np.quantile(there, (rng.uniform(0, 0.02), rng.uniform(0.98, 1)))
    edges = [_off(attribute, each) for each in np.linspace(low, high, BINS + 1).tolist()]
    name, ends = attribute.name, list(pairwise_of(edges))
    texts = [f"{name} >= {start!r} & {name} < {end!r}" for start, end in ends]
    return texts, np.stack([(column >= start) & (column < end) for start, end in ends])


def _mean(model: FittedModel, name: str) -> Found:
    return model.mean(name)


def _quantile(model: FittedModel, name: str, share: float) -> Found:
    return model.quantile(name, share)


def _cdf(model: FittedModel, name: str, x: float) -> Found:
    return model.cdf(name, x)


def _count(model: FittedModel, wanted: dict[str, tuple[float, float] | str]) -> Found:
    return model.count(wanted)


def _share(model: FittedModel, wanted: dict[str, tuple[float, float] | str]) -> Found:
    return model.share(wanted)


def _histogram(model: FittedModel, bins: list[list[str]]) -> Found:
    return model.bin_shares(bins)


def _variance(model: FittedModel, name: str) -> Found:
    return model.covariance((name,))[0, 0]


def _covariances(
    model: FittedModel, names: tuple[str, ...], places: list[tuple[int, int]]
) -> Found:
    found = model.covariance(names)
    first, second = np.array(places).T
    return Estimates(found.value[first, second], found.standard_error[first, second])
