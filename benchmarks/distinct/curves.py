"""Mean squared errors and error probabilities of the density estimators, curve by curve.

A curve is a row. Its value is the experiment's mean squared error over the theory's, averaged over
its points, and its detail holds the points. State and output each get epsilon.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from benchmarks.distinct.simulation import (
    UNIVERSE,
    FloatArray,
    Stream,
    product_errors,
    published_ppds_errors,
    static_errors,
)
from benchmarks.harness.result import Row, at_most
from pansketch.planning import ID_BYTES, Budget, Estimator, mean_squared_error, sample_size

EPSILONS = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5)
SIZES = (UNIVERSE // 1000, UNIVERSE // 100)
ALL_SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000)
FIXED_EPSILON = 0.2
FAR = 0.1  # An error beyond it counts in figure 4.
ALPHA, BETA = 0.1, 0.05
STANDARD_ERRORS = 3
UNIT = "x theory"


@dataclass(frozen=True)
class Contender:
    """An estimator with a sample of m keys, or with as many bits as m ids of 4 bytes have."""

    name: str
    estimator: Estimator
    equal_bytes: bool = False

    def tracked(self, sample_size: int) -> int:
        return min(8 * ID_BYTES * sample_size, UNIVERSE) if self.equal_bytes else sample_size

    @property
    def levels(self) -> bool:
        """True if the estimator first searches the number of tracked keys, which takes a while."""
        return self.estimator == Estimator("ppds", True)

    def runs(self, quick: bool) -> int:
        """The papers' 1000 where each run follows a stream; static samples cost next to nothing."""
        if self.levels:
            return 300 if quick else 1000
        return 2000 if quick else 20_000


CONTENDERS = (
    Contender("Dwork, as published", Estimator("dwork", True)),
    Contender("OptBern, as published", Estimator("optbern", True)),
    Contender("PPDS, as published", Estimator("ppds", True)),
    Contender("Dwork, repaired", Estimator("dwork", False)),
    Contender("PPDS = OptBern, repaired", Estimator("ppds", False)),
    Contender("Dwork, repaired, equal bytes", Estimator("dwork", False), True),
    Contender("PPDS = OptBern, repaired, equal bytes", Estimator("ppds", False), True),
)
AS_PUBLISHED, BY_BYTES = CONTENDERS[:3], CONTENDERS[-1]


@dataclass(frozen=True)
class Point:
    """Squared errors of many runs, and the theoretical error."""

    experiment: float
    doubt: float
    theory: float
    far: float

    @classmethod
    def of(cls, errors: FloatArray, theory: float) -> "Point":
        """`doubt`: the standard error of the experiment, if its mean is the theory's."""
        squares = errors**2
        doubt = theory * float(squares.std(ddof=1) / squares.mean()) / sqrt(len(squares))
        return cls(float(squares.mean()), doubt, theory, float(np.mean(abs(errors) > FAR)))


def measured(
    contender: Contender, epsilon: float, sample_size: int, stream: Stream, runs: int
) -> Point:
    """One point, always with the same seed."""
    seed = [CONTENDERS.index(contender), round(1000 * epsilon), sample_size, stream.seen]
    generator = np.random.default_rng(seed)
    if not contender.levels:
        tracked = contender.tracked(sample_size)
        errors = static_errors(contender.estimator, epsilon, tracked, stream, runs, generator)
        return Point.of(errors, theory(contender.estimator, epsilon, tracked, stream))
    errors, levels = published_ppds_errors(epsilon, sample_size, stream, runs, generator)
    sizes, times = np.unique(levels, return_counts=True)
    expected = [_theory_of_level(epsilon, int(size), sample_size, stream) for size in sizes]
    return Point.of(errors, float(np.average(expected, weights=times)))


def theory(estimator: Estimator, epsilon: float, tracked: int, stream: Stream) -> float:
    budget = Budget(epsilon, epsilon)
    return mean_squared_error(estimator, budget, tracked, stream.density, UNIVERSE)


def _theory_of_level(epsilon: float, tracked: int, sample_size: int, stream: Stream) -> float:
    """As if the level had been fixed: sampling and bits of the keys it tracks, noise of m."""
    estimator, budget = Estimator("ppds", True), Budget(epsilon, epsilon)
    noise = [estimator.noise_variance(budget, size) for size in (sample_size, tracked)]
    return theory(estimator, epsilon, tracked, stream) + noise[0] - noise[1]


def over_epsilon(contender: Contender, stream: Stream, size: int, quick: bool) -> Row:
    """Figures 4, 5 and 6: one curve over epsilon."""
    runs, epsilons = contender.runs(quick), EPSILONS[1::2] if quick else EPSILONS
    points = {epsilon: measured(contender, epsilon, size, stream, runs) for epsilon in epsilons}
    return _row(f"{contender.name}; {stream.name}; m {size}; over epsilon", points, runs)


def over_sizes(contender: Contender, stream: Stream, quick: bool) -> Row:
    """Figure 7: one curve over the sample size."""
    runs, sizes = contender.runs(quick), ALL_SIZES[::3] if quick else ALL_SIZES
    points = {float(m): measured(contender, FIXED_EPSILON, m, stream, runs) for m in sizes}
    return _row(f"{contender.name}; {stream.name}; epsilon {FIXED_EPSILON}; over m", points, runs)


def by_product(stream: Stream, sample_size: int, equal_bytes: bool, quick: bool) -> Row:
    """The same point by DistinctSpec itself, every appearance absorbed."""
    runs = 40 if quick else 200
    memory = sample_size * ID_BYTES if equal_bytes else sample_size // 8
    errors = product_errors(FIXED_EPSILON, memory, stream, runs)
    expected = theory(BY_BYTES.estimator, FIXED_EPSILON, 8 * memory, stream)
    point = {FIXED_EPSILON: Point.of(errors, expected)}
    row = _row(f"DistinctSpec; {stream.name}; {memory} B; over epsilon", point, runs)
    # So few squares are far from normal: no bar for them.
    return replace(row, bar="", meets=None) if quick else row


def error_probability(contender: Contender, epsilon: float, stream: Stream, quick: bool) -> Row:
    """The share of errors above ALPHA when the sample is as large as planned for BETA."""
    runs = 300 if quick else 1000
    budget = Budget(epsilon, epsilon)
    keys = sample_size(contender.estimator, budget, ALPHA, BETA, UNIVERSE, joint=False)
    size = contender.estimator.memory(keys, epsilon) // ID_BYTES if contender.levels else keys
    far = measured(contender, epsilon, size, stream, runs).far
    name = f"error above {ALPHA:g}, planned m {keys:,}: {contender.name}; epsilon {epsilon:g}"
    return at_most(name, far, "of the runs", BETA, f"{runs} runs, {stream.name}")


def _row(name: str, points: Mapping[float, Point], runs: int) -> Row:
    ratios = [point.experiment / point.theory for point in points.values()]
    doubts = [point.doubt / point.theory for point in points.values()]
    value = float(np.mean(ratios))
    within = STANDARD_ERRORS * sqrt(sum(each**2 for each in doubts)) / len(doubts)
    furthest = max(abs(r - 1) / d for r, d in zip(ratios, doubts, strict=True))
    note = f"{len(points)} x {runs} runs; furthest point {furthest:.1f} standard errors off"
    detail = {
        f"{place:g} {figure}": getattr(point, figure)
        for place, point in points.items()
        for figure in ("theory", "experiment", "doubt", "far")
    }
    return Row(name, value, UNIT, f"1 ± {within:.2g}", abs(value - 1) <= within, note, detail)


def figure(rows: Sequence[Row], name: str, place: float, wanted: str) -> float:
    """One number of a curve."""
    row = next(row for row in rows if row.name == name)
    return row.detail[f"{place:g} {wanted}"]
