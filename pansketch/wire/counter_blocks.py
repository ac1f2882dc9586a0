"""Blocks of counters as entries of a release's body, and back.

An entry is [bits] if all counters of its block are 0 or 1, else [low bits, remainders, quotients],
Rice-coded: integers have one form. Functions raise ValueError or TypeError for any other one.

Noise of a discrete Laplace distribution is geometric on both sides. For geometric integers a Rice
code is within a few hundredths of a bit of the entropy. An integer is folded to an unsigned one.
Its `low_bits` lowest bits are stored as they are, the quotient above them in unary.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def entries_of(counters: npt.NDArray[np.int64], sizes: tuple[int, ...]) -> list[list[Any]]:
    """The entries of releases, int64[releases, counters], whose blocks have these sizes: blocks of
    one size are encoded together."""
    starts = np.cumsum((0, *sizes))[:-1]
    entries: list[list[Any]] = [[None] * len(sizes) for _ in counters]
    for size in set(sizes):
        indices = [index for index, each in enumerate(sizes) if each == size]
        blocks = np.concatenate([counters[:, starts[p] : starts[p] + size] for p in indices])
        made = iter(_entries_of(blocks))
        for index in indices:
            for entry in entries:
                entry[index] = next(made)
    return entries


def _entries_of(blocks: npt.NDArray[np.int64]) -> list[list[Any]]:
    """The entry of each row."""
    # Never longer than the Rice code, whose unary part alone has a bit for each counter.
    packed: npt.NDArray[np.bool_] = (blocks >> 1 == 0).all(axis=1)
    bits = iter(np.packbits(blocks[packed].astype(np.uint8), axis=1))
    codes = iter(rice_encode_all(blocks[~packed]))
    return [[next(bits).tobytes()] if one else list(next(codes)) for one in packed]


def counters_of(entries: list[Any], sizes: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """The counters of all blocks, each in the one form that `entries_of` gives it."""
    if 1 not in map(len, entries):
        return _coded(entries, sizes)
    counters, start = np.empty(sum(sizes), np.int64), 0
    coded, counts, indices = [], [], []
    for entry, size in zip(entries, sizes, strict=True):
        if len(entry) == 1:
            counters[start : start + size] = _bits(entry[0], size)
        else:
            coded.append(entry)
            counts.append(size)
            indices.append(start)
        start += size
    taken = 0
    values = _coded(coded, counts) if coded else np.zeros(0, np.int64)
    for start, size in zip(indices, counts, strict=True):
        counters[start : start + size] = values[taken : taken + size]
        taken += size
    return counters


def _coded(entries: list[Any], sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    kinds = [set(map(type, column)) for column in zip(*entries, strict=True)]
    if kinds != [{int}, {bytes}, {bytes}]:
        raise TypeError("low bits, remainders or quotients")
    values = rice_decode(entries, sizes)
    # Their code has no low bits: one would save a bit for each 1 at most, and cost one for each.
    if not all(low_bits for low_bits, _, _ in entries):
        firsts = np.cumsum([0, *sizes[:-1]])
        if not np.logical_or.reduceat(values >> 1 != 0, firsts).all():
            raise ValueError("zeros and ones alone are packed as bits")
    return values


def _bits(packed: Any, size: int) -> npt.NDArray[np.uint8]:
    if not isinstance(packed, bytes) or len(packed) != -(-size // 8):
        raise ValueError("bits have another length than the counters they belong to")
    bits = np.unpackbits(np.frombuffer(packed, np.uint8))
    if bits[size:].any():
        raise ValueError("padding bits are set")
    return bits[:size]


MAX_LOW_BITS = 40
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def _fields(bits: int, many: int, size: int) -> int:
    """A word of so many fields of `size` bits, the upper `bits` of 2 * `bits` set in each."""
    return sum(((1 << bits) - 1) << bits + size * field for field in range(many))


# For up to 8 bits of each of eight counters, by their number. All that a group has:
_GROUPS = np.array([(1 << 8 * bits) - 1 for bits in range(9)], np.uint64)
# Then the upper halves of 1, 2 and 4 fields, and the factors that move them to the middle of their
# field. Adding a multiple by 2^n - 1 moves them n bits higher.
_HALVES = ((1, 4, 64), (2, 2, 32), (4, 1, 16))
_UPPER = [
    np.array([_fields(half * bits, many, size) for bits in range(9)], np.uint64)
    for many, half, size in _HALVES
]
_FACTORS = [
    np.array([(1 << size // 2 - half * bits) - 1 for bits in range(9)], np.uint64)
    for _, half, size in _HALVES
]

IntArray = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]
Code = tuple[int, bytes, bytes]  # low_bits, remainders, quotients


def rice_encode(values: IntArray) -> Code:
    """(low_bits, remainders, quotients) of int64[n]; the shortest over all choices of low_bits."""
    return rice_encode_all(values[None])[0]


def rice_encode_all(values: IntArray) -> list[Code]:
    """The encoding of each row of int64[rows, n]."""
    folded = ((values << 1) ^ (values >> 63)).view(np.uint64)
    chosen = _best_low_bits(folded)
    codes: list[Code] = [(0, b"", b"")] * len(values)
    for low_bits in set(chosen.tolist()):
        rows = np.flatnonzero(chosen == low_bits)
        remainders = _packed_remainders(folded[rows], low_bits)
        quotients = _packed_quotients(folded[rows] >> np.uint64(low_bits))
        for row, *code in zip(rows.tolist(), remainders, quotients, strict=True):
            codes[row] = low_bits, code[0], code[1]
    return codes


def _packed_remainders(folded: Words, low_bits: int) -> list[bytes]:
    """The lowest bits of each number, the lowest one first, row by row."""
    each_byte = folded.astype("<u8", copy=False).view(np.uint8).reshape(*folded.shape, 8)
    needed = each_byte[:, :, : (low_bits + 7) >> 3]
    bits = np.unpackbits(needed, axis=2, count=low_bits, bitorder="little")
    return [row.tobytes() for row in np.packbits(bits.reshape(len(folded), -1), axis=1)]


def _packed_quotients(quotients: Words) -> list[bytes]:
    """So many zeros and a one for each number, row by row."""
    ends = np.cumsum(quotients.astype(np.int64) + 1, axis=1) - 1
    lengths = ends[:, -1] + 1 if ends.shape[1] else np.zeros(len(ends), np.int64)
    width = int(lengths.max())
    unary = np.zeros((len(ends), width), np.uint8)
    unary.reshape(-1)[ends + np.arange(0, unary.size or 1, width or 1)[:, None]] = 1
    packed = np.packbits(unary, axis=1)
    return [r[: (n + 7) >> 3].tobytes() for r, n in zip(packed, lengths.tolist(), strict=True)]


def rice_decode(codes: Sequence[Code], counts: Sequence[int]) -> IntArray:
    """The integers of several encodings, one after the other: `counts[i]` of the i-th.

    Accepts exactly the encodings of `rice_encode`: integers have one encoding. Raises ValueError
    for all other encodings: missing, surplus or non-zero padding bits, or low_bits that are not the
    shortest choice. No integers, or integers beyond 61 bits, raise it too.
    """
    if not codes or min(counts) < 1:
        raise ValueError("an encoding of no integers")
    shifts, remainders, quotients = zip(*codes, strict=True)
    if not 0 <= min(shifts) <= max(shifts) <= MAX_LOW_BITS:
        raise ValueError("low_bits is out of bounds")
    low_bits, sizes = np.array(shifts, np.int64), np.array(counts, np.intp)
    firsts = np.cumsum(sizes) - sizes
    high, sums = _quotients(quotients, firsts, sizes)
    _expect_in_range(high, low_bits, firsts)
    low = _remainders(remainders, low_bits, firsts, sizes)
    # Products, comparisons and repeated numbers: numpy shifts by many numbers five times as slowly.
    units = np.repeat(np.left_shift(1, low_bits), sizes)
    odd = np.add.reduceat(high & 1, firsts)
    halves = np.add.reduceat(low + low >= units, firsts, dtype=np.int64)
    _expect_shortest((sums + odd) >> 1, sums + halves, low_bits, sizes)
    high *= units
    high |= low
    signs = high & 1
    high >>= 1
    high ^= np.negative(signs, out=signs)
    return high


def _quotients(unary: Sequence[bytes], firsts: Places, sizes: Places) -> tuple[IntArray, IntArray]:
    """All quotients, and their sum in each block."""
    ends, starts = _ends(unary, firsts, sizes)
    high = np.empty(len(ends), np.int64)  # `ends` has 32 bits where a machine has
    np.subtract(ends[1:], ends[:-1], out=high[1:])
    high[firsts] = ends[firsts] + 1 - 8 * starts
    high -= 1
    return high, ends[firsts + sizes - 1] + 1 - 8 * starts - sizes


def _ends(unary: Sequence[bytes], firsts: Places, sizes: Places) -> tuple[IntArray, IntArray]:
    """The bit that ends each quotient, and the byte where each block begins, among all."""
    bits = np.unpackbits(np.frombuffer(b"".join(unary), np.uint8))
    ends = np.flatnonzero(bits.view(np.bool_))  # which numpy scans several times as fast as numbers
    lengths = np.array(list(map(len, unary)))
    stops = np.cumsum(lengths)
    lasts = firsts + sizes
    # The last one of a block lies in its last byte, and the next one in the bytes of the next.
    if len(ends) != lasts[-1] or (ends[lasts - 1] >> 3 != stops - 1).any():
        raise ValueError("quotients have another length than the counters they belong to")
    if (ends[firsts[1:]] >> 3 < stops[:-1]).any():
        raise ValueError("quotients have another length than the counters they belong to")
    return ends, stops - lengths


def _joined(packed: Sequence[bytes], used: IntArray) -> tuple[bytes, IntArray]:
    """All remainders, and the byte where those of each block begin. `used`: their bits."""
    sizes = (used + 7) >> 3
    if [len(part) for part in packed] != sizes.tolist():
        raise ValueError("remainders have another length than the counters they belong to")
    stream = b"".join(packed)
    stops = np.cumsum(sizes)
    padded = sizes > 0
    final = np.frombuffer(stream, np.uint8)[stops[padded] - 1]
    if (final & ((1 << (8 * sizes - used)[padded]) - 1)).any():
        raise ValueError("padding bits are set")
    return stream, stops - sizes


def _remainders(
    packed: Sequence[bytes], low_bits: IntArray, firsts: Places, sizes: Places
) -> IntArray:
    joined, starts = _joined(packed, low_bits * sizes)
    # With the lowest bit first in every byte, a counter's bits are some of the eight bytes from it.
    stream = joined.translate(_REVERSED) + bytes(8)
    # Copied, as numpy takes from aligned numbers six times as fast.
    words = np.ndarray(len(stream) - 7, "<u8", stream, strides=(1,)).copy()
    if not (sizes & 7).any() and low_bits.max() <= 8:
        return _by_eights(words, np.repeat(low_bits, sizes >> 3))
    at = np.arange(firsts[-1] + sizes[-1], dtype=np.int64)
    at *= np.repeat(low_bits, sizes)
    at += np.repeat(8 * starts - low_bits * firsts, sizes)
    within = (at & 7).view(np.uint64)
    at >>= 3
    low: IntArray = (words[at] >> within).view(np.int64)
    low &= np.repeat(np.left_shift(1, low_bits) - 1, sizes)
    return low


def _by_eights(words: Words, low_bits: IntArray) -> IntArray:
    """Remainders of at most 8 bits, of groups of eight counters: `low_bits` of each group.

    Such a group begins with a byte, and is one word, whose halves are moved apart three times.
    """
    spread = words[np.cumsum(low_bits) - low_bits] & _GROUPS[low_bits]
    for upper, factor in zip(_UPPER, _FACTORS, strict=True):
        spread += (spread & upper[low_bits]) * factor[low_bits]
    low: IntArray = spread.astype("<u8", copy=False).view(np.uint8).astype(np.int64)
    return low


def _expect_in_range(high: IntArray, low_bits: IntArray, firsts: Places) -> None:
    if int(high.max()) < 1 << 62 - MAX_LOW_BITS:
        return
    if (np.maximum.reduceat(high, firsts) >> (62 - low_bits)).any():
        raise ValueError("a counter is out of range")


def _expect_shortest(more: IntArray, last: IntArray, low_bits: IntArray, sizes: Places) -> None:
    """The rule of `_best_low_bits`. Its inputs are the saving of one bit more in each block, and
    that of the last bit; the saving falls from bit to bit."""
    if ((more > sizes) & (low_bits < MAX_LOW_BITS)).any() or (
        (last <= sizes) & (low_bits > 0)
    ).any():
        raise ValueError("another choice of low_bits is the shortest")


def _best_low_bits(folded: Words) -> IntArray:
    """Of each row. The length is convex in the number of low bits: the first one that is not beaten
    is best."""
    low_bits, quotients = np.zeros(len(folded), np.int64), folded
    for bits in range(MAX_LOW_BITS):
        # One bit more costs a bit for each counter and saves what the halved quotients lose.
        halved = quotients >> np.uint64(1)
        better = (quotients - halved).sum(axis=1) > folded.shape[1]
        better &= low_bits == bits
        if not better.any():
            break
        low_bits += better
        quotients = halved
    return low_bits
