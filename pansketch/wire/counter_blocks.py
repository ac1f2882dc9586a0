"""Blocks of counters as entries of a release's body, and back.

An entry is [bits] if all counters of its block are 0 or 1, else [low bits, remainders, quotients],
Rice-coded: integers have one form. Functions raise ValueError or TypeError for any other one.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.wire import rice


def entry_of(block: npt.NDArray[np.int64]) -> list[Any]:
    """The entry of a block, int64[n]."""
    # Never longer than the Rice code, whose unary part alone has a bit for each counter.
    if not (block >> 1).any():
        return [np.packbits(block.astype(np.uint8)).tobytes()]
    return list(rice.encode(block))


def counters_of(entries: list[Any], sizes: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """The counters of all blocks, each in the one form that `entry_of` gives it."""
    if 1 not in map(len, entries):
        return _coded(entries, sizes)
    counters, start = np.empty(sum(sizes), np.int64), 0
    coded, counts, places = [], [], []
    for entry, size in zip(entries, sizes, strict=True):
        if len(entry) == 1:
            counters[start : start + size] = _bits(entry[0], size)
        else:
            coded.append(entry)
            counts.append(size)
            places.append(start)
        start += size
    taken = 0
    values = _coded(coded, counts) if coded else np.zeros(0, np.int64)
    for start, size in zip(places, counts, strict=True):
        counters[start : start + size] = values[taken : taken + size]
        taken += size
    return counters


def _coded(entries: list[Any], sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    kinds = [set(map(type, column)) for column in zip(*entries, strict=True)]
    if kinds != [{int}, {bytes}, {bytes}]:
        raise TypeError("low bits, remainders or quotients")
    values = rice.decode(entries, sizes)
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
