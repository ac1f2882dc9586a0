"""64-bit words as what NumPy indexes with: the same memory, or on 32-bit machines memory of ours.

NumPy would convert them itself, in memory of its own that nobody can erase, or refuse to: `intp`
has the size of a pointer.
"""

import numpy as np
import numpy.typing as npt

WIDE = np.dtype(np.intp).itemsize == 8

Words = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.intp]


def spare_words(count: int) -> Words:
    """Scratch for `as_indices` of so many words: none where it needs none."""
    return np.zeros(0 if WIDE else count, np.uint64)


def as_indices(words: Words, spare: Words) -> Indices:
    """Words below 2**31 as indices: uint64[n] -> intp[n], in the memory of the words themselves or,
    where a pointer has 32 bits, in that of `spare`, at least as long. The caller erases both."""
    if WIDE:
        return words.view(np.intp)
    indices: Indices = spare.view(np.intp)[: len(words)]
    np.copyto(indices, words, casting="unsafe")
    return indices
