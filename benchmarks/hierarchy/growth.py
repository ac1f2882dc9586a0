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
from benchmarks.hierarchy.variants import grown, published
from pansketch import Attribute, Domain, HierarchySpec, Privacy, Release
from pansketch.domain import FloatArray
from pansketch.generators import Partition, privhp
from pansketch.planning import Expected, plan_hierarchy
from pansketch_fleet.sections.memory_budget import HIERARCHY_PART
from pansketch_fleet.settings.profiles import load_profile
from testbed.local_fleet import stations

GROWTH_MS, SAMPLING_SECONDS, MAX_ERROR = 50, 0.5, 0.03
RECORDS = 1_000_000
UNIT = "W1/std"

Model = Callable[[Release], Partition]

# The settings that differ from exact levels of depth 10, fanout 4 and k 1024.
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
    "published + least squares": partial(published, least_squares=True),
    "published + projection": partial(published, projection=True),
    "published + estimator": partial(published, estimator=None),
    "published + pruning": partial(published, prunes=True),
    "published + projection, separation": partial(published, projection=True, separates=True),
    "all five": privhp,
}
STEPS: dict[str, Model] = {
    "all steps": privhp,
    "no pruning": partial(grown, prunes=False),
    "no separation": partial(grown, separates=False),
}
# Of a hundred times the stations' ranges, as an operator who knows nothing would state them.
LOOSE = Domain([Attribute("temp", low=-5000, high=5000), Attribute("pm25", low=0, high=100_000)])


def run(quick: bool) -> list[Row]:
    repeats = 3 if quick else 20
    rows = [*_speed(3 if quick else 15)]
    rows += _held("exact levels", beijing.TWO, repeats)
    rows += _held("planned", _planned(beijing.DOMAIN), repeats)
    for name, sizes in SIZES.items():
        rows += _compared({name: privhp}, sized(**sizes), repeats)
    # Thirty million draws a fleet: fewer fleets.
    rows += _compared({"default sizes": privhp}, beijing.default_spec(), 1 if quick else 5)
    rows += _compared(CHOICES, sized(**PUBLISHED), repeats)
    loose = {f"loose bounds, {name}": model for name, model in STEPS.items()}
    return rows + _compared(loose, _planned(LOOSE), repeats)


def _planned(domain: Domain) -> HierarchySpec:
    """The plan of the smallest 64-bit board for these windows."""
    memory = load_profile("pi-zero-2w").sketch_memory_bytes // HIERARCHY_PART
    readings = len(truth()) // RELEASES
    expected = Expected(readings, len(stations()), RELEASES // len(stations()))
    return plan_hierarchy(domain, Privacy(1.0), memory, expected).spec


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


def _held(name: str, spec: HierarchySpec, repeats: int) -> list[Row]:
    """Every window, sketched and released separately, as on devices."""
    distance = Distance(spec.domain, truth())
    errors = np.array([distance(privhp(beijing.chained(spec))) for _ in range(repeats)])
    return [
        at_most(
            f"{name}: {attribute}, worst fleet",
            float(column.max()),
            UNIT,
            MAX_ERROR,
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
