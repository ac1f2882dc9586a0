"""Exact integer noise from operating-system randomness.

A discrete Laplace variable, P(z) proportional to exp(-|z| / b), is the difference of two geometric
ones. A geometric variable splits into two independent digits, G = m H + L, each drawn by inversion:
the value is the number of cumulative probabilities at or below a uniform real U. U is compared by
its first 64 bits, and extended word by word in the rare tie, against cumulative probabilities that
are known to any precision asked for. So the distribution is exact: no floating point, no truncated
tail, no delta. Every draw reads four words; a tie (below 2**-50 a draw) reads one more.

Noise is added in place and its scratch is overwritten: nothing is kept beside the counters.
"""

import os
import weakref
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, isqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt

WORD_BITS = 64
GUARD_BITS = 64
DRAWS_AT_ONCE = 4096

Interval = tuple[int, int]  # lower and upper bound of a real, in units of 2**-bits


class Entropy(Protocol):
    """Where secret randomness comes from: an argument everywhere, so that a test may drive it."""

    def add_discrete_laplace(self, scale: Fraction, counters: npt.NDArray[np.int32]) -> None:
        """Add an independent discrete Laplace draw of parameter `scale` to every counter, in
        place."""
        ...

    def identifier(self) -> int:
        """A random name of 63 bits."""
        ...


class Words(Protocol):
    """A source of independent, uniform 64-bit words."""

    def fill(self, words: npt.NDArray[np.uint64]) -> None: ...


class OsWords:
    """Words from the kernel, read straight into the caller's buffer: no copy stays behind."""

    def __init__(self) -> None:
        if hasattr(os, "getrandom"):
            os.getrandom(1)  # Waits, early after boot, until the kernel's generator is seeded.
        self._device = os.open("/dev/urandom", os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._device)

    def fill(self, words: npt.NDArray[np.uint64]) -> None:
        """Raises OSError when the kernel gives no randomness: there is no fallback generator."""
        left = words.data.cast("B")
        while len(left):
            count = os.readv(self._device, [left])
            if not count:
                raise OSError("the operating system's random device gave no bytes")
            left = left[count:]


class ExactNoise:
    """`Entropy` over a source of words."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def add_discrete_laplace(self, scale: Fraction, counters: npt.NDArray[np.int32]) -> None:
        """See `Entropy`. Counters wrap modulo 2**32, which is post-processing and harms no
        guarantee.

        Raises ValueError unless `scale` is positive.
        """
        geometric = _geometric(scale)
        words = np.empty(min(DRAWS_AT_ONCE, len(counters)), np.uint64)
        noise = np.empty(len(words), np.int64)
        narrow = np.empty(len(words), np.int32)
        for start in range(0, len(counters), DRAWS_AT_ONCE):
            part = counters[start : start + DRAWS_AT_ONCE]
            drawn, small = noise[: len(part)], narrow[: len(part)]
            drawn.fill(0)
            for sign in (1, -1):
                for weight, digit in geometric:
                    self._add_digit(digit, sign * weight, words[: len(part)], drawn)
            # Cast into scratch of ours: a mixed-type addition would cast in a buffer we cannot
            # erase.
            np.copyto(small, drawn, casting="unsafe")
            part += small
        for scratch in (words, noise, narrow):
            scratch.fill(0)

    def _add_digit(
        self,
        digit: "Digit",
        weight: int,
        words: npt.NDArray[np.uint64],
        noise: npt.NDArray[np.int64],
    ) -> None:
        self._words.fill(words)
        values = np.searchsorted(digit.table, words, side="right")
        ties = digit.table.take(values - 1, mode="wrap") == words
        if ties.any():
            for place in np.flatnonzero(ties):
                values[place] = digit.resolve(int(words[place]), self._words)
        np.multiply(values, weight, out=values)
        noise += values
        values.fill(0)

    def identifier(self) -> int:
        word = np.empty(1, np.uint64)
        self._words.fill(word)
        return int(word[0] >> np.uint64(1))


def os_entropy() -> ExactNoise:
    """The production source. Each program creates it in one place and hands it on."""
    return ExactNoise(OsWords())


@dataclass(frozen=True)
class Digit:
    """A geometric variable with P(v) proportional to exp(-decay v), below `size` or unbounded.

    `table` holds the first 64 bits of its cumulative probabilities.
    """

    decay: Fraction
    size: int | None
    table: npt.NDArray[np.uint64]

    def resolve(self, first: int, words: Words) -> int:
        """The value whose uniform begins with the word `first`, read on until no tie is left."""
        uniform, bits = first, WORD_BITS
        value = int(np.searchsorted(self.table, np.uint64(first), side="left"))
        while self.size is None or value < self.size - 1:
            threshold = cumulative(self.decay, self.size, value, bits)
            if uniform < threshold:
                break
            if uniform > threshold:
                value += 1
                continue
            more = np.empty(1, np.uint64)
            words.fill(more)
            uniform, bits = (uniform << WORD_BITS) | int(more[0]), bits + WORD_BITS
            more.fill(0)
        return value


@lru_cache(maxsize=512)
def _geometric(scale: Fraction) -> tuple[tuple[int, Digit], ...]:
    """(weight, digit) pairs whose weighted sum is geometric with ratio exp(-1 / scale)."""
    if scale <= 0:
        raise ValueError("the scale of discrete Laplace noise must be positive")
    # About as many low as high values: 2**-64 is reached after 44.4 scales.
    low_size = 1 << (isqrt(ceil(45 * scale)).bit_length() - 1)
    high = _digit(low_size / scale, None)
    if low_size == 1:
        return ((1, high),)
    return ((low_size, high), (1, _digit(1 / scale, low_size)))


def _digit(decay: Fraction, size: int | None) -> Digit:
    last = (1 << WORD_BITS) - 1
    rows: list[int] = []
    while (size is None or len(rows) < size - 1) and (not rows or rows[-1] < last):
        rows.append(cumulative(decay, size, len(rows), WORD_BITS))
    table = np.array(rows, np.uint64)
    table.flags.writeable = False
    return Digit(decay, size, table)


def cumulative(decay: Fraction, size: int | None, value: int, bits: int) -> int:
    """floor(2**bits P(V <= value)) for P(v) proportional to exp(-decay v), 0 <= v < size.

    Interval arithmetic at rising precision; it ends because the probability is transcendental.
    """
    guard = GUARD_BITS
    while True:
        precision = bits + guard
        below_one = _complement(decay * (value + 1), precision)
        whole = (1 << precision, 1 << precision)
        if size is not None:
            whole = _complement(decay * size, precision)
        low, high = (below_one[0] << bits) // whole[1], (below_one[1] << bits) // whole[0]
        if low == high:
            return low
        guard *= 2


def _complement(exponent: Fraction, bits: int) -> Interval:
    """Bounds of 1 - exp(-exponent)."""
    low, high = exp_bounds(exponent, bits)
    return (1 << bits) - high, (1 << bits) - low


def exp_bounds(exponent: Fraction, bits: int) -> Interval:
    """Integers (low, high) with low <= 2**bits exp(-exponent) <= high, for exponent >= 0.

    The argument is halved until it is at most 1, the alternating series is summed in fixed point
    (each floor loses at most two units), and the bounds are squared back.
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
