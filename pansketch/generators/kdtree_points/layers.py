"""The layers of a KD-tree over points: the first height, with its empty cells, and those below.

Kreačić, Nouri, Potluru, Balch, Veloso, "Differentially private synthetic data using KD-trees"
(arXiv 2306.13211), Algorithms 2 and 3, over any source of counts and of their noise.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain
from pansketch.generators.kdtree_points.growth import Layer, Mask, Paths, grow, possible
from pansketch.generators.kdtree_points.sparse_noise import Integers, Passing

EmptyCells = Literal["implicit", "explicit"]
Counts = npt.NDArray[Any]  # int64 of a batch, float64 of what was fitted

_NONE: Passing = np.zeros(0, np.int64), np.zeros(0, np.int64)


@dataclass(frozen=True)
class LayerPlan:
    """What is public: heights, thresholds, Laplace scales of decisions and of leaves."""

    domain: Domain
    depth: int
    height: int
    tau: int
    threshold: int
    decision_scale: Fraction
    leaf_scale: Fraction
    empty: EmptyCells


class NoisyCounts(Protocol):
    """Counts of cells, and their noise."""

    def occupied(self) -> Paths:
        """The cells of the first height that may hold anything, in order."""
        ...

    def counts(self, bits: int, paths: Paths) -> Counts:
        """Of cells, in an array of the caller's."""
        ...

    def add_noise(self, scale: Fraction, counts: Counts) -> None:
        """In place."""
        ...

    def passing(self, cells: int, scale: Fraction, threshold: int) -> Passing:
        """Which of so many empty cells pass a threshold, and their noisy counts."""
        ...


@dataclass(frozen=True)
class Growth:
    """Algorithms 2 and 3 over one source of counts."""

    plan: LayerPlan
    source: NoisyCounts

    def layers(self) -> list[Layer]:
        return grow(self._first(), self._below)

    def _first(self) -> Layer:
        """Cells of the first height that are halved, and those leaves that exceed the threshold."""
        plan, occupied = self.plan, self.source.occupied()
        try:
            halved, counts = self._noisy(plan.height, occupied)
            kept = halved | (counts > plan.threshold)
            decided, others = self._empty_cells(occupied)
            paths = np.concatenate([occupied[kept], decided[0], others[0]])
        finally:
            occupied.fill(0)
        flags = [
            halved[kept],
            np.ones(len(decided[0]), np.bool_),
            np.zeros(len(others[0]), np.bool_),
        ]
        order = np.argsort(paths)
        return self._layer(
            plan.height,
            paths[order],
            np.concatenate(flags)[order],
            np.concatenate([counts[kept], decided[1], others[1]])[order],
        )

    def _below(self, bits: int, paths: Paths) -> Layer:
        return self._layer(bits, paths, *self._noisy(bits, paths))

    def _layer(self, bits: int, paths: Paths, halved: Mask, counts: Counts) -> Layer:
        plan = self.plan
        there = possible(plan.domain, paths, bits)
        scales = float(plan.decision_scale), float(plan.leaf_scale)
        return Layer(bits, paths, halved & there, there, counts.astype(np.float64), scales)

    def _noisy(self, bits: int, paths: Paths) -> tuple[Mask, Counts]:
        """Which cells are halved, and the noisy counts: that which decided so, or the leaf's."""
        plan, counts = self.plan, self.source.counts(bits, paths)
        halved, noisy = np.zeros(len(counts), np.bool_), counts.copy()
        if bits < plan.depth:
            self.source.add_noise(plan.decision_scale, noisy)
            np.greater(noisy, plan.tau, out=halved)
        leaves = counts[~halved]
        counts.fill(0)
        self.source.add_noise(plan.leaf_scale, leaves)
        noisy[~halved] = leaves
        return halved, noisy

    def _empty_cells(
        self, occupied: Paths
    ) -> tuple[tuple[Paths, Integers], tuple[Paths, Integers]]:
        """Empty cells of the first height that are halved, and those that are kept as leaves."""
        plan = self.plan
        cells, halved = (1 << plan.height) - len(occupied), _NONE
        if plan.height < plan.depth:
            halved = self.source.passing(cells, plan.decision_scale, plan.tau)
        leaves, counts = self.source.passing(
            cells - len(halved[0]), plan.leaf_scale, plan.threshold
        )
        leaves = _unranked(leaves, halved[0])
        taken = occupied.view(np.int64)
        paths = [_unranked(ranks, taken).view(np.uint64) for ranks in (halved[0], leaves)]
        return (paths[0], halved[1]), (paths[1], counts)


def _unranked(ranks: Integers, taken: Integers) -> Integers:
    """The cells of these ranks among those that are not taken; all rising, from 0."""
    skipped = taken - np.arange(len(taken))
    cells = ranks + np.searchsorted(skipped, ranks, side="right")
    skipped.fill(0)
    return cells
