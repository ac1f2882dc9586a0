"""Places that Python has freed and not overwritten.

It keeps them, values and all, for the next objects of their size: be the next ones. Objects of one
size lie in pools, and a freed place comes after all free places of the pools before its own, so
more than a pool's worth of each size is needed. Texts beyond MAX_BYTES come from the C library,
whose freed places nobody can ask for.
"""

import sys
from struct import calcsize

FLOATS = 1024
POOL_BYTES = 16384
POOLS = 2
STEP_BYTES, MAX_BYTES = 2 * calcsize("P"), 512  # from one size to the next: 16, or 8 on 32 bits
_HEADER_BYTES = sys.getsizeof(b"")  # with it each of these fills its place to the last byte
# Python makes bytes of one character once and for all, so the least size has room for two.
_LEAST_BYTES = -(-(_HEADER_BYTES + 2) // STEP_BYTES) * STEP_BYTES
_LENGTHS = tuple(
    size - _HEADER_BYTES
    for size in range(_LEAST_BYTES, MAX_BYTES + 1, STEP_BYTES)
    for _ in range(POOLS * POOL_BYTES // size)
)


def overwrite_freed_floats() -> None:
    """What floats and small integers leave."""
    _ = [float(number) for number in range(FLOATS)]


def overwrite_freed_texts() -> None:
    """What short texts, bytes and longer integers leave."""
    _ = [*map(bytes, _LENGTHS)]
