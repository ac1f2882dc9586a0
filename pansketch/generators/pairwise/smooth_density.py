"""One attribute's margin as the smoothest density that its noisy counts bear.

The logarithm of the density is a curve whose squared second differences have a price. Noise bends a
curve more than readings do. Source: Good and Gaskins, "Nonparametric roughness penalties for
probability densities", 1971. The price is the one under which the released counts are most likely,
with the curve integrated out by Laplace's method (MacKay, "Bayesian interpolation", 1992). Where
counts outweigh their noise the curve follows all of them.

Cells of a learned scale have different widths. The curve is then that of counts over widths.

A cell that stands out from both its neighbours, as a value with mass of its own does, is no part of
the curve. Readings that have no smooth density lose little: the running sum stays within NEAR
deviations of its noise from the one without a curve.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import FloatArray
from pansketch.generators.pairwise.multiresolution import Resolution, folded

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
PRECISE = 1e4  # of a count: readings are whole, so noise of a hundredth of one is none
ROUNDING = 1e-12  # of the largest curvature: below it nothing is left but errors of rounding
NOTHING = 1e-6  # of the readings
TINY = np.finfo(float).tiny
STANDS_OUT = 4.5  # deviations of the difference of a spike's cell and its neighbour's
TALLER = 3.0  # times as many readings as either neighbour
NEAR = 1.5

Cells = npt.NDArray[np.intp]


def smooth(
    resolutions: Sequence[Resolution],
    counts: FloatArray,
    best: FloatArray,
    deviations: FloatArray,
    near: tuple[float, FloatArray] | None = None,
    widths: FloatArray | None = None,
) -> tuple[FloatArray, float | None]:
    """Counts of as many readings in the same cells, along a smooth density: float64[cells]; and the
    price of its bends, None where there are too few cells for a curve.

    `resolutions`: what was released, as `nested_fit` takes it. `counts`: without a curve, and not
    negative. `best`: unbiased counts. `deviations`: of the noise on the running sum of each cell.
    `near`: price and counts of a fit of the same readings with less noise, where the search for
    this one begins; None: there is none. `widths`: of the cells, float64[cells]; None: all alike.
    """
    bits = min(MOST_BITS, resolutions[-1].bits)
    finer = resolutions[-1].bits - bits
    coarse = folded(counts, finer)
    first, after = _range(coarse)
    if after - first < FEWEST:
        return counts, None
    within = slice(first, after)
    matrix, vector = _normal_equations(resolutions, bits)
    curve = np.zeros(len(coarse))
    prices, start = PRICES, coarse
    if near is not None:
        prices, start = (min(STEEPER * near[0], PRICES[0]), near[0]), folded(near[1], finer)
    wide = np.ones(after - first) if widths is None else folded(widths, finer)[within]
    wide = wide / wide.mean()
    equations = matrix[within, within], vector[within]
    curve[within], price = _with_spikes(
        *equations, start[within], folded(best, finer)[within], wide, prices
    )
    total = float(counts.sum())
    if not curve.sum() > NOTHING * total:  # Newton's method has lost all readings.
        if near is None:
            return counts, None
        return smooth(resolutions, counts, best, deviations, widths=widths)
    running = np.cumsum(_detailed(curve * (total / curve.sum()), counts, finer))
    middle = np.cumsum(counts)
    low, high = np.maximum(middle - NEAR * deviations, 0.0), middle + NEAR * deviations
    bent = np.maximum.accumulate(np.clip(running, low, np.minimum(high, total)))
    bent[-1] = total
    return np.diff(bent, prepend=0.0), price


def _range(counts: FloatArray) -> tuple[int, int]:
    """Cells in the range of the readings and a little beyond."""
    held = np.flatnonzero(counts > 0)
    first, after = int(held[0]), int(held[-1]) + 1
    more = 1 + int(BEYOND * (after - first))
    return max(0, first - more), min(len(counts), after + more)


def _normal_equations(
    resolutions: Sequence[Resolution], bits: int
) -> tuple[FloatArray, FloatArray]:
    """Of the counts in cells of so many bits: half their squared misfit, in deviations, is
    c M c / 2 - v c and a constant. M float64[cells, cells], v float64[cells]."""
    matrix, vector = np.zeros((1 << bits, 1 << bits)), np.zeros(1 << bits)
    for each in resolutions:
        counts, precision = each.counts, each.precision
        if each.bits > bits:
            parts = 1 << each.bits - bits
            counts = folded(counts, each.bits - bits)
            precision = folded(precision, each.bits - bits) / parts**2
        precision = np.minimum(precision, PRECISE)
        width = (1 << bits) // len(counts)
        vector += np.repeat(precision * counts, width)
        matrix += np.kron(np.diag(precision), np.ones((width, width)))
    return matrix, vector


def _with_spikes(
    matrix: FloatArray,
    vector: FloatArray,
    counts: FloatArray,
    best: FloatArray,
    widths: FloatArray,
    prices: Sequence[float],
) -> tuple[FloatArray, float]:
    """The curve's counts, and beside it those of spikes, which have no price; and the price."""
    spikes = _spikes(best, np.sqrt(1 / matrix.diagonal().max()))
    if not len(spikes):
        return _curve(matrix, vector, counts, widths, prices)
    # Given the curve, the best counts of the spikes are linear in it: what is left is the misfit of
    # the curve alone.
    own = matrix[np.ix_(spikes, spikes)] + np.eye(len(spikes)) * ROUNDING * matrix.max()
    solved = np.linalg.solve(own, np.column_stack([matrix[spikes], vector[spikes]]))
    left = matrix - matrix[:, spikes] @ solved[:, :-1], vector - matrix[:, spikes] @ solved[:, -1]
    others = counts.copy()
    others[spikes] = 0.0
    curve, price = _curve(*left, others, widths, prices)
    beside = np.linalg.solve(own, vector[spikes] - matrix[spikes] @ curve)
    curve[spikes] += np.maximum(beside, 0.0)
    return curve, price


def _spikes(counts: FloatArray, deviation: float) -> Cells:
    """Cells that hold far more than both cells beside them."""
    padded = np.pad(np.maximum(counts, 0.0), 1)
    beside = np.maximum(padded[:-2], padded[2:])
    clear = counts - beside > STANDS_OUT * deviation * np.sqrt(2)
    return np.flatnonzero(clear & (counts > TALLER * beside))


class _Curve(NamedTuple):
    """Logarithms of counts, the counts, and half the misfit with the price: float64[cells]."""

    logs: FloatArray
    counts: FloatArray
    misfit: float


def _curve(
    matrix: FloatArray,
    vector: FloatArray,
    counts: FloatArray,
    widths: FloatArray,
    prices: Sequence[float],
) -> tuple[FloatArray, float]:
    """The counts of the likeliest of falling prices, and that price. `counts`: to begin with."""
    cells = len(counts)
    rough = _roughness(widths)
    # Of densities, which are what is smooth.
    matrix, vector, counts = widths[:, None] * matrix * widths, widths * vector, counts / widths
    wide = max(3, cells // 16) | 1
    around = np.convolve(np.pad(counts, wide // 2, mode="edge"), np.full(wide, 1 / wide), "valid")
    # Newton's steps are small where a curve has next to nothing: a tail that begins too high stays.
    least = LEAST if len(prices) == len(PRICES) else FAINT
    logs = np.log(np.maximum(around, least * counts.mean() + TINY))
    found, best, most = np.exp(logs), prices[0], -np.inf
    for price in prices:
        fitted = _newton(matrix, vector, price * rough, logs)
        _, volume = np.linalg.slogdet(_curvature(fitted.counts, matrix, price * rough))
        likelihood = -fitted.misfit - volume / 2 + (cells - 2) * np.log(price) / 2
        if likelihood > most:
            found, best, most = fitted.counts, price, float(likelihood)
        elif likelihood < most - WORSE:
            break
        logs = fitted.logs
    return found * widths, best


def _newton(matrix: FloatArray, vector: FloatArray, price: FloatArray, logs: FloatArray) -> _Curve:
    """The best curve of one price, by Newton's method with Gauss's curvature."""
    now = _at(matrix, vector, price, logs)
    for _ in range(STEPS):
        slope = now.counts * (matrix @ now.counts - vector) + price @ now.logs
        step = np.linalg.solve(_curvature(now.counts, matrix, price), -slope)
        step = np.clip(step, -LONGEST, LONGEST)
        for _ in range(SHORTENED):
            then = _at(matrix, vector, price, now.logs + step)
            if then.misfit <= now.misfit:
                break
            step = step / 4
        else:
            break
        gained, now = now.misfit - then.misfit, then
        if gained < GAIN:
            break
    return now


def _at(matrix: FloatArray, vector: FloatArray, price: FloatArray, logs: FloatArray) -> _Curve:
    counts = np.exp(logs)
    misfit = counts @ (matrix @ counts / 2 - vector) + logs @ price @ logs / 2
    return _Curve(logs, counts, float(misfit))


def _curvature(counts: FloatArray, matrix: FloatArray, price: FloatArray) -> FloatArray:
    found = counts[:, None] * matrix * counts + price
    found[np.diag_indices_from(found)] += RIDGE + ROUNDING * found.diagonal().max()
    return np.asarray(found)


def _roughness(widths: FloatArray) -> FloatArray:
    """Of a vector the sum of its squared second differences, as a matrix. They count less where a
    scale has narrow cells beside wide ones: readings crowd on one side."""
    bends = np.diff(np.eye(len(widths)), 2, axis=0)
    beside = np.stack([widths[:-2], widths[1:-1], widths[2:]])
    bends *= (beside.min(axis=0) / beside.max(axis=0))[:, None]
    return np.asarray(bends.T @ bends)


def _detailed(curve: FloatArray, counts: FloatArray, finer: int) -> FloatArray:
    """The curve in cells of so many bits more, that share it as the counts have them."""
    if not finer:
        return curve
    shares = counts.reshape(len(curve), -1)
    sums = shares.sum(axis=1, keepdims=True)
    even = np.full_like(shares, 1 / shares.shape[1])
    shares = np.divide(shares, sums, out=even, where=sums > 0)
    return np.asarray((shares * curve[:, None]).reshape(-1))
