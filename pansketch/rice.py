"""Rice coding of signed integers, vectorised.

Noise of a discrete Laplace distribution is geometric on both sides, and for geometric integers a
Rice code is within a few hundredths of a bit of the entropy. An integer is folded to an unsigned
one; its `low_bits` lowest bits are stored as they are, the quotient above them in unary.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MOST_LOW_BITS = 40
CHECKED_BITS = 1 << 22  # of quotients: fewer hold none that takes an integer beyond 61 bits
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_ONES = bytes(byte.bit_count() for byte in range(256))
# Eight numbers of b bits fill b bytes: there, the highest bit of each of them.
_HIGHEST = [np.packbits(([0] * (b - 1) + [1]) * 8).tobytes() for b in range(1, MOST_LOW_BITS + 1)]

IntArray = npt.NDArray[np.int64]
Code = tuple[int, bytes, bytes]  # low_bits, remainders, quotients


def encode(values: IntArray) -> Code:
    """(low_bits, remainders, quotients) of int64[n]; the shortest over all choices of low_bits."""
    folded = ((values << 1) ^ (values >> 63)).view(np.uint64)
    low_bits = _best_low_bits(folded)
    quotients = (folded >> np.uint64(low_bits)).astype(np.int64)
    ends = np.cumsum(quotients + 1) - 1
    unary = np.zeros(int(ends[-1]) + 1 if len(ends) else 0, np.uint8)
    unary[ends] = 1
    shifts = np.arange(low_bits, dtype=np.uint64)
    remainders = (folded[:, None] >> shifts & np.uint64(1)).astype(np.uint8)
    return low_bits, np.packbits(remainders).tobytes(), np.packbits(unary).tobytes()


def decode(codes: Sequence[Code], counts: Sequence[int]) -> IntArray:
    """The integers of several encodings, one after the other: `counts[i]` of the i-th.

    Takes exactly what `encode` writes, so that integers have one encoding. Raises ValueError for
    all else: missing, surplus or non-zero padding bits, a choice of low_bits that is not the
    shortest, integers beyond 61 bits, no integers at all.
    """
    low_bits, firsts = _layout(codes, counts)
    high = _quotients([code[2] for code in codes], firsts, counts)
    low = _remainders([code[1] for code in codes], low_bits, firsts, counts)
    _expect_in_range(high, low_bits, firsts)
    more = np.add.reduceat((high + 1) >> 1, firsts)
    top = low >> np.repeat(np.maximum(low_bits - 1, 0), counts)
    _expect_shortest(more, np.add.reduceat(high + top, firsts), low_bits, counts)
    folded: IntArray = (high << np.repeat(low_bits, counts)) | low
    return (folded >> 1) ^ -(folded & 1)


def check(codes: Sequence[Code], counts: Sequence[int]) -> None:
    """Raises ValueError wherever `decode` does and nowhere else, several times as fast: of the
    integers it only counts the quotients that are odd and the remainders with their highest bit."""
    low_bits, firsts = _layout(codes, counts)
    unary = [code[2] for code in codes]
    ends, starts = _ends(unary, firsts, counts)
    if len(unary) and 8 * max(map(len, unary)) >= CHECKED_BITS:
        decode(codes, counts)
        return
    quotients = ends[firsts + counts - 1] + 1 - 8 * starts - counts
    # From one end to the next it is a quotient and one bit: ends that are both odd or both even
    # have an odd one between them.
    parity = ends.astype(np.uint8) & 1
    odd = np.empty_like(parity)
    np.equal(parity[1:], parity[:-1], out=odd[1:])
    odd[firsts] = parity[firsts]
    more = (quotients + np.add.reduceat(odd, firsts, dtype=np.int64)) >> 1
    highest = _highest([code[1] for code in codes], low_bits, counts)
    _expect_shortest(more, quotients + highest, low_bits, counts)


def _layout(codes: Sequence[Code], counts: Sequence[int]) -> tuple[IntArray, IntArray]:
    """The low_bits of each block, and the place of its first integer among all."""
    if not codes or min(counts) < 1:
        raise ValueError("an encoding of no integers")
    if not all(0 <= code[0] <= MOST_LOW_BITS for code in codes):
        raise ValueError("low_bits is out of bounds")
    return np.array([code[0] for code in codes], np.int64), np.cumsum([0, *counts[:-1]])


def _quotients(unary: Sequence[bytes], firsts: IntArray, counts: Sequence[int]) -> IntArray:
    ends, starts = _ends(unary, firsts, counts)
    before = np.empty_like(ends)
    before[1:] = ends[:-1] + 1
    before[firsts] = 8 * starts
    return ends - before


def _ends(
    unary: Sequence[bytes], firsts: IntArray, counts: Sequence[int]
) -> tuple[IntArray, IntArray]:
    """The bit that ends each quotient, and the byte where each block begins, among all."""
    bits = np.unpackbits(np.frombuffer(b"".join(unary), np.uint8))
    ends = np.flatnonzero(bits.view(np.bool_))  # which numpy scans several times as fast as numbers
    stops = np.cumsum([len(part) for part in unary])
    lasts = firsts + counts
    # The last one of a block lies in its last byte, and the next one in the bytes of the next.
    if len(ends) != lasts[-1] or (ends[lasts - 1] >> 3 != stops - 1).any():
        raise ValueError("quotients have another length than the counters they belong to")
    if (ends[firsts[1:]] >> 3 < stops[:-1]).any():
        raise ValueError("quotients have another length than the counters they belong to")
    starts = np.zeros_like(stops)
    starts[1:] = stops[:-1]
    return ends, starts


def _joined(
    packed: Sequence[bytes], low_bits: IntArray, counts: Sequence[int]
) -> tuple[bytes, IntArray, IntArray]:
    """All remainders, and where those of each block begin and how many bytes they are."""
    used = low_bits * counts
    sizes = (used + 7) >> 3
    if [len(part) for part in packed] != sizes.tolist():
        raise ValueError("remainders have another length than the counters they belong to")
    stream = b"".join(packed)
    stops = np.cumsum(sizes)
    padded = sizes > 0
    final = np.frombuffer(stream, np.uint8)[stops[padded] - 1]
    if (final & ((1 << (8 * sizes - used)[padded]) - 1)).any():
        raise ValueError("padding bits are set")
    return stream, stops - sizes, sizes


def _highest(packed: Sequence[bytes], low_bits: IntArray, counts: Sequence[int]) -> IntArray:
    """Of each block, how many remainders have their highest bit set."""
    stream, starts, sizes = _joined(packed, low_bits, counts)
    masks = [
        (_HIGHEST[bits - 1] * (size // bits + 1))[:size] if bits else b""
        for bits, size in zip(low_bits.tolist(), sizes.tolist(), strict=True)
    ]
    chosen = np.frombuffer(stream, np.uint8) & np.frombuffer(b"".join(masks), np.uint8)
    ones = np.frombuffer(chosen.tobytes().translate(_ONES), np.uint8)
    until = np.zeros(len(stream) + 1, np.int64)
    np.cumsum(ones, out=until[1:])
    counted: IntArray = until[starts + sizes] - until[starts]
    return counted


def _remainders(
    packed: Sequence[bytes],
    low_bits: IntArray,
    firsts: IntArray,
    counts: Sequence[int],
) -> IntArray:
    joined, starts, _ = _joined(packed, low_bits, counts)
    # With the lowest bit first in every byte, a counter's bits are some of the eight bytes from it.
    stream = joined.translate(_REVERSED) + bytes(8)
    words = np.ndarray(len(stream) - 7, "<u8", stream, strides=(1,))
    at = np.repeat(low_bits, counts) * np.arange(sum(counts))
    at += np.repeat(8 * starts - low_bits * firsts, counts)
    low: IntArray = (words[at >> 3] >> (at & 7).view(np.uint64)).view(np.int64)
    low &= np.repeat((np.int64(1) << low_bits) - 1, counts)
    return low


def _expect_in_range(high: IntArray, low_bits: IntArray, firsts: IntArray) -> None:
    if (np.maximum.reduceat(high, firsts) >> (62 - low_bits)).any():
        raise ValueError("a counter is out of range")


def _expect_shortest(
    more: IntArray, last: IntArray, low_bits: IntArray, counts: Sequence[int]
) -> None:
    """The rule of `_best_low_bits`, from what one bit more would save in each block, and what the
    last one has saved; it falls from bit to bit."""
    if ((more > counts) & (low_bits < MOST_LOW_BITS)).any() or (
        (last <= counts) & (low_bits > 0)
    ).any():
        raise ValueError("another choice of low_bits is the shortest")


def _best_low_bits(folded: npt.NDArray[np.uint64]) -> int:
    """The length is convex in the number of low bits: the first one that is not beaten is best."""
    low_bits, quotients = 0, folded
    while low_bits < MOST_LOW_BITS:
        # One bit more costs a bit for each counter and saves what the halved quotients lose.
        halved = quotients >> np.uint64(1)
        if len(folded) >= int(quotients.sum()) - int(halved.sum()):
            break
        low_bits, quotients = low_bits + 1, halved
    return low_bits
