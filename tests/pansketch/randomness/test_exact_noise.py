"""The exact Laplace sampler against exact probabilities. False alarms of the statistical tests:
1e-7 each."""

import math
import os
from fractions import Fraction
from itertools import chain

import numpy as np
import pytest
from scipy import stats

from pansketch.randomness import exact_noise
from pansketch.randomness.exact_noise import ExactNoise, Ratio, os_entropy
from pansketch.randomness.geometric import geometric
from pansketch.randomness.random_words import LAST_WORD, OsWords

ALPHA = 1e-7
LARGE = [Fraction(2 * 10**7), Fraction(2**40)]
SCALES = [Fraction(1, 3), Fraction(1), Fraction(157, 10), Fraction(150), Fraction(4000), *LARGE]


def draw(scale, count, entropy=None, kind=np.int64):
    counters = np.zeros(count, kind)
    (entropy or os_entropy()).add_discrete_laplace(scale, counters)
    return counters


def discrete_laplace_p_value(sample, scale):
    """Chi-square p-value of integers against P(z) ~ exp(-|z| / scale), in at most 40 cells."""
    b = float(scale)
    edges = np.unique(np.rint(stats.laplace.ppf(np.arange(1, 40) / 40, scale=b)))
    # P(Z <= z) = q**-z / (1 + q) below zero, and 1 - q**(z + 1) / (1 + q) from there on.
    tails = np.exp(-np.where(edges < 0, -edges, edges + 1) / b) / (1 + math.exp(-1 / b))
    below = np.concatenate([[0], np.where(edges < 0, tails, 1 - tails), [1]])
    observed = np.bincount(np.searchsorted(edges, sample), minlength=len(edges) + 1)
    return stats.chisquare(observed, np.diff(below) * len(sample)).pvalue


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_sampler_follows_the_exact_probabilities(scale):
    assert discrete_laplace_p_value(draw(scale, 400_000), scale) > ALPHA


@pytest.mark.parametrize("scale", SCALES[:-1], ids=str)
def test_so_does_noise_on_counters_of_32_bits(scale):
    """That one of 400,000 draws at scale 2e7 wraps has probability e**-94."""
    assert discrete_laplace_p_value(draw(scale, 400_000, kind=np.int32), scale) > ALPHA


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_comparison_would_notice_five_percent_more_scale(scale):
    """Negative control: what the test above must not accept."""
    assert discrete_laplace_p_value(draw(scale * Fraction(21, 20), 400_000), scale) < ALPHA


def test_the_comparison_would_notice_rounded_continuous_noise():
    """Negative control: Laplace noise rounded to integers has another probability at zero."""
    sample = np.rint(np.random.default_rng(1).laplace(0, 1, 400_000)).astype(np.int64)
    assert discrete_laplace_p_value(sample, Fraction(1)) < ALPHA


def low_bits_p_value(sample, scale):
    """p-value of the hypothesis that all six-bit pieces of noise far below its scale are uniform,
    by Bonferroni.

    A piece repeats after at most scale / 128. So its probabilities are even to a relative error of
    4e-6 (Poisson summation), a thousandth of the resolution of 400,000 draws.
    """
    pieces = range(math.floor(math.log2(scale)) - 12)
    counts = [np.bincount((sample >> piece) % 64, minlength=64) for piece in pieces]
    return len(pieces) * min(stats.chisquare(count).pvalue for count in counts)


@pytest.mark.parametrize("scale", LARGE, ids=str)
def test_the_low_bits_of_large_noise_are_uniform(scale):
    assert low_bits_p_value(draw(scale, 400_000), scale) > ALPHA


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_the_comparison_would_notice_a_missing_digit(monkeypatch, missing):
    """Negative control: the chi-square of the cells cannot see the lower digits, this one does."""
    digits = geometric(LARGE[0])
    assert len(digits) == 4
    without = digits[:missing] + digits[missing + 1 :]
    monkeypatch.setattr(exact_noise, "geometric", lambda scale, bits: without)
    assert low_bits_p_value(draw(LARGE[0], 400_000), LARGE[0]) < ALPHA


def test_neighbouring_draws_are_independent():
    sample = draw(Fraction(10), 400_000).astype(float)
    limit = stats.norm.isf(ALPHA / 2) / math.sqrt(len(sample))
    for lag in (1, 2, 4096):
        assert abs(np.corrcoef(sample[:-lag], sample[lag:])[0, 1]) < limit


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(150), *LARGE], ids=str)
def test_every_word_beside_a_threshold_leads_to_its_value(scale, tape):
    """All boundaries of all digits, with both signs: what an enumeration of all words comes to."""
    digits = geometric(scale)
    for position, (weight, digit) in enumerate(digits * 2):
        rows = digit.table.tolist()
        clear = [v for v in range(1, len(rows)) if rows[v - 1] + 1 < rows[v]]
        words = [rows[v - 1] + 1 for v in clear] + [rows[v] - 1 for v in clear]
        zeros = [0] * len(words)
        fills = [words if place == position else zeros for place in range(2 * len(digits))]
        drawn = draw(scale, len(words), ExactNoise(tape(*chain(*fills))))
        sign = 1 if position < len(digits) else -1
        assert drawn.tolist() == [sign * weight * v for v in clear * 2]


def test_a_tie_within_a_draw_is_resolved_in_its_place(tape):
    """Two draws at scale 1: the second one's low digit ties, and its next word gives 1, not 0."""
    high, low = (digit for _, digit in geometric(Fraction(1)))
    first = int(high.table[0]) - 1, int(high.table[0]) - 1, 0, int(low.table[0]), LAST_WORD
    words = tape(*first, 0, 0, 0, 0)
    assert draw(Fraction(1), 2, ExactNoise(words)).tolist() == [0, 1]
    assert words.words == []


@pytest.mark.parametrize(("scale", "words"), [(20, 4), (2 * 10**7, 8), (2**40, 10)])
def test_the_number_of_words_does_not_depend_on_the_values(scale, words, watched_words):
    source = watched_words()
    draw(Fraction(scale), 10_000, ExactNoise(source))
    assert source.read == words * 10_000


@pytest.fixture
def kept_scratch(monkeypatch):
    """Every scratch that a draw made."""
    made, real = [], exact_noise._scratch

    def keep(*sizes):
        made.append(real(*sizes))
        return made[-1]

    monkeypatch.setattr(exact_noise, "_scratch", keep)
    return made


def left_in(scratch):
    return [name for name, array in vars(scratch).items() if array.any()]


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("scale", [Fraction(20), LARGE[0]], ids=str)
def test_scratch_is_overwritten_after_use(kept_scratch, watched_words, scale, kind):
    """Words and noise of a draw must not stay in memory: with the state they would give the
    counts."""
    source = watched_words()
    draw(scale, 5000, ExactNoise(source), kind)
    assert source.seen
    assert all(not words.any() for words in source.seen)
    assert [left_in(scratch) for scratch in kept_scratch] == [[]]


def test_scratch_is_overwritten_when_the_source_fails(kept_scratch, watched_words):
    with pytest.raises(OSError, match="no randomness"):
        draw(Fraction(20), 5000, ExactNoise(watched_words(fail_after=6)))
    assert [left_in(scratch) for scratch in kept_scratch] == [[]]


def test_the_search_would_notice_scratch_that_stays(kept_scratch, monkeypatch):
    """Negative control."""
    monkeypatch.setattr(exact_noise._Scratch, "erase", lambda self: None)
    draw(Fraction(20), 5000)
    assert {"words", "below", "values", "noise", "cast"} <= set(left_in(kept_scratch[0]))


@pytest.mark.parametrize(
    "work",
    [
        lambda entropy: draw(Fraction(20), 5000, entropy),
        lambda entropy: entropy.fill_bernoulli(Ratio(Fraction(1, 3)), np.ones(5000, np.uint8)),
    ],
    ids=["laplace", "bernoulli"],
)
def test_no_array_that_a_draw_makes_keeps_anything(work, arrays_of, watched_words):
    """An intruder who has one of them and the state knows a part of the noise. A tie is in it
    too."""
    made = arrays_of(exact_noise)
    work(ExactNoise(watched_words()))
    assert len(made) >= 2
    assert not any(array.any() for array in made)


def test_arrays_of_ties_keep_nothing_either(arrays_of, tape):
    """Half of the draws tie, which others hardly ever do."""
    bits = np.zeros(2, np.uint8)
    tie = int(exact_noise.threshold(Ratio(Fraction(1, 3))))
    made = arrays_of(exact_noise)
    ExactNoise(tape(tie, 0, 0)).fill_bernoulli(Ratio(Fraction(1, 3)), bits)
    assert bits.tolist() == [1, 1]
    assert len(made) == 2
    assert not any(array.any() for array in made)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_noise_is_added_to_what_is_there(kind):
    counters = np.full(1000, 10_000, kind)
    os_entropy().add_discrete_laplace(Fraction(1), counters)
    assert np.abs(counters - 10_000).max() < 100
    assert counters.std() > 0


@pytest.mark.parametrize("scale", LARGE, ids=str)
def test_counters_of_32_bits_wrap(scale, tape):
    words = [int(word) for word in np.random.default_rng(3).integers(0, 2**64, 1000, np.uint64)]
    wide = draw(scale, 50, ExactNoise(tape(*words)))
    narrow = draw(scale, 50, ExactNoise(tape(*words)), np.int32)
    assert np.array_equal(narrow, wide.astype(np.int32))
    assert np.array_equal(narrow, wide) == (scale < 10**8)


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(2**48 + 1)])
def test_scale_must_be_positive_and_not_beyond_the_largest(scale):
    with pytest.raises(ValueError, match=r"positive, at most 2\*\*48"):
        draw(scale, 1)


@pytest.mark.parametrize("kind", [np.int16, np.uint32, np.float64])
def test_other_counters_are_refused(kind):
    with pytest.raises(ValueError, match=f"not to {np.dtype(kind)}"):
        draw(Fraction(1), 1, kind=kind)


def test_no_counters_take_no_noise(tape):
    assert len(draw(Fraction(1), 0, ExactNoise(tape()))) == 0


def test_no_randomness_is_an_error_and_not_a_fallback(tmp_path):
    words = OsWords()
    (tmp_path / "empty").write_bytes(b"")
    with open(tmp_path / "empty", "rb") as empty:
        words._device = empty.fileno()
        with pytest.raises(OSError, match="random device"):
            words.fill(np.zeros(1, np.uint64))


@pytest.mark.parametrize("kind", ["a file of random bytes", "a pipe", "zeros", "nothing"])
def test_what_is_not_the_kernel_s_generator_is_refused(kind, tmp_path):
    place = tmp_path / "urandom"
    if kind == "a file of random bytes":
        place.write_bytes(bytes(range(256)) * 64)
    elif kind == "a pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero" if kind == "zeros" else "/dev/null")
    with pytest.raises(OSError, match="is not the kernel's random device"):
        OsWords(str(place))


def test_a_generator_that_is_not_seeded_yet_is_waited_for(monkeypatch):
    """Early after boot the device would give words that can be guessed."""
    steps, opened = [], os.open
    monkeypatch.setattr(os, "getrandom", lambda size: steps.append(size) or bytes(size))
    monkeypatch.setattr(os, "open", lambda *given: steps.append("open") or opened(*given))
    OsWords()
    assert steps[0] > 0
    assert steps[1:] == ["open"]


def test_a_source_that_is_gone_has_closed_its_device():
    words = OsWords()
    device = words._device
    os.fstat(device)
    del words
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(device)


def test_another_name_of_the_kernel_s_generator_will_do(tmp_path):
    place = tmp_path / "urandom"
    place.symlink_to("/dev/urandom")
    words = np.zeros(8, np.uint64)
    OsWords(str(place)).fill(words)
    assert len(set(words.tolist())) == 8  # two alike: 2**-59


def test_identifiers_differ():
    entropy = os_entropy()
    assert len({entropy.identifier() for _ in range(100)}) == 100


@pytest.mark.parametrize(("word", "name"), [(0, 0), (1, 0), (2, 1), (2**64 - 1, 2**63 - 1)])
def test_an_identifier_is_a_word_without_its_last_bit(word, name, tape):
    words = tape(word)
    assert ExactNoise(words).identifier() == name
    assert words.words == []


def test_words_for_keys_are_those_of_the_source(tape):
    words = np.zeros(2, np.uint64)
    ExactNoise(tape(5, 2**64 - 1)).fill_words(words)
    assert words.tolist() == [5, 2**64 - 1]


def test_a_ratio_ends_where_its_last_bit_is():
    ratio = Ratio(Fraction(3, 2**65))
    assert [ratio.ends_within(bits) for bits in (63, 64, 65, 66)] == [False, False, True, True]
