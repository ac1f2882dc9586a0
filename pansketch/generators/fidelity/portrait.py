"""A fit as it is compared with others: cells of each attribute, bins and products of each pair.

All of it adds up, so that the fits of several groups of devices are compared as one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from pansketch.domain.domain import FloatArray
from pansketch.generators.fidelity.grid import SCARCE, Grid, refined
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.fit import ViewFit
from pansketch.generators.pairwise.marginals import Margin
from pansketch.generators.pairwise.multiresolution import folded

Pair = tuple[int, int]
Grids = Mapping[int, Grid]


@dataclass(frozen=True, eq=False)
class Portrait:
    """Readings in the finest cells of every attribute, float64[cells]; of every pair that a view
    holds, readings in the bins of both, float64[bins, bins], and the sum of their values' products.
    """

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


def portrait(fit: ViewFit, grids: Grids) -> Portrait:
    """What a fit tells."""
    cells = {axis: refined(grids[axis].attribute, m, grids[axis].bits) for axis, m in _of(fit)}
    bins, products = {}, {}
    for (a, b), table in _shared_pairs(fit, grids):
        counts = table.onto((a, b))
        each = [(grids[axis], cells[axis], table.bits_of(axis)) for axis in (a, b)]
        (left, right), (first, second) = (
            [grid.bins_of_cells(inside, bits) for grid, inside, bits in each],
            [grid.means_of_cells(inside, bits) for grid, inside, bits in each],
        )
        bins[a, b] = left.T @ counts @ right
        products[a, b] = float(first @ counts @ second)
    return Portrait(cells, bins, products)


def wider(fit: ViewFit, grids: Grids) -> ViewFit:
    """What a fit would tell if cells of larger tables were twice as wide along each attribute.

    Categories that have cells of their own keep them, here and in `with_wider_cells`.
    """
    return ViewFit(fit.margins, [_wider(table, grids) for table in fit.tables])


def halvings(fit: ViewFit, grids: Grids) -> dict[Pair, float]:
    """How often the cells of each pair can be halved, on average of both attributes, until they are
    as narrow as half of the bins are."""
    return {
        pair: sum(grids[axis].halvings(table.bits_of(axis)) for axis in pair) / 2
        for pair, table in _shared_pairs(fit, grids)
    }


def attenuations(fit: ViewFit, grids: Grids) -> dict[Pair, float]:
    """Of each pair, which part of a correlation its cells show: the product of the parts of both
    variances that are between cells.

    Where one attribute's mean given the other is a line, a cell's mean is on that line too, so what
    is lost of the covariance is the line's slope times the variance inside the cells.
    """
    found = {}
    for pair, table in _shared_pairs(fit, grids):
        each = [
            grids[axis].between(_shares(fit, grids, axis), table.bits_of(axis)) for axis in pair
        ]
        found[pair] = each[0] * each[1]
    return found


def blurs(fit: ViewFit, grids: Grids) -> dict[Pair, float]:
    """Of each pair, the part of the dependence between bins that its cells hide, over the part that
    they show, if the density is 1 + c a b of values less their means: the first term of any
    dependence, of which cells show 1 + c times the cells' means."""
    found = {}
    for pair, table in _shared_pairs(fit, grids):
        each = [grids[axis].blur(_shares(fit, grids, axis), table.bits_of(axis)) for axis in pair]
        true, both, shown = each[0] * each[1]
        found[pair] = float(np.sqrt(max(true - 2 * both + shown, 0.0) / shown)) if shown else 0.0
    return found


def ceilings(fit: ViewFit, grids: Grids) -> dict[Pair, float]:
    """Of each pair, the total variation between bins that its cells can hide at most.

    Records are independent inside a cell. They are farthest from readings of the same margins where
    the attribute in fewer bins follows from the other: what they share is the sum of its squares.
    """
    found = {}
    for (a, b), table in _shared_pairs(fit, grids):
        counts = np.maximum(table.onto((a, b)), 0.0)
        left, right = (
            _together(grids[axis], _shares(fit, grids, axis), table.bits_of(axis))
            for axis in (a, b)
        )
        most = 1 - np.maximum(left[:, None], right)
        found[a, b] = float((counts * most).sum() / max(counts.sum(), SCARCE))
    return found


def ceiling_without_view(of: Portrait, grids: Grids, pair: Pair) -> float:
    """The same for a pair that no view holds: all of it is one cell. 1 for an attribute in none."""
    if not all(axis in grids for axis in pair):
        return 1.0
    return float(1 - max(_together(grids[axis], of.cells[axis], 0)[0] for axis in pair))


def with_wider_cells(of: Portrait, grids: Grids) -> Portrait:
    """What a portrait would tell of attributes alone if their cells were twice as wide."""
    return replace(of, cells={axis: _even(grids[axis], c) for axis, c in of.cells.items()})


def _of(fit: ViewFit) -> Sequence[tuple[int, Margin]]:
    return sorted(fit.margins.items())


def _pairs(fit: ViewFit) -> Sequence[tuple[Pair, Table]]:
    """Of each pair the view that tells most of it: of fewest attributes, then of most cells."""
    best: dict[Pair, Table] = {}
    for table in fit.tables:
        for pair in combinations(sorted(table.axes), 2):
            known = best.get(pair)
            if known is None or _rank(table, pair) < _rank(known, pair):
                best[pair] = table
    return sorted(best.items(), key=lambda item: item[0])


def _shared_pairs(fit: ViewFit, grids: Grids) -> Sequence[tuple[Pair, Table]]:
    return [(pair, table) for pair, table in _pairs(fit) if pair[0] in grids and pair[1] in grids]


def _shares(fit: ViewFit, grids: Grids, axis: int) -> FloatArray:
    cells = refined(grids[axis].attribute, fit.margins[axis], grids[axis].bits)
    return np.asarray(cells / cells.sum())


def _rank(table: Table, pair: Pair) -> tuple[int, int]:
    return len(table.axes), -sum(table.bits_of(axis) for axis in pair)


def _together(grid: Grid, shares: FloatArray, bits: int) -> FloatArray:
    """How likely two readings of a cell of so many bits are in one bin: float64[cells]."""
    return np.asarray((grid.bins_of_cells(shares, bits) ** 2).sum(axis=1))


def _wider(table: Table, grids: Grids) -> Table:
    for place, (axis, bits) in enumerate(zip(table.axes, table.bits, strict=True)):
        if bits > max(1, grids[axis].attribute.least_bits) and not _whole(grids[axis], bits):
            counts = np.apply_along_axis(folded, place, table.counts, 1)
            narrower = (*table.bits[:place], bits - 1, *table.bits[place + 1 :])
            table = replace(table, counts=counts, bits=narrower, reach=())
    return table


def _even(grid: Grid, counts: FloatArray) -> FloatArray:
    """Counts in the same cells, each pair of neighbours alike."""
    if _whole(grid, grid.bits):
        return counts
    return np.repeat(folded(counts, 1) / 2, 2)[: len(counts)]


def _whole(grid: Grid, bits: int) -> bool:
    """Whether cells are categories."""
    return grid.attribute.categories is not None and bits == grid.attribute.max_bits
