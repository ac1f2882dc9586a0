"""Nothing of a key stays in a distinct counter beside its bits."""

import copy
import pickle

import numpy as np
import pytest

from pansketch import SketchClosed, WindowId, is_incomplete
from pansketch.randomness.exact_noise import ExactNoise, threshold
from pansketch.sketches.distinct import sketch
from pansketch.sketches.distinct.keys import as_words
from tests.pansketch.sketches.distinct.key_specs import hashing, sampling
from tests.seeded_noise import noise_of_test


def test_frozen_accepts_releases_of_keys_only(make_spec, no_noise):
    with pytest.raises(ValueError, match="family hierarchy counts readings"):
        is_incomplete(make_spec().start(no_noise).release(no_noise))


def leftovers(sketch):
    """Bytes that are not zero in any array of a sketch, except its bits. Multipliers, masks and
    sizes are public numbers, not arrays."""
    found, seen = 0, {id(sketch._bits), id(sketch._spec), id(sketch._rng)}
    things = [sketch]
    while things:
        thing = things.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            found += np.count_nonzero(thing)
        else:
            things += list(getattr(thing, "__dict__", {}).values())
    return found


@pytest.mark.parametrize("make", [hashing, sampling])
def test_nothing_of_a_key_stays(make):
    sketch = make().start(noise_of_test())
    sketch.update_many(np.arange(900))
    sketch.update_many([3, 4])
    if make is hashing:
        sketch.update_many(["badge-0001", "badge-0002"])
    assert leftovers(sketch) == 0


def test_what_stays_would_be_found():
    """Negative control."""
    sketch = sampling().start(noise_of_test())
    sketch._slots._walking[3] = 1
    sketch._words[5] = 1
    assert leftovers(sketch) == 2


@pytest.mark.parametrize("changes", [{}, {"expected_keys": None}, {"memory": 9000}])
@pytest.mark.parametrize("release", ["count", "bitmap"])
def test_no_array_that_a_window_makes_keeps_anything(changes, release, arrays_of):
    """Beside the bits, and beside the release once there is one."""
    made = arrays_of(sketch)
    window = hashing(release=release, **changes).start(noise_of_test())
    for keys in (np.arange(900), [3, 4], np.arange(20_000)):
        window.update_many(keys)
        kept = [array for array in made if array.any()]
        assert [np.shares_memory(array, window._bits) for array in kept] == [True]
    counters = window.release(noise_of_test()).counters
    assert all(np.array_equal(array, counters) for array in made if array.any())


@pytest.mark.parametrize("release", ["count", "bitmap"])
def test_a_released_window_holds_nothing_and_takes_nothing(release):
    window = sampling(release=release, turnstile=True).start(noise_of_test())
    label = WindowId("device", "stream", 7)
    assert window.release(noise_of_test(), label).windows == (label,)
    for act, given in (
        (window.release, noise_of_test()),
        (window.rerandomise, noise_of_test()),
        (window.update_many, [3]),
        (window.remove_many, [3]),
    ):
        with pytest.raises(SketchClosed):
            act(given)
    assert not window._bits.any()


@pytest.mark.parametrize("copier", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_window_is_not_copied_and_shows_its_spec_alone(copier):
    window = sampling().start(noise_of_test())
    with pytest.raises(TypeError, match="secret"):
        copier(window)
    assert repr(window) == f"DistinctSketch({sampling()!r})"


@pytest.mark.parametrize("release", ["count", "bitmap"])
def test_a_key_leaves_no_trace_in_the_cache_of_thresholds(release):
    """A threshold that the first key computes would show later that a key came."""
    threshold.cache_clear()
    window = sampling(release=release, turnstile=True).start(noise_of_test())
    cached = threshold.cache_info().currsize
    window.update_many([3])
    window.remove_many([4])
    window.release(noise_of_test())
    assert threshold.cache_info().currsize == cached > 0


def test_randomness_that_fails_leaves_the_state_and_no_keys(watched_words):
    words = watched_words(fail_after=1)
    sketch = sampling().start(ExactNoise(words))
    held = sketch._bits.tobytes()
    with pytest.raises(OSError, match="no randomness"):
        sketch.update_many(np.arange(500))
    assert sketch._bits.tobytes() == held
    assert leftovers(sketch) == 0


def test_words_made_of_texts_are_erased(monkeypatch, no_noise):
    made = []

    def watched(*given):
        made.append(as_words(*given))
        return made[-1]

    monkeypatch.setattr("pansketch.sketches.distinct.sketch.as_words", watched)
    hashing().start(no_noise).update_many(["badge-0001", "badge-0002", None])
    ((words, wrong, copied),) = made
    assert copied
    assert not words.any()
    assert not wrong.any(), "which of them is no key is a fact about one"


ANYWHERE = [
    ("badge-7741", "several"),
    (b"badge-7741", "several"),
    (7741, "array of integers"),
    (7741.0, "array of integers"),
    (None, "array of integers"),
    ({"badge-7741"}, "array of integers"),
    ((key for key in ["badge-7741"]), "array of integers"),
    (np.array([7741.0]), "array of integers"),
    (np.array([True]), "array of integers"),
    (np.array(7741), "one dimension"),
    (np.array([[7741]]), "one dimension"),
]
ALONE = [
    *([7741.5], [True], [None], [[7741]], [-7741], [774_100_000_000_000_000_000], [object()]),
    *(np.array([-7741]), np.array([-77], np.int8), np.array([True], object)),
]
BEYOND = [
    *(["badge-7741"], np.array(["badge-7741"]), [1000], [7741]),
    *(np.array([7741]), np.array([1000, 7741], np.uint64), np.array([7741], ">i4")),
]


@pytest.mark.parametrize(
    ("make", "wrong"),
    [(make, wrong) for make in (hashing, sampling) for wrong in ALONE]
    + [(sampling, wrong) for wrong in BEYOND],
)
def test_what_is_no_key_is_left_out_alone(make, wrong, no_noise):
    """One that took its batch with it would be a unit of as many keys as a batch has."""
    good = [3, 5, 8]
    mixed = [*wrong, *good]
    if isinstance(wrong, np.ndarray) and wrong.dtype.kind in "iu":
        mixed = np.array(mixed, wrong.dtype)
    spec = make()
    sketch, control = spec.start(no_noise), spec.start(no_noise)
    sketch.update_many(mixed)
    control.update_many(good)
    assert sketch._bits.tobytes() == control._bits.tobytes()
    assert sketch._bits.any()
    assert leftovers(sketch) == 0


@pytest.mark.parametrize("hash_key", range(8))
def test_a_universe_of_one_key_takes_no_other(hash_key, no_noise):
    """Its permutation has cycles without that key: from another one the walk would never end."""
    spec = sampling(universe=1, memory=1, hash_key=hash_key)
    for keys, expected in (([0, 5, -1], 1), (np.array([5, -1]), 0)):
        window = spec.start(no_noise)
        window.update_many(keys)
        assert window.release(no_noise).counters.tolist() == [expected]


def test_a_draw_is_made_for_what_is_no_key_as_well(known_noise):
    """The number of random words depends on the batch's length alone."""
    drawn = []
    for keys in ([3, 5], [3, -7741], [None, "x"]):
        rng = known_noise(1)
        sampling().start(rng).update_many(keys)
        drawn.append(len(rng.draws))
    assert len(set(drawn)) == 1


@pytest.mark.parametrize(
    ("make", "wrong", "text"), [(make, *case) for make in (hashing, sampling) for case in ANYWHERE]
)
def test_wrong_keys_are_refused_before_anything_is_absorbed(make, wrong, text):
    sketch = make(turnstile=make is sampling).start(noise_of_test())
    held = sketch._bits.tobytes()
    with pytest.raises(ValueError, match=text) as caught:
        sketch.update_many(wrong)
    assert sketch._bits.tobytes() == held
    assert leftovers(sketch) == 0
    assert "77" not in str(caught.value)
    assert "\n" not in str(caught.value)
