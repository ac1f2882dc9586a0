"""Bernoulli draws against exact probabilities. False alarms of the statistical tests: 1e-7 each."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pansketch.randomness.exact_noise import ExactNoise, LogOdds, Ratio, os_entropy, threshold
from pansketch.randomness.random_words import LAST_WORD

ALPHA = 1e-7
DRAWS = 4_000_000
LOG_ODDS = [Fraction(1), Fraction(-1), Fraction(1, 16), Fraction(-15, 8), Fraction(5)]
RATIOS = [Fraction(1, 3), Fraction(1, 2), Fraction(5, 8), Fraction(1, 1000)]
CHANCES = [*map(LogOdds, [*LOG_ODDS, Fraction(0)]), *map(Ratio, RATIOS)]


def draw(chance, count, entropy=None):
    bits = np.full(count, 255, np.uint8)
    (entropy or os_entropy()).fill_bernoulli(chance, bits)
    return bits


def driven(chance, words):
    """The draw that a tape leads to, which it must read to its end."""
    drawn = draw(chance, 1, ExactNoise(words))
    assert words.words == []
    return int(drawn[0])


def decimal_probability(log_odds):
    power = (Decimal(log_odds.numerator) / Decimal(log_odds.denominator)).exp()
    return power / (1 + power)


def p_value(bits, probability):
    return stats.binomtest(int(bits.sum()), len(bits), probability).pvalue


@pytest.mark.parametrize("chance", CHANCES, ids=str)
def test_draws_follow_the_probability(chance):
    bits = draw(chance, DRAWS)
    assert set(np.unique(bits)) == {0, 1}
    assert p_value(bits, chance.probability) > ALPHA


@pytest.mark.parametrize("value", LOG_ODDS, ids=str)
def test_the_comparison_would_notice_a_quarter_more_log_odds(value):
    """Negative control: ten and more standard deviations beyond what the test above accepts."""
    bits = draw(LogOdds(value * 5 / 4), DRAWS)
    assert p_value(bits, LogOdds(value).probability) < ALPHA


@pytest.mark.parametrize("value", RATIOS, ids=str)
def test_the_comparison_would_notice_a_probability_one_third_larger(value):
    """Negative control."""
    assert p_value(draw(Ratio(value * 4 / 3), DRAWS), float(value)) < ALPHA


def test_neighbouring_draws_are_independent():
    bits = draw(LogOdds(Fraction(1)), 400_000).astype(float)
    limit = stats.norm.isf(ALPHA / 2) / math.sqrt(len(bits))
    for lag in (1, 2, 4096):
        assert abs(np.corrcoef(bits[:-lag], bits[lag:])[0, 1]) < limit


@pytest.mark.parametrize("bits", [1, 5, 64, 192])
@pytest.mark.parametrize(
    "value", [*LOG_ODDS, Fraction(1, 10**9), Fraction(-40), Fraction(63), Fraction(-191)], ids=str
)
def test_first_bits_of_log_odds_are_the_floor_of_the_logistic(value, bits):
    getcontext().prec = 200
    assert LogOdds(value).first_bits(bits) == int(decimal_probability(value) * 2**bits)
    # The two probabilities sum to one and are no multiples of 2**-bits.
    assert LogOdds(-value).first_bits(bits) + LogOdds(value).first_bits(bits) == 2**bits - 1


@pytest.mark.parametrize("value", [64, 65, 1000, 10**12])
def test_extreme_log_odds_are_neither_zero_nor_one(value):
    assert LogOdds(Fraction(value)).first_bits(64) == LAST_WORD
    assert LogOdds(Fraction(-value)).first_bits(64) == 0
    assert not LogOdds(Fraction(value)).ends_within(64)
    getcontext().prec = 1000
    if value <= 1000:
        exact = int(decimal_probability(Fraction(value)) * 2**2000)
        assert LogOdds(Fraction(value)).first_bits(2000) == exact


def test_even_log_odds_are_one_half():
    for bits in (1, 64, 128):
        assert LogOdds(Fraction(0)).first_bits(bits) == 2 ** (bits - 1)
        assert LogOdds(Fraction(0)).ends_within(bits)


@pytest.mark.parametrize("chance", CHANCES, ids=str)
def test_more_bits_continue_fewer(chance):
    assert chance.first_bits(256) >> 192 == chance.first_bits(64)
    assert math.isclose(chance.first_bits(256) / 2**256, chance.probability, rel_tol=1e-14)


@pytest.mark.parametrize("chance", CHANCES, ids=str)
def test_words_beside_the_threshold_decide_at_once(chance, tape):
    """All words below the threshold give 1, all above 0: what an enumeration of them comes to."""
    limit = int(threshold(chance))
    words = [0, limit - 1, limit + 1, LAST_WORD]
    assert [driven(chance, tape(word)) for word in words] == [1, 1, 0, 0]


@pytest.mark.parametrize(
    "chance", [*map(LogOdds, LOG_ODDS), LogOdds(Fraction(99)), Ratio(Fraction(1, 3))], ids=str
)
def test_a_tie_is_decided_by_as_many_words_as_it_takes(chance, tape):
    exact = chance.first_bits(256)
    words = [exact >> shift & LAST_WORD for shift in (192, 128, 64, 0)]
    for length in (1, 2, 3):
        before, last = words[:length], words[length]
        if last > 0:
            assert driven(chance, tape(*before, last - 1)) == 1
        if last < LAST_WORD:
            assert driven(chance, tape(*before, last + 1)) == 0


@pytest.mark.parametrize("chance", [LogOdds(Fraction(0)), Ratio(Fraction(1, 2))], ids=str)
def test_a_tie_with_an_expansion_that_ends_is_at_the_probability_and_not_below(chance, tape):
    """U >= p for any later words, so none is read."""
    assert driven(chance, tape(2**63)) == 0


def test_a_dyadic_expansion_may_end_in_a_later_word(tape):
    chance = Ratio(Fraction(3, 2**70))
    assert threshold(chance) == 0
    assert driven(chance, tape(0, 3 * 2**58 - 1)) == 1
    assert driven(chance, tape(0, 3 * 2**58)) == 0
    assert driven(chance, tape(0, 3 * 2**58 + 1)) == 0


@pytest.mark.parametrize("word", [0, 2**63, LAST_WORD])
def test_certainty_and_impossibility(word, tape):
    assert driven(Ratio(Fraction(1)), tape(word)) == 1
    assert driven(Ratio(Fraction(0)), tape(word)) == 0


def test_a_tie_is_resolved_in_its_place(tape):
    chance = Ratio(Fraction(1, 3))
    tie = int(threshold(chance))
    words = tape(LAST_WORD, tie, 0, tie, 0, LAST_WORD)
    assert draw(chance, 4, ExactNoise(words)).tolist() == [0, 1, 1, 0]
    assert words.words == []


@pytest.mark.parametrize("value", [Fraction(-1, 10), Fraction(11, 10)])
def test_a_ratio_must_be_a_probability(value):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Ratio(value)


@pytest.mark.parametrize("chance", [*CHANCES, Ratio(Fraction(0)), Ratio(Fraction(1))], ids=str)
def test_every_draw_reads_one_word(chance, watched_words):
    source = watched_words()
    draw(chance, 10_000, ExactNoise(source))
    assert source.read == 10_000


def test_words_are_overwritten_after_use(watched_words):
    source = watched_words()
    draw(LogOdds(Fraction(1)), 10_000, ExactNoise(source))
    assert len(source.seen) == 3
    assert all(not words.any() for words in source.seen)


def test_words_are_overwritten_when_the_source_fails(watched_words):
    source = watched_words(fail_after=2)
    with pytest.raises(OSError, match="no randomness"):
        draw(LogOdds(Fraction(1)), 10_000, ExactNoise(source))
    assert [words.any() for words in source.seen] == [False, False]


def test_only_bytes_are_filled():
    for kind in (np.int8, np.int64, np.bool_):
        with pytest.raises(ValueError, match="uint8 elements"):
            os_entropy().fill_bernoulli(LogOdds(Fraction(1)), np.zeros(8, kind))


def test_no_bits_read_no_words(tape):
    assert len(draw(LogOdds(Fraction(1)), 0, ExactNoise(tape()))) == 0


def test_silent_sources_give_the_likelier_bit(no_noise):
    given = [draw(LogOdds(Fraction(v)), 1, no_noise).tolist() for v in (-1, 0, 1)]
    assert given == [[0], [0], [1]]
