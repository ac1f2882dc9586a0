"""Probabilities of the sampler's distributions as mpmath's intervals, from their formulas alone."""

from fractions import Fraction
from functools import cache
from typing import Any

from pansketch.randomness import Chance, LogOdds
from pansketch.randomness.geometric import Digit

PRECISION = 200  # bits of mpmath's intervals


@cache
def intervals() -> Any:
    """mpmath's interval arithmetic.

    Raises:
        ModuleNotFoundError: mpmath is not installed; the extra `audit` brings it.
    """
    from mpmath import iv

    iv.prec = PRECISION
    return iv


def _number(value: Fraction) -> Any:
    return intervals().mpf(value.numerator) / value.denominator


def probability_of(chance: Chance) -> Any:
    """P(a bit is 1)."""
    if isinstance(chance, LogOdds):
        return 1 / (1 + intervals().exp(-_number(chance.value)))
    return _number(chance.value)


def digit_at_most(digit: Digit, value: int) -> Any:
    """P(V <= value) of a digit."""
    if digit.size is not None and value >= digit.size - 1:
        return intervals().mpf(1)
    exp = intervals().exp
    below = 1 - exp(-_number(digit.decay * (value + 1)))
    return below if digit.size is None else below / (1 - exp(-_number(digit.decay * digit.size)))


def laplace_at(scale: Fraction, value: int) -> Any:
    """P(Z = value) = tanh(1 / (2 scale)) exp(-|value| / scale)."""
    once = intervals().exp(-_number(1 / scale))
    power = intervals().exp(-_number(abs(value) / scale))
    return (1 - once) / (1 + once) * power


def surely_between(low: int, probability: Any, high: int, bits: int) -> bool:
    """Return whether a probability surely is between two numbers of tapes. The interval of a
    rational one may be wider than necessary, by its last bits."""
    scaled = probability * (1 << bits)
    tiny = intervals().mpf(2) ** (bits - PRECISION + 16)
    return bool(low - tiny <= scaled.a) and bool(scaled.b <= high + tiny)
