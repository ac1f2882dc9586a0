"""Density Sketch: its error beside the terms of the theory, configuration by configuration.

`python -m benchmarks.density.density`: Gaussian mixtures in one to three dimensions, whose
integrated squared error is known in closed form. Readings, cells, columns and rows vary one at a
time, with and without noise (epsilon 0.3 per reading, silent). Every repeat draws fresh readings,
hashing and noise. Writes density.csv and density.png, and prints a table.
"""

import sys
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from benchmarks.datasets.mixtures import MIXTURES, FloatArray, Mixture
from benchmarks.density import pictures as density_picture
from benchmarks.harness import report
from benchmarks.harness.report import Watch
from benchmarks.harness.result import Row, at_least, at_most, fastest
from pansketch import CellsSpec, Entropy, Privacy, Release, os_entropy
from pansketch.generators import DensityModel, density, imse_terms
from pansketch.generators.density.cell_counts import Recovery, ReleasedTable
from pansketch_audit.mechanisms.zero_noise import NoNoise

EPSILON = 0.3
READINGS_PER_SECOND = 1_000_000
STANDARD_ERRORS = 4


@dataclass(frozen=True)
class Case:
    """A configuration: 2**depth cells, `rows` x `width` counters, with noise or without."""

    dimension: int
    readings: int
    depth: int
    width: int
    rows: int
    noise: bool

    def __str__(self) -> str:
        noise = f"epsilon {EPSILON:g}" if self.noise else "no noise"
        return (
            f"{self.dimension}-d, n {self.readings:,}, 2^{self.depth} cells, R {self.width}, "
            f"K {self.rows}, {noise}"
        )


BASES = {
    1: Case(1, 100_000, 8, 512, 3, True),
    2: Case(2, 100_000, 10, 512, 3, True),
    3: Case(3, 100_000, 12, 1024, 3, True),
}
READINGS = (3_000, 10_000, 100_000, 1_000_000)
DEPTHS = (-4, -2, 0, 2, 4)
WIDTHS = (64, 256, 512, 1024, 4096)
ROWS = (1, 2, 3, 5, 9)


def run(quick: bool, watch: Watch = iter) -> list[Row]:
    rows = [measured(case, quick) for case in watch(cases(quick))]
    return [_speed(3 if quick else 10), *_summary(rows), *rows]


def cases(quick: bool) -> list[Case]:
    """Every configuration once; `quick` leaves out the largest."""
    found: dict[Case, None] = {}
    for base in BASES.values():
        varied = [
            *(replace(base, readings=n) for n in READINGS if not (quick and n > 100_000)),
            *(replace(base, depth=base.depth + more) for more in DEPTHS),
            *(replace(base, width=width) for width in WIDTHS),
            *(replace(base, rows=rows) for rows in ROWS),
        ]
        found |= dict.fromkeys(replace(case, noise=on) for case in varied for on in (True, False))
    return list(found)


def measured(case: Case, quick: bool) -> Row:
    """One configuration: the error of the density recovered by the mean, over the sum of its
    terms."""
    mixture = MIXTURES[case.dimension]
    shares = mixture.cell_shares(case.depth)
    runs = [_errors(case, mixture, shares, repeat) for repeat in range(6 if quick else 60)]
    columns = {name: np.array([run[name] for run in runs]) for name in runs[0]}
    terms = imse_terms(
        _spec(case, 0), case.readings, _draws(case), mixture.roughness, mixture.slopes
    )
    ratio = columns["mean"] / terms.total
    doubt = STANDARD_ERRORS * float(ratio.std(ddof=1)) / len(ratio) ** 0.5
    parts = {f"term {name}": value for name, value in asdict(terms).items()}
    detail = {name: float(column.mean()) for name, column in columns.items()} | parts
    detail |= {"terms": terms.total, "roughness": mixture.roughness}
    detail |= {"sampler over bound": float(columns["over bound"].max())}
    largest = max(parts, key=lambda name: parts[name])
    note = f"error {detail['mean']:.3g}; largest: {largest} {parts[largest]:.3g}"
    value = float(ratio.mean())
    bar, meets = f"<= 1 + {doubt:.2g}", value <= 1 + doubt
    return Row(str(case), value, "x its terms", bar, meets, note, asdict(case) | detail)


def _errors(case: Case, mixture: Mixture, shares: FloatArray, repeat: int) -> dict[str, float]:
    """Integrated squared errors of one run.

    They are those of the density recovered by mean and by median, and of the samplers of half of
    the cells, as published and fitted.
    """
    generator = np.random.default_rng([repeat, case.readings, case.depth])
    release = _released(_spec(case, repeat), mixture.sample(case.readings, generator), case.noise)
    cells = len(shares)

    def error(heights: FloatArray) -> float:
        return float(np.sum(heights**2 / cells - 2 * heights * shares) + mixture.roughness)

    recovered = {"mean": _recovered(release, "mean"), "median": _recovered(release, "median")}
    heavy = cells // 2
    published = density(release, cells=heavy, recovery="mean", as_published=True)
    samplers = {
        "published": published,
        "fitted": density(release, cells=heavy, recovery="auto" if case.noise else "median"),
    }
    heights = {name: _sampler_heights(model, cells) for name, model in samplers.items()}
    found = {name: error(each) for name, each in {**recovered, **heights}.items()}
    clipped = np.maximum(recovered["mean"], 0.0)
    outside = np.where(heights["published"] > 0, 0.0, clipped)
    captured = float(published.counts.sum()) / float(release.counters[0])
    missed = (1 - captured) ** 2 * np.sum(heights["published"] ** 2)
    bound = 2 * error(clipped) + 2 * (missed + np.sum(outside**2)) / cells
    return found | {"over bound": found["published"] / float(bound)}


def _recovered(release: Release, recovery: Recovery) -> FloatArray:
    """The density of every cell, as the paper's f_C."""
    assert isinstance(release.spec, CellsSpec)
    sketch = release.spec.tables[-1]
    readings, *counters = (block.astype(np.float64) for block in release.split())
    table = ReleasedTable(sketch, counters[-1].reshape(sketch.rows, -1), release.draws)
    cells = 1 << sketch.bits
    return table.counts(np.arange(cells, dtype=np.uint64), recovery) * cells / float(readings[0])


def _sampler_heights(model: DensityModel, cells: int) -> FloatArray:
    heights = np.zeros(cells)
    heights[model.paths.astype(np.int64)] = model.counts / model.counts.sum() * cells
    return heights


def _spec(case: Case, hash_key: int) -> CellsSpec:
    return CellsSpec(
        MIXTURES[case.dimension].domain,
        Privacy(epsilon=EPSILON),
        depth=case.depth,
        width=case.width,
        rows=case.rows,
        hash_key=hash_key,
    )


def _draws(case: Case) -> int:
    return _spec(case, 0).guarantee.draws if case.noise else 0


def _released(spec: CellsSpec, readings: FloatArray, noise: bool) -> Release:
    rng: Entropy = os_entropy() if noise else NoNoise()
    sketch = spec.start(rng)
    sketch.update_many(readings)
    return sketch.release(rng)


def _speed(repeats: int) -> Row:
    """Absorbing readings of two attributes, default sizes."""
    spec = CellsSpec(MIXTURES[2].domain, Privacy(epsilon=1.0))
    rows = MIXTURES[2].sample(65_536, np.random.default_rng(0))
    sketch = spec.start(os_entropy())
    (seconds,) = fastest([partial(sketch.update_many, rows)], repeats)
    return at_least(
        "update_many, 65,536 readings", len(rows) / seconds, "readings/s", READINGS_PER_SECOND
    )


def _summary(rows: list[Row]) -> list[Row]:
    """The rows that summarise the sampler over all configurations."""
    worst = max(row.detail["sampler over bound"] for row in rows)
    summary = [at_most("published sampler over its bound, worst run", worst, "x", 1.0)]
    for noise, text in ((False, "no noise"), (True, f"epsilon {EPSILON:g}")):
        found = [row.detail for row in rows if row.detail["noise"] == noise]
        ratios = [each["fitted"] / each["published"] for each in found]
        note = f"{min(ratios):.2g} to {max(ratios):.2g}"
        name = f"fitted sampler's error over the published one's, {text}, median"
        summary.append(at_most(name, float(np.median(ratios)), "x", 1.0, note))
    return summary


if __name__ == "__main__":
    sys.exit(report.main("density.density", __doc__, run, density_picture.draw, None))
