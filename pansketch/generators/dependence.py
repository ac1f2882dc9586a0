"""What tables do not tell of several attributes at once: an error of questions about all of them.

A table of two attributes tells how they hang together cell by cell. Inside a cell the records made
of it are as if the attributes were independent there, however fine their own margins are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
import numpy.typing as npt

from pansketch.domain import FloatArray
from pansketch.generators.tables import Table

Cells = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Dependence:
    """Boxes of a model, `low` float64[n, d] in the unit cube and `mass` float64[n], and the tables
    of several attributes that it was made of."""

    low: FloatArray
    mass: FloatArray
    tables: Sequence[Table]

    def doubt(self, inside: Mapping[int, FloatArray]) -> float:
        """An error of the number of readings that fulfil a condition on each of some attributes.

        `inside`: by attribute the fraction of each box that fulfils its condition, float64[n]. Two
        by two; that three may hang together otherwise than their pairs is in no table of two.
        """
        pairs = combinations(sorted(inside), 2)
        return sqrt(sum(self._of_pair(pair, inside) ** 2 for pair in pairs))

    def _of_pair(self, pair: tuple[int, int], inside: Mapping[int, FloatArray]) -> float:
        """The least error of the four parts into which two conditions divide the readings.

        What one of them has too much, its neighbours have too little, because each condition by
        itself is known from the margins; so all four err alike.
        """
        first, second = (self.mass * inside[axis] for axis in pair)
        both = first * inside[pair[1]]
        cells = self._cells(pair)
        if cells is None:  # Nothing is known of the two together but what their margins allow.
            return self._allowed(first.sum(), second.sum())
        neither = self.mass - first - second + both
        parts = both, first - both, second - both, neither
        held = _sums(cells, self.mass)
        return min(_unknown(_sums(cells, part), held) for part in parts)

    def _cells(self, pair: tuple[int, int]) -> Cells | None:
        """The cell of each box in the finest table of both attributes."""
        tables = [table for table in self.tables if set(pair) <= set(table.axes)]
        if not tables:
            return None
        bits = max(([table.bits_of(axis) for axis in pair] for table in tables), key=sum)
        first, second = (
            (self.low[:, axis] * (1 << b)).astype(np.intp)
            for axis, b in zip(pair, bits, strict=True)
        )
        return np.asarray((first << bits[1]) | second)

    def _allowed(self, first: float, second: float) -> float:
        """The standard deviation of a number that may be anything its margins allow."""
        total = float(self.mass.sum())
        return float(min(first, second) - max(0.0, first + second - total)) / sqrt(12)


def _sums(cells: Cells, of: FloatArray) -> FloatArray:
    return np.asarray(np.bincount(cells, of), np.float64)


def _unknown(part: FloatArray, held: FloatArray) -> float:
    """Readings of cells of which a part is in question: of each as `Partition` counts those of a
    box, and what one cell hides says nothing of the next."""
    fraction = np.clip(part / np.maximum(held, np.finfo(float).tiny), 0.0, 1.0)
    return float(np.linalg.norm(held * np.sqrt(fraction * (1 - fraction) / 3)))
