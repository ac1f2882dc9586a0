"""The portrait of a hierarchy's model, and what its boxes hide.

Boxes that growth has divided further are narrower. What all of them hide is predicted as that of
tables is (tables.py), from boxes twice as wide along each attribute. Inside a box nothing is known,
neither of a pair nor of one attribute.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from math import hypot

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import FloatArray
from pansketch.generators.fidelity.portrait import Grid, Grids, Pair, Portrait, sampled
from pansketch.generators.pairwise.contingency_tables import cells_of
from pansketch.generators.pairwise.marginals import Margin
from pansketch.generators.partition.box_overlap import cumulative
from pansketch.generators.partition.partition import Partition

FINEST = 16  # bits of an attribute: narrower cells are a small part of any bin
AT_ONCE = 1 << 12  # boxes
HALVED = 0.5  # the least that is left of that part, with each halving
HALVINGS = 2  # that the change of that part is learned from: one alone is far from the next ones
ROUNDED = 1 / 6  # variance of the number of records in a run of boxes: both its ends are rounded


def grids_of_boxes(models: Sequence[Partition]) -> dict[int, Grid]:
    """Of all attributes, in cells of the narrowest boxes of all models."""
    found = {}
    for axis, attribute in enumerate(models[0].domain.attributes):
        deepest = max(int(_bits(each, axis).max(initial=0)) for each in models)
        bits = min(FINEST, deepest) if attribute.categories is None else attribute.max_bits
        found[axis] = Grid.of(attribute, [_margin(each, axis, bits) for each in models])
    return found


def _margin(model: Partition, axis: int, bits: int) -> Margin:
    edges, below = cumulative(model.low[:, axis], model.high[:, axis], model.box_shares())
    ends = np.arange(cells_of(model.domain.attributes[axis], bits) + 1) / (1 << bits)
    return Margin(bits, np.diff(np.interp(ends, edges, below)) * model.total)


def portrait_of_boxes(model: Partition, grids: Grids) -> Portrait:
    """What a model tells."""
    means = {axis: _means(model, grid, axis) for axis, grid in grids.items()}
    return Portrait(
        {axis: _margin(model, axis, grid.bits).counts for axis, grid in grids.items()},
        _on_bins(model, grids),
        {(a, b): float((means[a] * means[b]) @ model.mass) for a, b in combinations(grids, 2)},
    )


def _means(model: Partition, grid: Grid, axis: int) -> FloatArray:
    """Mean value in each box: float64[boxes]."""
    ends = model.low[:, axis], model.high[:, axis]
    return grid.spread(*ends, grid.means[:, None])[:, 0]


def attenuations_of_boxes(model: Partition, grids: Grids) -> dict[Pair, float]:
    """As `attenuations` of tables: of each attribute, the part of its variance that is between
    boxes."""
    between = {}
    for axis, grid in grids.items():
        shares = _margin(model, axis, grid.bits).counts / model.total
        whole = grid.variance(shares)
        among = model.box_shares() @ (_means(model, grid, axis) - shares @ grid.means) ** 2
        between[axis] = min(1.0, float(among) / whole) if whole > 0 else 1.0
    return {(a, b): between[a] * between[b] for a, b in combinations(grids, 2)}


def ceilings_of_boxes(model: Partition, grids: Grids, *, even: bool = True) -> dict[Pair, float]:
    """Of each pair, the total variation between bins that boxes can hide: of all readings in each
    at one point. `even`: see `Grid.bins_of_cells`."""
    held, shares = _all_parts(model, grids, even=even), model.box_shares()
    alike = {axis: (parts**2).sum(axis=1) for axis, parts in held.items()}
    return {(a, b): float(shares @ (1 - alike[a] * alike[b])) for a, b in combinations(grids, 2)}


def hidden_by_boxes(model: Partition, grids: Grids) -> dict[Pair, float]:
    """Of each pair, the total variation between bins that boxes hide, as it is expected.

    The part of the most that they can hide changes from one width to the next as it did before.
    It stays alike for readings in spots, and is halved where a density rises evenly. Such a density
    hides of points, which boxes can hide at most, half of what it hides of quarters of boxes.
    """
    most = ceilings_of_boxes(model, grids, even=False)
    noisy = [each for each in model.replicates if each.total > 0]
    last = _parts_shown(model, noisy, grids)
    for _ in range(HALVINGS):
        model, noisy = _wider(model, grids), [_wider(each, grids) for each in noisy]
    before = _parts_shown(model, noisy, grids)
    found = {}
    for pair, part in last.items():
        change = (part / before[pair]) ** (1 / HALVINGS) if before[pair] > 0 else 1.0
        found[pair] = most[pair] * part * min(max(change, HALVED), 1.0) ** 2
    return found


def _parts_shown(model: Partition, noisy: Sequence[Partition], grids: Grids) -> dict[Pair, float]:
    """Of each pair, what boxes twice as wide hide of the most that they can. What noise adds to it
    is none of the readings', and models with other noise tell how much."""
    own, others = _shown(model, grids), [_shown(each, grids) for each in noisy]
    found = {}
    for pair, most in _showable(model, grids).items():
        noise = np.mean([np.abs(own[pair] - each[pair]).sum() / 2 for each in others] or [0.0])
        shown = np.sqrt(max((np.abs(own[pair]).sum() / 2) ** 2 - noise**2, 0.0))
        found[pair] = min(1.0, float(shown) / most) if most else 0.0
    return found


def sampled_boxes(model: Partition, grids: Grids, rows: float) -> dict[Pair, float]:
    """Expected total variation of each pair from so many records.

    They are drawn systematically in the boxes' order. So chance places them inside their boxes, and
    rounds the number of every run of boxes that are in one bin. It places the readings too.
    """
    held, shares = _all_parts(model, grids), model.box_shares()[:, None]
    found = {}
    for a, b in combinations(grids, 2):
        bins = (held[a] * shares).T @ held[b]
        inside = bins - (held[a] ** 2 * shares).T @ held[b] ** 2
        place = held[a].argmax(axis=1) * bins.shape[1] + held[b].argmax(axis=1)
        runs = np.bincount(place[np.diff(place, prepend=-1) != 0], minlength=bins.size)
        rounded = inside + ROUNDED * runs.reshape(bins.shape) / rows
        drawn = sampled(np.minimum(rounded, bins * (1 - bins)), rows)
        found[a, b] = hypot(drawn, sampled(inside, model.total))
    return found


def _all_parts(model: Partition, grids: Grids, *, even: bool = False) -> dict[int, FloatArray]:
    """Which part of each box is in which bin, by attribute: float64[boxes, bins]."""
    return {
        axis: grid.spread(
            model.low[:, axis], model.high[:, axis], grid.even_parts if even else grid.parts
        )
        for axis, grid in grids.items()
    }


def _on_bins(model: Partition, grids: Grids) -> dict[Pair, FloatArray]:
    """Readings in the bins of each pair: float64[bins, bins]."""
    held = _all_parts(model, grids)
    return {(a, b): (held[a] * model.mass[:, None]).T @ held[b] for a, b in combinations(grids, 2)}


def _shown(model: Partition, grids: Grids) -> dict[Pair, FloatArray]:
    """Shares of bins that boxes have beyond those of boxes twice as wide: float64[bins, bins]."""
    own, wide = (_on_bins(each, grids) for each in (model, _wider(model, grids)))
    return {pair: (bins - wide[pair]) / bins.sum() for pair, bins in own.items()}


def _showable(model: Partition, grids: Grids) -> dict[Pair, float]:
    """Of each pair, the mean total variation between a box twice as wide and its quarters."""
    wide, shares = _wider(model, grids), model.box_shares()
    middle = (wide.low + wide.high) / 2
    halves = [replace(wide, high=middle), replace(wide, low=middle)]
    held = [_all_parts(each, grids) for each in (wide, *halves)]
    found = {}
    for a, b in combinations(grids, 2):
        whole = 0.0
        for first in range(0, len(shares), AT_ONCE):
            of = slice(first, first + AT_ONCE)
            box = held[0][a][of, :, None] * held[0][b][of, None, :]
            for one, other in product(held[1:], repeat=2):
                quarter = one[a][of, :, None] * other[b][of, None, :]
                whole += float(shares[of] @ np.abs(quarter - box).sum(axis=(1, 2))) / 8
        found[a, b] = whole
    return found


def _wider(model: Partition, grids: Grids) -> Partition:
    """Boxes twice as wide along each attribute. Categories stay as they are."""
    low, high = model.low.copy(), model.high.copy()
    for axis, grid in grids.items():
        if grid.attribute.categories is None:
            width = 2.0 ** (1 - np.maximum(_bits(model, axis), 1))
            low[:, axis] = np.floor(low[:, axis] / width) * width
            high[:, axis] = low[:, axis] + width
    return replace(model, low=low, high=high)


def _bits(model: Partition, axis: int) -> npt.NDArray[np.intp]:
    """How often the unit interval was halved for each box: intp[boxes]."""
    return np.rint(-np.log2(model.high[:, axis] - model.low[:, axis])).astype(np.intp)
