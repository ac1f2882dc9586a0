"""Exponentials by interval arithmetic on integers, to any precision asked for."""

from collections.abc import Callable
from fractions import Fraction
from math import ceil

GUARD_BITS = 64

Interval = tuple[int, int]  # lower and upper bound of a real, in units of 2**-bits


def settled(bounds: Callable[[int], Interval]) -> int:
    """The integer on which both bounds agree once they are computed with enough guard bits.

    `bounds`: guard bits -> bounds of the floor of a real. Ends unless that real is an integer.
    """
    guard = GUARD_BITS
    while True:
        low, high = bounds(guard)
        if low == high:
            return low
        guard *= 2


def complement_bounds(exponent: Fraction, bits: int) -> Interval:
    """Bounds of 1 - exp(-exponent)."""
    low, high = exp_bounds(exponent, bits)
    return (1 << bits) - high, (1 << bits) - low


def exp_bounds(exponent: Fraction, bits: int) -> Interval:
    """Integers (low, high) with low <= 2**bits exp(-exponent) <= high, for exponent >= 0.

    The argument is halved until it is at most 1. The alternating series is summed in fixed point
    (each floor loses at most two units). Then the bounds are squared as often as the argument was
    halved.
    """
    halvings = max(0, ceil(exponent) - 1).bit_length()
    working = bits + 2 * halvings + 16
    reduced = exponent / (1 << halvings)
    total = term = 1 << working
    terms = 0
    while term:
        terms += 1
        term = term * reduced.numerator // (reduced.denominator * terms)
        total += -term if terms % 2 else term
    low, high = total - 2 * terms - 1, total + 2 * terms + 1
    for _ in range(halvings):
        low, high = low * low >> working, (high * high >> working) + 1
    drop = working - bits
    return max(0, low >> drop), (high >> drop) + 1
