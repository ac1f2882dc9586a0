"""M2M that trains on records of the fleet's own views, beside M2M on points spread evenly.

A stream has two sketches: views with 3/4 of epsilon 1 and random Fourier features with 1/4.
Readings fill about a tenth of their bounds. One window of ten devices, in silent mode.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.datasets.stations import FloatArray
from benchmarks.harness.result import Row, at_most
from pansketch import Attribute, Domain, MomentsSpec, Privacy, Release, Spec, merge, os_entropy
from pansketch.generators import FittedModel, m2m, pairwise
from pansketch.planning import Expected, plan_views

DEVICES, READINGS = 10, 1440
SHARES = (0.75, 0.25)
MEMORY_BYTES = 32 << 10
DOMAIN = Domain([Attribute(name, low=0, high=100) for name in ("a", "b", "c", "d")])
HALF = 0.5  # of the error on even points


def rows_of(rng: np.random.Generator, count: int) -> FloatArray:
    """Readings of one level that four sensors share, with noise of their own."""
    level = rng.normal(0, 4, (count, 1))
    rows = [30, 50, 60, 75] + level * [1, -1, 0.5, 1] + rng.normal(0, 2, (count, 4))
    return np.asarray(np.clip(rows, 0, 100))


def own_views(quick: bool) -> Iterator[Row]:
    """Root mean square errors of means, in deviations of the readings, and of shares of triples."""
    runs, points = (2, 20_000) if quick else (8, 20_000)
    views = plan_views(
        DOMAIN, Privacy(SHARES[0]), MEMORY_BYTES, Expected(READINGS, DEVICES, 1)
    ).spec
    sums = MomentsSpec(DOMAIN, Privacy(SHARES[1]))
    errors: dict[str, list[tuple[float, float]]] = {
        name: [] for name in ("even points", "own views", "the views")
    }
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        parts = [rows_of(rng, READINGS) for _ in range(DEVICES)]
        model = pairwise(_released(views, parts))
        released = _released(sums, parts)
        whole = np.concatenate(parts)
        errors["even points"].append(_errors(m2m(released, points=points), whole))
        errors["own views"].append(_errors(m2m(released, model.sampler(), points=points), whole))
        errors["the views"].append(_errors(model, whole))
    for place, what in enumerate(("means", "counts of three attributes")):
        found = {
            name: float(np.sqrt(np.mean([each[place] ** 2 for each in of])))
            for name, of in errors.items()
        }
        ratio = found["own views"] / found["even points"]
        note = ", ".join(f"{name} {value:.2g}" for name, value in found.items())
        name = f"own views: error of {what}, of that on even points"
        yield at_most(name, ratio, "x", HALF, f"{note}; {runs} runs", found)


def _released(spec: Spec, parts: list[FloatArray]) -> Release:
    releases = []
    for rows in parts:
        sketch = spec.start(os_entropy())
        sketch.update_many(rows)
        releases.append(sketch.release(os_entropy()))
    return merge(releases)


def _errors(model: FittedModel, rows: FloatArray) -> tuple[float, float]:
    means = [
        (model.mean(name).value - column.mean()) / column.std()
        for name, column in zip(DOMAIN.names, rows.T, strict=True)
    ]
    limits = np.quantile(rows, 0.6, axis=0)
    where = " & ".join(f"{n} > {x:.3f}" for n, x in zip("abc", limits, strict=False))
    truth = float(np.mean((rows[:, :3] > np.round(limits[:3], 3)).all(axis=1)))
    return float(np.sqrt(np.mean(np.square(means)))), model.share(where).value - truth
