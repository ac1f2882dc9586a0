"""How large noise gets: quantiles that an honest counter exceeds with a stated chance at most.

Chernoff bounds of discrete Laplace draws, P(z) proportional to p**|z| with p = exp(-1 / scale):

    E exp(t z)   = (1 - p)**2 / ((1 - p e**t) (1 - p e**-t))          for 0 <= t < 1 / scale
    E exp(t |z|) = (1 - p) (1 + p e**t) / ((1 + p) (1 - p e**t))

Whatever t is, a sum of n draws exceeds (n log E - log chance) / t with at most that chance. So the
search for the best t decides how tight a bound is and never whether it holds; SLACK covers the
rounding of its evaluation. For one counter the bounds lie about a tenth above the exact quantile.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, log, log1p, sqrt

SLACK = 1e-9  # relative; 64-bit arithmetic loses less than a hundredth of it
STEPS = 80  # of the search, each of which shortens the interval by the golden section
_GOLDEN = (sqrt(5) - 1) / 2


@lru_cache(maxsize=4096)
def sum_quantile(scale: Fraction, count: int, chance: float) -> int:
    """A whole number that the sum of `count` discrete Laplace draws exceeds with at most `chance`;
    by symmetry its negative bounds the sum from below as well."""
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
    """How far the number of ones among `count` independent bits lies from its expectation, on one
    side, with at most `chance` further (Hoeffding)."""
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
