"""Epsilon in exact integers, and its shares."""

from fractions import Fraction
from math import isqrt

MICRO = 1_000_000
# Shares of a budget are whole pico-epsilon: fine enough for any level, exact in every sum.
PICO_PER_MICRO = 1_000_000


def split_budget(epsilon_micro: int, squared_weights: list[Fraction]) -> list[Fraction]:
    """Shares of a budget proportional to the square roots of the weights; they sum to it exactly.

    Integer square roots, so that every machine computes the same shares.

    Args:
        epsilon_micro: the budget, in micro-epsilon.
        squared_weights: one for each share, not negative.

    Returns:
        Shares in epsilon, each a whole number of pico-epsilon, in the order of the weights.

    Raises:
        ValueError: a share would vanish.
    """
    roots = [isqrt(int(weight * (1 << 80))) for weight in squared_weights]
    pico = epsilon_micro * PICO_PER_MICRO
    shares = [pico * root // sum(roots) for root in roots]
    # The remainder of the rounding goes to the largest share, where it distorts proportions least.
    shares[shares.index(max(shares))] += pico - sum(shares)
    if min(shares) <= 0:
        raise ValueError("epsilon is too small to be shared among so many levels")
    return [Fraction(share, MICRO * PICO_PER_MICRO) for share in shares]
