"""Places that Python has freed and not overwritten.

It keeps them, values and all, for the next objects of their size: be the next ones. Objects of one
size lie in pools, and a freed place comes after all free places of the pools before its own, so
more than a pool's worth of each size is needed. Texts beyond MAX_BYTES come from the C library,
whose freed places nobody can ask for.
"""

FLOATS = 1024
POOL_BYTES = 16384
POOLS = 2
STEP_BYTES, MAX_BYTES = 16, 512
_HEADER_BYTES = 33  # of a bytes object; with it each of these fills its place to the last byte
_LENGTHS = tuple(
    size - _HEADER_BYTES
    for size in range(48, MAX_BYTES + 1, STEP_BYTES)
    for _ in range(POOLS * POOL_BYTES // size)
)


def overwrite_freed_floats() -> None:
    """What floats and small integers leave."""
    _ = [float(number) for number in range(FLOATS)]


def overwrite_freed_texts() -> None:
    """What short texts, bytes and longer integers leave."""
    _ = [*map(bytes, _LENGTHS)]
