"""How often two standard errors of a stream's answers cover the truth, over repeated fleets."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from benchmarks.datasets.small_streams import FloatArray, Stream
from pansketch.generators import FittedModel, TooFewReadings

KINDS = ("mean", "quantile", "cdf", "share", "variance", "count", "covariance")
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)  # of readings below a quantile, or below where a cdf is asked
MIDDLE = (0.2, 0.6)  # Readings between these quantiles have a share; of two attributes, a count.

Answer = tuple[float, float]
"""A value and its standard error."""


class Question(NamedTuple):
    """`truth`: of the readings that are complete. `ask`: the answer of a model."""

    kind: str
    truth: float
    ask: Callable[[FittedModel], Answer]


def questions(stream: Stream, rows: FloatArray, windows: int = 1) -> list[Question]:
    """Of a stream's attributes, one by one and in pairs. `rows`: its complete readings, which each
    of so many windows has."""
    return [*_alone(stream, rows), *_together(stream, rows, windows)]


def held(model: FittedModel, asked: Sequence[Question]) -> dict[str, tuple[int, int]]:
    """By kind: how many answers were within two standard errors, and how many were given."""
    counts = dict.fromkeys(KINDS, (0, 0))
    for kind, truth, ask in asked:
        try:
            value, error = ask(model)
        except TooFewReadings:  # A refused answer claims nothing.
            continue
        within, given = counts[kind]
        counts[kind] = within + (abs(value - truth) <= 2 * error), given + 1
    return counts


def _alone(stream: Stream, rows: FloatArray) -> Iterator[Question]:
    for place, attribute in enumerate(stream.domain.attributes):
        column, name = rows[:, place], attribute.name
        yield Question("mean", float(column.mean()), partial(_mean, name=name))
        for share in SHARES:
            at = float(np.quantile(column, share))
            yield Question("quantile", at, partial(_quantile, name=name, share=share))
            x = at + (attribute.step or 0.0) / 2  # between values, so that there are no ties
            yield Question("cdf", float((column <= x).mean()), partial(_cdf, name=name, x=x))
        low, high = _middle(stream, rows, place)
        truth = float(((column >= low) & (column <= high)).mean())
        yield Question("share", truth, partial(_share, wanted={name: (low, high)}))
        yield Question("variance", float(column.var()), partial(_variance, name=name))


def _middle(stream: Stream, rows: FloatArray, place: int) -> tuple[float, float]:
    half = (stream.domain.attributes[place].step or 0.0) / 2
    low, high = np.quantile(rows[:, place], MIDDLE) + half
    return float(low), float(high)


def _together(stream: Stream, rows: FloatArray, windows: int) -> Iterator[Question]:
    attributes = stream.domain.attributes
    for a, b in combinations(range(len(attributes)), 2):
        wanted, inside = {}, np.ones(len(rows), np.bool_)
        for place in (a, b):
            low, high = _middle(stream, rows, place)
            inside &= (rows[:, place] >= low) & (rows[:, place] <= high)
            wanted[attributes[place].name] = (low, high)
        yield Question("count", float(windows * inside.sum()), partial(_count, wanted=wanted))
        truth = float(np.cov(rows[:, a], rows[:, b], bias=True)[0, 1])
        yield Question("covariance", truth, partial(_covariance, names=tuple(wanted)))


def _mean(model: FittedModel, name: str) -> Answer:
    found = model.mean(name)
    return found.value, found.standard_error


def _quantile(model: FittedModel, name: str, share: float) -> Answer:
    found = model.quantile(name, share)
    return found.value, found.standard_error


def _cdf(model: FittedModel, name: str, x: float) -> Answer:
    found = model.cdf(name, x)
    return found.value, found.standard_error


def _count(model: FittedModel, wanted: dict[str, tuple[float, float]]) -> Answer:
    found = model.count(wanted)
    return found.value, found.standard_error


def _share(model: FittedModel, wanted: dict[str, tuple[float, float]]) -> Answer:
    found = model.share(wanted)
    return found.value, found.standard_error


def _variance(model: FittedModel, name: str) -> Answer:
    found = model.covariance((name,))
    return float(found.value[0, 0]), float(found.standard_error[0, 0])


def _covariance(model: FittedModel, names: tuple[str, ...]) -> Answer:
    found = model.covariance(names)
    return float(found.value[0, 1]), float(found.standard_error[0, 1])
