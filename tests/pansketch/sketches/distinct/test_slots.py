"""Keys become words, words become slots: on every machine the same, evenly, differently in each
window."""

from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pansketch import key_words
from pansketch.sketches.distinct import slots
from pansketch.sketches.distinct.keys import as_words
from pansketch.sketches.distinct.slots import KEYS_AT_ONCE, HashedSlots, LevelSlots, PermutedSlots

ALPHA = 1e-6
HASH_KEYS = st.integers(0, (1 << 64) - 1)


def placed(where, keys):
    words = np.array(keys, np.uint64)
    for start in range(0, len(words), KEYS_AT_ONCE):
        where.place(words[start : start + KEYS_AT_ONCE])
    return words.astype(np.int64)


@given(st.lists(st.text(max_size=40), max_size=8))
def test_a_texts_word_is_the_digest_of_its_bytes(texts):
    digests = [
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts
    ]
    assert key_words(texts).tolist() == [int.from_bytes(each, "big") for each in digests]


def test_bytes_and_any_sequence_of_texts_have_the_same_words():
    words = key_words(["ü", "b"]).tolist()
    assert key_words(["ü".encode(), b"b"]).tolist() == words
    assert key_words(("ü", b"b")).tolist() == words
    assert key_words(np.array(["ü", "b"])).tolist() == words


@pytest.mark.parametrize("wrong", ["one", b"one", bytearray(b"one"), [1], ["a", 1], {"a"}, None, 7])
def test_what_is_no_sequence_of_texts_has_no_words(wrong):
    with pytest.raises(ValueError, match=r"^keys must be "):
        key_words(wrong)


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4"])
def test_integers_of_any_width_are_their_own_words(kind):
    keys = np.array([0, 1, 127], kind)
    words, wrong, copied = as_words(keys, None)
    assert words is keys
    assert not wrong.any()
    assert not copied
    assert as_words([0, 1, 127], 128)[0].tolist() == [0, 1, 127]


@given(st.integers(1, 5000), HASH_KEYS)
def test_a_universe_is_permuted(universe, hash_key):
    where = PermutedSlots(hash_key, universe)
    assert sorted(placed(where, range(universe))) == list(range(universe))


@pytest.mark.parametrize("universe", [1 << 32, (1 << 40) - 87])
def test_large_universes_have_a_slot_for_each_key_too(universe):
    keys = np.random.default_rng(1).integers(0, universe, 10_000)
    positions = placed(PermutedSlots(3, universe), keys)
    assert positions.max() < universe
    assert len(np.unique(positions)) == len(np.unique(keys))


@given(HASH_KEYS, st.integers(1, 1 << 27), st.integers(0, 13), st.lists(HASH_KEYS, max_size=9))
def test_a_hashed_slot_is_a_fraction_of_all_slots(hash_key, tracked, level, keys):
    """Against the definition, floor(mixed word * slots / 2**64), in Python's integers."""
    where = HashedSlots(hash_key, tracked, level)
    mixed = np.array(keys, np.uint64)
    slots._mix(mixed, where._before, where._between, np.zeros_like(mixed))
    expected = [int(word) * (tracked << level) >> 64 for word in mixed]
    assert placed(where, keys).tolist() == expected


@given(
    HASH_KEYS,
    st.lists(st.integers(1, 1 << 27), min_size=1, max_size=16),
    st.lists(HASH_KEYS, max_size=9),
)
def test_a_level_is_the_number_of_zeros_in_front(hash_key, sizes, keys):
    """Against the definition, in Python's integers: the level, and a fraction of its slots."""
    where = LevelSlots(hash_key, tuple(sizes))
    mixed = np.array(keys, np.uint64)
    slots._mix(mixed, where._before, where._between, np.zeros_like(mixed))
    expected = []
    for word in map(int, mixed):
        level = min(64 - word.bit_length(), len(sizes) - 1)
        within = (word & (1 << 48) - 1) * sizes[level] >> 48
        expected.append(sum(sizes[:level]) + within)
    assert placed(where, keys).tolist() == expected


@pytest.mark.parametrize("stride", [1, 1 << 20])
def test_half_of_the_keys_fall_into_the_first_level_and_so_on(stride):
    """Chi-square over all slots of all levels, at ALPHA; slots that halve too slowly fail it."""
    sizes, keys = (12, 8, 8, 8), np.arange(200_000, dtype=np.int64) * stride
    slots_of_keys = placed(LevelSlots(5, sizes), keys)
    seen = np.bincount(slots_of_keys, minlength=sum(sizes))
    for shares, holds in (((1 / 2, 1 / 4, 1 / 8, 1 / 8), True), ((0.5, 0.26, 0.12, 0.12), False)):
        expected = np.repeat(np.array(shares) / sizes, sizes) * len(keys)
        assert (stats.chisquare(seen, expected).pvalue > ALPHA) == holds


@given(HASH_KEYS, st.lists(HASH_KEYS, unique=True, max_size=30))
def test_mixing_loses_nothing(hash_key, keys):
    mixed = np.array(keys, np.uint64)
    slots._mix(mixed, np.uint64(hash_key), np.uint64(hash_key), np.zeros_like(mixed))
    assert len(set(mixed.tolist())) == len(keys)


def variance_p_value(counts, mean, variance):
    """Two-sided, of the mean and of the variance of nearly normal counts."""
    z = (np.mean(counts) - mean) / np.sqrt(variance / len(counts))
    spread = stats.chi2.cdf(np.sum((counts - mean) ** 2) / variance, len(counts))
    return min(2 * stats.norm.sf(abs(z)), 2 * min(spread, 1 - spread))


def sampled(universe, tracked, present, windows, stride=1):
    """In each window, how many of the present keys have one of the tracked slots."""
    keys = np.arange(present) * stride % universe
    return np.array(
        [(placed(PermutedSlots(key, universe), keys) < tracked).sum() for key in range(windows)]
    )


@pytest.mark.parametrize(
    ("universe", "tracked", "present", "stride"),
    [(100_000, 8192, 16_000, 1), (65_536, 4096, 16_000, 1), (1000, 333, 500, 2), (64, 16, 20, 1)],
)
def test_neighbouring_keys_are_sampled_as_if_at_random(universe, tracked, present, stride):
    """The number of tracked keys is hypergeometric. The windows are fixed, so this test cannot
    raise a false alarm; ALPHA is how unlikely its outcome may be of a random permutation."""
    share = tracked / universe
    variance = present * share * (1 - share) * (universe - present) / (universe - 1)
    counts = sampled(universe, tracked, present, 600, stride)
    assert variance_p_value(counts, present * share, variance) > ALPHA


def test_a_weak_network_would_be_noticed(monkeypatch):
    """Negative control: two rounds leave the structure of neighbouring keys."""
    monkeypatch.setattr(slots, "ROUNDS", 2)
    counts = sampled(65_536, 4096, 16_000, 600)
    share = 4096 / 65_536
    variance = 16_000 * share * (1 - share) * (65_536 - 16_000) / (65_536 - 1)
    assert variance_p_value(counts, 16_000 * share, variance) < ALPHA


def pairs_p_value(universe, windows):
    """Of the slots of two keys of a tiny universe: all ordered pairs are equally likely."""
    seen = np.zeros((universe, universe))
    for key in range(windows):
        seen[tuple(placed(PermutedSlots(key, universe), [0, 1]))] += 1
    assert not seen.diagonal().any()
    return stats.chisquare(seen[~np.eye(universe, dtype=bool)]).pvalue


@pytest.mark.parametrize("universe", [4, 5, 11])
def test_pairs_of_a_tiny_universe_fall_evenly(universe):
    """Fixed windows, as above."""
    assert pairs_p_value(universe, 1500) > ALPHA


def test_pairs_of_a_weak_network_do_not(monkeypatch):
    """Negative control."""
    monkeypatch.setattr(slots, "ROUNDS", 1)
    assert pairs_p_value(5, 1500) < ALPHA


def empties(tracked, level, keys, windows):
    """In each window, how many tracked slots no key falls into."""
    found = []
    for key in range(windows):
        where = placed(HashedSlots(key, tracked, level), keys)
        found.append(tracked - len(np.unique(where[where < tracked])))
    return np.array(found)


def empty_moments(tracked, level, count):
    """Mean and variance of the number of empty slots, when every key falls anywhere."""
    total = tracked << level
    one, two = (1 - 1 / total) ** count, (1 - 2 / total) ** count
    mean = tracked * one
    return mean, mean + tracked * (tracked - 1) * two - mean**2


@pytest.mark.parametrize("stride", [1, 256, 1 << 32, 1_000_003])
@pytest.mark.parametrize(("tracked", "level", "count"), [(512, 0, 1500), (500, 2, 2000)])
def test_neighbouring_keys_fill_slots_as_if_at_random(tracked, level, count, stride):
    """Linear counting's mean and variance hold. Fixed windows, as above."""
    counts = empties(tracked, level, np.arange(count, dtype=np.uint64) * np.uint64(stride), 600)
    assert variance_p_value(counts, *empty_moments(tracked, level, count)) > ALPHA


def test_slots_that_only_shift_would_be_noticed(monkeypatch):
    """Negative control: without multiplications, neighbouring keys share or avoid slots."""
    monkeypatch.setattr(slots, "FIRST", np.uint64(1))
    monkeypatch.setattr(slots, "SECOND", np.uint64(1))
    counts = empties(512, 0, np.arange(1500, dtype=np.uint64), 600)
    assert variance_p_value(counts, *empty_moments(512, 0, 1500)) < ALPHA


@pytest.mark.parametrize("where", [PermutedSlots, lambda key, size: HashedSlots(key, size, 0)])
def test_windows_are_unrelated(where):
    """The tracked keys of two windows have as many in common as two random samples, and a key's
    slots do not correlate. Fixed windows, as above."""
    one, other = (placed(where(key, 4096), range(4096)) for key in (1, 2))
    both = ((one < 1024) & (other < 1024)).sum()
    assert stats.binomtest(int(both), 4096, 1 / 16).pvalue > ALPHA
    assert stats.pearsonr(one, other).pvalue > ALPHA
