"""The digits of geometric variables: exact cumulative probabilities, small tables, ties."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction
from itertools import pairwise

import mpmath
import pytest

from pansketch.randomness.exp_bounds import exp_bounds
from pansketch.randomness.geometric import MAX_SCALE, _cumulative_bounds, cumulative, geometric
from pansketch.randomness.random_words import LAST_WORD, extended

LARGE = [Fraction(2 * 10**7), Fraction(2**40)]
SCALES = [Fraction(1, 3), Fraction(1), Fraction(157, 10), Fraction(150), Fraction(4000), *LARGE]


@pytest.mark.parametrize(
    "exponent", [Fraction(0), Fraction(1, 10**9), Fraction(1), Fraction(977, 10)]
)
def test_exp_bounds_enclose_the_exponential_tightly(exponent):
    getcontext().prec = 120
    true = (-(Decimal(exponent.numerator) / Decimal(exponent.denominator))).exp() * 2**200
    low, high = exp_bounds(exponent, 200)
    assert low <= true <= high
    assert high - low <= 2


@pytest.mark.parametrize("bits", [0, 5, 12, 24, 80])
def test_exp_bounds_enclose_exponentials_that_lie_next_to_an_integer(bits):
    """On either side of it, 2**-400 away, after every number of halvings. A bound that is too tight
    by one unit of the working precision leaves some of them out."""
    most = 1 << bits
    numbers = {most * 999 // (1000 + 37 * step * step) for step in range(100)} - {0}
    with mpmath.workprec(600):
        for number in numbers | {most - 1, 1} - {0, most}:
            scaled = int(-mpmath.log(mpmath.mpf(number) / most) * 2**400)
            low, high = exp_bounds(Fraction(scaled + 1, 2**400), bits)  # a little less
            assert max(0, number - 2) <= low < number <= high <= number + 1
            low, high = exp_bounds(Fraction(scaled, 2**400), bits)  # a little more
            assert number - 1 <= low <= number < high <= number + 2


def test_bounds_of_cumulative_probabilities_enclose_them():
    """Of so few bits that any bound which is no bound is found. A table is wrong by a row where
    the bounds agree on a wrong integer."""
    for numerator in range(1, 40):
        decay = Fraction(numerator, 31)
        for size in (2, 8, None):
            for value in range(7 if size == 8 else 1):
                true = mpmath.expm1(-mpmath.mpf(numerator) * (value + 1) / 31)
                true /= mpmath.expm1(-mpmath.mpf(numerator) * size / 31) if size else -1
                low, high = _cumulative_bounds(decay, size, value, 7, 1)
                assert low <= mpmath.floor(true * 128) <= high


@pytest.mark.parametrize("size", [None, 8])
def test_tables_hold_the_floor_of_cumulative_probabilities(size):
    getcontext().prec = 80
    decay = Fraction(3, 7)
    for value in range(7):
        power = (-(Decimal(3) / Decimal(7)) * (value + 1)).exp()
        whole = 1 - (-(Decimal(3) / Decimal(7)) * size).exp() if size else Decimal(1)
        assert cumulative(decay, size, value, 64) == int((1 - power) / whole * 2**64)


def digit_probability(digit, value, bits):
    """2**bits P(digit = value), within two units."""
    last = digit.size is not None and value == digit.size - 1
    above = 1 << bits if last else cumulative(digit.decay, digit.size, value, bits)
    return above - (cumulative(digit.decay, digit.size, value - 1, bits) if value else 0)


def geometric_probability(scale, value, bits):
    """2**bits P(G = value) by the digits of `value`, within as many units as there are digits."""
    product = 1 << bits
    for weight, digit in geometric(scale):
        place, value = divmod(value, weight)
        product = product * digit_probability(digit, place, bits) >> bits
    assert value == 0
    return product


@pytest.mark.parametrize("scale", [*SCALES, Fraction(MAX_SCALE)], ids=str)
def test_the_product_of_the_digits_is_the_geometric_probability(scale):
    """Every value up to 300 and some beyond, to 2**-200 by two ways to compute them."""
    getcontext().prec = 150
    step = -Decimal(scale.denominator) / Decimal(scale.numerator)
    far = (math.ceil(scale * 7 / 5), math.ceil(scale * 11))
    for value in [*range(300), *far, *(each + 1 for each in far)]:
        true = (1 - step.exp()) * (step * value).exp() * 2**220
        assert abs(geometric_probability(scale, value, 220) - true) < 2**20


@pytest.mark.parametrize(("scale", "weights"), [(1, [4, 1]), (20, [16, 1]), (150, [64, 1])])
def test_small_scales_have_two_digits(scale, weights):
    assert [weight for weight, _ in geometric(Fraction(scale))] == weights


@pytest.mark.parametrize("power", range(-4, 49))
def test_the_tables_of_every_scale_are_small(power):
    digits = geometric(Fraction(2) ** power)
    assert all(0 < len(digit.table) < 1024 for _, digit in digits)
    assert all(above == weight * digit.size for (above, _), (weight, digit) in pairwise(digits))
    assert digits[0][1].size is None
    assert digits[0][1].table[-1] == LAST_WORD == 2**64 - 1
    # All draws of a process share them.
    assert not any(digit.table.flags.writeable for _, digit in digits)


def test_the_largest_scale_is_the_documented_one():
    assert MAX_SCALE == 2**48


@pytest.mark.parametrize(("extension", "expected"), [(0, 0), (2**64 - 1, 1)])
def test_a_tie_is_decided_by_the_next_word(extension, expected, tape):
    """The first word equals the 64-bit floor of P(V <= 0): only the following bits can tell."""
    ((_, digit),) = geometric(Fraction(1, 100))
    assert digit.table[0] == 2**64 - 1
    assert digit.resolve(2**64 - 1, tape(0)) == 0
    for scale in (Fraction(1), *LARGE):
        for _, digit in geometric(scale):
            assert digit.resolve(int(digit.table[0]), tape(extension)) == expected


def test_a_tie_extends_by_as_many_words_as_it_takes(tape):
    digit = geometric(Fraction(1))[1][1]
    exact = cumulative(digit.decay, digit.size, 0, 192)
    words = [exact >> 128, (exact >> 64) % 2**64, exact % 2**64]
    assert digit.resolve(words[0], tape(words[1], words[2] - 1)) == 0
    assert digit.resolve(words[0], tape(words[1], words[2] + 1)) == 1


def test_the_words_that_decide_a_tie_are_erased(watched_words):
    """They are bits of the noise: with the state they would give the counts."""
    source = watched_words()
    extended(1, source)
    digit = geometric(Fraction(1))[1][1]
    digit.resolve(int(digit.table[0]), source)
    assert source.read == 2
    assert not any(words.any() for words in source.seen)
