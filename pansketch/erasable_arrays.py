"""Arrays of secrets that leave no copy behind: contiguous blocks of scratch, words as indices.

A ufunc whose operand is broadcast, or has gaps between its rows, may copy it into a buffer. NumPy
frees that buffer and does not overwrite it, so readings would stay in memory. NumPy copies no
operand of one dimension and no contiguous one. So secrets obey these rules everywhere:

1. An array of two dimensions is a block of scratch, never a part of its columns.
2. `np.copyto` brings secrets in; it has no buffer between numbers that are aligned.
3. A ufunc works in place; the operand that is broadcast is public.
4. Only `as_indices` turns words into indices. NumPy indexes with `intp`, the size of a pointer: on
   32-bit machines it would convert words in memory of its own, or refuse to.
"""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", bound=np.generic)
Words = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.intp]
WIDE = np.dtype(np.intp).itemsize == 8


def block(scratch: npt.NDArray[Number], count: int) -> npt.NDArray[Number]:
    """The beginning of scratch [d, m] as a contiguous array [d, `count`], for `count` <= m."""
    rows = len(scratch)
    return scratch.reshape(-1)[: rows * count].reshape(rows, count)


def erase(count: int, *used: npt.NDArray[Any]) -> None:
    """Overwrites the blocks of at most `count` columns that were taken from scratch."""
    for scratch in used:
        block(scratch, min(count, scratch.shape[1])).fill(0)


def spare_words(count: int) -> Words:
    """Scratch for `as_indices` of so many words: none where it needs none."""
    return np.zeros(0 if WIDE else count, np.uint64)


def as_indices(words: Words, spare: Words) -> Indices:
    """Words below 2**31 as indices: uint64[n] -> intp[n], in the memory of the words themselves.
    With pointers of 32 bits, they are in the memory of `spare`, at least as long. The caller erases
    both."""
    if WIDE:
        return words.view(np.intp)
    indices: Indices = spare.view(np.intp)[: len(words)]
    np.copyto(indices, words, casting="unsafe")
    return indices
