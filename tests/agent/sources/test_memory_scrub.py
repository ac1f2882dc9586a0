"""The sizes of freed places that are overwritten; tests of a seized agent show what it keeps."""

import sys
from struct import calcsize

from pansketch_agent.sources import memory_scrub


def test_every_size_of_python_s_pools_is_filled_to_its_last_byte():
    """Python's allocator rounds up to two pointers. Of bytes with one character there is one each,
    which fills no place, so the least size is the first one that a text of two needs."""
    step = 2 * calcsize("P")
    filled = [sys.getsizeof(bytes(length)) for length in memory_scrub._LENGTHS]
    least = -(-sys.getsizeof(bytes(2)) // step) * step
    assert sorted(set(filled)) == list(range(least, memory_scrub.MAX_BYTES + 1, step))
    for size in set(filled):
        assert filled.count(size) * size > memory_scrub.POOL_BYTES
