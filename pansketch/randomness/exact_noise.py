"""Exact integer noise from operating-system randomness.

A discrete Laplace variable, P(z) proportional to exp(-|z| / b), is the difference of two geometric
ones. A geometric variable splits into independent digits, each drawn by inversion. The value is the
number of cumulative probabilities at or below a uniform real U. A Bernoulli draw is 1 when U is
below its probability. U is compared by its first 64 bits, and in the rare tie extended word by
word. The probabilities are known to any requested precision. So the distributions are exact: no
floating point, no truncated tail, no delta. Every draw reads a number of words that depends on the
scale alone. A Bernoulli draw reads one, a Laplace draw two a digit: four up to scales of about
11,000. A tie (below 2**-50 a draw) reads one more. A rational probability whose expansion ends is
at or below every U that agrees with all of it, so the comparison ends there.

Noise is added in place and its scratch is overwritten: nothing is kept beside the counters.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from math import exp
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pansketch.randomness.exp_bounds import Interval, exp_bounds, settled
from pansketch.randomness.geometric import Digit, Digits, geometric
from pansketch.randomness.random_words import WORD_BITS, OsWords, Words, extended


@dataclass(frozen=True)
class LogOdds:
    """The probability e**value / (1 + e**value): irrational, but for the value 0.

    Args:
        value: the logarithm of the odds, exact.
    """

    value: Fraction

    @property
    def probability(self) -> float:
        """To the nearest float or so: for estimators, never for a draw."""
        small = exp(-abs(float(self.value)))
        return (small if self.value < 0 else 1.0) / (1.0 + small)

    def first_bits(self, bits: int) -> int:
        """floor(2**bits p), for bits >= 1."""
        if self.value == 0:
            return 1 << (bits - 1)
        if abs(self.value) >= bits:  # p is closer to 0 or 1 than 2**-bits, but neither.
            return 0 if self.value < 0 else (1 << bits) - 1
        return settled(partial(self._bounds, bits))

    def ends_within(self, bits: int) -> bool:
        """Return whether 2**bits p is an integer, for bits >= 1."""
        return self.value == 0

    def _bounds(self, bits: int, guard: int) -> Interval:
        whole = 1 << (bits + guard)
        low, high = exp_bounds(abs(self.value), bits + guard)
        if self.value < 0:
            return (low << bits) // (whole + low), (high << bits) // (whole + high)
        return (whole << bits) // (whole + high), (whole << bits) // (whole + low)


@dataclass(frozen=True)
class Ratio:
    """A rational probability.

    Args:
        value: the probability, exact.

    Raises:
        ValueError: the value is outside [0, 1].
    """

    value: Fraction

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise ValueError("a probability must lie between 0 and 1")

    @property
    def probability(self) -> float:
        """To the nearest float: for estimators, never for a draw."""
        return float(self.value)

    def first_bits(self, bits: int) -> int:
        """floor(2**bits p), which is 2**bits for p = 1."""
        return (self.value.numerator << bits) // self.value.denominator

    def ends_within(self, bits: int) -> bool:
        """Return whether 2**bits p is an integer."""
        return (1 << bits) % self.value.denominator == 0


Chance = LogOdds | Ratio


@cache  # In the order of first use: the order of last use would show which draw came last.
def threshold(chance: Chance, word_bits: int = WORD_BITS) -> np.uint64:
    """A uniform whose first word is below it is below p, above it above p; equal is a tie.

    For p = 1 it is the last word, so that this word is a tie, decided like any other.
    """
    return np.uint64(min(chance.first_bits(word_bits), (1 << word_bits) - 1))


def is_below(chance: Chance, first: int, words: Words, word_bits: int = WORD_BITS) -> bool:
    """Return whether the uniform that begins with the word `first`, extended while it ties, is
    below p."""
    uniform, bits = first, word_bits
    while uniform == chance.first_bits(bits) and not chance.ends_within(bits):
        uniform, bits = extended(uniform, words, word_bits), bits + word_bits
    return uniform < chance.first_bits(bits)


__all__ = [
    "Chance",
    "Counters",
    "Entropy",
    "ExactNoise",
    "KeyEntropy",
    "LogOdds",
    "Ratio",
    "os_entropy",
]

DRAWS_AT_ONCE = 4096

Counters = npt.NDArray[np.int32] | npt.NDArray[np.int64]


class Entropy(Protocol):
    """Source of secret randomness: an argument everywhere, so that a test may drive it."""

    def add_discrete_laplace(self, scale: Fraction, counters: Counters) -> None:
        """Add an independent discrete Laplace draw of parameter `scale` to every counter, in
        place."""
        ...

    def fill_bernoulli(self, chance: Chance, bits: npt.NDArray[np.uint8]) -> None:
        """Overwrite every element by an independent 1 with probability `chance`, else 0."""
        ...

    def identifier(self) -> int:
        """A random name of 63 bits."""
        ...


class KeyEntropy(Entropy, Protocol):
    """An `Entropy` that private keys are drawn from as well."""

    def fill_words(self, words: npt.NDArray[np.uint64]) -> None:
        """Overwrite every word by an independent, uniform one: uint64[n]."""
        ...


class ExactNoise:
    """`KeyEntropy` over a source of words.

    `word_bits`: those that a draw uses of each word, all 64 in every program. An audit enumerates
    shorter words, all below 2**`word_bits`; keys and identifiers are not drawn from these.
    """

    def __init__(self, words: Words, word_bits: int = WORD_BITS) -> None:
        self._words = words
        self._word_bits = word_bits

    def add_discrete_laplace(self, scale: Fraction, counters: Counters) -> None:
        """See `Entropy`. Counters, int32[n] or int64[n], wrap modulo 2**32 or 2**64, which is
        post-processing and harms no guarantee.

        Raises ValueError unless `scale` is positive and at most 2**48, or for other counters.
        """
        if counters.dtype not in (np.int32, np.int64):
            raise ValueError(f"noise is added to int32 or int64 counters, not to {counters.dtype}")
        digits = geometric(scale, self._word_bits)
        scratch = _scratch(min(DRAWS_AT_ONCE, len(counters)), counters)
        try:
            for start in range(0, len(counters), DRAWS_AT_ONCE):
                part = counters[start : start + DRAWS_AT_ONCE]
                self._add_block(digits, scratch.first(len(part)), part)
        finally:
            scratch.erase()

    def _add_block(self, digits: Digits, scratch: "_Scratch", counters: Counters) -> None:
        scratch.noise.fill(0)
        for sign in (1, -1):
            for weight, digit in digits:
                self._draw_digit(digit, scratch)
                np.multiply(scratch.values, sign * weight, out=scratch.values)
                np.add(scratch.noise, scratch.values, out=scratch.noise)
        # Cast into scratch of ours: a mixed-type addition would cast in a buffer we cannot erase.
        np.copyto(scratch.cast, scratch.noise, casting="unsafe")
        counters += scratch.cast

    def _draw_digit(self, digit: Digit, scratch: "_Scratch") -> None:
        words = scratch.words
        self._words.fill(words)
        indices = np.searchsorted(digit.table, words, side="right")
        # From the platform's index type, which may have 32 bits.
        np.copyto(scratch.values, indices)
        np.subtract(indices, 1, out=indices)
        np.take(digit.table, indices, mode="wrap", out=scratch.below)
        indices.fill(0)
        np.equal(scratch.below, words, out=scratch.tied)
        if scratch.tied.any():
            for index in np.flatnonzero(scratch.tied):
                scratch.values[index] = digit.resolve(int(words[index]), self._words)

    def fill_bernoulli(self, chance: Chance, bits: npt.NDArray[np.uint8]) -> None:
        """See `Entropy`. Raises ValueError for another array than uint8[n]."""
        if bits.dtype != np.uint8:
            raise ValueError(f"Bernoulli draws are written to uint8 elements, not to {bits.dtype}")
        limit = threshold(chance, self._word_bits)
        words = np.empty(min(DRAWS_AT_ONCE, len(bits)), np.uint64)
        tied = np.empty(len(words), np.bool_)
        try:
            for start in range(0, len(bits), DRAWS_AT_ONCE):
                part = bits[start : start + DRAWS_AT_ONCE]
                self._draw_bits(chance, limit, words[: len(part)], tied[: len(part)], part)
        finally:
            words.fill(0)
            tied.fill(0)

    def _draw_bits(
        self,
        chance: Chance,
        limit: np.uint64,
        words: npt.NDArray[np.uint64],
        tied: npt.NDArray[np.bool_],
        bits: npt.NDArray[np.uint8],
    ) -> None:
        self._words.fill(words)
        np.less(words, limit, out=bits.view(np.bool_))
        np.equal(words, limit, out=tied)
        if tied.any():
            for index in np.flatnonzero(tied):
                bits[index] = is_below(chance, int(limit), self._words, self._word_bits)

    def fill_words(self, words: npt.NDArray[np.uint64]) -> None:
        """See `KeyEntropy`."""
        self._words.fill(words)

    def identifier(self) -> int:
        word = np.empty(1, np.uint64)
        self._words.fill(word)
        return int(word[0] >> np.uint64(1))


@dataclass(frozen=True)
class _Scratch:
    """Scratch of a block of Laplace draws; with the counters it would reveal the counts."""

    words: npt.NDArray[np.uint64]
    below: npt.NDArray[np.uint64]
    tied: npt.NDArray[np.bool_]
    values: npt.NDArray[np.int64]
    noise: npt.NDArray[np.int64]
    cast: Counters

    def first(self, draws: int) -> "_Scratch":
        """The beginnings of all arrays: views, so that erasing the whole erases them."""
        cut = slice(draws)
        return _Scratch(
            self.words[cut],
            self.below[cut],
            self.tied[cut],
            self.values[cut],
            self.noise[cut],
            self.cast[cut],
        )

    def erase(self) -> None:
        for array in (self.words, self.below, self.tied, self.values, self.noise, self.cast):
            array.fill(0)


def _scratch(draws: int, counters: Counters) -> _Scratch:
    return _Scratch(
        np.empty(draws, np.uint64),
        np.empty(draws, np.uint64),
        np.empty(draws, np.bool_),
        np.empty(draws, np.int64),
        np.empty(draws, np.int64),
        np.empty_like(counters[:draws]),
    )


def os_entropy() -> ExactNoise:
    """The production source of secret randomness. Each program creates it in one place.

    Returns:
        Exact noise from the words of the kernel's generator.

    Raises:
        OSError: /dev/urandom is not the kernel's generator.
    """
    return ExactNoise(OsWords())
