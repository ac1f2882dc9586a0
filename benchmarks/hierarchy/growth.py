"""PrivHP's growth: its speed, and the error that each of its sizes and choices costs.

Twelve stations, 49 windows each, two attributes, epsilon 1 per reading, silent: 588 releases
merged. Errors are W1 over the readings' deviation, a mean and a maximum over repeated fleets.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from benchmarks.datasets import stations as beijing
from benchmarks.datasets.stations import (
    RELEASES,
    Distance,
    exact_counts,
    noisy,
    sized,
    truth,
)
from benchmarks.harness.result import Row, at_most, fastest
from benchmarks.hierarchy.variants import grown, smallest
from pansketch import HierarchySpec, Release
from pansketch.domain import FloatArray
from pansketch.generators import Partition, privhp

GROWTH_MS, SAMPLING_SECONDS, PLANNED_ERROR = 50, 0.5, 0.03
RECORDS = 1_000_000
UNIT = "W1/std"

Model = Callable[[Release], Partition]

# Planned sizes are depth 10, fanout 4, k 1024: exact levels only. The others have tables.
SIZES: dict[str, dict[str, int]] = {
    "fanout 2": {"fanout": 2},
    "fanout 8": {"fanout": 8},
    "depth 12": {"depth": 12},
    "depth 12, fanout 8, k 512": {"depth": 12, "fanout": 8, "k": 512},
    "depth 12, fanout 8, k 512, 3 rows": {"depth": 12, "fanout": 8, "k": 512, "rows": 3},
    "depth 12, fanout 8, k 4096": {"depth": 12, "fanout": 8, "k": 4096},
    "depth 15": {"depth": 15},
    "depth 24": {"depth": 24},
    "k 256": {"k": 256},
}
# The paper has two children a cell; with three rows, and levels deep enough to need them.
PUBLISHED = {"fanout": 2, "rows": 3, "depth": 12, "k": 512}
CHOICES: dict[str, Model] = {
    "as published": partial(privhp, as_published=True),
    "published + least squares": partial(grown, projection=False, estimator=smallest),
    "published + projection": partial(grown, least_squares=False, estimator=smallest),
    "published + estimator": partial(grown, least_squares=False, projection=False),
    "all three": privhp,
}


def run(quick: bool) -> list[Row]:
    repeats = 3 if quick else 20
    rows = [*_speed(3 if quick else 15), *_planned(repeats)]
    for name, sizes in SIZES.items():
        rows += _compared({name: privhp}, sized(**sizes), repeats)
    # Thirty million draws a fleet: fewer fleets.
    rows += _compared({"default sizes": privhp}, beijing.default_spec(), 1 if quick else 5)
    return rows + _compared(CHOICES, sized(**PUBLISHED), repeats)


def _speed(repeats: int) -> list[Row]:
    spec = beijing.default_spec()
    release = noisy(spec, exact_counts(spec, truth()), 12)
    model, generator = privhp(release), np.random.default_rng(1)
    growing, sampling = fastest(
        [partial(privhp, release), partial(model.sample, RECORDS, generator)], repeats
    )
    return [
        at_most(f"growth, k {spec.k}, depth {spec.depth}", growing * 1e3, "ms", GROWTH_MS),
        at_most(f"sampling {RECORDS:,} records", sampling, "s", SAMPLING_SECONDS),
    ]


def _planned(repeats: int) -> list[Row]:
    """Every window sketched and released by itself, as the devices do it."""
    spec = beijing.TWO
    distance = Distance(spec.domain, truth())
    errors = np.array([distance(privhp(beijing.chained(spec))) for _ in range(repeats)])
    return [
        at_most(
            f"planned sizes: {attribute}, worst fleet",
            float(column.max()),
            UNIT,
            PLANNED_ERROR,
            f"mean of {repeats}: {column.mean():.4f}",
            _figures(column),
        )
        for attribute, column in zip(spec.domain.names, errors.T, strict=True)
    ]


def _compared(models: Mapping[str, Model], spec: HierarchySpec, repeats: int) -> list[Row]:
    """Models of the same releases, so that their difference is not the noise's."""
    counts, distance = exact_counts(spec, truth()), Distance(spec.domain, truth())
    errors: dict[str, list[FloatArray]] = {name: [] for name in models}
    for _ in range(repeats):
        release = noisy(spec, counts, RELEASES)
        for name, model in models.items():
            errors[name].append(distance(model(release)))
    return [
        _error_row(f"{name}: {attribute}", np.array(errors[name])[:, place])
        for name in models
        for place, attribute in enumerate(spec.domain.names)
    ]


def _error_row(name: str, column: FloatArray) -> Row:
    note = f"worst of {len(column)}: {column.max():.4f}"
    return Row(name, float(column.mean()), UNIT, note=note, detail=_figures(column))


def _figures(column: FloatArray) -> dict[str, float]:
    return {"mean": float(column.mean()), "max": float(column.max())}
