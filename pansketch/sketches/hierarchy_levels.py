"""The levels of a hierarchy: where their counters lie, how they are hashed, how noisy they are."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pansketch.privacy import split_budget
from pansketch.randomness.keyed_hash import RowHash


@dataclass(frozen=True)
class Level:
    """One level of the hierarchy: cells of `bits` bits, in `rows` x `width` counters from `offset`.

    An exact level has one row with a counter for every cell, and no hash.
    """

    bits: int
    offset: int
    rows: int
    width: int
    scale: Fraction
    hash: RowHash | None

    @property
    def size(self) -> int:
        return self.rows * self.width

    def table(self, counters: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """This level's part of a hierarchy's counters, as a view: int32[rows, width]."""
        return counters[self.offset : self.offset + self.size].reshape(self.rows, self.width)

    @property
    def noise_variance(self) -> float:
        """Variance of one discrete Laplace draw of this level's scale."""
        decay = np.exp(-1 / float(self.scale))
        return float(2 * decay / (1 - decay) ** 2)


@dataclass(frozen=True)
class Sizes:
    """The sizes of a hierarchy, as `HierarchySpec` describes them."""

    dimension: int
    depth: int
    k: int
    width: int
    rows: int
    fanout: int


def derive_levels(sizes: Sizes, epsilon_micro: int, hash_key: int) -> tuple[Level, ...]:
    """The levels from the root to the deepest, with the budget shared among them.

    Raises ValueError when a level's share would vanish or a table cannot be hashed into.
    """
    step = sizes.fanout.bit_length() - 1
    bits = [*range(0, sizes.depth, step), sizes.depth]
    deepest_exact = sizes.k.bit_length() - 1  # floor(log2 k)
    shares = split_budget(epsilon_micro, _squared_weights(sizes, bits, deepest_exact))
    levels: list[Level] = []
    offset = 0
    for level_bits, share in zip(bits, shares, strict=True):
        if level_bits <= deepest_exact:
            level = Level(level_bits, offset, 1, 1 << level_bits, 1 / share, None)
        else:
            spread = RowHash.derive(
                hash_key, f"hierarchy/{level_bits}", sizes.depth, sizes.rows, sizes.width
            )
            scale = sizes.rows / share
            level = Level(level_bits, offset, sizes.rows, sizes.width, scale, spread)
        levels.append(level)
        offset += level.size
    return tuple(levels)


def _squared_weights(sizes: Sizes, bits: list[int], deepest_exact: int) -> list[Fraction]:
    """Weights of the squared shares of the levels for which PrivHP's bound is least.

    A weight is the number of noisy counters that a refinement reads, times the side of its cells.
    """
    weights = []
    for place, level_bits in enumerate(bits):
        parent = bits[max(0, place - 1)]
        side = Fraction(1, 1 << (parent // sizes.dimension))
        cells = 1 << parent if level_bits <= deepest_exact else sizes.rows * sizes.k
        weights.append(cells * side)
    return weights
