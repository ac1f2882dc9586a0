"""Bernoulli draws of the audit's own sources of noise."""

from fractions import Fraction

import numpy as np
from scipy import stats

from pansketch.randomness.exact_noise import LogOdds, Ratio
from pansketch_audit.empirical.attacks import Pcg64Entropy
from pansketch_audit.exact.readings import TapeEntropy
from pansketch_audit.planted_bugs.bug import halved


def draw(chance, source, count=1):
    bits = np.full(count, 255, np.uint8)
    source.fill_bernoulli(chance, bits)
    return bits


def test_an_enumerated_tape_holds_counters_and_bits_in_turn():
    source, counters = TapeEntropy((3, 1, 0, 1)), np.zeros(1, np.int64)
    source.add_discrete_laplace(Fraction(2), counters)
    drawn = draw(Ratio(Fraction(1, 3)), source, 5)
    assert (counters.tolist(), drawn.tolist()) == ([3], [1, 0, 1, 0, 0])
    assert source.scales == [Fraction(2)]
    assert source.chances == [Ratio(Fraction(1, 3))] * 5


def test_a_generator_with_a_state_draws_bits_of_the_same_probability():
    """False alarm: 1e-7. Negative control: a fifth more probability."""
    bits = draw(LogOdds(Fraction(-1)), Pcg64Entropy(), 400_000)
    expected = LogOdds(Fraction(-1)).probability
    assert stats.binomtest(int(bits.sum()), len(bits), expected).pvalue > 1e-7
    assert stats.binomtest(int(bits.sum()), len(bits), expected * 1.2).pvalue < 1e-7


def test_planted_bits_have_twice_the_log_odds(known_noise):
    source = known_noise(1)
    for chance in (LogOdds(Fraction(3)), Ratio(Fraction(3, 4)), Ratio(Fraction(0))):
        draw(chance, halved(source))
    drawn = [chance for chance, _ in source.draws]
    assert drawn == [LogOdds(Fraction(6)), Ratio(Fraction(9, 10)), Ratio(Fraction(0))]
