"""A model as it is compared with others: cells of each attribute, bins and products of each pair.

All of it adds up, so that the models of several groups of devices are compared as one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import pi, sqrt

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Attribute, FloatArray
from pansketch.generators.pairwise.contingency_tables import cells_of
from pansketch.generators.pairwise.margin import refined, share_at_top
from pansketch.generators.pairwise.marginals import Margin
from pansketch.generators.pairwise.multiresolution import folded
from pansketch.generators.partition.box_overlap import steepness

BINS = 16  # of a number, when pairs are compared
SCARCE = 1e-9  # readings in a cell that hold no less, so that an empty cell has an inside too
CONTINUED = 0.1  # of an end cell's readings, twice in the next one: they are no single value
ABSOLUTE = np.sqrt(2 / pi)  # mean absolute value of a normal number, in standard deviations

Pair = tuple[int, int]
Grids = Mapping[int, "Grid"]


@dataclass(frozen=True, eq=False)
class Grid:
    """One attribute in cells of so many bits, and in bins: `edges` float64[bins - 1] divide the
    unit interval. Categories have a bin each.

    `steep`: float64[cells], the probability that a cell's readings have one value, which lies in
    one bin. It is 0 for categories and cyclic attributes.
    """

    attribute: Attribute
    bits: int
    edges: FloatArray
    steep: FloatArray

    @classmethod
    def of(cls, attribute: Attribute, margins: Sequence[Margin]) -> "Grid":
        """The finest cells and the quantiles of all margins together."""
        bits = max(margin.bits for margin in margins)
        counts = np.sum([refined(attribute, margin, bits) for margin in margins], axis=0)
        even = np.zeros(len(counts))
        if attribute.categories is not None:
            return cls(attribute, bits, np.arange(1, attribute.codes) / attribute.extent, even)
        ends = np.linspace(0, 1, len(counts) + 1)
        below = np.concatenate([[0.0], np.cumsum(counts)]) / counts.sum()
        edges = np.interp(np.arange(1, BINS) / BINS, below, ends)
        if attribute.placed is not None:
            edges = attribute.placed.around(edges)
        if attribute.cyclic:
            return cls(attribute, bits, edges, even)
        several = attribute.cell_variances(ends[:-1], ends[1:]) > 0
        return cls(attribute, bits, edges, np.where(several, steepness(ends, below), 1.0))

    @property
    def cells(self) -> int:
        return cells_of(self.attribute, self.bits)

    def whole(self, bits: int) -> bool:
        """Whether cells of so many bits are categories."""
        return self.attribute.categories is not None and bits == self.attribute.max_bits

    @cached_property
    def means(self) -> FloatArray:
        """Mean value of a reading in each cell, less the middle one's: float64[cells]. Far from 0,
        products would lose their digits. `missing` adds nothing to a product, so it has 0."""
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
        """How far it is from each cell to the next: float64[cells - 1]; 0 to and from `missing`."""
        return np.nan_to_num(np.diff(self._values))

    @cached_property
    def variances(self) -> FloatArray:
        """Variance of a reading inside each cell: float64[cells]."""
        return self.attribute.cell_variances(self._ends[:-1], self._ends[1:])

    def variance(self, shares: FloatArray) -> float:
        """Of a reading, when the finest cells have these shares, float64[cells]."""
        mean = shares @ self.means
        return float(shares @ ((self.means - mean) ** 2 + self.variances))

    def deviation(self, shares: FloatArray) -> float:
        """Its root, and never 0: noise may put all readings at one value."""
        steps = np.abs(self.steps[self.steps != 0])
        least = float(steps.min()) if len(steps) else 1.0
        return sqrt(max(self.variance(shares), least**2 / 12))

    def between(self, shares: FloatArray, bits: int) -> float:
        """Which part of that variance is between cells of so many bits, and not inside them; all of
        it where there is none."""
        whole, mean = self.variance(shares), shares @ self.means
        means, cells = self.means_of_cells(shares, bits), folded(shares, self.bits - bits)
        return float(cells @ (means - mean) ** 2) / whole if whole > 0 else 1.0

    def piled(self, shares: FloatArray) -> float:
        """Share of readings that records have on the other side of a value with mass of its own.

        `shares`: of the finest cells, float64[cells]. The value is the lowest of the first cell,
        the highest of the last, or a middle one. With readings in the next cell they may crowd.
        """
        wrong = np.full(self.cells, 0.5)
        crowd = np.minimum((1 - self.steep[[0, -1]]) / CONTINUED, 1.0) ** 2
        at_top = 1 - share_at_top(self.attribute, self.bits, shares)
        wrong[[0, -1]] = np.maximum((0.0, at_top), crowd / 2)
        wrong *= (np.diff(self._bins_until) > 0) & (self.variances > 0)
        return float((shares * self.steep) @ wrong)

    def spread(self, low: FloatArray, high: FloatArray, values: FloatArray) -> FloatArray:
        """Averages over unit intervals that end where finest cells do: float64[n] each, and values
        of the finest cells, float64[cells, k] -> float64[n, k]."""
        first, last = (np.rint(each * (1 << self.bits)).astype(np.intp) for each in (low, high))
        last = np.minimum(np.maximum(last, first + 1), self.cells)
        sums = np.vstack([np.zeros(values.shape[1]), np.cumsum(values, axis=0)])
        return np.asarray((sums[last] - sums[first]) / (last - first)[:, None])

    def bins_of_cells(self, counts: FloatArray, bits: int, *, even: bool = False) -> FloatArray:
        """Which part of each cell of so many bits is in which bin, when readings inside it are
        spread as `counts` of the finest cells are: float64[cells, bins]. `even`: cells that stand
        out hold no frequent value, but a crowd."""
        return self._within(self.even_parts if even else self.parts, counts, bits)

    def means_of_cells(self, counts: FloatArray, bits: int) -> FloatArray:
        """Mean value in each cell of so many bits: float64[cells]."""
        return self._within(self.means[:, None], counts, bits)[:, 0]

    @cached_property
    def parts(self) -> FloatArray:
        """Which part of each finest cell is in which bin: float64[cells, bins]."""
        return self._parts(self.steep)

    @cached_property
    def even_parts(self) -> FloatArray:
        """The same if cells of several values have no frequent one."""
        return self._parts(np.where(self.variances > 0, 0.0, self.steep))

    def _parts(self, frequent: FloatArray) -> FloatArray:
        """`frequent`: the part of a cell's readings that have one value. It is in one bin, the last
        one that its cell reaches."""
        edges, ends = np.concatenate([[0.0], self.edges, [1.0]]), self._ends
        inside = np.minimum(ends[1:, None], edges[1:]) - np.maximum(ends[:-1, None], edges[:-1])
        found = np.maximum(inside, 0.0) * (1 << self.bits) * (1 - frequent[:, None])
        found[np.arange(self.cells), self._bins_until[1:]] += frequent
        return np.asarray(found)

    @cached_property
    def _bins_until(self) -> npt.NDArray[np.intp]:
        """How many bins end below each end of a finest cell: intp[cells + 1]."""
        return np.searchsorted(self.edges, self._ends, "left")

    @cached_property
    def _ends(self) -> FloatArray:
        return np.linspace(0, 1, (1 << self.bits) + 1)[: self.cells + 1]

    def _within(self, values: FloatArray, counts: FloatArray, bits: int) -> FloatArray:
        """Averages over larger cells of values of the finest ones: [cells, k]."""
        weights = np.maximum(counts, SCARCE)[:, None]
        starts = np.arange(0, self.cells, 1 << (self.bits - bits))
        sums = np.add.reduceat(values * weights, starts, axis=0)
        return np.asarray(sums / np.add.reduceat(weights, starts, axis=0))


@dataclass(frozen=True, eq=False)
class Portrait:
    """Readings in the finest cells of every attribute, float64[cells]; of every known pair, those
    in the bins of both, float64[bins, bins], and the sum of their values' products."""

    cells: Mapping[int, FloatArray]
    bins: Mapping[Pair, FloatArray]
    products: Mapping[Pair, float]

    def __add__(self, other: "Portrait") -> "Portrait":
        """Pairs that one of them lacks are in neither."""
        shared = self.bins.keys() & other.bins.keys()
        return Portrait(
            {axis: self.cells[axis] + other.cells[axis] for axis in self.cells},
            {pair: self.bins[pair] + other.bins[pair] for pair in sorted(shared)},
            {pair: self.products[pair] + other.products[pair] for pair in sorted(shared)},
        )


def with_wider_cells(of: Portrait, grids: Grids) -> Portrait:
    """The same of attributes alone if their cells were twice as wide; categories keep theirs."""
    return replace(of, cells={axis: _even(grids[axis], c) for axis, c in of.cells.items()})


def _even(grid: Grid, counts: FloatArray) -> FloatArray:
    """Counts in the same cells, each pair of neighbours alike."""
    if grid.whole(grid.bits):
        return counts
    return np.repeat(folded(counts, 1) / 2, 2)[: len(counts)]


def marginal_distances(left: Portrait, right: Portrait, grids: Grids) -> FloatArray:
    """Of every attribute, from its readings in cells: float64[attributes].

    W1 in standard deviations of `left`; for a cyclic attribute around the circle and in those of an
    even spread; for one with categories, total variation.
    """
    found = (_apart(grid, left.cells[axis], right.cells[axis]) for axis, grid in grids.items())
    return np.array([*found])


def pair_distances(left: Portrait, right: Portrait) -> FloatArray:
    """Total variation of every pair on its bins: float64[pairs]."""
    return np.array([apart(left.bins[pair], other) for pair, other in right.bins.items()])


def apart(left: FloatArray, right: FloatArray) -> float:
    """Total variation of readings in the same bins."""
    return float(np.abs(left / left.sum() - right / right.sum()).sum() / 2)


def correlations(of: Portrait, grids: Grids) -> FloatArray:
    """Of every pair of numbers that are not cyclic, and 0 of others: float64[pairs]."""
    return np.array([_correlation(of, grids, *pair) for pair in of.products])


def correlation_error(
    found: Portrait, shown: FloatArray, noisy: Sequence[Portrait], grids: Grids, rows: float
) -> float:
    """The largest of all pairs, as it is expected, if cells show this part of each.

    Noise and cells both make correlations smaller, so their errors are taken together. The noise is
    drawn around the nearest fit, not around a likely one: a correlation adds cells up, so roughness
    is nothing to it, and what a likely fit has of it is noise that shifts the correlation.
    """
    if not found.bins:
        return 0.0
    here = correlations(found, grids)
    whole = np.clip(np.divide(here, shown, out=here.copy(), where=shown > 0), -1.0, 1.0)
    told = float(np.mean([np.abs(correlations(each, grids) - whole).max() for each in noisy]))
    sampling = float(np.max(1 - here**2) / np.sqrt(rows))
    return min(sqrt(told**2 + sampling**2), 2.0)


def sampled_marginals(of: Portrait, grids: Grids, rows: float) -> FloatArray:
    """Expected `marginal_distances` from so many independent records to the portrait."""
    found = []
    for axis, grid in grids.items():
        shares = of.cells[axis] / of.cells[axis].sum()
        if grid.attribute.categories is not None:
            found.append(sampled(shares * (1 - shares), rows))
            continue
        below = np.cumsum(shares)[:-1]
        spread = np.sqrt(np.maximum(below * (1 - below), 0.0) / rows)
        found.append(ABSOLUTE * float(spread @ grid.steps) / grid.deviation(shares))
    return np.array(found)


def sampled_pairs(of: Portrait, rows: float) -> FloatArray:
    """Expected `pair_distances` from so many independent records to the portrait."""
    shares = [bins / bins.sum() for bins in of.bins.values()]
    return np.array([sampled(each * (1 - each), rows) for each in shares])


def sampled(variances: FloatArray, rows: float) -> float:
    """Expected total variation of so many records, each of which adds variances to bins."""
    return float(ABSOLUTE / 2 * np.sqrt(np.maximum(variances, 0.0) / rows).sum())


def _apart(grid: Grid, left: FloatArray, right: FloatArray) -> float:
    left, right = left / left.sum(), right / right.sum()
    if grid.attribute.categories is not None:
        return float(np.abs(left - right).sum() / 2)
    below = np.cumsum(left - right)
    if grid.attribute.cyclic:
        # Around a circle no transport need pass the median of what is moved.
        return float(np.abs(below - np.median(below)).mean() * np.sqrt(12))
    return float(np.abs(below[:-1]) @ grid.steps) / grid.deviation(left)


def _correlation(of: Portrait, grids: Grids, a: int, b: int) -> float:
    attributes = [grids[axis].attribute for axis in (a, b)]
    if any(each.categories is not None or each.cyclic for each in attributes):
        return 0.0
    first, second = (of.cells[axis] / of.cells[axis].sum() for axis in (a, b))
    spread = grids[a].variance(first) * grids[b].variance(second)
    if spread <= 0:
        return 0.0
    product = of.products[a, b] / of.bins[a, b].sum()
    together = product - (first @ grids[a].means) * (second @ grids[b].means)
    # Noise may break what no readings do.
    return float(np.clip(together / np.sqrt(spread), -1.0, 1.0))
