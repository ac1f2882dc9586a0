"""A KD-tree grown by noisy counts.

Kreačić, Nouri, Potluru, Balch, Veloso, "Differentially private synthetic data using KD-trees"
(arXiv 2306.13211), Algorithms 2 and 3: from height h to height h' a cell whose noisy count exceeds
tau is halved; one that is not halved is a leaf, with a noisy count of its own. A cell of height l
is a path of l bits (`Domain.split_order` says which attribute a bit halves).
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain, FloatArray
from pansketch.generators.density.heavy_cells import boxes
from pansketch.generators.kdtree_points.sparse_noise import min_threshold

Paths = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

HALVINGS = 1.0  # How often noise alone may halve an empty domain, on average.


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
    """Whether cells hold any value: codes beyond the last category do not exist."""
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
