"""Blocks of zeros and ones on the wire: one bit each, in one form only."""

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch import DistinctSpec, Privacy, Release, WindowId, WireError, decode, encode
from pansketch.randomness.keyed_hash import digest
from pansketch.wire.counter_blocks import rice_encode

PRIVACY = Privacy(epsilon=1.0, unit="key")


def bitmap(counters, draws=2, devices=1):
    spec = DistinctSpec(PRIVACY, universe=len(counters), memory=100, release="bitmap")
    windows = tuple(WindowId(f"d{place}", "s", 1, 0, 60) for place in range(devices))
    return Release(spec, windows, draws, np.array(counters, np.int64))


def forged(release, blocks):
    """The release with these entries for its blocks, and a checksum that holds."""
    data = encode(release)
    body = msgpack.packb([*msgpack.unpackb(data[13:])[:4], blocks])
    return data[:5] + digest(body, 8) + body


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_any_sum_of_bitmaps_comes_back(counters):
    release = bitmap(counters, 6, 3)
    assert decode(encode(release), release.spec).counters.tolist() == counters


@pytest.mark.parametrize("count", [1, 7, 8, 9, 640])
def test_a_bit_costs_a_bit(count):
    """With the label and a few bytes, for any bits."""
    for bits in (np.zeros(count), np.ones(count), np.arange(count) % 2):
        assert len(encode(bitmap(bits))) <= count / 8 + 52


@given(st.lists(st.sampled_from([0, 1]), min_size=1, max_size=99))
def test_the_packed_form_is_never_longer_than_the_other(bits):
    packed = msgpack.packb([np.packbits(bits).tobytes()])
    assert len(packed) <= len(msgpack.packb(list(rice_encode(np.array(bits, np.int64)))))


BITS = [0, 1, 1, 0, 1, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    "entry",
    [
        list(rice_encode(np.array(BITS, np.int64))),
        [np.packbits([*BITS, 0, 1]).tobytes()],
        [np.packbits(BITS).tobytes() + b"\0"],
        [np.packbits(BITS).tobytes()[:1]],
        ["text"],
        [[1, 2]],
        [7],
        [],
        b"\1",
        7,
        None,
    ],
    ids=["rice", "padding", "longer", "shorter", "text", "list", "int", "none", "b", "7", "nil"],
)
def test_no_other_form_of_the_same_bits_is_taken(entry):
    release = bitmap(BITS)
    assert decode(forged(release, [[np.packbits(BITS).tobytes()]]), release.spec) is not None
    with pytest.raises(WireError) as caught:
        decode(forged(release, [entry]), release.spec)
    assert caught.value.reason == "malformed"
