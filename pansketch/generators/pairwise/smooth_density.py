"""One attribute's margin as the smoothest density that its noisy counts bear.

The logarithm of the density is a curve whose squared second differences have a price. Noise bends a
curve more than readings do. Source: Good and Gaskins, "Nonparametric roughness penalties for
probability densities", 1971. The price is the one under which the released counts are most likely,
with the curve integrated out by Laplace's method (MacKay, "Bayesian interpolation", 1992). Where
counts outweigh their noise the curve follows all of them.

Cells of a learned scale have different widths, and with a step some hold more of its points than
others, or none. The curve is that of counts over what readings can fill of a cell. Second
differences are those of a curve over the widths, so a density may fall far over a wide cell.

A cell that stands out from both its neighbours, as a value with mass of its own does, is no part of
the curve. Readings that have no smooth density lose little: the running sum stays within NEAR
deviations of its noise from the one without a curve.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from pansketch.domain.domain import FloatArray
from pansketch.generators.pairwise.multiresolution import (
    Resolution,
    folded,
    normal_equations,
    spikes_in,
)

MOST_BITS = 8  # of a curve; what finer cells tell besides is kept
FEWEST = 8  # cells of a curve
BEYOND = 0.1  # of the range of readings, by which a curve goes on at both ends
PRICES = tuple(10.0**power for power in range(6, -1, -1))  # of a squared second difference
STEEPER = 10.0  # the next higher of them
WORSE = 3.0  # in nats: so far below the best likelihood the search ends
STEPS, GAIN = 30, 1e-2  # of Newton's method; what one more has to gain, in nats
SHORTENED = 6  # times that a step is shortened before the search ends
LONGEST = 2.0  # step of a logarithm
LEAST, FAINT = 0.01, 1e-9  # of the mean count of a cell, where a curve begins; one that is known
RIDGE = 1e-3
ROUNDING = 1e-12  # of the largest curvature: below it nothing is left but errors of rounding
NOTHING, TINY = 1e-6, np.finfo(float).tiny  # of the readings
NEAR = 1.5

Cells = npt.NDArray[np.intp]
Truth = npt.NDArray[np.bool_]


def smooth(
    resolutions: Sequence[Resolution],
    counts: FloatArray,
    best: FloatArray,
    deviations: FloatArray,
    near: tuple[float, FloatArray] | None = None,
    widths: FloatArray | None = None,
    room: FloatArray | None = None,
) -> tuple[FloatArray, list[float | None]]:
    """Counts of as many readings in the same cells, along a smooth density: float64[rows, cells];
    and of each row the price of its bends, None where there are too few cells for a curve.

    `resolutions`: what was released, as `nested_fit` takes it, in rows. `counts`: without a curve,
    and not negative. `best`: unbiased counts. `deviations`: of the noise on the running sum of each
    cell. `near`: price and counts of a fit of the same readings with less noise, where the search
    for these begins; None: there is none. `widths`: of the cells, and `room`: what readings can
    fill of them, float64[cells]; None: all alike.
    """
    bits = min(MOST_BITS, resolutions[-1].bits)
    finer = resolutions[-1].bits - bits
    coarse = folded(counts, finer)
    widths = np.ones(counts.shape[1]) if widths is None else widths
    room = widths if room is None else room
    first, after = _range(coarse, folded(widths, finer))
    found = counts.copy()
    found_prices: list[float | None] = [None] * len(counts)
    if not len(rows := np.flatnonzero(after - first >= FEWEST)):
        return found, found_prices
    within = slice(first[rows].min(), after[rows].max())
    cells = np.arange(coarse.shape[1])[within]
    inside = (cells >= first[rows, None]) & (cells < after[rows, None])
    matrix, vectors = normal_equations(resolutions, bits)
    prices, start = PRICES, coarse[rows]
    if near is not None:
        prices = min(STEEPER * near[0], PRICES[0]), near[0]
        start = np.broadcast_to(folded(near[1], finer), start.shape)
    wide = np.where(inside, folded(room, finer)[within], 0.0)
    wide = np.where(inside, wide / (wide.sum(axis=1) / inside.sum(axis=1))[:, None], 1.0)
    curves, bends = np.zeros((len(rows), coarse.shape[1])), _bends(folded(widths, finer)[within])
    unbiased = np.where(inside, folded(best, finer)[rows, within], 0.0)
    matrix, vectors = matrix[within, within], vectors[rows, within]
    start, others = start[:, within], (unbiased, wide, inside, bends, prices)
    curves[:, within], best_prices = _with_spikes(matrix, vectors, start, *others)
    for row, curve, price in zip(rows, curves, best_prices.tolist(), strict=True):
        if curve.sum() > NOTHING * float(counts[row].sum()):
            bent = _bent(curve, counts[row], deviations, room)
            found[row], found_prices[row] = np.diff(bent, prepend=0.0), price
        elif near is not None:  # Newton's method has lost all readings.
            one = slice(row, row + 1)
            alone = [replace(each, counts=each.counts[one]) for each in resolutions]
            own = alone, counts[one], best[one], deviations
            found[one], found_prices[one] = smooth(*own, widths=widths, room=room)
    return found, found_prices


def _bent(
    curve: FloatArray, counts: FloatArray, deviations: FloatArray, room: FloatArray
) -> FloatArray:
    """The running sum of the curve, bent to be near that of the counts, from whichever end it is
    seen: float64[cells]. Inside a cell of the curve readings are spread as the counts, or without
    any as there is `room`."""
    total = float(counts.sum())
    held, room = (each.reshape(len(curve), -1) for each in (counts, room))
    held = np.where(held.sum(axis=1, keepdims=True) > 0, held, room)
    shares = held / np.maximum(held.sum(axis=1, keepdims=True), TINY)
    running = np.cumsum(shares * (curve * (total / curve.sum()))[:, None])
    middle, away = np.cumsum(counts), NEAR * deviations
    most = np.minimum.accumulate(np.minimum(middle + away, total)[::-1])[::-1]
    return np.append(np.clip(running, np.maximum.accumulate(middle - away), most)[:-1], total)


def _range(counts: FloatArray, widths: FloatArray) -> tuple[Cells, Cells]:
    """Cells in the range of the readings of each row and a little beyond: intp[rows] each."""
    held, ends = counts > 0, np.append(0.0, np.cumsum(widths))
    first, after = held.argmax(axis=1), len(widths) - held[:, ::-1].argmax(axis=1)
    low, high = ends[first], ends[after]
    more = BEYOND * (high - low)
    return np.searchsorted(ends[1:], low - more), np.searchsorted(ends[:-1], high + more, "right")


def _with_spikes(
    matrix: FloatArray,
    vectors: FloatArray,
    counts: FloatArray,
    best: FloatArray,
    widths: FloatArray,
    inside: Truth,
    bends: FloatArray,
    prices: Sequence[float],
) -> tuple[FloatArray, FloatArray]:
    """The curves' counts, and beside them those of spikes, which have no price; and the prices.

    A row has a curve in the cells `inside` of its range, and in others 0.
    """
    left, left_vectors, others = matrix[None], vectors.copy(), np.where(inside, counts, 0.0)
    solved_rows: list[tuple[int, Cells, FloatArray]] = []
    for row, largest in enumerate(np.where(inside, matrix.diagonal(), 0.0).max(axis=1)):
        held = np.flatnonzero(widths[row] > 0)
        spikes = held[spikes_in(best[row, held], np.sqrt(1 / largest))]
        if not len(spikes):
            continue
        if not solved_rows:
            left = np.repeat(left, len(counts), axis=0)
        # Given the curve, the best counts of the spikes are linear in it: what is left is the
        # misfit of the curve alone.
        own = matrix[np.ix_(spikes, spikes)] + np.eye(len(spikes)) * ROUNDING * largest
        solved = np.linalg.solve(own, np.column_stack([matrix[spikes], vectors[row, spikes]]))
        left[row] -= matrix[:, spikes] @ solved[:, :-1]
        left_vectors[row] -= matrix[:, spikes] @ solved[:, -1]
        others[row, spikes] = 0.0
        solved_rows.append((row, spikes, own))
    curves, found_prices = _curves(left, left_vectors, others, widths, inside, bends, prices)
    for row, spikes, own in solved_rows:
        beside = vectors[row, spikes] - matrix[spikes] @ curves[row]
        curves[row, spikes] += np.maximum(np.linalg.solve(own, beside), 0.0)
    return curves, found_prices


class _Curves(NamedTuple):
    """Logarithms of counts, the counts, and the slope of the misfit of each row: float64[rows,
    cells]; and half the misfits with the price, float64[rows]."""

    logs: FloatArray
    counts: FloatArray
    slopes: FloatArray
    misfits: FloatArray


class _Equations(NamedTuple):
    """What curves follow, of each row: M float64[rows, cells, cells], or one for all rows, v
    float64[rows, cells], what makes second differences of logarithms float64[3, cells - 2], the
    price of each float64[rows, cells - 2], and the cells that have a curve, bool[rows, cells]."""

    matrices: FloatArray
    vectors: FloatArray
    bends: FloatArray
    prices: FloatArray
    inside: Truth

    def of(self, rows: Cells) -> "_Equations":
        if len(rows) == len(self.inside):
            return self
        matrices, vectors, bends, prices, inside = self
        own = matrices if len(matrices) == 1 else matrices[rows]
        return _Equations(own, vectors[rows], bends, prices[rows], inside[rows])

    def at(self, logs: FloatArray) -> _Curves:
        counts = np.exp(logs) * self.inside
        pulls = (self.matrices @ counts[..., None])[..., 0] - self.vectors
        many = self.bends.shape[1]
        bends = sum(each * logs[:, place : place + many] for place, each in enumerate(self.bends))
        priced, back = self.prices * bends, np.zeros_like(logs)
        misfits = ((counts * (pulls - self.vectors)).sum(axis=1) + (priced * bends).sum(axis=1)) / 2
        for place, each in enumerate(self.bends):
            back[:, place : place + many] += each * priced
        return _Curves(logs, counts, counts * pulls + back, misfits)

    def curvature(self, counts: FloatArray) -> FloatArray:
        found = counts[:, :, None] * self.matrices
        found *= counts[:, None, :]
        many, bends = found.shape[1], self.prices.shape[1]
        flat = found.reshape(len(found), -1)
        for row, column in product(range(3), repeat=2):
            diagonal = flat[:, row * many + column :: many + 1][:, :bends]
            diagonal += self.bends[row] * self.bends[column] * self.prices
        diagonals = flat[:, :: many + 1]
        diagonals += RIDGE + ROUNDING * diagonals.max(axis=1, keepdims=True)
        diagonals[~self.inside] = 1.0
        return found


def _curves(
    matrices: FloatArray,
    vectors: FloatArray,
    counts: FloatArray,
    widths: FloatArray,
    inside: Truth,
    bends: FloatArray,
    prices: Sequence[float],
) -> tuple[FloatArray, FloatArray]:
    """The counts of the likeliest of falling prices, and that price of each row. `counts`: to begin
    with."""
    if (widths != 1.0).any():  # Densities are what is smooth.
        matrices = widths[:, :, None] * matrices * widths[:, None, :]
    within = (inside[:, :-2] & inside[:, 2:]).astype(float)
    every = _Equations(matrices, widths * vectors, bends, within, inside)
    counts = np.divide(counts, widths, out=np.zeros_like(counts), where=widths > 0)
    # Newton's steps are small where a curve has next to nothing: a tail that begins too high stays.
    least, logs = LEAST if len(prices) == len(PRICES) else FAINT, np.zeros_like(counts)
    cells = inside.sum(axis=1)
    faintest = least * (counts * widths).sum(axis=1) / cells
    for row, held in enumerate(inside):
        start, room = counts[row, held], np.where(widths[row, held] > 0, widths[row, held], 1.0)
        wide = max(3, len(start) // 16) | 1
        around = np.convolve(np.pad(start, wide // 2, "edge"), np.full(wide, 1 / wide), "valid")
        logs[row, held] = np.log(np.maximum(around, faintest[row] / room + TINY))
    found, best = np.exp(logs) * inside, np.full(len(logs), prices[0])
    most, rows = np.full(len(logs), -np.inf), np.arange(len(logs))
    for price in prices:
        equations = every.of(rows)
        equations = equations._replace(prices=price * equations.prices)
        fitted = _newton(equations, logs[rows])
        _, volumes = np.linalg.slogdet(equations.curvature(fitted.counts))
        likelihoods = (cells[rows] - 2) * np.log(price) / 2 - fitted.misfits - volumes / 2
        better = likelihoods > most[rows]
        ended = ~better & (likelihoods < most[rows] - WORSE)
        winners = rows[better]
        found[winners], best[winners] = fitted.counts[better], price
        most[winners], logs[rows] = likelihoods[better], fitted.logs
        rows = rows[~ended]
        if not len(rows):
            break
    return found * widths, best


def _newton(equations: _Equations, logs: FloatArray) -> _Curves:
    """The best curves of one price, by Newton's method with Gauss's curvature."""
    now = equations.at(logs)
    rows = np.arange(len(logs))
    for _ in range(STEPS):
        active = equations.of(rows)
        step = np.linalg.solve(active.curvature(now.counts[rows]), -now.slopes[rows][..., None])
        step, before = step[..., 0], now.misfits[rows]
        # One by one shortened they may lead uphill, where a price joins them. All alike lead down.
        alike = step * np.minimum(1.0, LONGEST / np.maximum(abs(step).max(axis=1), TINY))[:, None]
        moved = np.zeros(len(rows), np.bool_)
        for whole, shorter in product((np.clip(step, -LONGEST, LONGEST), alike), range(SHORTENED)):
            if not len(trying := np.flatnonzero(~moved)):
                break
            then = active.of(trying).at(now.logs[rows[trying]] + whole[trying] / 4**shorter)
            better = then.misfits <= before[trying]
            moved[trying[better]] = True
            for known, new in zip(now, then, strict=True):
                known[rows[trying[better]]] = new[better]
        rows = rows[moved & (before - now.misfits[rows] >= GAIN)]
        if not len(rows):
            break
    return now


def _bends(widths: FloatArray) -> FloatArray:
    """What makes logarithms of three cells in a row a second difference, float64[3, cells - 2]: how
    much their slope changes, times the shorter of both distances."""
    ends = np.cumsum(widths)
    before, after = sliding_window_view(np.diff(ends - widths / 2), 2).T
    nearest = np.minimum(before, after)
    return np.stack([nearest / before, -nearest / before - nearest / after, nearest / after])
