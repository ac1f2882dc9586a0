"""Errors of questions that cut cells: a release does not show on which side of a cut readings are.

A model's boxes may be parts of one attribute's cells. Then the cell was released, and its parts
err together. Inside a cell readings may be as uneven as the cells beside it differ from it.
"""

from collections.abc import Iterator, Mapping
from math import hypot, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import FloatArray
from pansketch.domain.intervals import PAST, Interval, edge, whole
from pansketch.generators.partition.box_overlap import (
    SCARCE,
    STEEP,
    cumulative,
    densities_beside,
    lesser_of,
    rounded,
    steepness,
    uneven_inside,
)

if TYPE_CHECKING:
    from pansketch.generators.partition.partition import Partition

Indices = npt.NDArray[np.intp]

WIDER = 1.5  # times a box: less is rounding.
CUT = 1e-13  # of a cell: less is an error of rounding.
EDGE = 1e-8  # of a cell: less is no more than the values up to its beginning
UNSTATED = 0.3  # of a group of boxes may have one value, if no step is stated (measured)
COARSEST, FINEST = 7, 20  # bits of cells in which clipped readings pile up, where there are none


def doubt(model: "Partition", intervals: Mapping[int, Interval]) -> float:
    """Readings in cells that intervals cut, as an error of those inside."""
    inside = fractions(model, intervals)
    cut = doubt_of_bins(model, inside).item()
    if bounds := list(_bounds_cut(model, intervals)):
        # Noise may hide readings on a bound. Replicates that are fitted otherwise have them.
        found = np.square([_clipped(e, bounds, intervals) for e in (model, *model.replicates)])
        cut = sqrt(max(found[0], found.mean()))
    return hypot(cut, model.unresolved(inside).item())


def fractions(model: "Partition", intervals: Mapping[int, Interval]) -> dict[int, FloatArray]:
    """By attribute the fraction of each box in its interval: float64[1, n]."""
    return {axis: model.overlap({axis: each})[None] for axis, each in intervals.items()}


def _bounds_cut(
    model: "Partition", intervals: Mapping[int, Interval]
) -> Iterator[tuple[int, float]]:
    """Attributes, and the bounds of those whose boxes are no cells, that an interval separates from
    the values beside it. A bound is 0 or the top of the scale."""
    for axis, interval in intervals.items():
        top = model.domain.attributes[axis].scaling.top
        for place in interval if axis not in model.cells else ():
            if abs(place - PAST) < PAST / 2:
                yield axis, 0.0
            elif abs(top - PAST - place) < PAST / 2:
                yield axis, top


def _clipped(
    model: "Partition", bounds: list[tuple[int, float]], intervals: Mapping[int, Interval]
) -> float:
    """The error of readings in cells that intervals cut, and of those next to bounds that an
    interval separates from the values beside them.

    Readings beyond a bound are clipped to it. Of boxes that are no cells, noise makes narrow ones.
    """
    found = [doubt_of_bins(model, fractions(model, intervals)).item()]
    for axis, bound in bounds:
        others = {other: each for other, each in intervals.items() if other != axis}
        found.append(_piled_at(model, axis, bound, others) / sqrt(3))
    return hypot(*found)


def _piled_at(model: "Partition", axis: int, bound: float, others: Mapping[int, Interval]) -> float:
    """Readings next to a bound that stand out from those beside them, up to all of them."""
    mass = model.mass * model.overlap(others)
    found = 0.0
    for bits in range(COARSEST, FINEST + 1):
        width = 2.0**-bits
        start, beside = (0.0, width) if bound == 0 else (bound - width, bound - 2 * width)
        here, there = (
            float(mass @ model.overlap({axis: (each, each + width)})) for each in (start, beside)
        )
        found = max(found, min(here, 2 * (here - STEEP * there)))
    return found


def doubt_of_bins(model: "Partition", inside: Mapping[int, FloatArray]) -> FloatArray:
    """Readings in cells that bins cut, as an error of those in each bin: float64, an axis for each
    attribute. `inside`: by attribute the fraction of each box in each bin, float64[bins, n].

    A cut cell of which a fraction f is inside contributes sqrt(f (1 - f) / 3): at f = 1/2 the
    standard deviation of a uniform share. Neighbouring cells may err together, so they add up.
    """
    shape = [len(each) for each in inside.values()]
    squares = np.zeros(shape)
    for place, axis in enumerate(inside):
        others = np.ones((1, len(model.mass)))
        for other, fractions in inside.items():
            if other != axis:
                others = (others[:, None] * fractions).reshape(-1, others.shape[1])
        found = _cut(model, axis, inside[axis], others)
        rest = [many for where, many in enumerate(shape) if where != place]
        squares += np.moveaxis(found.reshape(-1, *rest), 0, place)
    return np.sqrt(squares)


def _cut(model: "Partition", axis: int, inside: FloatArray, others: FloatArray) -> FloatArray:
    """Squared error of the readings in bins of one attribute, float64[bins, n] of each box, and in
    those of the others, float64[m, n]: float64[bins, m].

    A cell that holds far more than the cells beside it may hold a value with mass of its own. Each
    of two such cells may. Readings are a sample: of h in a cell of any density, the number in a
    part varies as a binomial one.
    """
    which, uneven, steep, crowded = _cells(model, axis)
    many = len(steep)
    held = np.bincount(which, model.mass, many)
    parts = np.stack([np.bincount(which, model.mass * each, many) for each in inside])
    fraction = np.divide(parts, held, out=np.zeros_like(parts), where=held > 0)
    cut = (fraction > CUT) & (fraction < 1 - CUT)
    there = np.stack([np.bincount(which, model.mass * each, many) for each in others], axis=1)
    inner = np.maximum(fraction * (1 - fraction) - EDGE, 0.0)
    apart = cut * np.maximum(
        uneven * np.sqrt(inner / 3), (inner > 0) * _crowding(fraction, crowded)
    )
    piled = cut * _either_side(fraction) * np.sqrt(steep)  # `steep`: a probability
    sampled = (cut * inner) @ there
    found = (apart @ there) ** 2 + (piled @ there) ** 2 + sampled
    return np.asarray(found + _divided(model, axis, inside, others))


def _crowding(fraction: FloatArray, crowded: FloatArray) -> FloatArray:
    """Error of the share of a cell's readings in a fraction of it, as a share of the cell.

    Readings of a cell in a tail may crowd where the denser cell beside it begins. A part of it, at
    either end, holds anything from its fraction to `crowded` times as much, up to all readings.
    """
    most = (np.minimum(each * crowded, 1.0) - each for each in (fraction, 1 - fraction))
    return np.asarray(np.maximum(*most) / sqrt(3))


def _divided(model: "Partition", axis: int, inside: FloatArray, others: FloatArray) -> FloatArray:
    """As `_cut`, of the boxes among which noise divides readings that pile up, or are rounded."""
    groups = _groups(model, axis)
    if groups is None:
        return np.zeros((len(inside), len(others)))
    boxes, which, _, steep = groups
    steep = np.maximum(steep, UNSTATED * (model.domain.attributes[axis].step is None))
    many, mass = len(steep), model.mass[boxes]
    held = np.bincount(which, mass, many)
    parts = np.stack([np.bincount(which, mass * each[boxes], many) for each in inside])
    fraction = np.divide(parts, held, out=np.zeros_like(parts), where=held > 0)
    cut = (fraction > CUT) & (fraction < 1 - CUT)
    there = np.stack([np.bincount(which, mass * each[boxes], many) for each in others], axis=1)
    return np.asarray(((cut * _either_side(fraction) * steep) @ there) ** 2)


def _either_side(fraction: FloatArray) -> FloatArray:
    """Error of the share inside of readings of one value, on either side of a cut as likely. With a
    fraction f of them inside, the squared error is the mean of (1 - f)**2 and f**2."""
    return np.asarray(np.sqrt(np.clip(fraction**2 - fraction + 1 / 2, 0.0, None)))


def _groups(
    model: "Partition", axis: int
) -> tuple[Indices, Indices, tuple[FloatArray, FloatArray], FloatArray] | None:
    """Boxes that a release does not tell from those beside them along an attribute; None: there are
    none. Their indices, the group of each, the ends of each group, and the share of its readings
    that may have one frequent value.

    Only a group that is over STEEP times as dense as those beside it has one: what it holds beyond
    them. Two groups side by side may have one each, or one on their border.
    """
    if model.shown is None or model.domain.attributes[axis].categories is not None:
        return None
    low, high = (corner[:, axis] for corner in model.shown)
    wider = (high - low) > WIDER * (model.high[:, axis] - model.low[:, axis])
    boxes = np.flatnonzero(wider & (model.mass > 0))
    if not len(boxes):
        return None
    found, which = np.unique(np.stack([low, high])[:, boxes], axis=1, return_inverse=True)
    start, end = found
    edges, below = cumulative(model.low[:, axis], model.high[:, axis], model.box_shares())
    width = end - start
    ends = [start - 2 * width, start - width, start, end, end + width, end + 2 * width]
    second, before, here, after, last = np.diff(np.interp(np.stack(ends), edges, below), axis=0)
    pairs = np.maximum(before, last), np.maximum(second, after)
    beside = lesser_of(np.maximum(before, after), *pairs) / np.maximum(here, SCARCE)
    steep = np.where(STEEP * beside < 1, 1 - beside, 0.0)
    return boxes, which.reshape(-1), (start, end), np.clip(steep, 0.0, 1.0)


class _Cells(NamedTuple):
    """The index of each box's cell, intp[n]. For each cell, how uneven it may be inside, and the
    probability of one frequent value, both 0 to 1. `crowded`: how many times denser than STEEP
    times its own density a cell beside it is, at least 1."""

    which: Indices
    uneven: FloatArray
    steep: FloatArray
    crowded: FloatArray


def _cells(model: "Partition", axis: int) -> _Cells:
    """The cells of boxes; without cells, boxes are cells."""
    low, shares = model.low[:, axis], model.box_shares()
    attribute = model.domain.attributes[axis]
    if axis not in model.cells:
        edges, below = cumulative(low, model.high[:, axis], shares)
        steep = steepness(edges, below, pairs=True)
        own = np.clip(np.searchsorted(edges, low), 0, len(steep) - 1)
        crowded = np.maximum(densities_beside(attribute, edges, below).max(axis=0) / STEEP, 1.0)
        return _Cells(np.arange(len(low)), np.ones(len(low)), steep[own], crowded[own])
    bits, rougher, step = model.cells[axis]
    many = 1 << bits
    which = (low * many).astype(np.intp)
    held = np.bincount(which, shares, many).astype(np.float64)
    edges, below = np.arange(many + 1) / many, np.concatenate([[0.0], np.cumsum(held)])
    steep = np.maximum(steepness(edges, below, pairs=True), rounded(attribute, edges, step))
    crowded = densities_beside(attribute, edges, below).max(axis=0) / STEEP
    return _Cells(which, uneven_inside(attribute, held, rougher), steep, np.maximum(crowded, 1.0))


def doubt_of_mean(model: "Partition", position: int) -> float:
    """Error of an attribute's mean, because a release does not show positions inside a cell."""
    edges, below, uneven, likely = _row(model, position)
    held = (shares := np.diff(below)) > 0
    variances = model.domain.attributes[position].cell_variances(edges[:-1][held], edges[1:][held])
    # Frequent values may all be at the same end of their cells, as multiples of a width are.
    together = (shares * likely)[held] @ np.sqrt(variances)
    squares = (shares * uneven)[held] ** 2 + shares[held] / model.total  # The latter: a sample.
    apart = max(float(np.sqrt(squares @ variances)), float(together))
    groups = _groups(model, position)
    if groups is None:
        return apart
    boxes, which, (start, end), steep = groups
    piled = np.bincount(which, model.box_shares()[boxes], len(steep)) * steep
    spread = model.domain.attributes[position].cell_variances(start, end)
    return hypot(apart, float(piled @ np.sqrt(spread)))


def doubt_of_quantile(model: "Partition", position: int, q: float, value: float) -> float:
    """An error of a quantile, which is somewhere in its cell. `value`: where it is taken to be."""
    attribute = model.domain.attributes[position]
    edges, below, uneven, steep = _row(model, position)
    cell = int(np.clip(np.searchsorted(below, q), 1, len(edges) - 1))
    ends = edges[cell - 1 : cell], edges[cell : cell + 1]
    before, share = below[cell - 1], np.diff(below)[cell - 1]
    part = np.clip((q - before) / max(share, SCARCE), 0.0, 1.0)
    many = max(share * model.total, 1.0)
    sampled = min(12 * (part * (1 - part) + 1 / many) / many, 1.0)  # It is between two readings.
    # It is anywhere in a cell that its neighbours do not resemble, also at the farther end.
    own = max(uneven[cell - 1] ** 2, steep[cell - 1])
    deviation = np.sqrt((own + sampled) * attribute.cell_variances(*ends)[0])
    unlike = np.abs(densities_beside(attribute, edges, below)[:, cell - 1] - 1).max()
    away = max(min(unlike, 1.0), sqrt(steep[cell - 1])) * (value - attribute.cell_means(*ends)[0])
    return float(np.hypot(np.hypot(deviation, away), _divided_quantile(model, position, q, value)))


def _divided_quantile(model: "Partition", position: int, q: float, value: float) -> float:
    """An error of a quantile among boxes that noise divides. The error of the share below the
    quantile moves it, up to the ends of their group."""
    groups = _groups(model, position)
    if groups is None:
        return 0.0
    attribute = model.domain.attributes[position]
    (start, end), place = groups[2], edge(attribute, value, after=False)
    around = (start <= place) & (place <= end)
    if not around.any():
        return 0.0
    below = model.overlap({position: (whole(attribute)[0], place)})[None]
    squared = _divided(model, position, below, np.ones((1, len(model.mass)))).item()
    off = sqrt(squared) / model.total
    edges, shares = model.filled(position)
    moved = np.interp([q - off, q + off], shares, edges)
    reached = attribute.from_unit(np.clip(moved, start[around].min(), end[around].max()))
    return float(np.abs(reached - value).max())


def _row(model: "Partition", axis: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Ends of an attribute's cells, the share of readings below each end, and of each cell what
    `_cells` tells."""
    if axis not in model.cells:
        edges, below = model.filled(axis)
        return edges, below, np.ones(len(edges) - 1), steepness(edges, below, pairs=True)
    which, uneven, steep, _ = _cells(model, axis)
    held = np.bincount(which, model.box_shares(), len(steep))
    ends = np.arange(len(steep) + 1) / len(steep)
    return ends, np.concatenate([[0.0], np.cumsum(held)]), uneven, steep
