"""Counts of one attribute at several resolutions, made one: generalised least squares on a tree.

Cells of few bits are sums of cells of more, and the counts of every resolution have noise of their
own. The best linear unbiased counts of the finest cells take one pass up and one down. Source: Hay,
Rastogi, Miklau and Suciu, "Boosting the accuracy of differentially private histograms through
consistency" (VLDB 2010). Here fanouts and variances may differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, floor, log10

import numpy as np
import numpy.typing as npt

from pansketch.domain.atoms import AtomPlaces
from pansketch.domain.domain import FloatArray
from pansketch.generators.partition.box_overlap import multiples

STANDS_OUT = 5.5  # deviations of its noise: cells without readings are not above it
FEW = 4.0  # times those of such values: all readings
AROUND = 4  # cells on either side of a cell and its neighbours
NOISE = 3.0  # deviations of theirs, that they stay below where nothing is
CLEAR = 4.5  # deviations of the difference of a spike's cell and its neighbour's
TALLER = 3.0  # times as many readings as either neighbour
BULK = 0.005  # of all readings, that are not looked at on either side for steps
FINEST, WIDEST = 0.1, 2.5  # steps that matter, in widths of cells
DIGITS = (1, 1.25, 2, 2.5, 5)  # of usual steps: whole and decimal ones, quarters and eighths
FEWEST_POINTS = 8  # between which nearly all readings are
# Weights of the cells around each, in a density that is even there, and in one that is bent.
BESIDE = np.array([1, 1, 0, 1, 1]) / 4, np.array([-1, 4, 0, 4, -1]) / 6
EXCLUDED, CERTAIN = 5.0, 20.0  # in nats: so much likelier is no step, and another one than none
FREEDOM = 8.0  # of Student's distribution of the misfits of cells
PRECISE = 1e4  # of a count: readings are whole, so noise of a hundredth of one is none


@dataclass(frozen=True, eq=False)
class Resolution:
    """Noisy counts of one attribute's cells of so many bits, float64[..., cells], and the inverse
    variances of their errors, 0 where nothing was counted: float64[cells]. Several rows of counts
    have the same noise."""

    bits: int
    counts: FloatArray
    precision: FloatArray

    @property
    def turned(self) -> "Resolution":
        """The same from the other end."""
        return Resolution(self.bits, self.counts[..., ::-1], self.precision[::-1])


@dataclass(frozen=True, eq=False)
class Fitted:
    """Counts of the finest cells, float64[..., cells], and the variances of the sums of all cells
    up to each of them, that one included: float64[cells]."""

    counts: FloatArray
    variances: FloatArray


@dataclass(frozen=True, eq=False)
class _Upward:
    """What a resolution and all finer ones tell, and what the next finer one's cells add up to."""

    bits: int
    counts: FloatArray
    variances: FloatArray
    sums: FloatArray
    sum_variances: FloatArray


def nested_fit(resolutions: Sequence[Resolution]) -> Fitted:
    """Best counts of the finest cells, from resolutions in rising order of bits, the first of 0.

    The finest one must have been counted.
    """
    levels = _upward(resolutions)
    root = levels[0]
    counts, within = root.counts, root.variances
    before, shared = np.zeros(1), np.zeros(1)
    for parent, child in pairwise(levels):
        owner = np.arange(len(child.variances)) >> (child.bits - parent.bits)
        part = child.variances / parent.sum_variances[owner]
        earlier = _before(part, owner)
        v, c, s = within[owner], shared[owner], parent.sum_variances[owner]
        # Of the sum of all cells before one, with its variance and its covariance to that cell.
        before = before[owner] + 2 * earlier * c + earlier**2 * v + earlier * (1 - earlier) * s
        shared = part * (c + earlier * v - earlier * s)
        within = part**2 * v + part * (1 - part) * s
        counts = child.counts + part * (counts - parent.sums)[..., owner]
    return Fitted(counts, np.maximum(before + 2 * shared + within, 0.0))


def _upward(resolutions: Sequence[Resolution]) -> list[_Upward]:
    """Every count averaged with the sum of its children, by inverse variance."""
    finest = resolutions[-1]
    counts, variances = finest.counts, 1 / finest.precision
    nothing = np.zeros(0)
    levels = [_Upward(finest.bits, counts, variances, nothing, nothing)]
    for own in reversed(resolutions[:-1]):
        ways = levels[-1].bits - own.bits
        sums, sum_variances = (folded(each, ways) for each in (counts, variances))
        variances = 1 / (own.precision + 1 / sum_variances)
        counts = variances * (own.precision * own.counts + sums / sum_variances)
        levels.append(_Upward(own.bits, counts, variances, sums, sum_variances))
    return levels[::-1]


def folded(values: FloatArray, bits: int) -> FloatArray:
    """Sums over cells that so many bits fewer do not tell apart: float64[..., n] ->
    float64[..., cells]."""
    return np.add.reduceat(values, np.arange(0, values.shape[-1], 1 << bits), axis=-1)


def _before(parts: FloatArray, owner: np.ndarray[tuple[int], np.dtype[np.intp]]) -> FloatArray:
    """Sum of the parts of earlier children of the same parent."""
    running = np.cumsum(parts) - parts
    first = np.searchsorted(owner, owner)
    return np.asarray(running - running[first])


def set_apart(
    resolutions: Sequence[Resolution], best: Fitted, held: npt.NDArray[np.intp]
) -> tuple[Sequence[Resolution], Fitted, FloatArray]:
    """The same less the readings of values that stand out alone, and these: float64[rows, cells].

    Such a value's cell stands out from the noise where the cells around it do not. A tail of many
    cells has more noise than one of them, so noise on its sum may hide a value that its cell shows.
    `held`: the cells that readings can be in, in order: with a step others are between its points.
    """
    deviation = 1 / np.sqrt(resolutions[-1].precision.min())
    away = 1 + AROUND  # cells on either side, the nearest of which may share the value
    counts, apart = best.counts[:, held], np.zeros_like(best.counts)
    padded = np.pad(counts, ((0, 0), (away, away)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * away + 1, axis=1)
    around = np.delete(windows, (away - 1, away, away + 1), axis=2).sum(axis=2)
    empty = around < NOISE * deviation * np.sqrt(2 * AROUND)
    apart[:, held] = np.where(empty & (counts > STANDS_OUT * deviation), counts, 0.0)
    # Noise on few others would outweigh them, and a fit of most readings needs no help.
    apart[best.counts.sum(axis=1) < FEW * apart.sum(axis=1)] = 0.0
    if not apart.any():
        return resolutions, best, apart
    bits = resolutions[-1].bits
    left = [replace(e, counts=e.counts - folded(apart, bits - e.bits)) for e in resolutions]
    return left, nested_fit(left), apart


def spikes_in(counts: FloatArray, deviation: float) -> npt.NDArray[np.intp]:
    """Cells that hold far more than both cells beside them, at noise of such a deviation."""
    padded = np.pad(np.maximum(counts, 0.0), 1)
    beside = np.maximum(padded[:-2], padded[2:])
    clear = counts - beside > CLEAR * deviation * np.sqrt(2)
    return np.flatnonzero(clear & (counts > TALLER * beside))


def possible_step(low: FloatArray, high: FloatArray, counts: FloatArray, deviation: float) -> float:
    """The largest step of which all readings may be multiples; 0 if none matters that may be.

    A cell then holds as many of its neighbours' readings as it has of their multiples. Otherwise it
    has them by its width. Steps are DIGITS times a power of ten. One is left out where counts are
    far likelier under another one, or under none.

    Args:
        low: where cells begin in the attribute's unit, float64[cells].
        high: where they end.
        counts: of their readings, float64[cells], not all 0 or less.
        deviation: of the noise on each.
    """
    below = np.cumsum(np.maximum(counts, 0.0))
    first, last = np.searchsorted(below, np.array([BULK, 1 - BULK]) * below[-1])
    width, span = float(np.median((high - low)[first : last + 1])), float(high[last] - low[first])
    steps = _decimals(FINEST * width, min(WIDEST * width, span / FEWEST_POINTS))
    if not steps:
        return 0.0
    held = np.stack([*(multiples(low, high, step) for step in steps), high - low])
    both = _unlikely(counts, held, deviation)[..., first : last + 1].sum(axis=-1)
    unlikely = both[both.min(axis=1).argmin()]
    likeliest = unlikely.min() if unlikely.min() < unlikely[-1] - CERTAIN else unlikely[-1]
    possible = unlikely[:-1] - likeliest < EXCLUDED
    return steps[int(possible.argmax())] if possible.any() else 0.0


def _unlikely(counts: FloatArray, held: FloatArray, deviation: float) -> FloatArray:
    """How unlikely each count is beside its neighbours, in nats: float64[2, rows, cells].

    First a density is even around it, then it is bent. `held`: float64[rows, cells], as what counts
    are. Student's distribution has misfits, not a normal one. Where readings begin abruptly no row
    explains a cell, and few such cells would outweigh all others.
    """
    even, around = (_beside(each, BESIDE[0]) for each in (held, counts))
    found: list[FloatArray] = []
    for weights in BESIDE:
        mean = _beside(held, weights)
        known = mean > even / 2
        times = np.divide(held, mean, out=np.zeros_like(held), where=known)
        spread = 1 + np.maximum(times, 1.0) ** 2 * (weights @ weights)
        variances = (np.maximum(around, 0.0) + deviation**2) * spread
        # With nothing around it a cell may hold anything.
        told = known | (held == 0)
        off = np.where(told, counts - times * _beside(counts, weights), 0.0)
        misfit = (FREEDOM + 1) * np.log1p(off**2 / variances / FREEDOM) + np.log(variances)
        found.append(np.where(told, misfit / 2, found[0] if found else misfit / 2))
    return np.stack(found)


def _beside(values: FloatArray, weights: FloatArray) -> FloatArray:
    """What the cells beside each tell of it: float64[..., cells]."""
    width = [(0, 0)] * (values.ndim - 1) + [(len(weights) // 2,) * 2]
    padded = np.pad(values, width, "edge")
    return np.lib.stride_tricks.sliding_window_view(padded, len(weights), axis=-1) @ weights


def _decimals(least: float, most: float) -> list[float]:
    """DIGITS times powers of ten that are between both, in falling order."""
    if not 0 < least <= most:
        return []
    powers = range(floor(log10(least)), ceil(log10(most)) + 1)
    found = (float(f"{digit}e{power}") for power in powers for digit in DIGITS)
    return sorted((each for each in found if least <= each <= most), reverse=True)


def values_alone(resolutions: Sequence[Resolution], placed: AtomPlaces) -> list[Resolution]:
    """The same of a stream without atoms: of the cells that hold values, in their order. They are
    fewer than so many bits tell apart.

    Views have cells that tell atoms apart, or one of all readings. Less those of the atoms these
    are readings with a value, known apart from the cells of values.
    """
    (every, *own), finest = resolutions, resolutions[-1]
    starts = placed.starts[placed.is_atom]
    sums = np.zeros((len(finest.counts), len(starts)))
    precisions = np.zeros(len(starts))
    found = []
    for each in own:
        cells = (starts * (1 << each.bits)).astype(np.intp)
        sums += each.counts[:, cells] * each.precision[cells]
        precisions += each.precision[cells]
        held = ~placed.atom_cells(each.bits)
        found.append(Resolution(each.bits, each.counts[:, held], each.precision[held]))
    left = every.counts - np.sum(sums / precisions, axis=1, keepdims=True)
    counted = every.precision > 0
    variance = 1 / np.where(counted, every.precision, 1.0) + np.sum(1 / precisions)
    return [Resolution(0, left, np.where(counted, 1 / variance, 0.0)), *found]


def normal_equations(resolutions: Sequence[Resolution], bits: int) -> tuple[FloatArray, FloatArray]:
    """Of the counts in cells of so many bits: half their squared misfit, in deviations, is
    c M c / 2 - v c and a constant. M float64[cells, cells], v float64[rows, cells]."""
    rows, cells = resolutions[-1].counts.shape
    cells >>= resolutions[-1].bits - bits
    matrix, vectors = np.zeros((cells, cells)), np.zeros((rows, cells))
    for each in resolutions:
        counts, precision = each.counts, each.precision
        if each.bits > bits:
            counts = folded(counts, each.bits - bits)
            precision = 1 / folded(1 / precision, each.bits - bits)
        precision = np.minimum(precision, PRECISE)
        width = cells // len(precision)
        vectors += np.repeat(precision * counts, width, axis=1)
        blocks = np.arange(len(precision))
        split = matrix.reshape(len(precision), width, len(precision), width)
        split[blocks, :, blocks, :] += precision[:, None, None]
    return matrix, vectors
