"""The portrait of a fit of views, and what the cells of its tables and margins hide.

What cells hide no release tells. But it tells what cells twice as wide would hide: a model of the
wider cells, with records inside them as ever, is compared with the narrower ones. Cells are taken
to hide the same part of the most that they can. Of smooth densities that part is small at every
width, and of near-duplicates it is large. Where all readings are in a few wide cells, these show
little. Then the parts of the stream's other pairs count, and a usual one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import hypot, sqrt

import numpy as np

from pansketch.domain.domain import FloatArray
from pansketch.generators.fidelity.portrait import (
    SCARCE,
    Grid,
    Grids,
    Pair,
    Portrait,
    apart,
    sampled,
)
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.fit import ViewFit
from pansketch.generators.pairwise.margin import from_wider_cells, refined
from pansketch.generators.pairwise.marginals import Margin
from pansketch.generators.pairwise.multiresolution import folded
from pansketch.generators.pairwise.particles import Joint, joint_of

PARTICLES = 1 << 16  # of a model of wider cells
# Of what cells can hide at most, the part that they are taken to hide where nothing is known. It
# was measured: 0.1, of features that hardly depend on each other, to 0.5. It counts as one more
# pair of the stream would, of which wider cells can show KNOWN at most. All pairs together count
# for each of them as OTHERS.
USUAL, KNOWN, OTHERS = 0.22, 0.5, 0.2
# A density that rises evenly is half as uneven inside a cell of half the width.
HALVED = 0.5


def portrait(fit: ViewFit, grids: Grids) -> Portrait:
    """What a fit tells."""
    cells = {
        axis: refined(grids[axis].attribute, margin, grids[axis].bits)
        for axis, margin in sorted(fit.margins.items())
    }
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


def ceilings(fit: ViewFit, grids: Grids) -> dict[Pair, float]:
    """Of each pair, the total variation between bins that its cells can hide at most.

    Records are independent inside a cell. They are farthest from readings of the same margins where
    the attribute in fewer bins follows from the other: what they share is the sum of its squares.
    """
    found = {}
    for pair, table in _shared_pairs(fit, grids):
        counts = np.maximum(table.onto(pair), 0.0)
        left, right = (_together(each) for each in _bins(fit, grids, table, pair, even=True))
        most = 1 - np.maximum(left[:, None], right)
        found[pair] = float((counts * most).sum() / max(counts.sum(), SCARCE))
    return found


def ceiling_without_view(of: Portrait, grids: Grids, pair: Pair) -> float:
    """The same for a pair that no view holds: all of it is one cell. 1 for an attribute in none."""
    if not all(axis in grids for axis in pair):
        return 1.0
    each = [_together(grids[axis].bins_of_cells(of.cells[axis], 0, even=True)) for axis in pair]
    return float(1 - np.max(each))


def hidden(
    fit: ViewFit, grids: Grids, particles: int, generator: np.random.Generator
) -> dict[Pair, float]:
    """Of each pair, the total variation between bins that its cells hide, as it is expected.

    `fit`: of tables that are as rough as the readings. Chance places its readings inside their
    cells, and so many particles of the model.
    """
    wide = _wider(fit, grids)
    joint = joint_of(wide, PARTICLES, generator)
    wider = dict(_shared_pairs(wide, grids))
    shown, showable, hideable, placed = {}, {}, {}, {}
    for pair, table in _shared_pairs(fit, grids):
        counts, modelled = table.onto(pair), _modelled(joint, table, pair)
        first, second = _bins(fit, grids, table, pair)
        steps = [table.bits_of(axis) - wider[pair].bits_of(axis) for axis in pair]
        found = apart(first.T @ counts @ second, first.T @ modelled @ second)
        counts = np.maximum(counts, 0.0) / np.maximum(counts, 0.0).sum()
        divided = counts * (1 - counts / np.maximum(_repeated(counts, steps), SCARCE))
        chance = sampled((first**2).T @ divided @ second**2, fit.total)
        shown[pair] = sqrt(max(found**2 - chance**2, 0.0))
        showable[pair] = max(map(_divided, (counts, counts.T), steps))
        hideable[pair] = max(_most(counts @ second, first), _most(counts.T @ first, second))
        inside = first.T @ counts @ second - (first**2).T @ counts @ second**2
        placed[pair] = sampled(inside, 1 / (1 / fit.total + 1 / particles))
    usual = (sum(shown.values()) + KNOWN * USUAL) / (sum(showable.values()) + KNOWN)
    parts = {}
    for pair, own in shown.items():
        # Where the own cells show nothing, other pairs do not make less than a usual part likely.
        nothing = max(0.0, 1 - showable[pair] / OTHERS)
        others = usual + nothing * max(0.0, USUAL - usual)
        parts[pair] = min(1.0, (own + OTHERS * others) / (showable[pair] + OTHERS))
    return {pair: hypot(parts[pair] * hideable[pair], placed[pair]) for pair in parts}


def misfits(fit: ViewFit, grids: Grids, generator: np.random.Generator) -> dict[Pair, float]:
    """Of each pair, the total variation between its table and records that follow all tables
    nearly."""
    joint, found = joint_of(fit, PARTICLES, generator), {}
    for pair, table in _shared_pairs(fit, grids):
        first, second = _bins(fit, grids, table, pair)
        both = table.onto(pair), _modelled(joint, table, pair)
        found[pair] = apart(*(first.T @ each @ second for each in both))
    return found


def _modelled(joint: Joint, table: Table, pair: Pair) -> FloatArray:
    """What a table would hold of the records of a model."""
    held = joint.in_table(table).held(joint.weights).reshape(table.counts.shape)
    return replace(table, counts=held).onto(pair)


def _repeated(counts: FloatArray, bits: Sequence[int]) -> FloatArray:
    """Of each cell what the cell holds that is 2**bits times as wide along each axis."""
    for axis, each in enumerate(bits):
        turned = np.moveaxis(counts, axis, -1)
        turned = np.repeat(folded(turned, each), 1 << each, axis=-1)[..., : counts.shape[axis]]
        counts = np.moveaxis(turned, -1, axis)
    return counts


def hidden_alone(
    margins: Mapping[int, Margin], noisy: Sequence[Mapping[int, Margin]], grids: Grids
) -> dict[int, float]:
    """Of each attribute, the total variation between bins that its finest cells hide, as it is
    expected. `noisy`: the same margins with other noise, whose part of what is shown is none of the
    readings'."""
    found = {}
    for axis, grid in grids.items():
        own, most, part = _slopes(grid, margins[axis])
        others = (_slopes(grid, each[axis])[0] for each in noisy)
        noise = np.mean([np.abs(own - each).sum() / 2 for each in others] or [0.0])
        shown = sqrt(max((np.abs(own).sum() / 2) ** 2 - noise**2, 0.0))
        found[axis] = most * min(1.0, HALVED * shown / part) if part else 0.0
    return found


def ceilings_alone(of: Portrait, grids: Grids) -> dict[int, float]:
    """Of each attribute, the same if all readings of each cell lie at one point."""
    found = {}
    for axis, grid in grids.items():
        shares = of.cells[axis] / of.cells[axis].sum()
        found[axis] = float(shares @ (1 - (grid.even_parts**2).sum(axis=1)))
    return found


def _slopes(grid: Grid, margin: Margin) -> tuple[FloatArray, float, float]:
    """On bins, what a margin has beyond a model of cells twice as wide, float64[bins]; the total
    variation that its cells can hide at most, and that it can have from the model."""
    nothing = np.zeros(grid.parts.shape[1]), 0.0, 0.0
    if margin.bits < 1 or grid.whole(margin.bits) or len(margin.counts) % 2:
        return nothing
    counts = margin.counts / margin.counts.sum()
    ways = 1 << (grid.bits - margin.bits)
    bins = grid.parts.reshape(len(counts), ways, -1).mean(axis=1)
    # A cell that stands out is no slope: its readings have one value.
    steep = grid.steep.reshape(-1, 2 * ways).max(axis=1)
    smooth = np.repeat(1 - steep, 2)
    both = np.repeat(bins.reshape(-1, 2, bins.shape[1]).mean(axis=1), 2, axis=0)
    most = float(counts @ (1 - (bins**2).sum(axis=1)))
    part = float((counts * smooth) @ np.abs(bins - both).sum(axis=1)) / 2
    beyond = counts - from_wider_cells(grid.attribute, margin.bits, counts)
    return (smooth * beyond) @ bins, most, part


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


def _bins(
    fit: ViewFit, grids: Grids, table: Table, pair: Pair, *, even: bool = False
) -> list[FloatArray]:
    """See `Grid.bins_of_cells`: of the cells of a table, of both attributes."""
    return [
        grids[axis].bins_of_cells(_shares(fit, grids, axis), table.bits_of(axis), even=even)
        for axis in pair
    ]


def _rank(table: Table, pair: Pair) -> tuple[int, int]:
    return len(table.axes), -sum(table.bits_of(axis) for axis in pair)


def _together(counts: FloatArray) -> FloatArray:
    """How likely two readings of a row are in one column: float64[rows, columns] ->
    float64[rows]."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), SCARCE)
    return np.asarray((shares**2).sum(axis=1))


def _most(others: FloatArray, parts: FloatArray) -> float:
    """The total variation that cells of one attribute can have from independent records at most, by
    what they hold of the other attribute, float64[cells, n], and by the `parts` that they are
    divided into, float64[cells, k]."""
    held = others.sum(axis=1)
    same = np.maximum(_together(others), _together(parts))
    return float(held @ (1 - same) / max(held.sum(), SCARCE))


def _divided(counts: FloatArray, bits: int) -> float:
    """`_most` of cells of the first attribute that are 2**bits times as wide, by the cells that
    they are divided into."""
    ways = 1 << bits
    parts = np.pad(counts.sum(axis=1), (0, -len(counts) % ways)).reshape(-1, ways)
    return _most(folded(counts.T, bits).T, parts)


def _wider(fit: ViewFit, grids: Grids) -> ViewFit:
    """What a fit would tell if cells of larger tables were twice as wide along each attribute.
    Categories that have cells of their own keep them."""
    return replace(fit, tables=[_wider_cells(table, grids) for table in fit.tables])


def _wider_cells(table: Table, grids: Grids) -> Table:
    for place, (axis, bits) in enumerate(zip(table.axes, table.bits, strict=True)):
        if bits > max(1, grids[axis].attribute.least_bits) and not grids[axis].whole(bits):
            counts = np.apply_along_axis(folded, place, table.counts, 1)
            narrower = (*table.bits[:place], bits - 1, *table.bits[place + 1 :])
            table = replace(table, counts=counts, bits=narrower, reach=())
    return table
