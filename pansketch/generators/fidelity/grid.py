"""What fits are compared through: the cells of attributes, and the bins of their quantiles."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pansketch.domain.domain import Attribute, FloatArray
from pansketch.generators.pairwise.contingency_tables import cells_of
from pansketch.generators.pairwise.marginals import Margin
from pansketch.generators.pairwise.multiresolution import folded
from pansketch.generators.partition.box_overlap import steepness

BINS = 16  # of a number, when pairs are compared
SCARCE = 1e-9  # readings in a cell that hold no less, so that an empty cell has an inside too


@dataclass(frozen=True, eq=False)
class Grid:
    """One attribute in cells of so many bits, and in bins: `edges` float64[bins - 1] divide the
    unit interval. Categories have a bin each."""

    attribute: Attribute
    bits: int
    edges: FloatArray

    @classmethod
    def of(cls, attribute: Attribute, margins: Sequence[Margin]) -> "Grid":
        """The finest cells and the quantiles of all margins together."""
        bits = max(margin.bits for margin in margins)
        if attribute.categories is not None:
            return cls(attribute, bits, np.arange(1, attribute.codes) / attribute.extent)
        counts = np.sum([refined(attribute, margin, bits) for margin in margins], axis=0)
        ends = np.linspace(0, 1, len(counts) + 1)
        below = np.concatenate([[0.0], np.cumsum(counts)]) / counts.sum()
        edges = np.interp(np.arange(1, BINS) / BINS, below, ends)
        return cls(
            attribute, bits, edges if attribute.placed is None else attribute.placed.around(edges)
        )

    @property
    def cells(self) -> int:
        return cells_of(self.attribute, self.bits)

    @cached_property
    def means(self) -> FloatArray:
        """Mean value of a reading in each cell, in the attribute's unit, less the middle one's:
        float64[cells]. Far from 0, products would lose their digits. `missing` adds nothing to a
        product, so it has 0."""
        return np.nan_to_num(self._values)

    @cached_property
    def _values(self) -> FloatArray:
        starts = np.arange(self.cells) / (1 << self.bits)
        values = self.attribute.cell_means(starts, starts + 1 / (1 << self.bits))
        middle = np.searchsorted(starts, np.median(self.edges)) if len(self.edges) else 0
        middle = min(int(middle), int(np.isfinite(values).sum()) - 1)
        return np.asarray(values - values[middle])

    @cached_property
    def steps(self) -> FloatArray:
        """How far readings move from each cell to the next: float64[cells - 1]. To and from
        `missing` is no way."""
        return np.nan_to_num(np.diff(self._values))

    @cached_property
    def variances(self) -> FloatArray:
        """Variance of a reading inside each cell: float64[cells]."""
        starts = np.arange(self.cells) / (1 << self.bits)
        return self.attribute.cell_variances(starts, starts + 1 / (1 << self.bits))

    def variance(self, shares: FloatArray) -> float:
        """Of a reading, when the finest cells have these shares, float64[cells]."""
        mean = shares @ self.means
        return float(shares @ ((self.means - mean) ** 2 + self.variances))

    def between(self, shares: FloatArray, bits: int) -> float:
        """Which part of that variance is between cells of so many bits, and not inside them; all of
        it where there is none."""
        whole, mean = self.variance(shares), shares @ self.means
        means, cells = self.means_of_cells(shares, bits), folded(shares, self.bits - bits)
        return float(cells @ (means - mean) ** 2) / whole if whole > 0 else 1.0

    def blur(self, shares: FloatArray, bits: int) -> FloatArray:
        """What cells of so many bits make of the mean values of bins, which are those of all cells
        that readings of a bin are in: second moments of the true ones, of true and blurred, of the
        blurred ones, float64[3]."""
        true = (self.means - shares @ self.means) * shares @ self.bins_of_cells(shares, self.bits)
        held = np.maximum(shares @ self.bins_of_cells(shares, self.bits), SCARCE)
        means = self.means_of_cells(shares, bits) - shares @ self.means
        cells = folded(shares, self.bits - bits)
        blurred = (means * cells) @ self.bins_of_cells(shares, bits)
        products = np.array([true**2, true * blurred, blurred**2])
        return np.asarray(np.sum(products / held, axis=1))

    def piled(self, shares: FloatArray) -> float:
        """Share of readings that records have on the other side of a value with mass of its own.

        `shares`: of the finest cells, float64[cells]. In the first cell such a value is the lowest
        one, so there is none. In the last cell it is all, and in others half. Cells of one value
        have none.
        """
        if self.attribute.categories is not None or self.attribute.cyclic:
            return 0.0
        ends = np.linspace(0, 1, (1 << self.bits) + 1)
        likely = steepness(ends, np.concatenate([[0.0], np.cumsum(shares)]))
        wrong = np.full(self.cells, 0.5)
        wrong[[0, -1]] = 0.0, 1.0
        return float((shares * likely * wrong) @ (self.variances > 0))

    def halvings(self, bits: int) -> float:
        """How often a cell of so many bits can be halved until half of the bins are as wide."""
        if self.attribute.categories is not None or len(self.edges) < 2:
            return 0.0
        width = float(np.median(np.diff(self.edges)))
        return float(np.clip(-np.log2(max(width, 2.0**-self.bits)) - bits, 0.0, None))

    def bins_of_cells(self, counts: FloatArray, bits: int) -> FloatArray:
        """Which part of each cell of so many bits is in which bin, when readings inside it are
        spread as `counts` of the finest cells are: float64[cells, bins]."""
        ends = np.linspace(0, 1, (1 << self.bits) + 1)[: self.cells + 1]
        edges = np.concatenate([[0.0], self.edges, [1.0]])
        inside = np.minimum(ends[1:, None], edges[1:]) - np.maximum(ends[:-1, None], edges[:-1])
        return self._within(np.maximum(inside, 0.0) * (1 << self.bits), counts, bits)

    def means_of_cells(self, counts: FloatArray, bits: int) -> FloatArray:
        """Mean value in each cell of so many bits: float64[cells]."""
        return self._within(self.means[:, None], counts, bits)[:, 0]

    def _within(self, values: FloatArray, counts: FloatArray, bits: int) -> FloatArray:
        """Averages over larger cells of values of the finest ones: [cells, k]."""
        weights = np.maximum(counts, SCARCE)[:, None]
        starts = np.arange(0, self.cells, 1 << (self.bits - bits))
        sums = np.add.reduceat(values * weights, starts, axis=0)
        return np.asarray(sums / np.add.reduceat(weights, starts, axis=0))


def refined(attribute: Attribute, margin: Margin, bits: int) -> FloatArray:
    """A margin in cells of as many bits or more, even inside each of its own."""
    ways = 1 << (bits - margin.bits)
    return np.repeat(margin.counts / ways, ways)[: cells_of(attribute, bits)]
