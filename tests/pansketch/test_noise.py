"""The exact sampler against exact probabilities. False alarms of the statistical tests: 1e-7
each."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pansketch.noise import ExactNoise, OsWords, _geometric, cumulative, exp_bounds, os_entropy

ALPHA = 1e-7
SCALES = [Fraction(1, 3), Fraction(1), Fraction(157, 10), Fraction(4000)]


def draw(scale, count, entropy=None):
    counters = np.zeros(count, np.int32)
    (entropy or os_entropy()).add_discrete_laplace(scale, counters)
    return counters


def discrete_laplace_p_value(sample, scale):
    """Chi-square p-value of integers against P(z) ~ exp(-|z| / scale), in at most 40
    cells."""
    q = math.exp(-1 / float(scale))
    reach = max(1, int(float(scale) * 3))
    z = np.arange(-reach, reach + 1)
    p = (1 - q) / (1 + q) * q ** np.abs(z)
    tail = q ** (reach + 1) / (1 + q)
    expected = np.concatenate([[tail], p, [tail]]) * len(sample)
    observed = np.bincount(
        np.clip(sample, -reach - 1, reach + 1) + reach + 1, minlength=len(expected)
    )
    cells = np.unique(np.cumsum(expected) // (len(sample) / 40), return_inverse=True)[1]
    observed, expected = np.bincount(cells, observed), np.bincount(cells, expected)
    return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_sampler_follows_the_exact_probabilities(scale):
    assert discrete_laplace_p_value(draw(scale, 400_000), scale) > ALPHA


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_comparison_would_notice_five_percent_more_scale(scale):
    """Negative control: what the test above must not accept."""
    assert discrete_laplace_p_value(draw(scale * Fraction(21, 20), 400_000), scale) < ALPHA


def test_the_comparison_would_notice_rounded_continuous_noise():
    """Negative control: Laplace noise rounded to integers has another probability at zero."""
    sample = np.rint(np.random.default_rng(1).laplace(0, 1, 400_000)).astype(np.int64)
    assert discrete_laplace_p_value(sample, Fraction(1)) < ALPHA


def test_neighbouring_draws_are_independent():
    sample = draw(Fraction(10), 400_000).astype(float)
    limit = stats.norm.isf(ALPHA / 2) / math.sqrt(len(sample))
    for lag in (1, 2, 4096):
        assert abs(np.corrcoef(sample[:-lag], sample[lag:])[0, 1]) < limit


@pytest.mark.parametrize(
    "exponent", [Fraction(0), Fraction(1, 10**9), Fraction(1), Fraction(977, 10)]
)
def test_exp_bounds_enclose_the_exponential_tightly(exponent):
    getcontext().prec = 120
    true = (-(Decimal(exponent.numerator) / Decimal(exponent.denominator))).exp() * 2**200
    low, high = exp_bounds(exponent, 200)
    assert low <= true <= high
    assert high - low <= 2


@pytest.mark.parametrize("size", [None, 8])
def test_tables_hold_the_floor_of_cumulative_probabilities(size):
    getcontext().prec = 80
    decay = Fraction(3, 7)
    for value in range(7):
        power = (-(Decimal(3) / Decimal(7)) * (value + 1)).exp()
        whole = 1 - (-(Decimal(3) / Decimal(7)) * size).exp() if size else Decimal(1)
        assert cumulative(decay, size, value, 64) == int((1 - power) / whole * 2**64)


class Tape:
    """Words that a test writes down."""

    def __init__(self, *words):
        self.words = list(words)

    def fill(self, words):
        for place in range(len(words)):
            words[place] = self.words.pop(0)


@pytest.mark.parametrize(("extension", "expected"), [(0, 0), (2**64 - 1, 1)])
def test_a_tie_is_decided_by_the_next_word(extension, expected):
    """The first word equals the 64-bit floor of P(V <= 0): only the following bits can tell."""
    ((_, digit),) = _geometric(Fraction(1, 100))
    assert digit.table[0] == 2**64 - 1
    assert digit.resolve(2**64 - 1, Tape(0)) == 0
    low, high = _geometric(Fraction(1))[1][1], _geometric(Fraction(1))[0][1]
    for digit in (low, high):
        assert digit.resolve(int(digit.table[0]), Tape(extension)) == expected


def test_a_tie_extends_by_as_many_words_as_it_takes():
    digit = _geometric(Fraction(1))[1][1]
    exact = cumulative(digit.decay, digit.size, 0, 192)
    words = [exact >> 128, (exact >> 64) % 2**64, exact % 2**64]
    assert digit.resolve(words[0], Tape(words[1], words[2] - 1)) == 0
    assert digit.resolve(words[0], Tape(words[1], words[2] + 1)) == 1


def test_the_number_of_words_does_not_depend_on_the_values():
    class Counting(OsWords):
        read = 0

        def fill(self, words):
            self.read += len(words)
            super().fill(words)

    words = Counting()
    draw(Fraction(20), 10_000, ExactNoise(words))
    assert words.read == 4 * 10_000


def test_scratch_is_overwritten_after_use():
    """Words and noise of a draw must not stay in memory: with the state they would give the
    counts."""
    seen = []

    class Watched(OsWords):
        def fill(self, words):
            super().fill(words)
            seen.append(words)

    draw(Fraction(20), 5000, ExactNoise(Watched()))
    assert seen
    assert all(not words.any() for words in seen)


def test_noise_is_added_to_what_is_there():
    counters = np.full(1000, 10_000, np.int32)
    os_entropy().add_discrete_laplace(Fraction(1), counters)
    assert np.abs(counters - 10_000).max() < 100
    assert counters.std() > 0


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1)])
def test_scale_must_be_positive(scale):
    with pytest.raises(ValueError, match="positive"):
        draw(scale, 1)


def test_no_randomness_is_an_error_and_not_a_fallback(tmp_path):
    words = OsWords()
    (tmp_path / "empty").write_bytes(b"")
    with open(tmp_path / "empty", "rb") as empty:
        words._device = empty.fileno()
        with pytest.raises(OSError, match="random device"):
            words.fill(np.zeros(1, np.uint64))


def test_identifiers_differ():
    entropy = os_entropy()
    assert len({entropy.identifier() for _ in range(100)}) == 100
