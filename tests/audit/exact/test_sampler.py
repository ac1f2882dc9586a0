"""The sampler's law by exhaustion: intervals of mpmath, whole draws, and OpenDP's sampler.

False alarms of the statistical tests: 1e-7 each.
"""

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from pansketch.randomness.exact_noise import LogOdds, os_entropy
from pansketch.randomness.geometric import cumulative, geometric
from pansketch_audit import report
from pansketch_audit.exact import intervals, sampler
from pansketch_audit.planted_bugs.further_draws import sampler_bugs

ALPHA = 1e-7
DRAWS = 50_000


@pytest.mark.parametrize("word_bits", [6, 7, 8])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(157, 10)], ids=str)
def test_the_law_of_noise_at_short_words_is_the_exact_one(scale, word_bits):
    found = sampler.laplace_found(scale, word_bits, 2)
    assert found.wrong == ""
    assert found.bits == 2 * word_bits


@pytest.mark.parametrize("word_bits", [6, 7, 8])
def test_so_is_that_of_bits(word_bits):
    assert sampler.chances_found(word_bits, 3).wrong == ""


def test_every_probability_is_known_to_one_tape():
    """Each boundary is irrational, so one tape of each number of words is undecided at it."""
    (_, leading), (_, digit) = geometric(Fraction(1), 6)
    for each in (leading, digit):
        law = sampler.law_of(sampler.digit_draw(each, 6), 6, 3)
        for value in range(min(max(law.decided), 8)):
            low, high = law.at_most(value)
            exact = cumulative(each.decay, each.size, value, 18)
            last = each.size is not None and value == each.size - 1
            assert last or (low, high) == (exact, exact + 1)


def test_four_digits_are_combined_from_words_of_their_own():
    drawn, wrong = sampler.combination(Fraction(2 * 10**7))
    assert (drawn, wrong) == (256, "")


def test_a_table_of_64_bits_continues_that_of_a_few():
    """The table of 8 bits is the beginning of a device's table."""
    for scale in sampler.SCALES:
        for (weight, short), (same, digit) in zip(
            geometric(scale, 8), geometric(scale), strict=True
        ):
            assert (weight, short.size, short.decay) == (same, digit.size, digit.decay)
            rows = min(len(short.table), len(digit.table))
            assert (digit.table[:rows] >> np.uint64(56)).tolist() == short.table[:rows].tolist()


def test_programs_draw_words_of_64_bits():
    assert os_entropy()._word_bits == 64


@pytest.mark.parametrize("bug", sampler_bugs(), ids=lambda bug: bug.name)
def test_a_biased_sampler_is_seen_and_nothing_of_it_stays(bug):
    caught, measured = bug.caught()
    assert caught
    assert "not between" in measured or "their digits" in measured
    assert sampler.laplace_found(Fraction(1), 6, 2).holds
    assert sampler.bernoulli_found(LogOdds(Fraction(1)), 6, 2).holds


def test_without_mpmath_the_audit_names_the_missing_package(monkeypatch):
    def missing():
        raise ModuleNotFoundError("No module named 'mpmath'")

    monkeypatch.setattr(intervals, "intervals", missing)
    (finding,) = report.perform(report.Task("sampler", 0, True))
    assert not finding.holds
    assert finding.measured == "No module named 'mpmath': install pansketch[audit]"


def opendp_noise(scale):
    """The measurement of OpenDP that adds discrete Laplace noise to integers."""
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    return dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=float(scale))


def alike_p_value(one, other):
    """Chi-square p-value that two samples have one law, in cells of 40 and more."""
    edges = np.unique(np.quantile(one, np.arange(1, 40) / 40))
    table = [
        np.bincount(np.searchsorted(edges, each), minlength=len(edges) + 1) for each in (one, other)
    ]
    table = np.array(table)
    return stats.chi2_contingency(table[:, table.sum(axis=0) > 40]).pvalue


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(31, 2), Fraction(150)], ids=str)
def test_noise_has_the_law_of_opendp(scale):
    measurement = opendp_noise(scale)
    theirs = np.array(measurement([0] * DRAWS))
    for factor, alike in ((1, True), (Fraction(11, 10), False)):  # the second: negative control
        ours = np.zeros(DRAWS, np.int64)
        os_entropy().add_discrete_laplace(scale * factor, ours)
        assert (alike_p_value(ours, theirs) > ALPHA) == alike
    # Their loss for a change of 1 is that of ours: rounded up, as floats.
    assert float(1 / scale) <= measurement.map(1) <= float(1 / scale) * (1 + 1e-9)
