"""One contract for all sketches: a new family joins by adding its spec and input to FAMILIES."""

import os
import subprocess
import sys

import numpy as np
import pytest

from pansketch import (
    Attribute,
    Domain,
    HierarchySpec,
    MergeError,
    Privacy,
    SketchClosed,
    WindowId,
    WireError,
    decode,
    encode,
    merge,
    os_entropy,
    peek,
)

DOMAIN = Domain([Attribute("x", low=0, high=1), Attribute("y", low=0, high=9, scale="log")])


def uniform(count, seed=0):
    return np.random.default_rng(seed).random((count, 2)) * [1, 9]


FAMILIES = {
    f"hierarchy-{intrusion}": (
        HierarchySpec(
            DOMAIN, Privacy(epsilon=1.0, intrusion=intrusion), depth=6, k=4, width=8, rows=2
        ),
        uniform,
    )
    for intrusion in ("silent", "announced")
}


@pytest.fixture(params=FAMILIES.values(), ids=FAMILIES.keys())
def family(request):
    return request.param


def released(spec, rows, entropy, window):
    sketch = spec.start(entropy)
    sketch.update_many(rows)
    return sketch.release(entropy, window)


def some_release(spec, sequence=1, device="dev"):
    return released(spec, uniform(30), os_entropy(), WindowId(device, "s", sequence, 0, 60))


def test_state_is_exactly_nbytes_before_and_after_a_million_updates(family):
    spec, draw = family
    sketch = spec.start(os_entropy())

    def footprint():
        return _array_bytes(sketch, set())

    assert sketch._counters.nbytes == spec.nbytes
    whole = footprint()
    for seed in range(10):
        sketch.update_many(draw(100_000, seed))
    assert sketch._counters.nbytes == spec.nbytes
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


def test_one_sketch_of_both_halves_equals_the_merge_of_two(family, no_noise):
    spec, draw = family
    first, second = draw(200, 1), draw(300, 2)
    together = released(spec, np.concatenate([first, second]), no_noise, None)
    apart = merge([released(spec, rows, no_noise, None) for rows in (first, second)])
    assert (together.counters == apart.counters).all()


def test_merging_commutes_and_associates(family):
    spec, _ = family
    a, b, c = (some_release(spec, sequence) for sequence in (1, 2, 3))
    for other in (merge([c, a, b]), (a + b) + c, a + (b + c)):
        assert (other.counters == merge([a, b, c]).counters).all()
        assert other.windows == merge([a, b, c]).windows


def test_a_window_is_merged_once(family):
    spec, _ = family
    a, b = some_release(spec, 1), some_release(spec, 2)
    with pytest.raises(MergeError, match="twice"):
        merge([a, a])
    with pytest.raises(MergeError, match="twice"):
        merge([a + b, b])
    with pytest.raises(MergeError, match="nothing"):
        merge([])


def test_different_specs_do_not_merge(family):
    spec, _ = family
    other = HierarchySpec(DOMAIN, Privacy(epsilon=2.0), depth=6, k=4, width=8, rows=2)
    with pytest.raises(MergeError, match="different specs"):
        merge([some_release(spec), some_release(other, 2)])


def test_decoding_undoes_encoding(family):
    spec, _ = family
    release = merge([some_release(spec, 1), some_release(spec, 2, "ünï")])
    again = decode(encode(release), spec)
    assert (again.counters == release.counters).all()
    assert again.windows == release.windows
    assert encode(again) == encode(release)
    assert peek(encode(release)).windows == release.windows
    assert peek(encode(release)).fingerprint == spec.fingerprint


def test_every_truncation_and_every_flipped_byte_is_refused(family):
    spec, _ = family
    data = encode(some_release(spec))
    for length in range(len(data)):
        with pytest.raises(WireError):
            decode(data[:length], spec)
    for place in range(len(data)):
        for flip in (1, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[place] ^= flip
            with pytest.raises(WireError):
                decode(bytes(damaged), spec)
    with pytest.raises(WireError):
        decode(data + b"\0", spec)


def test_a_second_release_and_a_late_reading_are_refused(family):
    spec, draw = family
    sketch = spec.start(os_entropy())
    sketch.release(os_entropy())
    with pytest.raises(SketchClosed):
        sketch.release(os_entropy())
    with pytest.raises(SketchClosed):
        sketch.update_many(draw(1))


def test_released_counters_are_read_only(family):
    release = some_release(family[0])
    with pytest.raises(ValueError, match="read-only"):
        release.counters[0] = 1


def test_unlabelled_releases_are_told_apart(family):
    spec, draw = family
    a, b = (released(spec, draw(5), os_entropy(), None) for _ in range(2))
    assert len(merge([a, b]).windows) == 2
    with pytest.raises(MergeError, match="twice"):
        merge([a, a])


def test_a_release_says_nothing_of_its_readings_but_the_noisy_counters(family, known_noise):
    """Two streams of different length under one tape differ in counters and in nothing else."""
    spec, draw = family
    window = WindowId("d", "s", 1, 0, 60)
    empty, full = (released(spec, draw(n), known_noise(3), window) for n in (0, 50))
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
