"""M2M: the answers of one release of feature sums, as published and as the product reads it.

`python -m benchmarks.moments.m2m`: Random10 (27,000 readings of ten even attributes; RFF m 200
sigma 1, RACE 80 x 80, HIST 100 bins; 100,000 training points). Queries are mean, second moment,
CDF, covariance and 3-way counting, over epsilon from 0.01 to 100, split 0.98 and 0.02. Occupancy:
means with their error bars, and a classifier, from one release. Noise is that of one draw
(announced). Writes m2m-*.png and m2m-*.csv, and prints a table.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.datasets import occupancy
from benchmarks.datasets.random10 import DOMAIN, EPSILONS, FIGURES, Experiment, Way, ways
from benchmarks.datasets.stations import FloatArray
from benchmarks.harness import report
from benchmarks.harness.report import Watch
from benchmarks.harness.result import Row, at_least, at_most, fastest
from benchmarks.moments import pictures as m2m_picture
from benchmarks.moments.own_views import own_views
from pansketch import MomentsSpec, Privacy, Sketch, os_entropy

READINGS_PER_SECOND = 200_000
FIXED_EPSILON = 1.0
# Mean relative error of E[x], without noise and at epsilon 1. Features of bandwidth 1 express x in
# ten dimensions to about 2e-4 and no better; the bar without noise is for a wide kernel. For RFF
# the bar at epsilon 1 is a third of the paper's figure. HIST cannot have the paper's figure there
# at sensitivity d (benchmarks/papers/m2m.py): its bars are near what unbiased estimates have.
EXPRESSED = 1e-6
BARS = {"RFF": (None, 3e-3), "HIST": (4e-5, 3.5e-3)}
PUBLISHED = {"RFF": 9.55e-3, "HIST": 9.1e-4}
AREA, COVERED, LESS_ERROR = 0.95, 0.9, 0.5
OCCUPANCY_EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

Task = Callable[[], Iterator[Row]]


def run(quick: bool, watch: Watch = iter) -> list[Row]:
    return _summarised([row for task in watch(tasks(quick)) for row in task()])


def tasks(quick: bool) -> list[Task]:
    """The measurements in pieces, so that progress can be shown."""
    found: list[Task] = [partial(_speed, 3 if quick else 15)]
    found += [partial(_random10, way, quick) for way in ways()]
    found.append(partial(_other_sizes, quick))
    found += [partial(_areas, published, quick) for published in (False, True)]
    found += [partial(_raw_area, quick), partial(_means, quick), partial(own_views, quick)]
    return found


def _speed(repeats: int) -> Iterator[Row]:
    rows = np.random.default_rng(1).random((100_000, len(DOMAIN.names)))
    sketch = MomentsSpec(DOMAIN, Privacy(1.0)).start(os_entropy())
    (taken,) = fastest([partial(sketch.update_many, rows)], repeats)
    name = "update_many, RFF m 200, 10 attributes"
    yield at_least(name, len(rows) / taken, "readings/s", READINGS_PER_SECOND)
    raw = [len(rows[:2000]) / taken for taken in fastest([lambda: _singly(sketch, rows)], repeats)]
    yield Row("one reading at a time", raw[0], "readings/s")


def _singly(sketch: Sketch, rows: FloatArray) -> None:
    for place in range(2000):
        sketch.update_many(rows[place : place + 1])


def _random10(way: Way, quick: bool) -> Iterator[Row]:
    """A row without noise, and one for each epsilon."""
    experiment = Experiment(way, 20_000 if quick else 100_000)
    trials, fewer = (4, 2) if quick else (100, 20)
    exact = _averaged(experiment, None, trials)
    bars = BARS.get(way.name, (None, None))
    yield _row10(f"{way.name}; no noise", exact, bars[0], f"{trials} trials")
    for epsilon in EPSILONS:
        fixed = epsilon == FIXED_EPSILON
        errors = _averaged(experiment, epsilon, trials if fixed else fewer)
        note = f"the paper: {PUBLISHED[way.name]:g}" if fixed and way.name in PUBLISHED else ""
        yield _row10(f"{way.name}; epsilon {epsilon:g}", errors, bars[1] if fixed else None, note)


def _averaged(experiment: Experiment, epsilon: float | None, trials: int) -> dict[str, float]:
    """Means over trials. A release whose noisy number of readings is not positive answers nothing
    and is left out: about one in 400 at the smallest epsilon."""
    found = [errors for seed in range(trials) if (errors := experiment.errors(seed, epsilon))]
    return {name: float(np.mean([each[name] for each in found])) for name in FIGURES}


def _row10(name: str, errors: dict[str, float], bar: float | None, note: str) -> Row:
    full = f"Random10; {name}"
    if bar is None:
        return Row(full, errors["mean"], FIGURES["mean"], note=note, detail=errors)
    return at_most(full, errors["mean"], FIGURES["mean"], bar, note, errors)


def _other_sizes(quick: bool) -> Iterator[Row]:
    """Without noise the error is what features cannot express, and a wider kernel makes less of it.
    The paper's figures at epsilon 1 are near those of 200 frequencies with a cosine and a sine
    each, and of ten bins."""
    points, trials = (20_000, 4) if quick else (100_000, 100)
    for name, epsilon, sizes, bar in (
        ("RFF, sigma 4", None, {"sigma": 4.0}, None),
        ("RFF, sigma 24", None, {"sigma": 24.0}, EXPRESSED),
        ("RFF, sigma 24", FIXED_EPSILON, {"sigma": 24.0}, PUBLISHED["RFF"]),
        ("RFF, as published, m 400", FIXED_EPSILON, {"m": 400}, None),
        ("HIST, 10 bins", FIXED_EPSILON, {"bins": 10}, None),
    ):
        (way,) = (
            each
            for each in ways(**sizes)
            if name.startswith(f"{each.name}, ") and (each.as_published == ("published" in name))
        )
        errors = _averaged(Experiment(way, points), epsilon, trials)
        condition = "no noise" if epsilon is None else f"epsilon {epsilon:g}"
        yield _row10(f"{name}; {condition}", errors, bar, "")


def _areas(as_published: bool, quick: bool) -> Iterator[Row]:
    """Areas under the curve over epsilon."""
    runs, points = (2, 20_000) if quick else (10, 100_000)
    for epsilon in OCCUPANCY_EPSILONS:
        areas = [occupancy.auc(seed, epsilon, points, as_published) for seed in range(runs)]
        detail = {"mean": float(np.mean(areas)), "min": min(areas), "max": max(areas)}
        how = "as published" if as_published else "RFF"
        name = f"occupancy; {how}; epsilon {epsilon:g}"
        note = f"{detail['min']:.3f} to {detail['max']:.3f} in {runs} runs"
        if epsilon == FIXED_EPSILON and not as_published:
            yield at_least(name, detail["mean"], "AUC", AREA, note, detail)
        else:
            yield Row(name, detail["mean"], "AUC", note=note, detail=detail)


def _raw_area(quick: bool) -> Iterator[Row]:
    areas = [occupancy.auc_of_readings(seed) for seed in range(2 if quick else 10)]
    yield Row("occupancy; the readings themselves", float(np.mean(areas)), "AUC")


def _means(quick: bool) -> Iterator[Row]:
    """Errors and error bars of means where readings are nothing like the training."""
    runs, points = (5, 20_000) if quick else (40, 100_000)
    ours, published = (
        np.mean(
            [occupancy.mean_errors(seed, FIXED_EPSILON, points, each) for seed in range(runs)],
            axis=(0, 2),
        )
        for each in (False, True)
    )
    where = f"means of 5 attributes, epsilon {FIXED_EPSILON:g}, {runs} runs"
    name = "occupancy; error of means, of the bounds' distance"
    yield Row(name, float(ours[0]), "", note=f"{where}; as published {published[0]:.3g}")
    yield at_least("occupancy; covered by two standard errors", float(ours[1]), "", COVERED, where)


def _summarised(rows: list[Row]) -> list[Row]:
    """The row of the fitted ridge's effect, in front."""
    errors = {row.name: row.value for row in rows}
    ours, published = (
        errors[f"Random10; RFF{how}; epsilon {FIXED_EPSILON:g}"] for how in ("", ", as published")
    )
    name = f"Random10: error of RFF over that of the published ridge, epsilon {FIXED_EPSILON:g}"
    return [at_most(name, ours / published, "x", LESS_ERROR), *rows]


if __name__ == "__main__":
    sys.exit(report.main("moments.m2m", __doc__, run, m2m_picture.draw, None))
