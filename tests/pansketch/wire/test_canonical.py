"""Integers have one encoding on the wire: a decoder takes what `encode` writes and nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pansketch import (
    DistinctSpec,
    Privacy,
    WindowId,
    WireError,
    decode,
    decode_all,
    encode,
    encode_all,
    os_entropy,
)
from pansketch.randomness.keyed_hash import digest
from pansketch.wire import codec
from pansketch.wire.counter_blocks import MAX_LOW_BITS, entries_of, rice_decode, rice_encode

INTEGERS = st.integers(-40, 40) | st.integers(-(2**20), 2**20)
# Blocks of any sizes, and of eights: remainders of those are taken eight at a time.
EIGHTS = st.integers(1, 4).flatmap(
    lambda n: st.lists(st.integers(-150, 150), min_size=8 * n, max_size=8 * n)
)
BLOCKS = st.lists(st.lists(INTEGERS, min_size=1, max_size=30), min_size=1, max_size=6) | st.lists(
    EIGHTS, min_size=1, max_size=6
)


def written_by_hand(values, low_bits):
    """The encoding with this choice of low_bits, bit by bit; it need not be the shortest."""
    numbers = folded(values)
    low = "".join(f"{f % (1 << low_bits):0{low_bits}b}"[::-1] if low_bits else "" for f in numbers)
    unary = "".join("0" * (f >> low_bits) + "1" for f in numbers)
    return low_bits, packed(low), packed(unary)


def folded(values):
    return [2 * v if v >= 0 else -2 * v - 1 for v in values]


def packed(bits):
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))


@given(BLOCKS)
def test_blocks_decoded_together_are_those_decoded_one_by_one(blocks):
    codes = [rice_encode(np.array(block, np.int64)) for block in blocks]
    together = rice_decode(codes, [len(block) for block in blocks])
    assert together.tolist() == [value for block in blocks for value in block]
    for code, block in zip(codes, blocks, strict=True):
        assert rice_decode([code], [len(block)]).tolist() == block


@given(st.lists(st.integers(-300, 300), min_size=1, max_size=40))
def test_only_the_choice_of_low_bits_that_encode_makes_is_taken(values):
    chosen = rice_encode(np.array(values, np.int64))
    assert written_by_hand(values, chosen[0]) == chosen
    for low_bits in range(14):
        if low_bits != chosen[0]:
            with pytest.raises(ValueError, match="low_bits"):
                rice_decode([written_by_hand(values, low_bits)], [len(values)])


@settings(max_examples=300)
@given(BLOCKS, st.data())
def test_a_changed_bit_is_refused_or_is_the_encoding_of_other_integers(blocks, data):
    codes = [rice_encode(np.array(block, np.int64)) for block in blocks]
    counts = [len(block) for block in blocks]
    place = data.draw(st.integers(0, len(codes) - 1))
    part = data.draw(st.sampled_from([1, 2]))
    changed = list(codes[place])
    if not changed[part]:
        return
    at = data.draw(st.integers(0, 8 * len(changed[part]) - 1))
    flipped = bytearray(changed[part])
    flipped[at // 8] ^= 128 >> at % 8
    changed[part] = bytes(flipped)
    codes[place] = tuple(changed)
    try:
        found = rice_decode(codes, counts)
    except ValueError:
        return
    starts = np.cumsum(counts)[:-1]
    assert [rice_encode(block) for block in np.split(found, starts)] == codes


@pytest.mark.parametrize("low_bits", range(11))
def test_blocks_of_eights_come_back_for_every_choice_of_low_bits(low_bits):
    least = (1 << low_bits) - 1
    blocks = [[v, -v, v + 1, v // 2, -v, v, v, -v - 1] for v in range(least, least + 6)]
    codes = [rice_encode(np.array(block, np.int64)) for block in blocks]
    assert low_bits in {code[0] for code in codes}
    assert rice_decode(codes, [8] * 6).tolist() == [v for block in blocks for v in block]


@pytest.mark.parametrize("value", [2**61 - 1, -(2**61), 2**45, -1, 0, 1])
def test_the_largest_integers_come_back(value):
    code = rice_encode(np.array([value], np.int64))
    assert rice_decode([code], [1]).tolist() == [value]


@pytest.mark.parametrize(
    ("codes", "counts"),
    [
        ([], []),
        ([(0, b"", b"")], [0]),
        ([(41, bytes(6), b"\x80")], [1]),
        ([(-1, b"", b"\x80")], [1]),
        ([(2**70, b"", b"\x80")], [1]),
        ([(0, b"", b"\x80\x00")], [1]),
        ([(0, b"", b"\xc0")], [1]),
        ([(0, b"", b"\xc0"), (0, b"", b"")], [1, 1]),
        ([(0, b"", b""), (0, b"", b"\xc0")], [1, 1]),
        ([(0, b"", b"\xe0"), (0, b"", b"\x80")], [2, 2]),
        ([(0, b"\x00", b"\x80")], [1]),
    ],
)
def test_what_encode_never_writes_is_refused(codes, counts):
    with pytest.raises(ValueError, match=r"\w"):
        rice_decode(codes, counts)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 5), st.data())
def test_releases_encoded_together_have_the_shortest_form_of_each_block(sizes, many, data):
    """Against the code written bit by bit, with every choice of low bits."""
    rows = st.lists(
        INTEGERS | st.integers(0, 1), min_size=sum(sizes) * many, max_size=sum(sizes) * many
    )
    counters = np.array(data.draw(rows), np.int64).reshape(many, -1)
    stops = np.cumsum(sizes)
    for row, entries in zip(counters, entries_of(counters, tuple(sizes)), strict=True):
        for size, stop, entry in zip(sizes, stops, entries, strict=True):
            values = row[stop - size : stop].tolist()
            codes = [written_by_hand(values, bits) for bits in range(5, 24)]
            if max(map(abs, values)) < 500:
                codes += [written_by_hand(values, bits) for bits in range(5)]
            shortest = min(
                codes, key=lambda c: (sum(v >> c[0] for v in folded(values)) + size * c[0], c[0])
            )
            bitmap = [packed("".join(map(str, values)))] if set(values) <= {0, 1} else None
            assert tuple(entry) == tuple(bitmap or shortest)


def test_releases_of_two_specs_are_not_encoded_together():
    rng = os_entropy()
    specs = [
        DistinctSpec(Privacy(epsilon=e, unit="key"), universe=90, memory=100) for e in (1.0, 2.0)
    ]
    found = [spec.start(rng).release(rng) for spec in specs]
    with pytest.raises(ValueError, match="several specs"):
        encode_all(found)
    assert encode_all(found[:1]) == [encode(found[0])]


def test_one_bad_release_among_many_is_noticed():
    spec = DistinctSpec(Privacy(epsilon=1.0, unit="key"), universe=90, memory=100)
    rng = os_entropy()
    good = [
        encode(spec.start(rng).release(rng, WindowId("d", "s", number, 0, 1)))
        for number in range(1, 9)
    ]
    assert [r.windows[0].sequence for r in decode_all(good, spec)] == list(range(1, 9))
    for one, release in zip(good, decode_all(good, spec), strict=True):
        assert encode(release) == one
        assert (decode(one, spec).counters == release.counters).all()
        assert not release.counters.flags.writeable
    with pytest.raises(WireError):
        decode_all([*good[:4], good[4][:-1], *good[5:]], spec)


def refused(act):
    try:
        act()
    except ValueError:
        return True
    return False


@settings(max_examples=400)
@given(BLOCKS, st.data())
def test_what_is_decoded_is_the_one_encoding_of_its_integers(blocks, data):
    """Of true encodings, of other choices of low_bits, and of both with a part changed."""
    codes, counts = [], [len(block) for block in blocks]
    for block in blocks:
        true = rice_encode(np.array(block, np.int64))
        low_bits = data.draw(st.sampled_from([true[0]] * 6 + [*range(8)]))
        small = max(map(abs, block)) < 1 << 10
        codes.append(written_by_hand(block, low_bits) if small else true)
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(codes) - 1))
        low_bits, *parts = codes[place]
        part = data.draw(st.integers(0, 1))
        parts[part] = data.draw(st.binary(max_size=len(parts[part]) + 2))
        codes[place] = (low_bits, *parts)
    try:
        found = rice_decode(codes, counts)
    except ValueError:
        assert codes != [rice_encode(np.array(block, np.int64)) for block in blocks]
        return
    parts = np.split(found, np.cumsum(counts)[:-1])
    assert [rice_encode(part) for part in parts] == codes


def test_an_integer_out_of_range_is_refused_and_a_long_quotient_is_not():
    bits = MAX_LOW_BITS
    far = (bits, bytes(bits // 8), packed("0" * (1 << 22) + "1"))
    near = (bits, bytes(bits // 8), packed("0" * ((1 << 22) - 1) + "1"))
    assert refused(lambda: rice_decode([far], [1]))
    assert not refused(lambda: rice_decode([near], [1]))


@settings(max_examples=200)
@given(st.booleans(), st.integers(0, 10**6), st.integers(0, 255))
def test_a_release_with_a_changed_byte_is_refused_or_is_another_release(bitmap, place, byte):
    """Whole releases, with one byte of a body changed behind a checksum that holds.

    Their length follows from noise, so what is drawn must not depend on it.
    """
    privacy = Privacy(epsilon=2.0, unit="key")
    form = "bitmap" if bitmap else "count"
    spec = DistinctSpec(privacy=privacy, universe=90, memory=16, release=form)
    made = encode(spec.start(os_entropy()).release(os_entropy(), WindowId("d", "s", 1, 0, 60)))
    body = bytearray(made[codec.HEADER_BYTES :])
    body[place % len(body)] = byte
    sealed = made[:5] + digest(bytes(body), 8) + body

    try:
        found = decode_all([bytes(sealed)] * 2, spec)
    except ValueError:
        assert sealed != made
        return
    assert [encode(one) for one in found] == [bytes(sealed)] * 2
