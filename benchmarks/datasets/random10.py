"""Random10: 27,000 readings of ten attributes spread evenly over [0, 1), asked by M2M.

A trial draws readings and sums their features; the noise of every epsilon is added to the same
sums. Functions are compared with a map's features once, for all trials.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from pansketch import Attribute, Domain, MomentsSpec, Privacy, Release, WindowId, os_entropy
from pansketch.generators import EmptyModel, Training, m2m
from pansketch.generators.moments.design_matrix import Values
from pansketch.generators.moments.marginal import Column, Marginal
from pansketch.generators.moments.ridge import Means, PublishedRidge
from pansketch.generators.moments.training_points import Along, uniform
from pansketch.sketches import Features
from pansketch_audit.mechanisms.zero_noise import NoNoise

READINGS, DIMENSION = 27_000, 10
THRESHOLDS = (np.arange(20) + 0.5) / 20
QUERIES = 50
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
RIDGES: tuple[PublishedRidge | None, ...] = (None, "theorem1")
DOMAIN = Domain([Attribute(f"a{place}", low=0, high=1) for place in range(DIMENSION)])

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Way:
    """Features, and how a release of them is read: by a published ridge, or as the product does."""

    name: str
    spec: MomentsSpec
    ridge: PublishedRidge | None

    @property
    def as_published(self) -> bool:
        return self.ridge is not None

    def at(self, epsilon: float) -> MomentsSpec:
        return replace(self.spec, privacy=Privacy(epsilon, intrusion="announced"))


def ways(**sizes: Any) -> list[Way]:
    """Every map, read as published and as the product does."""
    specs = {
        name.upper(): MomentsSpec(DOMAIN, Privacy(1.0), name, **sizes)
        for name in get_args(Features)
    }
    return [
        Way(f"{name}{', as published' if ridge else ''}", spec, ridge)
        for name, spec in specs.items()
        for ridge in RIDGES
    ]


class Questions:
    """Functions of a reading in groups, float or bool [n, k] each."""

    def __init__(self) -> None:
        generator = np.random.default_rng(10)
        self._places = np.array([generator.permutation(DIMENSION)[:3] for _ in range(QUERIES)])
        self._bounds = generator.uniform(0.25, 0.75, (QUERIES, 3))
        self._above = generator.random((QUERIES, 3)) < 0.5

    def groups(self, rows: FloatArray) -> Iterator[tuple[str, Values]]:
        first, second = np.triu_indices(DIMENSION)
        yield "mean", rows
        yield "second moment", rows**2
        yield "products", rows[:, first] * rows[:, second]
        yield "cdf", (rows[:, :, None] <= THRESHOLDS).reshape(len(rows), -1)
        yield "counts", self._counts(rows)

    def _counts(self, rows: FloatArray) -> Values:
        true = [
            np.logical_and.reduce((rows[:, places] > bounds) == above, axis=1)
            for places, bounds, above in zip(self._places, self._bounds, self._above, strict=True)
        ]
        return np.stack(true, axis=1)


Answers = dict[str, FloatArray]

# The unit of each figure, in the order in which they are drawn.
FIGURES = {
    "mean": "relative error of E[x]",
    "second moment": "relative error of E[x^2]",
    "cdf": "earth mover's distance",
    "covariance": "relative Frobenius error",
    "counts": "error of 3-way counts / n",
}


class Experiment:
    """One way, trained once."""

    def __init__(self, way: Way, points: int) -> None:
        self.way = way
        rows = uniform(DOMAIN, points, np.random.default_rng(1))
        self._training = Training(way.spec, rows, intercept=not way.as_published)
        self._questions = Questions()

    @cached_property
    def _along(self) -> dict[str, Along]:
        groups = self._questions.groups(self._training.rows)
        return {name: self._training.along(values) for name, values in groups}

    def errors(self, seed: int, epsilon: float | None) -> dict[str, float] | None:
        """Of one trial; None as epsilon is without noise. None for a release that answers
        nothing."""
        rows = np.random.default_rng([10, seed]).random((READINGS, DIMENSION))
        truth = {
            name: values.mean(axis=0, dtype=np.float64)
            for name, values in self._questions.groups(rows)
        }
        sketch = self.way.spec.start(NoNoise())
        sketch.update_many(rows)
        sums = sketch.release(NoNoise()).counters
        try:
            return _compared(self._answers(self._noisy(sums, epsilon)), truth)
        except EmptyModel:
            return None

    def _noisy(self, sums: npt.NDArray[np.int64], epsilon: float | None) -> Release:
        window = (WindowId("", "", 0),)
        if epsilon is None:
            return Release(self.way.spec, window, 0, sums.copy())
        spec, counters = self.way.at(epsilon), sums.copy()
        entropy = os_entropy()
        entropy.add_discrete_laplace(spec.scales[0], counters[:1])
        entropy.add_discrete_laplace(spec.scales[1], counters[1:])
        return Release(spec, window, 1, counters)

    def _answers(self, release: Release) -> Answers:
        way = self.way
        model = m2m(release, self._training, as_published=way.as_published, ridge=way.ridge)
        found = {name: model.fit.means_along(each).value for name, each in self._along.items()}
        if model._marginals:
            found |= _direct([*model._marginals.values()])
        return found


def _direct(marginals: Sequence[Marginal]) -> Answers:
    """Queries that histograms answer without training."""

    def all_of(function: Column) -> FloatArray:
        parts: list[Means] = [marginal.means(function) for marginal in marginals]
        return np.concatenate([part.value for part in parts])

    return {
        "mean": all_of(lambda x: x[:, None]),
        "second moment": all_of(lambda x: x[:, None] ** 2),
        "cdf": all_of(lambda x: x[:, None] <= THRESHOLDS),
    }


def _compared(found: Answers, truth: Answers) -> dict[str, float]:
    covariances = [_covariance(answers) for answers in (found, truth)]
    return {
        "mean": _relative(found["mean"], truth["mean"]),
        "second moment": _relative(found["second moment"], truth["second moment"]),
        "cdf": float(np.abs(found["cdf"] - truth["cdf"]).mean()),
        "covariance": float(
            np.linalg.norm(covariances[0] - covariances[1]) / np.linalg.norm(covariances[1])
        ),
        "counts": float(np.abs(found["counts"] - truth["counts"]).mean()),
    }


def _relative(found: FloatArray, truth: FloatArray) -> float:
    return float(np.mean(np.abs(found - truth) / truth))


def _covariance(answers: Answers) -> FloatArray:
    first, second = np.triu_indices(DIMENSION)
    matrix = np.empty((DIMENSION, DIMENSION))
    centred = answers["products"] - answers["mean"][first] * answers["mean"][second]
    matrix[first, second] = matrix[second, first] = centred
    return matrix
