"""Overwrites blocks that Python has freed with their content.

The allocator reuses a freed block for the next object of its size, so allocating such objects
overwrites it. Objects of one size lie in pools, and earlier pools are filled first. So more objects
of each size than one pool holds are needed. Texts beyond MAX_BYTES come from the C library, whose
freed blocks cannot be requested.
"""

import sys
from struct import calcsize

FLOATS = 1024
POOL_BYTES = 16384
POOLS = 2
STEP_BYTES, MAX_BYTES = 2 * calcsize("P"), 512  # from one size to the next: 16, or 8 on 32 bits
_HEADER_BYTES = sys.getsizeof(b"")  # with it each of these fills its block to the last byte
# Python caches bytes of one character, so the smallest size has space for two.
_MIN_BYTES = -(-(_HEADER_BYTES + 2) // STEP_BYTES) * STEP_BYTES
_LENGTHS = tuple(
    size - _HEADER_BYTES
    for size in range(_MIN_BYTES, MAX_BYTES + 1, STEP_BYTES)
    for _ in range(POOLS * POOL_BYTES // size)
)


def overwrite_freed_floats() -> None:
    """Overwrite freed floats and small integers."""
    _ = [float(number) for number in range(FLOATS)]


def overwrite_freed_texts() -> None:
    """Overwrite freed short texts, bytes and longer integers."""
    _ = [*map(bytes, _LENGTHS)]
