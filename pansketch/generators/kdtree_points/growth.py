"""A KD-tree grown by noisy counts: the layer of the first height with its empty cells, then those
below.

Kreačić, Nouri, Potluru, Balch, Veloso, "Differentially private synthetic data using KD-trees"
(arXiv 2306.13211), Algorithms 2 and 3. They work over any source of counts and of their noise. From
height h to height h' a cell whose noisy count exceeds tau is halved. A cell that is not halved is a
leaf, with a noisy count of its own. A cell of height l is a path of l bits (`Domain.split_order`
gives the attribute that a bit halves).
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain, FloatArray
from pansketch.generators.density.cell_counts import boxes
from pansketch.generators.kdtree_points.sparse_noise import Integers, Passing, min_threshold

Paths = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
HALVINGS = 1.0  # Expected number of halvings of an empty domain by noise alone.
EmptyCells = Literal["implicit", "explicit"]
Counts = npt.NDArray[Any]  # int64 of a batch, float64 of what was fitted
_NONE: Passing = np.zeros(0, np.int64), np.zeros(0, np.int64)


@dataclass(frozen=True)
class Layer:
    """Cells of one height, in order of path, of which some are halved.

    `counts`: of a cell that is halved, the noisy count that decided so; of a leaf, its own.
    `scales`: the Laplace scales of the two kinds of noise. `possible`: False for cells beyond the
    last category of an attribute, which hold nothing for certain.
    """

    bits: int
    paths: Paths
    halved: Mask
    possible: Mask
    counts: FloatArray
    scales: tuple[float, float]

    @property
    def variances(self) -> FloatArray:
        """Of the noise of every count."""
        inner, leaf = (2 * scale**2 for scale in self.scales)
        return np.where(self.possible, np.where(self.halved, inner, leaf), 0.0)

    def children(self) -> Paths:
        """The two halves of every cell that is halved, in order of path."""
        pairs = (self.paths[self.halved] << np.uint64(1))[:, None]
        return (pairs | np.arange(2, dtype=np.uint64)).ravel()


def grow(first: Layer, below: Callable[[int, Paths], Layer]) -> list[Layer]:
    """All layers of the tree. `below`: a height and its cells -> their layer."""
    layers = [first]
    while layers[-1].halved.any():
        layers.append(below(layers[-1].bits + 1, layers[-1].children()))
    return layers


def possible(domain: Domain, paths: Paths, bits: int) -> Mask:
    """Return whether cells hold any value: codes beyond the last category do not exist."""
    if all(attribute.categories is None for attribute in domain.attributes):
        return np.ones(len(paths), np.bool_)
    low, high = boxes(domain, paths, bits)
    return np.asarray((low < high).all(axis=1))


def check_heights(height: int, depth: int, deepest: int) -> None:
    """Raises ValueError unless 0 <= height <= depth <= deepest, all whole numbers."""
    for name, value in (("height", height), ("depth", depth)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise ValueError(f"{name} must be a whole number, not {type(value).__name__}")
    if not 0 <= height <= depth <= deepest:
        raise ValueError(
            f"0 <= height <= depth <= {deepest} must hold, not for height {height}, depth {depth}"
        )


def passing_chance(cells: float, heights: int, halvings: float) -> float:
    """The chance p of one empty cell to be halved by which an empty domain is halved `halvings`
    times on average.

    It has `cells` cells at the first of `heights` heights that decide. Of an empty cell's two
    halves either passes with chance p again, so the average is cells p (1 + 2p + ... +
    (2p)**(heights - 1)). At most 1/2, at which noise alone would grow the tree for ever.
    """
    low, high = 0.0, 0.5
    for _ in range(200):
        chance = (low + high) / 2
        expected = cells * chance * sum((2 * chance) ** height for height in range(heights))
        low, high = (chance, high) if expected <= halvings else (low, chance)
    return low


def tau_of(scale: Fraction, cells: float, heights: int, halvings: float) -> int:
    """The least threshold by which an empty domain is halved at most `halvings` times on average.

    `scale`: of the discrete Laplace noise of every decision.
    """
    return min_threshold(scale, passing_chance(cells, heights, halvings))


@dataclass(frozen=True)
class LayerPlan:
    """Public parameters: heights, thresholds, Laplace scales of decisions and of leaves."""

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
