"""Estimates of a sketched cell for growth, from collisions to noise alone.

If the noise is below the readings a counter, the library takes the minimum of the rows, else the
mean. The comparisons are the minimum, the mean and the median everywhere, and a rule that reads the
spread of the collisions off the table. Sizes are the library's defaults: three rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.datasets.stations import (
    RELEASES,
    Distance,
    FloatArray,
    default_spec,
    draws_per_release,
    exact_counts,
    noisy,
    readings,
    truth,
)
from benchmarks.harness.result import Row, at_most
from benchmarks.hierarchy.variants import ESTIMATORS, grown
from pansketch import HierarchySpec, Privacy, Release
from pansketch.generators import Partition, privhp

BAR = 1.1
FIXED = ("min", "mean", "median")
LIBRARY = "library"
EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True)
class Case:
    """Readings in so many releases at an epsilon, and how many fleets to draw."""

    name: str
    rows: FloatArray
    releases: int
    epsilon: float
    repeats: int


def run(quick: bool) -> list[Row]:
    return [_measured(case) for case in _cases(quick)]


def _cases(quick: bool) -> Iterator[Case]:
    for epsilon in EPSILONS:
        yield Case(f"one release, epsilon {epsilon:g}", truth(), 1, epsilon, 3 if quick else 20)
    yield Case("one station, one release", readings()[0], 1, 1.0, 3 if quick else 20)
    yield Case("12 releases merged", truth(), 12, 1.0, 3 if quick else 20)
    yield Case(f"{RELEASES} releases merged", truth(), RELEASES, 1.0, 1 if quick else 6)


def _measured(case: Case) -> Row:
    spec = replace(default_spec(), privacy=Privacy(case.epsilon))
    counts, distance = exact_counts(spec, case.rows), Distance(spec.domain, case.rows)
    errors: dict[str, list[float]] = {name: [] for name in (LIBRARY, *ESTIMATORS)}
    for _ in range(case.repeats):
        for name, model in _models(noisy(spec, counts, case.releases)):
            errors[name].append(float(distance(model).mean()))
    means = {name: float(np.nanmean(column)) for name, column in errors.items()}
    best = min(FIXED, key=lambda name: means[name])
    texts = ", ".join(f"{name} {means[name]:.4f}" for name in means)
    note = f"{texts} W1/std; noise {_noise_per_load(spec, case):.2g} x readings a counter"
    return at_most(case.name, means[LIBRARY] / means[best], f"x {best}", BAR, note, means)


def _models(release: Release) -> Iterator[tuple[str, Partition]]:
    yield LIBRARY, privhp(release)
    for name, estimator in ESTIMATORS.items():
        yield name, grown(release, estimator=estimator)


def _noise_per_load(spec: HierarchySpec, case: Case) -> float:
    """The noise's deviation at the first sketched level over the readings a counter holds."""
    draws = draws_per_release(spec) * case.releases
    deviation = float(np.sqrt(draws * spec.sketched_levels[0].noise_variance))
    return deviation / (len(case.rows) / spec.width)
