"""Rice coding of signed integers, vectorised.

Noise of a discrete Laplace distribution is geometric on both sides, and for geometric integers a
Rice code is within a few hundredths of a bit of the entropy. An integer is folded to an unsigned
one; its `low_bits` lowest bits are stored as they are, the quotient above them in unary.
"""

import numpy as np
import numpy.typing as npt

MOST_LOW_BITS = 40


def encode(values: npt.NDArray[np.int64]) -> tuple[int, bytes, bytes]:
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


def decode(low_bits: int, remainders: bytes, quotients: bytes, count: int) -> npt.NDArray[np.int64]:
    """The `count` integers of an encoding.

    Raises ValueError for whatever `encode` would not have written: missing, surplus or non-zero
    padding bits, or quotients beyond 62 bits.
    """
    if not 0 <= low_bits <= MOST_LOW_BITS or len(remainders) != -(-count * low_bits // 8):
        raise ValueError("remainders have another length than the counters they belong to")
    unary = np.unpackbits(np.frombuffer(quotients, np.uint8))
    ends = np.flatnonzero(unary)
    used = int(ends[-1]) + 1 if len(ends) else 0
    if len(ends) != count or len(quotients) != -(-used // 8):
        raise ValueError("quotients have another length than the counters they belong to")
    bits = np.unpackbits(np.frombuffer(remainders, np.uint8))
    if bits[count * low_bits :].any():
        raise ValueError("padding bits are set")
    weights = np.uint64(1) << np.arange(low_bits, dtype=np.uint64)
    low = bits[: count * low_bits].reshape(count, low_bits).astype(np.uint64) @ weights
    high = np.diff(ends, prepend=-1).astype(np.uint64) - np.uint64(1)
    if count and int(high.max()) >> (62 - low_bits):
        raise ValueError("a counter is out of range")
    folded = (high << np.uint64(low_bits)) | low
    return (folded >> np.uint64(1)).view(np.int64) ^ -(folded & np.uint64(1)).view(np.int64)


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
