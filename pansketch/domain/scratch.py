"""Scratch for secrets of two dimensions: a contiguous block for any number of readings.

A ufunc whose operand is broadcast, or has gaps between its rows, may copy it into a buffer. NumPy
frees that buffer and does not overwrite it, so readings would stay in memory. NumPy copies no
operand of one dimension and no contiguous one. So secrets obey these rules everywhere:

1. An array of two dimensions is a block of scratch, never a part of its columns.
2. `np.copyto` brings secrets in; it has no buffer between numbers that are aligned.
3. A ufunc works in place; the operand that is broadcast is public.
"""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", bound=np.generic)


def block(scratch: npt.NDArray[Number], count: int) -> npt.NDArray[Number]:
    """The beginning of scratch [d, m] as a contiguous array [d, `count`], for `count` <= m."""
    rows = len(scratch)
    return scratch.reshape(-1)[: rows * count].reshape(rows, count)


def erase(count: int, *used: npt.NDArray[Any]) -> None:
    """Overwrites the blocks of at most `count` columns that were taken from scratch."""
    for scratch in used:
        block(scratch, min(count, scratch.shape[1])).fill(0)
