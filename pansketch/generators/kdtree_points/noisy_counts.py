"""Where the counts of a KD-tree over points and their noise come from.

`Batch` is secret: raw points, whose counts leave only with exact noise. `Redrawn` is public: the
readings that a tree was fitted to with noise drawn anew, for error bars.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pansketch.domain.cell_paths import PathEncoder
from pansketch.domain.domain import FloatArray
from pansketch.generators.kdtree_points.growth import Counts, LayerPlan, Paths
from pansketch.generators.kdtree_points.least_squares import Leaves
from pansketch.generators.kdtree_points.sparse_noise import (
    Integers,
    Passing,
    chance_above,
    explicit_passing,
    implicit_passing,
)
from pansketch.randomness.exact_noise import Entropy


class Batch:
    """Paths of points, sorted, so that the count of a cell is the distance of two places. Secret.

    Raises ValueError for points of another shape than float64[n, d].
    """

    def __init__(self, points: FloatArray, plan: LayerPlan, rng: Entropy) -> None:
        self._plan, self._rng = plan, rng
        points = np.asarray(points, np.float64)
        self._paths = np.zeros(len(points) if points.ndim else 0, np.uint64)
        kept = 0
        for paths in PathEncoder(plan.domain, plan.depth).encode(points):
            self._paths[kept : kept + len(paths)] = paths
            kept += len(paths)
        self._kept = self._paths[:kept]
        self._kept.sort()

    def erase(self) -> None:
        self._paths.fill(0)

    def occupied(self) -> Paths:
        cells = self._kept >> np.uint64(self._plan.depth - self._plan.height)
        first = np.ones(len(cells), np.bool_)
        np.not_equal(cells[1:], cells[:-1], out=first[1:])
        occupied = cells[first]
        for scratch in (cells, first):
            scratch.fill(0)
        return occupied

    def counts(self, bits: int, paths: Paths) -> Integers:
        shift = np.uint64(self._plan.depth - bits)
        before = np.searchsorted(self._kept, paths << shift)
        counts = np.searchsorted(self._kept, (paths + np.uint64(1)) << shift)
        counts -= before
        before.fill(0)
        return counts.astype(np.int64, copy=False)

    def add_noise(self, scale: Fraction, counts: Counts) -> None:
        self._rng.add_discrete_laplace(scale, counts)

    def passing(self, cells: int, scale: Fraction, threshold: int) -> Passing:
        passing = implicit_passing if self._plan.empty == "implicit" else explicit_passing
        return passing(cells, scale, threshold, self._rng)


@dataclass(frozen=True)
class Redrawn:
    """Readings like those a tree was fitted to: `first` are its cells of the first height."""

    leaves: Leaves
    first: Paths
    generator: np.random.Generator

    def occupied(self) -> Paths:
        return self.first.copy()

    def counts(self, bits: int, paths: Paths) -> FloatArray:
        return self.leaves.counts(bits, paths)

    def add_noise(self, scale: Fraction, counts: Counts) -> None:
        counts += self.generator.laplace(0.0, float(scale), len(counts))

    def passing(self, cells: int, scale: Fraction, threshold: int) -> Passing:
        many = self.generator.binomial(cells, chance_above(scale, threshold))
        places = np.unique(self.generator.integers(0, max(cells, 1), many))
        beyond = self.generator.geometric(-np.expm1(-1 / float(scale)), len(places))
        return places, threshold + beyond
