"""The density inside the cells of a number, sloped as the cells beside each one are.

Cells that noise bears are wide, and inside of them readings are rarely spread evenly. A line takes
the density from one cell to the next without a change of what either holds. Its slope is the mean
of the slopes to both neighbours, and at most twice the lesser of them (the monotonized central
limiter of van Leer, "Towards the ultimate conservative difference scheme IV", 1977). So the line
stays between the neighbours, is never negative, and is flat in every peak and dip. Noise makes
peaks and dips rather than slopes, and a value with mass of its own is a peak.
"""

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Attribute, FloatArray

PARTS = 8  # at most, into which a cell with a slope is divided
FINEST = 10  # bits of the finest parts: narrower cells need no slope
FEWEST = 3  # cells

Cells = npt.NDArray[np.intp]


def shares_inside(attribute: Attribute, bits: int, counts: FloatArray) -> FloatArray:
    """Shares of equal parts of each cell, float64[cells, parts], rows that add up to 1; of a cell
    without a slope the first part has 1 and stands for all. One part where none has a slope.

    `counts`: in cells of so many bits. Of an attribute with a step only parts that hold a point of
    it have a share. A learned scale has no slopes, for its cells follow the density already.
    """
    parts = min(PARTS, 1 << max(0, FINEST - bits))
    whole = np.zeros((len(counts), parts))
    whole[:, 0] = 1.0
    plain = attribute.categories is None and attribute.placed is None and not attribute.knots
    if parts == 1 or not plain or len(counts) < FEWEST:
        return whole[:, :1]
    low, high = _held(attribute, 1 << bits)
    width, middle = high - low, (low + high) / 2
    real = np.flatnonzero(width > 0)
    if len(real) < FEWEST:
        return whole[:, :1]
    density = counts[real] / width[real]
    slope = np.zeros(len(counts))
    slope[real] = _limited(density, middle[real], width[real])
    starts, ends = (each.reshape(-1, parts) for each in _held(attribute, parts << bits))
    level = np.divide(counts, width, out=np.zeros_like(counts), where=width > 0)
    away = (starts + ends) / 2 - middle[:, None]
    inside = np.maximum((ends - starts) * (level[:, None] + slope[:, None] * away), 0.0)
    sums = inside.sum(axis=1, keepdims=True)
    sloped = ((slope != 0)[:, None] & (sums > 0)).repeat(parts, axis=1)
    return np.divide(inside, sums, out=whole, where=sloped)


def _held(attribute: Attribute, cells: int) -> tuple[FloatArray, FloatArray]:
    """Ends of what readings can fill of so many equal cells; the same end twice where nothing."""
    edges = np.arange(cells + 1) / cells
    low, high = attribute.intervals(edges[:-1], edges[1:])
    none = (low < edges[:-1]) | (low >= edges[1:])
    return low, np.where(none, low, high)


def _limited(density: FloatArray, middle: FloatArray, width: FloatArray) -> FloatArray:
    """The slope of each cell's density. The first and the last have one neighbour each."""
    steps = np.diff(density) / np.diff(middle)
    before, after = np.append(steps[0], steps), np.append(steps, steps[-1])
    least = 2 * np.minimum(np.abs(before), np.abs(after))
    slope = np.sign(before) * np.minimum(least, np.abs(before + after) / 2)
    most = 2 * density / width
    return np.where(before * after > 0, np.clip(slope, -most, most), 0.0)


def placed_inside(shares: FloatArray, cells: Cells, weights: FloatArray, seed: int) -> Cells:
    """A part of its cell for each particle: intp[n].

    Particles of one cell take its parts in a random order, each part as much of their weight as its
    share, up to one particle.
    """
    order = np.random.default_rng(seed).permutation(len(cells))
    order = order[np.argsort(cells[order], kind="stable")]
    own, weighed = cells[order], weights[order]
    held = np.bincount(own, weighed, len(shares))
    before = np.cumsum(held) - held
    places = (np.cumsum(weighed) - weighed / 2 - before[own]) / np.maximum(held[own], 1e-300)
    edges = np.cumsum(shares, axis=1)
    edges[:, -1] = 1.0
    steps = (edges + np.arange(len(shares))[:, None]).reshape(-1)
    found = np.empty(len(cells), np.intp)
    columns = np.searchsorted(steps, np.clip(places, 0.0, 1 - 1e-9) + own, "right")
    found[order] = np.clip(columns - own * shares.shape[1], 0, shares.shape[1] - 1)
    return found


def ends_of(shares: FloatArray, cells: Cells, parts: Cells) -> tuple[FloatArray, FloatArray]:
    """In cells, where parts of cells begin and end: float64[n] each."""
    many = shares.shape[1]
    whole = shares[cells, 0] == 1.0
    return cells + parts / many, cells + np.where(whole, 1.0, (parts + 1) / many)
