"""One contract for the releases of all sketches: merging, encoding, and the content of a
release."""

import copy
import os
import subprocess
import sys

import pytest

from pansketch import (
    MergeError,
    Release,
    WindowId,
    WireError,
    decode,
    encode,
    merge,
    os_entropy,
    read_header,
)
from tests.pansketch.sketches.families import (
    ADDITIVE,
    FAMILIES,
    Family,
    families,
    released,
    some_release,
)
from tests.waiting import SECONDS

family = families(FAMILIES)
additive = families(ADDITIVE)
separate = families({name: family for name, family in FAMILIES.items() if name not in ADDITIVE})


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


def test_other_releases_do_not_merge_and_the_error_names_a_remedy(separate):
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
    assert read_header(data).windows == release.windows
    assert read_header(data).fingerprint == release.spec.fingerprint


def test_a_release_has_the_length_of_its_spec(family):
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


def test_a_sketch_shows_its_spec_and_is_not_copied(family):
    sketch = family.spec.start(os_entropy())
    assert repr(sketch) == f"{type(sketch).__name__}({family.spec!r})"
    with pytest.raises(TypeError, match="secret"):
        copy.copy(sketch)


def test_released_counters_are_read_only(family):
    release = some_release(family)
    with pytest.raises(ValueError, match="read-only"):
        release.counters[0] = 1


def test_unlabelled_releases_are_distinguished(additive):
    a, b = (released(additive.spec, additive.draw(5), os_entropy(), None) for _ in range(2))
    assert len(merge([a, b]).windows) == 2
    with pytest.raises(MergeError, match="twice"):
        merge([a, a])


def test_a_release_holds_the_noisy_counters_alone(family, known_noise):
    """Two streams of different length under one tape differ in counters and in nothing else."""
    window = WindowId("d", "s", 1, 0, 60)
    empty, full = (released(family.spec, family.draw(n), known_noise(3), window) for n in (0, 50))
    assert empty.windows == full.windows
    assert read_header(encode(empty)) == read_header(encode(full))
    assert sorted(vars(full)) == ["counters", "draws", "merged", "noise", "spec", "windows"]
    assert empty.noise == full.noise == full.draws
    assert empty.merged == full.merged == 0


def test_bytes_do_not_depend_on_the_interpreters_hash_seed():
    program = (
        "import numpy as np\n"
        "from pansketch import *\n"
        "from pansketch.generators import privhp\n"
        "d = Domain([Attribute('x', low=0, high=1), Attribute('c', categories=('a', 'b', 'c'))])\n"
        "s = HierarchySpec(d, Privacy(epsilon=1.0), depth=10, k=4, width=8, rows=2)\n"
        "c = 900 - np.arange(sum(s.blocks), dtype='i8') ** 2 % 77\n"
        "r = Release(s, (WindowId('d', 's', 1, 0, 9),), 2, c)\n"
        "m = privhp(r)\n"
        "print(encode(r).hex(), m.total, m.mean('x'), m.count({'c': 'b'}))\n"
        "p = Privacy(epsilon=12.0, unit='key')\n"
        "s = DistinctSpec(p, expected_keys=9, release='bitmap').for_window(3)\n"
        "r = Release(s, (WindowId('d', 's', 1, 0, 9),), 2, np.arange(18, dtype='i8') % 5 // 4)\n"
        "print(encode(r).hex(), r.distinct(), hash_keys(['a', b'b']))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=SECONDS,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(outputs) == 1
