"""Arithmetic of weighted intervals and boxes: what is inside, what is below, and fair draws."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Attribute, FloatArray
from pansketch.domain.intervals import Interval
from pansketch.domain.quantization import Lattice
from pansketch.generators.simplex import isotonic

SCARCE = 1e-12
GRID = 1 << 16  # parts of the unit interval, as fine as the cells of most attributes
MANY = 1 << 12  # boxes, which are sorted slower than such parts are counted
ENDS = 0.5  # unevenness at least of a cell in which readings begin
NEXT = 0.7  # part of its readings: the next cell differs by that
WHOLE = 0.99  # part of its readings: so different is an end
STEEP = 2.0  # times as dense as the cells beside it is a cell in which readings may pile up
ROUNDED = 0.75  # of the error of one value: twice that is all of it, wherever its cell is cut
ON_END = 1e-9  # of a step: so near to a cell's end a multiple is on it

ROUNDING = 1e-12  # Shares nearer to each other are the same.


class Cells(NamedTuple):
    """An attribute's cells, as many as so many bits tell apart. Readings are as uneven inside of
    each as the cells beside it differ from it, or `rougher` times that. They may be multiples of an
    unstated `step`, in the attribute's unit; 0: of none."""

    bits: int
    rougher: float = 1.0
    step: float = 0.0


def overlap(low: FloatArray, high: FloatArray, wanted: Mapping[int, Interval]) -> FloatArray:
    """Fraction of each box that lies inside intervals of some columns.

    Args:
        low: lower corners of the boxes, float64[n, d].
        high: upper corners, float64[n, d].
        wanted: by column an interval; if its first number is the larger one, it goes past the end,
            round to the beginning.

    Returns:
        float64[n], each in [0, 1].
    """
    fraction = np.ones(len(low))
    for column, (start, end) in wanted.items():
        left, width = low[:, column], high[:, column] - low[:, column]
        below_start, below_end = (np.clip((at - left) / width, 0.0, 1.0) for at in (start, end))
        fraction *= below_end - below_start + float(start > end)
    return fraction


def cumulative(
    low: FloatArray, high: FloatArray, shares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Edges of intervals that may overlap, float64[m], and the share of readings below each.

    Signed shares may make a running sum fall. Its nearest one that rises takes its place: counting
    a negative density as 0 would add what noise adds to all cells. The whole is 1.
    """
    edges = np.unique(np.concatenate([low, high]))
    change = np.zeros(len(edges))
    heights = shares / (high - low)
    np.add.at(change, np.searchsorted(edges, low), heights)
    np.add.at(change, np.searchsorted(edges, high), -heights)
    inside = np.cumsum(change)[:-1] * np.diff(edges)
    if (shares < 0).any():
        below = np.concatenate([[0.0], np.cumsum(inside)])
        below = np.clip(isotonic(below[None])[0], 0.0, below[-1])
    else:
        below = np.concatenate([[0.0], np.cumsum(np.maximum(inside, 0.0))])
    return edges, np.asarray(below / below[-1])


def of_values(
    attribute: Attribute, low: FloatArray, high: FloatArray, shares: FloatArray
) -> tuple[Attribute, FloatArray, FloatArray, FloatArray]:
    """The attribute without its atoms. Of the intervals that hold its values: their ends, in the
    unit interval of that attribute, and their shares, float64[n] each. All intervals where there
    are no atoms."""
    placed = attribute.placed
    if placed is None:
        return attribute, low, high, shares
    held = ~placed.in_atom(low) & (shares > 0)
    ends = placed.plain(low[held]), placed.plain(high[held])
    return replace(attribute, atoms=()), *ends, shares[held]


def least_point(lattice: Lattice, q: float, edges: FloatArray, below: FloatArray) -> float:
    """The least point of a lattice that a share `q` of readings does not exceed; `edges` and
    `below` as `cumulative` gives them."""
    least = min(max(q, ROUNDING), 1.0) - ROUNDING / 2
    cell = int(np.clip(np.searchsorted(below, least), 1, len(edges) - 1))
    place = np.interp([least], below[cell - 1 : cell + 1], edges[cell - 1 : cell + 1])
    value = float(lattice.scaling.values(place)[0])
    # Rounding moves a number by at most one point.
    numbers = np.floor(value / float(lattice.step)) + np.array([-1.0, 0.0, 1.0])
    numbers = np.clip(numbers, lattice.first, lattice.last)
    reached = np.interp(lattice.positions(numbers + 1), edges, below) >= least
    return float(lattice.points(numbers)[np.argmax(reached) if reached.any() else -1])


def systematic(
    shares: FloatArray, count: int, generator: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Indices drawn by shares, intp[count], in random order: systematic sampling.

    One random start, then equal steps through the cumulative shares. Each index is expected as
    often as in independent draws, count * share times, and never comes a whole time more or less
    often than that.
    """
    below = np.cumsum(np.maximum(shares, 0.0))
    steps = np.ceil(below * (count / below[-1]) - generator.random())
    ends = np.clip(steps, 0, count).astype(np.intp)
    ends[-1] = count  # Rounding must not cost a draw.
    times = np.diff(ends, prepend=0)
    return generator.permutation(np.repeat(np.arange(len(shares)), times))


def steepness(edges: FloatArray, below: FloatArray, *, pairs: bool = False) -> FloatArray:
    """Probability that the readings of a cell have one frequent value: 0 to 1, by its density over
    that of the cells beside it. float64[m] edges and shares below them -> float64[m - 1].

    `pairs`: also over that beside two cells, which may hold a frequent value each, or one on their
    border.
    """
    heights = np.diff(below) / np.maximum(np.diff(edges), SCARCE)
    padded = np.pad(heights, 2)
    second, before, after, last = (padded[n : n + len(heights)] for n in (0, 1, 3, 4))
    beside = np.maximum(before, after)
    if pairs:
        beside = lesser_of(beside, np.maximum(before, last), np.maximum(second, after))
    return np.asarray(np.clip(1 - STEEP * beside / np.maximum(heights, SCARCE), 0.0, 1.0))


def rounded(attribute: Attribute, edges: FloatArray, step: float) -> FloatArray:
    """Probability of one frequent value in each cell, whose error is as large as that of a cut
    between multiples of a step: float64[cells]. 0 if the step is 0."""
    if not step:
        return np.zeros(len(edges) - 1)
    ends = attribute.scaling.values(edges)
    held = np.maximum(multiples(ends[:-1], ends[1:], step), 1.0)
    return np.asarray(np.minimum(1 / held, ROUNDED) ** 2)


def multiples(low: FloatArray, high: FloatArray, step: float) -> FloatArray:
    """Number of multiples of a step in each interval [low, high): float64[n]."""
    return np.asarray(np.ceil(high / step - ON_END) - np.ceil(low / step - ON_END))


def densities_beside(attribute: Attribute, edges: FloatArray, below: FloatArray) -> FloatArray:
    """Densities of the cells before and after each, over its own: float64[2, cells]. Of a learned
    scale they are those of values. Cells between atoms have no neighbours: theirs are as dense."""
    if attribute.placed is not None:
        return np.ones((2, len(edges) - 1))
    widths = np.diff(attribute.from_unit(edges) if attribute.knots else edges)
    densities = np.pad(np.diff(below) / np.maximum(widths, SCARCE), 1)
    own = np.maximum(densities[1:-1], SCARCE)
    return np.stack([densities[:-2], densities[2:]]) / own


def unevenness(attribute: Attribute, held: FloatArray) -> FloatArray:
    """Relative difference between the density of each cell and those of the cells beside it:
    float64 as `held`, 0 to 1. Outside the bounds there is none. Neighbours show nothing about
    learned cells, whose width follows rare readings, nor about cells between atoms."""
    if attribute.knots or attribute.placed is not None:
        return np.ones_like(held)
    edges = np.arange(len(held) + 1) / len(held)
    low, high = attribute.intervals(edges[:-1], edges[1:])
    none = (low < edges[:-1]) | (low >= edges[1:])
    real = np.flatnonzero(~none)
    found = np.ones_like(held)
    density = np.pad(held[real] / np.maximum((high - low)[real], SCARCE), 1)
    steps = np.abs(np.diff(density))
    found[real] = np.maximum(steps[:-1], steps[1:]) / np.maximum(density[1:-1], SCARCE)
    return np.minimum(found, 1.0)


def uneven_inside(attribute: Attribute, held: FloatArray, rougher: float) -> FloatArray:
    """Return how uneven readings may be inside of each cell: float64 as `held`, 0 to 1.

    They are as uneven as the cells beside it differ from it, or `rougher` times that. Other cells
    do not show how readings begin or end inside a cell. They do so less in the next cell, too.
    """
    beside = unevenness(attribute, held)
    ends = np.pad(np.where(beside > WHOLE, held, 0.0), 1)
    next_to = np.minimum(np.maximum(ends[:-2], ends[2:]) / np.maximum(held, SCARCE), 1.0)
    least = ENDS * np.maximum(beside, NEXT * np.sqrt(next_to)) ** 3
    return np.asarray(np.clip(rougher * beside, least, 1.0))


def lesser_of(*values: FloatArray) -> FloatArray:
    """The least of several numbers each: float64[n]."""
    return np.asarray(np.min(values, axis=0))


def distinct(
    low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray, npt.NDArray[np.intp] | slice]:
    """The intervals that are not the same, and which of them each is: boxes outnumber the cells of
    one attribute. All of them where intervals begin alike and end differently."""
    first, which = _first(low)
    ends = high[first]
    if (ends[which] != high).any():
        return low, high, slice(None)
    return low[first], ends, which


def of_distinct(
    function: Callable[[FloatArray, FloatArray], FloatArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    """A function of each interval, computed once for those that are the same: float64[n]."""
    starts, ends, which = distinct(low, high)
    return function(starts, ends)[which]


def _first(values: FloatArray) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The index of the first of each value, float64[n] in [0, 1], in order of the values; and which
    of these each is. Many values on a grid need no sorting."""
    places = (values * GRID).astype(np.intp)
    if len(values) < MANY or (places != values * GRID).any():
        _, first, which = np.unique(values, return_index=True, return_inverse=True)
        return first, which
    found = np.full(GRID + 1, len(values), np.intp)
    np.minimum.at(found, places, np.arange(len(values)))
    held = found < len(values)
    return found[held], (np.cumsum(held) - 1)[places]
