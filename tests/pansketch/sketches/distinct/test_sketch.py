"""The state of a distinct counter: what an appearance does to it, and that nothing else is kept."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pansketch import DistinctSpec, Privacy, encode, hash_keys, is_incomplete, merge
from pansketch.randomness.exact_noise import LogOdds
from pansketch.sketches.distinct import sketch
from pansketch.sketches.distinct.slots import KEYS_AT_ONCE, HashedSlots
from tests.pansketch.sketches.distinct.key_specs import KEY, hashing, sampling
from tests.seeded_noise import noise_of_test

ALPHA = 1e-6
KNOWN = Privacy(epsilon=2.0, unit="key", intrusion="announced")


def state(sketch):
    return np.unpackbits(sketch._bits, count=sketch._spec.tracked)


def slots_of(spec, keys):
    words = np.array(keys, np.uint64)
    HashedSlots(spec.hash_key, spec.tracked, spec.level).place(words)
    return {slot for slot in words.tolist() if slot < spec.tracked}


def test_it_runs_as_written():
    spec = DistinctSpec(
        expected_keys=20_000,
        memory=4096,
        privacy=Privacy(epsilon=2.0, unit="key", intrusion="silent"),
        variant="ppds",
    )
    sketch = spec.start(noise_of_test())
    sketch.update_many(["badge-0001", "badge-0002", "badge-0001"])
    estimate = sketch.release(noise_of_test()).distinct()
    assert 0 < estimate.standard_error < 200


@pytest.mark.parametrize("memory", [100, 3 * sketch.SECTION_BITS // 8 + 1])
def test_the_bits_of_the_keys_slots_are_drawn_and_no_others(memory, no_noise):
    """Without noise a bit is 1 where a key fell. The second state has several sections, and the
    last byte of neither is full."""
    spec = hashing(memory=memory, expected_keys=4 * memory - 3)
    sketch = spec.start(no_noise)
    assert not sketch._bits.any()
    keys = np.random.default_rng(4).integers(0, 1 << 62, 3 * KEYS_AT_ONCE + 5)
    for batch in np.array_split(keys, 2):
        sketch.update_many(batch)
    expected = set()
    for start in range(0, len(keys), KEYS_AT_ONCE):
        expected |= slots_of(spec, keys[start : start + KEYS_AT_ONCE])
    assert set(np.flatnonzero(np.unpackbits(sketch._bits)).tolist()) == expected


class Places:
    """A map of keys to slots that a test writes down."""

    def __init__(self, *places):
        self.places = np.array(places, np.uint64)

    def place(self, words):
        words[:] = self.places


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_a_slot_that_is_not_tracked_has_no_bit_however_far_it_is(index, no_noise):
    """Also where an index has 32 bits."""
    spec = hashing()
    window = spec.start(no_noise)
    window._indices = np.zeros(KEYS_AT_ONCE, index)
    window._slots = Places(spec.tracked, 2**31 + 9, 2**32 + 9, 2**63 + 9, 2**64 - 1, 2)
    window.update_many(np.arange(6))
    assert np.flatnonzero(state(window)).tolist() == [2]


RANDOM_BITS = np.random.default_rng(1).integers(0, 2, 2 * sketch.SECTION_BITS + 77, np.uint8)


@pytest.mark.parametrize("start", [0, 1, 7, 8, 63, 64, 1001, sketch.SECTION_BITS + 1])
@pytest.mark.parametrize("length", [0, 1, 8, 100, sketch.SECTION_BITS, sketch.SECTION_BITS + 76])
def test_ones_are_counted_in_any_range(start, length):
    expected = np.count_nonzero(RANDOM_BITS[start : start + length])
    assert sketch.count_ones(np.packbits(RANDOM_BITS), start, start + length) == expected


@pytest.mark.parametrize("count", [len(RANDOM_BITS), 2 * sketch.SECTION_BITS, 5])
def test_bits_are_written_at_their_indices_and_nowhere_else(count):
    expected, generator = RANDOM_BITS[:count].copy(), np.random.default_rng(count)
    packed = np.packbits(expected)
    for size in (0, 1, 3000):
        indices = generator.integers(0, count + 3, size)
        values = generator.integers(0, 2, size, np.uint8)
        for index, value in zip(sorted(indices.tolist()), values, strict=True):
            expected[index : index + 1] = value
        sketch.write_bits(packed, count, indices, values)
        assert (np.unpackbits(packed, count=count) == expected).all()


@pytest.mark.parametrize("count", [len(RANDOM_BITS), sketch.SECTION_BITS, 5])
def test_every_bit_is_drawn_once(count, known_noise):
    rng, packed = known_noise(1), np.packbits(RANDOM_BITS[:count])
    sketch.draw_bits(packed, count, LogOdds(Fraction(1)), rng)
    drawn = np.concatenate([bits for _, bits in rng.draws])
    assert (np.unpackbits(packed, count=count) == drawn).all()


def test_levels_are_counted_one_by_one(known_noise):
    spec = DistinctSpec(KNOWN, memory=100)
    window = spec.start(known_noise(1))
    window.update_many(np.arange(5000))
    parts = np.split(state(window), np.cumsum(spec.levels)[:-1])
    assert window.release(known_noise(2)).counters.tolist() == [part.sum() for part in parts]


def test_a_universe_that_fits_is_counted_one_by_one(no_noise):
    spec = sampling(universe=300, memory=50)
    sketch = spec.start(no_noise)
    sketch.update_many(np.arange(50, 90))
    sketch.update_many([60, 70, 299])
    assert sketch.release(no_noise).counters.tolist() == [41]


@pytest.mark.parametrize("kind", ["u1", "i1", "i4", "u8", ">u2"])
def test_the_kind_of_array_makes_no_difference(kind, known_noise):
    keys = np.arange(100) % 17
    expected, other = (sampling().start(known_noise(1)) for _ in range(2))
    expected.update_many(keys.tolist())
    other.update_many(np.repeat(keys, 2).astype(kind)[::2])
    assert (state(other) == state(expected)).all()


def test_a_text_is_the_same_key_as_its_word(known_noise):
    texts = [f"badge-{number}" for number in range(500)]
    states = []
    for keys in (texts, hash_keys(texts), [text.encode() for text in texts], np.array(texts)):
        sketch = hashing().start(known_noise(1))
        sketch.update_many(keys)
        states.append(sketch._bits.tobytes())
    assert len(set(states)) == 1


def share_of_ones(spec, appearances, keys, runs):
    """Ones among the bits of keys that appeared, over several windows, and how many bits."""
    ones, total = 0, 0
    for window in range(runs):
        sketch = spec.for_window(window).start(noise_of_test())
        for _ in range(appearances):
            sketch.update_many(keys)
        ones += int(state(sketch).sum())
        total += spec.tracked
    return ones, total


@pytest.mark.parametrize(("appearances", "place"), [(0, 0), (1, 1), (30, 1)])
@pytest.mark.parametrize("variant", ["ppds", "optbern", "dwork"])
def test_a_bit_has_its_chance_however_often_its_key_appeared(appearances, place, variant):
    """All keys of a universe that fits. False alarm: ALPHA, exact binomial."""
    spec = sampling(Privacy(epsilon=1.5, unit="key"), universe=4000, memory=500, variant=variant)
    ones, total = share_of_ones(spec, appearances, np.arange(4000), 5)
    chance = spec.chances[place].probability
    assert stats.binomtest(ones, total, chance).pvalue > ALPHA


def test_a_bit_set_once_and_never_drawn_again_would_be_noticed(monkeypatch):
    """Negative control: bits that are only ever set to 1 reveal how often their keys appeared."""

    def set_only(packed, count, indices, values):
        indices[values == 0] = count
        return honest(packed, count, indices, values * 0 + 1)

    honest = sketch.write_bits
    monkeypatch.setattr("pansketch.sketches.distinct.sketch.write_bits", set_only)
    spec = sampling(universe=4000, memory=500)
    ones, total = share_of_ones(spec, 30, np.arange(4000), 5)
    assert stats.binomtest(ones, total, spec.chances[1].probability).pvalue < ALPHA


def test_one_draw_for_each_key_of_any_kind(known_noise):
    """The number of random words depends on the number of keys, not on their values."""
    spec = hashing(memory=10)
    lengths = []
    for keys in (np.zeros(700, np.int64), np.arange(700)):
        rng = known_noise(1)
        spec.start(rng).update_many(keys)
        lengths.append([(chance, len(drawn)) for chance, drawn in rng.draws])
    assert lengths[0] == lengths[1] == [(spec.chances[0], 80), (spec.chances[1], 700)]


def test_removed_keys_are_as_if_they_had_never_appeared(no_noise, known_noise):
    spec = sampling(universe=300, turnstile=True)
    sketch = spec.start(no_noise)
    sketch.update_many(np.arange(100))
    sketch.remove_many([5, 6, 7, 200])
    assert sketch.release(no_noise).counters.tolist() == [97]
    rng = known_noise(1)
    spec.start(rng).remove_many([5])
    assert rng.draws[1][0] == spec.chances[0]
    with pytest.raises(ValueError, match="turnstile"):
        sampling().start(no_noise).remove_many([5])


@pytest.mark.parametrize("release", ["count", "bitmap"])
def test_a_silent_release_has_fresh_noise_of_its_share(release, known_noise):
    spec = hashing(release=release, output_share=Fraction(1, 4))
    rng = known_noise(1)
    sketch = spec.start(rng)
    sketch.update_many(np.arange(300))
    held = state(sketch)
    counters = sketch.release(rng).counters
    parameter, drawn = rng.draws[-1]
    if release == "count":
        assert parameter == Fraction(2)
        assert counters.tolist() == [held.sum() + drawn[0]]
    else:
        assert parameter == LogOdds(Fraction(-1, 2))
        assert (counters == held ^ drawn).all()


@pytest.mark.parametrize("release", ["count", "bitmap"])
def test_an_announced_release_is_the_state_and_draws_nothing(release, known_noise):
    spec = hashing(KNOWN, release=release)
    rng = known_noise(1)
    sketch = spec.start(rng)
    held = state(sketch)
    expected = [held.sum()] if release == "count" else held.tolist()
    assert sketch.release(rng).counters.tolist() == expected
    assert len(rng.draws) == 1


@pytest.mark.parametrize("privacy", [KEY, KNOWN])
def test_an_announced_intrusion_freezes_the_sketch(privacy, known_noise):
    rng = known_noise(1)
    sketch = sampling(privacy, turnstile=True).start(rng)
    sketch.update_many(np.arange(100))
    held, drawn = sketch._bits.tobytes(), len(rng.draws)
    sketch.rerandomise(rng)
    sketch.update_many(np.arange(500))
    sketch.remove_many(np.arange(500))
    assert sketch._bits.tobytes() == held
    assert len(rng.draws) == drawn
    with pytest.raises(ValueError, match="one dimension"):
        sketch.update_many(np.array([[1]]))
    release = sketch.release(rng)
    assert release.draws == release.spec.guarantee.draws + 1
    assert is_incomplete(release)


def test_a_frozen_window_shows_in_a_sum(known_noise):
    spec = sampling()
    whole, cut = spec.start(known_noise(1)), spec.start(known_noise(2))
    cut.rerandomise(known_noise(3))
    releases = [whole.release(noise_of_test()), cut.release(noise_of_test())]
    assert [is_incomplete(release) for release in releases] == [False, True]
    assert is_incomplete(merge(releases))


@pytest.mark.parametrize("nothing", [[], (), np.zeros(0, np.int64), np.zeros(0, np.uint8)])
@pytest.mark.parametrize("make", [hashing, sampling])
def test_no_keys_change_nothing(make, nothing):
    sketch = make().start(noise_of_test())
    held = sketch._bits.tobytes()
    sketch.update_many(nothing)
    assert sketch._bits.tobytes() == held


def test_a_bitmap_costs_a_bit_for_each_slot_on_the_wire():
    spec = hashing(release="bitmap", memory=4096, expected_keys=20_000)
    size = len(encode(spec.start(noise_of_test()).release(noise_of_test())))
    assert spec.nbytes < size <= spec.release_nbytes <= spec.nbytes + 144
