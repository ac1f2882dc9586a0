"""The exact law of the production sampler, with words of a few bits: every word and every tie.

Words of 64 bits cannot be enumerated, and only the tables of the sampler depend on the length of
words. So the length is a parameter. Each tape of short words is drawn by production code. A tie
reads on, and its tapes are continued by every next word. The decided tapes give bounds of each
probability that differ by one tape. mpmath's intervals, which share no code with the sampler's
tables, must lie between them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import numpy.typing as npt

from pansketch.randomness import Chance, LogOdds, Ratio, exact_noise
from pansketch.randomness.exact_noise import DRAWS_AT_ONCE, ExactNoise
from pansketch.randomness.geometric import Digit, Digits
from pansketch.randomness.random_words import WORD_BITS, Words
from pansketch_audit.exact.intervals import (
    digit_at_most,
    laplace_at,
    probability_of,
    surely_between,
)

QUICK_WORDS: tuple[tuple[int, int], ...] = ((6, 2),)  # bits of each word, number of words in a draw
FULL_WORDS: tuple[tuple[int, int], ...] = ((6, 3), (7, 2), (8, 2))
SCALES = (Fraction(1, 3), Fraction(1), Fraction(157, 10), Fraction(150))
CHANCES: tuple[Chance, ...] = (
    *(LogOdds(Fraction(value)) for value in ("1", "-1", "1/16", "-15/8", "5", "0")),
    *(Ratio(Fraction(value)) for value in ("1/3", "1/2", "5/8", "1/1000", "0", "1")),
)
COMBINED_BITS = 8  # of all words of a draw together: 256 tapes, with every next word but the last
FARTHEST, UNBOUNDED = 12, 1 << 62  # words of ones that lead to the greatest value, if there is one

Draw = Callable[[Words], int]
Bounds = tuple[int, int]


class _NoMore(Exception):
    """A draw asks for a word beyond its tape."""


class _Tape:
    """`Words` of one tape, and then `after` again and again; without it the tape ends."""

    def __init__(self, tape: tuple[int, ...], after: int | None = None) -> None:
        self._left, self._after = iter(tape), after

    def fill(self, words: npt.NDArray[np.uint64]) -> None:
        for place in range(len(words)):
            word = next(self._left, self._after)
            if word is None:
                raise _NoMore
            words[place] = word


class _Columns:
    """`Words` of many tapes at once: block by block, digit by digit. Each tie reads `after`."""

    def __init__(self, tapes: npt.NDArray[np.uint64], after: int) -> None:
        self._after = after
        self._blocks = iter(
            tapes[start : start + DRAWS_AT_ONCE, column]
            for start in range(0, len(tapes), DRAWS_AT_ONCE)
            for column in range(tapes.shape[1])
        )

    def fill(self, words: npt.NDArray[np.uint64]) -> None:
        words[:] = self._after if len(words) == 1 else next(self._blocks)


@dataclass(frozen=True)
class Law:
    """The law of one draw over all tapes of some words.

    Args:
        bits: of a whole tape; a probability is counted in units of 2**-bits.
        decided: by value, how many tapes lead to it.
        undecided: of every tape that reads on, the least and the greatest value it may lead to.
        tapes: how many were drawn.
    """

    bits: int
    decided: dict[int, int]
    undecided: tuple[Bounds, ...]
    tapes: int

    def at_most(self, value: int) -> Bounds:
        """Bounds of 2**bits P(V <= value)."""
        sure = sum(count for found, count in self.decided.items() if found <= value)
        low = sum(greatest <= value for _, greatest in self.undecided)
        high = sum(least <= value for least, _ in self.undecided)
        return sure + low, sure + high


def law_of(draw: Draw, word_bits: int, words: int) -> Law:
    """The law of a draw that reads at least one word."""
    decided: dict[int, int] = {}
    tapes: list[tuple[int, ...]] = [()]
    drawn = 0
    for read in range(1, words + 1):
        weight = 1 << word_bits * (words - read)
        longer = [(*tape, word) for tape in tapes for word in range(1 << word_bits)]
        drawn, tapes = drawn + len(longer), []
        for tape in longer:
            try:
                value = draw(_Tape(tape))
            except _NoMore:
                tapes.append(tape)
            else:
                decided[value] = decided.get(value, 0) + weight
    ones = ((1 << word_bits) - 1,) * FARTHEST
    reach = [(draw(_Tape(tape, 0)), _greatest(draw, (*tape, *ones))) for tape in tapes]
    ordered = tuple((min(pair), max(pair)) for pair in reach)
    return Law(word_bits * words, decided, ordered, drawn)


def _greatest(draw: Draw, tape: tuple[int, ...]) -> int:
    try:
        return draw(_Tape(tape))
    except _NoMore:  # The last tape of all, from which an unbounded value may follow.
        return UNBOUNDED


def digits_of(scale: Fraction, word_bits: int = WORD_BITS) -> Digits:
    """The digits that the sampler draws, also where a planted bug is in their place."""
    found: Digits = vars(exact_noise)["geometric"](scale, word_bits)
    return found


def digit_draw(digit: Digit, word_bits: int) -> Draw:
    """One digit of geometric noise, drawn by production code."""

    def draw(words: Words) -> int:
        scratch = exact_noise._scratch(1, np.zeros(1, np.int64))
        ExactNoise(words, word_bits)._draw_digit(digit, scratch)
        return int(scratch.values[0])

    return draw


def bernoulli_draw(chance: Chance, word_bits: int) -> Draw:
    """One bit, drawn by production code."""

    def draw(words: Words) -> int:
        bits = np.zeros(1, np.uint8)
        ExactNoise(words, word_bits).fill_bernoulli(chance, bits)
        return int(bits[0])

    return draw


@dataclass(frozen=True)
class SamplerFound:
    """Result of the enumeration of one distribution. `wrong`: the first disagreement, or
    nothing."""

    tapes: int
    bits: int
    wrong: str = ""

    @property
    def holds(self) -> bool:
        return not self.wrong

    def __str__(self) -> str:
        if self.wrong:
            return self.wrong
        return f"{self.tapes} tapes, every probability between bounds 2**-{self.bits} apart"


def bernoulli_found(chance: Chance, word_bits: int, words: int) -> SamplerFound:
    """The law of one bit against mpmath's logistic function."""
    law = law_of(bernoulli_draw(chance, word_bits), word_bits, words)
    low, high = law.at_most(0)
    wrong = ""
    if not surely_between(low, 1 - probability_of(chance), high, law.bits):
        wrong = f"P(0) of {chance} is not between {low} and {high} in 2**-{law.bits}"
    return SamplerFound(law.tapes, law.bits, wrong)


def laplace_found(scale: Fraction, word_bits: int, words: int) -> SamplerFound:
    """The laws of all digits, their independence, and the law of the noise that they make."""
    digits = digits_of(scale, word_bits)
    laws = [law_of(digit_draw(digit, word_bits), word_bits, words) for _, digit in digits]
    tapes = sum(law.tapes for law in laws)
    for (weight, digit), law in zip(digits, laws, strict=True):
        for value in range(max(law.decided) + 1):
            low, high = law.at_most(value)
            if not surely_between(low, digit_at_most(digit, value), high, law.bits):
                bounds = f"{low} and {high} in 2**-{law.bits}"
                wrong = f"P(V <= {value}) of the digit of weight {weight} is not between {bounds}"
                return SamplerFound(tapes, law.bits, wrong)
    combined, wrong = combination(scale)
    bits = word_bits * words
    wrong = wrong or _laplace_wrong(scale, [weight for weight, _ in digits], laws)
    return SamplerFound(tapes + combined, bits, wrong)


def combination(scale: Fraction) -> tuple[int, str]:
    """Return the number of tapes of whole draws, and the first error in them.

    A draw must be the signed, weighted sum of what each digit makes of words of its own. Words are
    so short that all of a draw have `COMBINED_BITS` at most.
    """
    count = 2 * len(digits_of(scale))
    word_bits = max(1, COMBINED_BITS // count)
    digits = digits_of(scale, word_bits)
    count, all_words = 2 * len(digits), range(1 << word_bits)
    tapes = np.array([*product(all_words, repeat=count)], np.uint64)
    drawn = 0
    for after in all_words[:-1] or [0]:  # Words of ones without end are the infinite value.
        noise = np.zeros(len(tapes), np.int64)
        ExactNoise(_Columns(tapes, after), word_bits).add_discrete_laplace(scale, noise)
        expected = np.zeros(len(tapes), np.int64)
        for column in range(count):
            weight, digit = digits[column % len(digits)]
            draw = digit_draw(digit, word_bits)
            values = np.array([draw(_Tape((word,), after)) for word in all_words])
            sign = 1 if column < len(digits) else -1
            expected += sign * weight * values[tapes[:, column].astype(np.intp)]
        drawn += len(tapes)
        for place in np.flatnonzero(noise != expected)[:1]:
            words = tapes[place].tolist()
            return drawn, f"words {words} give {noise[place]}, their digits {expected[place]}"
    return drawn, ""


def _laplace_wrong(scale: Fraction, weights: list[int], laws: list[Law]) -> str:
    """Decided tapes of the digits give each value at least this often; the rest may be anywhere."""
    least: dict[int, int] = {0: 1}
    for sign in (1, -1):
        for weight, law in zip(weights, laws, strict=True):
            shifted = [(sign * weight * value, times) for value, times in law.decided.items()]
            least = _convolved(least, shifted)
    bits = 2 * sum(law.bits for law in laws)
    rest = (1 << bits) - sum(least.values())
    for value, low in least.items():
        if not surely_between(low, laplace_at(scale, value), low + rest, bits):
            return f"P(Z = {value}) is not between {low} and {low + rest} in 2**-{bits}"
    return ""


def _convolved(law: dict[int, int], other: list[tuple[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for value, times in law.items():
        for more, again in other:
            found[value + more] = found.get(value + more, 0) + times * again
    return found


def sampler_findings(quick: bool) -> list[tuple[str, Callable[[], SamplerFound]]]:
    """The enumerations, with their names."""
    found: list[tuple[str, Callable[[], SamplerFound]]] = []
    for bits, words in QUICK_WORDS if quick else FULL_WORDS:
        for scale in SCALES:
            name = f"sampler, Laplace, scale {scale}, {bits}-bit words"
            found.append((name, partial(laplace_found, scale, bits, words)))
        name = f"sampler, {len(CHANCES)} chances of bits, {bits}-bit words"
        found.append((name, partial(chances_found, bits, words)))
    return found


def chances_found(word_bits: int, words: int) -> SamplerFound:
    """The laws of bits of all `CHANCES`."""
    found = [bernoulli_found(chance, word_bits, words) for chance in CHANCES]
    wrong = next((each.wrong for each in found if each.wrong), "")
    return SamplerFound(sum(each.tapes for each in found), found[0].bits, wrong)
