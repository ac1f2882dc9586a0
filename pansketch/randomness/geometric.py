"""Geometric variables as independent digits, each known by exact cumulative probabilities.

A variable with P(g) proportional to exp(-g / scale) is written in a mixed radix. Because
exp(-(a + b) / scale) is a product, its digits are independent, and digit v of weight w has
probability proportional to exp(-w v / scale). The leading digit is unbounded. There are as many
digits as keep every table small: two up to scales of about 11,000, six at 2**48.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil

import numpy as np
import numpy.typing as npt

from pansketch.randomness.exp_bounds import Interval, complement_bounds, settled
from pansketch.randomness.random_words import WORD_BITS, Words, extended

MAX_SCALE = 1 << 48
REACH = 45  # A geometric variable passes 44.4 scales with probability 2**-64.
DIGIT_BITS = 9  # Bounded digits have tables below 2**9 rows, the leading one below 2**10.


@dataclass(frozen=True)
class Digit:
    """A geometric variable with P(v) proportional to exp(-decay v), below `size` or unbounded.

    `table` holds the first `word_bits` of its cumulative probabilities.
    """

    decay: Fraction
    size: int | None
    table: npt.NDArray[np.uint64]
    word_bits: int = WORD_BITS

    def resolve(self, first: int, words: Words) -> int:
        """The value whose uniform begins with the word `first`, read on until no tie is left."""
        uniform, bits = first, self.word_bits
        value = int(np.searchsorted(self.table, np.uint64(first), side="left"))
        while self.size is None or value < self.size - 1:
            limit = cumulative(self.decay, self.size, value, bits)
            if uniform < limit:
                break
            if uniform > limit:
                value += 1
                continue
            uniform = extended(uniform, words, self.word_bits)
            bits += self.word_bits
        return value


Digits = tuple[tuple[int, Digit], ...]  # (weight, digit), the leading one first


@lru_cache(maxsize=512)
def geometric(scale: Fraction, word_bits: int = WORD_BITS) -> Digits:
    """The digits whose weighted sum is geometric with ratio exp(-1 / scale).

    `word_bits`: of each word, 64 on a device. Of a few bits all words can be enumerated.

    Raises ValueError unless 0 < scale <= MAX_SCALE.
    """
    if not 0 < scale <= MAX_SCALE:
        raise ValueError("the scale of discrete Laplace noise must be positive, at most 2**48")
    digits, weight = [], 1
    for size in radices(ceil(REACH * scale).bit_length()):
        digits.append((weight, _digit(weight / scale, size, word_bits)))
        weight *= size
    digits.append((weight, _digit(weight / scale, None, word_bits)))
    return tuple(reversed(digits))


def radices(bits: int) -> list[int]:
    """Sizes of the bounded digits of a number of so many bits, the lowest first. They are powers of
    two, about as large as the leading digit."""
    count = max(2, -(-(bits - 1) // DIGIT_BITS))
    sizes = []
    for left in range(count, 1, -1):
        size_bits = (bits - 1) // left
        sizes.append(1 << size_bits)
        bits -= size_bits
    return [size for size in sizes if size > 1]


def _digit(decay: Fraction, size: int | None, word_bits: int) -> Digit:
    rows: list[int] = []
    last = (1 << word_bits) - 1
    while (size is None or len(rows) < size - 1) and (not rows or rows[-1] < last):
        rows.append(cumulative(decay, size, len(rows), word_bits))
    table = np.array(rows, np.uint64)
    table.flags.writeable = False
    return Digit(decay, size, table, word_bits)


def cumulative(decay: Fraction, size: int | None, value: int, bits: int) -> int:
    """floor(2**bits P(V <= value)) for P(v) proportional to exp(-decay v), 0 <= v < size, and
    value < size - 1.

    Ends because the probability is transcendental.
    """
    return settled(partial(_cumulative_bounds, decay, size, value, bits))


def _cumulative_bounds(
    decay: Fraction, size: int | None, value: int, bits: int, guard: int
) -> Interval:
    precision = bits + guard
    low, high = complement_bounds(decay * (value + 1), precision)
    if size is None:
        return low >> guard, high >> guard
    whole = complement_bounds(decay * size, precision)
    return (low << bits) // whole[1], (high << bits) // whole[0]
