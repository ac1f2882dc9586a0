"""One contract for all sketches: a new family joins by an entry in FAMILIES."""

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from pansketch import (
    Attribute,
    CellsSpec,
    DistinctSpec,
    Domain,
    HierarchySpec,
    MergeError,
    MomentsSpec,
    Privacy,
    Release,
    SketchClosed,
    Spec,
    View,
    ViewsSpec,
    WindowId,
    WireError,
    decode,
    encode,
    merge,
    os_entropy,
    peek,
)

DOMAIN = Domain([Attribute("x", low=0, high=1), Attribute("y", low=0, high=9, scale="log")])


@dataclass(frozen=True)
class Family:
    """`draw(count, seed)`: input of `spec`'s sketches. `other`: another spec of the family.

    `state`: the attribute with the secret state. `linear`: whether the sum of two releases is what
    one sketch of all their readings would have released, but for the noise.
    """

    spec: Spec
    other: Spec
    draw: Callable
    state: str = "_counters"
    linear: bool = True


def uniform(count, seed=0):
    return np.random.default_rng(seed).random((count, 2)) * [1, 9]


def numbers(count, seed=0):
    return np.random.default_rng(seed).integers(0, 100, count)


def hierarchy(epsilon, intrusion):
    privacy = Privacy(epsilon=epsilon, intrusion=intrusion)
    return HierarchySpec(DOMAIN, privacy, depth=6, k=4, width=8, rows=2)


def cells(epsilon, intrusion, depth):
    privacy = Privacy(epsilon=epsilon, intrusion=intrusion)
    return CellsSpec(DOMAIN, privacy, depth=depth, width=8, rows=2)


def moments(epsilon, intrusion, features):
    privacy = Privacy(epsilon=epsilon, intrusion=intrusion)
    return MomentsSpec(DOMAIN, privacy, features, m=6, rows=3, width=5, bins=6)


def views(epsilon, intrusion):
    privacy = Privacy(epsilon=epsilon, intrusion=intrusion)
    share = privacy.epsilon_micro // 4
    pair = View(("x", "y"), (2, 3), privacy.epsilon_micro - 2 * share)
    return ViewsSpec(DOMAIN, privacy, (View(("x",), (4,), share), pair, View(("y",), (1,), share)))


def distinct(epsilon, intrusion, **sizes):
    privacy = Privacy(epsilon=epsilon, unit="key", intrusion=intrusion)
    return DistinctSpec(privacy, memory=8, **sizes)


KEYED = {
    "hashed-count": {"expected_keys": 200},
    "hashed-bitmap": {"expected_keys": 40, "release": "bitmap"},
    "sampled-count": {"universe": 100, "turnstile": True},
    "sampled-bitmap": {"universe": 100, "release": "bitmap", "variant": "dwork"},
}
FAMILIES = {
    f"hierarchy-{intrusion}": Family(hierarchy(1.0, intrusion), hierarchy(2.0, intrusion), uniform)
    for intrusion in ("silent", "announced")
} | {
    f"distinct-{name}-{intrusion}": Family(
        distinct(1.0, intrusion, **sizes),
        distinct(1.5, intrusion, **sizes),
        numbers,
        state="_bits",
        linear=False,
    )
    for name, sizes in KEYED.items()
    for intrusion in ("silent", "announced")
}
FAMILIES |= {
    f"moments-{features}-{intrusion}": Family(
        moments(1.0, intrusion, features), moments(2.0, intrusion, features), uniform
    )
    for features in ("rff", "race", "hist")
    for intrusion in ("silent", "announced")
}
FAMILIES |= {
    f"cells-depth-{depth}-{intrusion}": Family(
        cells(1.0, intrusion, depth), cells(2.0, intrusion, depth), uniform
    )
    for depth in (6, 24)
    for intrusion in ("silent", "announced")
}
FAMILIES |= {
    f"views-{intrusion}": Family(views(1.0, intrusion), views(2.0, intrusion), uniform)
    for intrusion in ("silent", "announced")
}
ADDITIVE = {name: family for name, family in FAMILIES.items() if family.spec.additive}


def families(chosen):
    return pytest.fixture(params=chosen.values(), ids=chosen.keys())(lambda request: request.param)


family = families(FAMILIES)
additive = families(ADDITIVE)
linear = families({name: family for name, family in FAMILIES.items() if family.linear})
separate = families({name: family for name, family in FAMILIES.items() if name not in ADDITIVE})


def released(spec, rows, entropy, window):
    sketch = spec.start(entropy)
    sketch.update_many(rows)
    return sketch.release(entropy, window)


def some_release(family, sequence=1, device="dev"):
    window = WindowId(device, "s", sequence, 0, 60)
    return released(family.spec, family.draw(30), os_entropy(), window)


def test_state_is_exactly_nbytes_before_and_after_a_million_updates(family):
    sketch = family.spec.start(os_entropy())

    def footprint():
        return _array_bytes(sketch, set())

    assert getattr(sketch, family.state).nbytes == family.spec.nbytes
    whole = footprint()
    for seed in range(10):
        sketch.update_many(family.draw(100_000, seed))
    assert getattr(sketch, family.state).nbytes == family.spec.nbytes
    assert footprint() == whole


def _array_bytes(thing, seen):
    """Bytes of every array reachable from an object."""
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    if isinstance(thing, list | tuple):
        return sum(_array_bytes(each, seen) for each in thing)
    return sum(_array_bytes(each, seen) for each in getattr(thing, "__dict__", {}).values())


def test_one_sketch_of_both_halves_equals_the_merge_of_two(linear, no_noise):
    spec = linear.spec
    first, second = linear.draw(200, 1), linear.draw(300, 2)
    together = released(spec, np.concatenate([first, second]), no_noise, None)
    apart = merge([released(spec, rows, no_noise, None) for rows in (first, second)])
    assert (together.counters == apart.counters).all()


def test_merging_commutes_and_associates(additive):
    a, b, c = (some_release(additive, sequence) for sequence in (1, 2, 3))
    for other in (merge([c, a, b]), (a + b) + c, a + (b + c)):
        assert (other.counters == merge([a, b, c]).counters).all()
        assert other.windows == merge([a, b, c]).windows


def test_a_window_is_merged_once(additive):
    a, b = some_release(additive, 1), some_release(additive, 2)
    with pytest.raises(MergeError, match="twice"):
        merge([a, a])
    with pytest.raises(MergeError, match="twice"):
        merge([a + b, b])
    with pytest.raises(MergeError, match="nothing"):
        merge([])


def test_what_is_not_additive_does_not_merge_and_is_told_what_to_do(separate):
    a, b = some_release(separate, 1), some_release(separate, 2)
    assert (merge([a]).counters == a.counters).all()
    with pytest.raises(MergeError, match="add their estimates"):
        merge([a, b])


def test_a_sum_of_what_is_not_additive_is_refused_on_the_wire(separate):
    a, b = some_release(separate, 1), some_release(separate, 2)
    forged = Release(a.spec, (*a.windows, *b.windows), 4, a.counters + b.counters)
    with pytest.raises(WireError, match="do not add up"):
        decode(encode(forged), a.spec)


def test_different_specs_do_not_merge(family):
    other = Family(family.other, family.spec, family.draw)
    with pytest.raises(MergeError, match="different specs"):
        merge([some_release(family), some_release(other, 2)])


def test_the_spec_of_a_window_is_a_function_of_its_index(family):
    again = family.spec.for_window(7)
    assert again.fingerprint == family.spec.for_window(7).fingerprint
    assert (again.nbytes, again.blocks) == (family.spec.nbytes, family.spec.blocks)
    assert again.guarantee == family.spec.guarantee


def test_decoding_undoes_encoding(family):
    assert_decodes(some_release(family, 1, "ünï"))


def test_decoding_undoes_encoding_of_a_sum(additive):
    assert_decodes(merge([some_release(additive, 1), some_release(additive, 2, "ünï")]))


def assert_decodes(release):
    data = encode(release)
    again = decode(data, release.spec)
    assert (again.counters == release.counters).all()
    assert again.windows == release.windows
    assert encode(again) == data
    assert peek(data).windows == release.windows
    assert peek(data).fingerprint == release.spec.fingerprint


def test_a_release_is_as_long_as_its_spec_says(family):
    """At most; and about, so that it can be planned with. There are some hundred bytes to spare,
    which noise exceeds with probability below 2**-400."""
    spec = family.spec
    longest = max(len(encode(some_release(family))) for _ in range(20))
    assert spec.release_nbytes / 4 <= longest <= spec.release_nbytes <= spec.max_release_nbytes


def test_every_truncation_and_every_flipped_byte_is_refused(family):
    data = encode(some_release(family))
    for length in range(len(data)):
        with pytest.raises(WireError):
            decode(data[:length], family.spec)
    for place in range(len(data)):
        for flip in (1, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[place] ^= flip
            with pytest.raises(WireError):
                decode(bytes(damaged), family.spec)
    with pytest.raises(WireError):
        decode(data + b"\0", family.spec)


def test_a_second_release_and_a_late_reading_are_refused(family):
    sketch = family.spec.start(os_entropy())
    sketch.release(os_entropy())
    with pytest.raises(SketchClosed):
        sketch.release(os_entropy())
    with pytest.raises(SketchClosed):
        sketch.update_many(family.draw(1))
    with pytest.raises(SketchClosed):
        sketch.rerandomise(os_entropy())


def test_a_released_sketch_holds_nothing(family):
    sketch = family.spec.start(os_entropy())
    sketch.update_many(family.draw(50))
    sketch.release(os_entropy())
    assert not getattr(sketch, family.state).any()


def test_a_sketch_shows_its_spec_and_is_not_copied(family):
    sketch = family.spec.start(os_entropy())
    assert repr(sketch) == f"{type(sketch).__name__}({family.spec!r})"
    with pytest.raises(TypeError, match="secret"):
        copy.copy(sketch)


def test_released_counters_are_read_only(family):
    release = some_release(family)
    with pytest.raises(ValueError, match="read-only"):
        release.counters[0] = 1


def test_unlabelled_releases_are_told_apart(additive):
    a, b = (released(additive.spec, additive.draw(5), os_entropy(), None) for _ in range(2))
    assert len(merge([a, b]).windows) == 2
    with pytest.raises(MergeError, match="twice"):
        merge([a, a])


def test_a_release_says_nothing_of_its_readings_but_the_noisy_counters(family, known_noise):
    """Two streams of different length under one tape differ in counters and in nothing else."""
    window = WindowId("d", "s", 1, 0, 60)
    empty, full = (released(family.spec, family.draw(n), known_noise(3), window) for n in (0, 50))
    assert empty.windows == full.windows
    assert peek(encode(empty)) == peek(encode(full))
    assert sorted(vars(full)) == ["counters", "draws", "spec", "windows"]


def test_bytes_do_not_depend_on_the_interpreters_hash_seed():
    program = (
        "import numpy as np\n"
        "from pansketch import *\n"
        "d = Domain([Attribute('x', low=0, high=1), Attribute('c', categories=('a', 'b', 'c'))])\n"
        "s = HierarchySpec(d, Privacy(epsilon=1.0), depth=10, k=4, width=8, rows=2)\n"
        "n = sum(s.blocks)\n"
        "r = Release(s, (WindowId('d', 's', 1, 0, 9),), 2, 900 - np.arange(n) ** 2 % 77)\n"
        "m = privhp(r)\n"
        "print(encode(r).hex(), m.total, m.mean('x'), m.count({'c': 'b'}))\n"
        "p = Privacy(epsilon=2.0, unit='key')\n"
        "s = DistinctSpec(p, expected_keys=9, release='bitmap').for_window(3)\n"
        "r = Release(s, (WindowId('d', 's', 1, 0, 9),), 2, np.arange(18) % 5 // 4)\n"
        "print(encode(r).hex(), r.distinct(), key_words(['a', b'b']))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(outputs) == 1
