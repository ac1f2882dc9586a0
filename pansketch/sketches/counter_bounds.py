"""Bounds of the counters of an honest release, if a window has at most so many readings.

A reading adds a bounded amount to every row of counters that share a noise scale. The noise of a
counter exceeds a quantile with a stated probability. The named sketch cannot have produced counters
beyond both bounds. Differential privacy guarantees nothing about that: a device may publish any
counters within these bounds (docs/how-to/contain-a-hostile-device.md).

The quantiles are Chernoff bounds of discrete Laplace draws, P(z) proportional to p**|z| with
p = exp(-1 / scale):

    E exp(t z) = (1 - p)**2 / ((1 - p e**t) (1 - p e**-t)) for 0 <= t < 1 / scale

    E exp(t |z|) = (1 - p) (1 + p e**t) / ((1 + p) (1 - p e**t))

For any t, a sum of n draws exceeds (n log E - log chance) / t with at most that chance. So the
search for the best t decides how tight a bound is and never whether it holds. SLACK covers the
rounding of its evaluation. For one counter the bounds lie about a tenth above the exact quantile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, log, log1p, sqrt

import numpy as np
import numpy.typing as npt

from pansketch.sketches.count_sketch import laplace_variance
from pansketch.sketches.slot_occupancy import KeyEstimator

ALLOWANCE = 1e-12  # The chance that an honest release is outside its bounds.
MAX_INTRUSIONS = 16  # announced ones in a window: each is one more draw in every counter

Floats = npt.NDArray[np.float64]
SLACK = 1e-9  # relative; 64-bit arithmetic loses less than a hundredth of it
STEPS = 80  # of the search, each of which shortens the interval by the golden section
_GOLDEN = (sqrt(5) - 1) / 2


@dataclass(frozen=True)
class CounterRow:
    """A run of `size` counters with one noise scale. A reading adds at most `each` to a counter,
    and at most `norm` to the sum of their absolute values. Unless the row is `signed`, it adds
    nothing negative, and `norm` to their sum."""

    size: int
    scale: Fraction
    each: int = 1
    norm: int = 1
    signed: bool = False


@dataclass(frozen=True, eq=False)
class CounterBounds:
    """Bounds of an honest release, row by row.

    Args:
        sizes: number of counters in each row.
        low: lower bound of a counter of each row, float64[rows].
        high: upper bound of a counter, float64[rows].
        sum_low: lower bound of the sum of a row, float64[rows].
        sum_high: upper bound of that sum, float64[rows].
        norm: upper bound of the sum of a row's absolute values, float64[rows].
        total: how the rows' sums estimate what was counted.
    """

    sizes: tuple[int, ...]
    low: Floats
    high: Floats
    sum_low: Floats
    sum_high: Floats
    norm: Floats
    total: "Total"
    _starts: npt.NDArray[np.intp] = field(init=False, repr=False)
    _innermost: tuple[float, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        starts = np.cumsum((0, *self.sizes[:-1])).astype(np.intp)
        object.__setattr__(self, "_starts", starts)
        innermost = float(self.low.max()), float(self.high.min())
        object.__setattr__(self, "_innermost", innermost)

    def examine(self, counters: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.bool_], Floats]:
        """Which releases are within all bounds, and the estimated total of each:
        int64[releases, counters] -> bool[releases], float64[releases]."""
        values = counters.astype(np.float64)
        sums = np.add.reduceat(values, self._starts, axis=1)
        held = (sums >= self.sum_low) & (sums <= self.sum_high)
        # Rows are looked at one by one only where a counter is beyond the narrowest of them.
        if values.min() < self._innermost[0] or values.max() > self._innermost[1]:
            held &= np.minimum.reduceat(values, self._starts, axis=1) >= self.low
            held &= np.maximum.reduceat(values, self._starts, axis=1) <= self.high
        np.abs(values, out=values)
        held &= np.add.reduceat(values, self._starts, axis=1) <= self.norm
        return np.logical_and.reduce(held, axis=1), (sums * self.total.weights).sum(
            axis=1
        ) + self.total.offset


@dataclass(frozen=True, eq=False)
class Total:
    """An estimate of the number of readings in one window: `offset` plus the rows' sums by their
    `weights`, float64[rows]. `variance` is that of its noise."""

    weights: Floats
    offset: float
    variance: float


def linear_bounds(
    rows: Sequence[CounterRow], bits: int, readings: int, draws: int, allowance: float = ALLOWANCE
) -> CounterBounds:
    """Bounds of linear counters of so many `bits`, with `draws` draws each and at most `readings`
    readings. At most a share of `allowance` of all honest releases lies outside.

    The allowance is shared by a union bound: one third each for the counters, the sums of the rows
    and their norms.
    """
    share = allowance / 3
    counters = 2 * sum(row.size for row in rows)
    found = []
    for row in rows:
        noise = sum_quantile(row.scale, draws, share / counters)
        most = readings * row.each + noise
        if most >= 1 << bits - 1:  # Such a counter may wrap, and its bits are all that bounds it.
            limit, whole = float(1 << bits - 1), float(row.size << bits - 1)
            found.append((-limit, limit, -whole, whole, whole))
            continue
        draws_in_row = draws * row.size
        sum_noise = sum_quantile(row.scale, draws_in_row, share / (2 * len(rows)))
        norm_noise = norm_quantile(row.scale, draws_in_row, share / len(rows))
        total = readings * row.norm
        found.append(
            (
                -float(most if row.signed else noise),
                float(most),
                -float(sum_noise + (total if row.signed else 0)),
                float(total + sum_noise),
                float(total + norm_noise),
            )
        )
    low, high, sum_low, sum_high, norm = np.array(found).T
    sizes = tuple(row.size for row in rows)
    return CounterBounds(sizes, low, high, sum_low, sum_high, norm, _total(rows, draws))


def _total(rows: Sequence[CounterRow], draws: int) -> Total:
    """The number of readings, from the sums of all rows whose sum it is, with least variance."""
    precision = np.array(
        [0.0 if row.signed else 1 / (row.size * laplace_variance(row.scale)) for row in rows]
    )
    whole = float(precision.sum())
    return Total(precision / whole, 0.0, draws / whole)


@lru_cache(maxsize=64)  # Of all windows of a stream it is the same.
def bit_bounds(found: KeyEstimator, levels: tuple[int, ...], noise: int) -> CounterBounds:
    """Bounds of a bitmap of one window, or of each level's number of ones. The added noise exceeds
    `noise` with a quarter of the level's allowance on one side.

    Every bit is 1 with one of two probabilities, so the number of ones is bounded for any number of
    keys. A quarter of the allowance goes to each side of it. Levels share the allowance.
    """
    sizes = np.array(levels, np.float64)
    share = ALLOWANCE / 4 / len(levels)
    spread = np.array([ones_quantile(size, share) for size in levels], np.float64) + noise
    low = sizes * found.channel.empty - spread
    high = sizes * found.channel.full + spread
    norm = np.maximum(high, -low)
    if not found.bitmap:
        rows = (1,) * len(levels)
        return CounterBounds(rows, low, high, low, high, norm, _slots_total(found, levels))
    least, most = np.zeros_like(low), np.ones_like(low)
    return CounterBounds(levels, least, most, low, high, norm, _slots_total(found, levels))


def _slots_total(found: KeyEstimator, levels: tuple[int, ...]) -> Total:
    """The number of full slots, which is that of the keys as far as none share a slot."""
    scale = found.slots / found.tracked / found.channel.gain
    bits = found.tracked * max(p * (1 - p) for p in (found.channel.empty, found.channel.full))
    offset = -found.tracked * found.channel.empty * scale
    noise = len(levels) * found.output_variance
    return Total(np.full(len(levels), scale), offset, (bits + noise) * scale**2)


@lru_cache(maxsize=4096)
def sum_quantile(scale: Fraction, count: int, chance: float) -> int:
    """A whole number that the sum of `count` discrete Laplace draws exceeds with at most `chance`.
    By symmetry its negative bounds the sum from below as well."""
    rate = float(1 / scale)
    whole = 2 * log(-expm1(-rate))

    def log_moment(t: float) -> float:
        return whole - log(-expm1(t - rate)) - log(-expm1(-t - rate))

    return _quantile(log_moment, rate, count, chance)


@lru_cache(maxsize=4096)
def norm_quantile(scale: Fraction, count: int, chance: float) -> int:
    """The same for the sum of the draws' absolute values."""
    rate = float(1 / scale)
    whole = log(-expm1(-rate)) - log1p(exp(-rate))

    def log_moment(t: float) -> float:
        return whole + log1p(exp(t - rate)) - log(-expm1(t - rate))

    return _quantile(log_moment, rate, count, chance)


def ones_quantile(count: int, chance: float) -> int:
    """One-sided bound of the distance between the number of ones among `count` independent bits and
    its expectation, exceeded with at most `chance` (Hoeffding)."""
    return ceil(sqrt(-count * log(chance) / 2))


def _quantile(log_moment: Callable[[float], float], rate: float, count: int, chance: float) -> int:
    def bound(t: float) -> float:
        return (count * log_moment(t) - log(chance)) / t

    # The bound has one minimum between 0, where it is infinite, and the rate, where it is too.
    low, high = rate * 1e-9, rate * (1 - 1e-9)
    for _ in range(STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if bound(left) <= bound(right):
            high = right
        else:
            low = left
    return ceil(bound((low + high) / 2) * (1 + SLACK)) + 1
