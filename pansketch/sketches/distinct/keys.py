"""Keys as 64-bit words: badge numbers, MAC addresses, any text.

An integer is its own word. A text's word is BLAKE2b-64 of its UTF-8 bytes, unkeyed, so that every
device turns a text into the same word. The key that changes from window to window is applied later,
when words are spread over slots (pansketch/sketches/distinct/slots.py).
"""

import sys
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

WORD_BYTES = 8
MAX_WORD = (1 << 64) - 1
# Python frees objects of up to 512 bytes into pools by size, in steps of 16. With its header of 33
# bytes, a bytes object of each of these lengths fills its place to the last byte.
_POOLED_LENGTHS = tuple(size - 33 for size in range(48, 513, 16))
_OF_EACH_LENGTH = 4

Words = npt.NDArray[np.uint64]
Keys = npt.NDArray[np.integer[Any]] | Sequence[str | bytes] | Sequence[int]


def key_words(keys: Sequence[str | bytes]) -> Words:
    """The words of texts. The caller erases them after use.

    Args:
        keys: str[n] or bytes[n]; a str is its UTF-8 bytes.

    Returns:
        uint64[n].

    Raises:
        ValueError: a key is no text, or `keys` is a single text instead of a sequence.
    """
    _check_texts(keys)
    words = np.zeros(len(keys), np.uint64)
    buffer = words.view(np.uint8).data
    for index, key in enumerate(keys):
        _write_digest(key, buffer[WORD_BYTES * index : WORD_BYTES * (index + 1)])
    _overwrite_freed_bytes()
    if sys.byteorder == "little":
        words.byteswap(inplace=True)
    return words


def as_words(
    keys: Keys, universe: int | None
) -> tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.bool_], bool]:
    """Return keys as an array of integers, a mask of invalid keys, bool[n], and whether the array
    is a copy. The caller erases the copy and the mask after use.

    An integer is invalid if it is negative, beyond 64 bits or not below `universe`. A text is
    invalid if there is a universe. Values of all other types are invalid. An invalid key does not
    affect the others. Raises ValueError for arguments that cannot hold keys.
    """
    if isinstance(keys, np.ndarray) and keys.dtype.kind in "iu":
        if keys.ndim != 1:
            raise ValueError("keys must be an array of one dimension")
        return keys, _outside(keys, universe), False
    _check_sequence(keys)
    words, wrong = np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.bool_)
    for index, key in enumerate(keys):
        wrong[index] = not _write_word(key, universe, words[index : index + 1])
    _overwrite_freed_bytes()
    return words, wrong, True


def _outside(keys: npt.NDArray[np.integer[Any]], universe: int | None) -> npt.NDArray[np.bool_]:
    wrong = np.zeros(len(keys), np.bool_)
    if keys.dtype.kind == "i":
        np.less(keys, 0, out=wrong)
    if universe is not None and universe <= np.iinfo(keys.dtype).max:
        beyond = np.greater_equal(keys, universe)
        np.logical_or(wrong, beyond, out=wrong)
        beyond.fill(False)
    return wrong


def _write_word(key: object, universe: int | None, word: Words) -> bool:
    """Writes a key's word into uint64[1]; False, and nothing is written, for what is no key."""
    if isinstance(key, str | bytes):
        if universe is None:
            _write_digest(key, word.view(np.uint8).data)
            if sys.byteorder == "little":
                word.byteswap(inplace=True)
        return universe is None
    if isinstance(key, bool | np.bool_) or not isinstance(key, int | np.integer):
        return False
    if not 0 <= key < (MAX_WORD + 1 if universe is None else universe):
        return False
    word[0] = key
    return True


def _write_digest(text: str | bytes, into: memoryview) -> None:
    # Nothing is kept by name: the next key's bytes take the memory that this one's leave.
    into[:] = blake2b(
        text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text,
        digest_size=WORD_BYTES,
    ).digest()


def _check_sequence(keys: Any) -> None:
    if isinstance(keys, str | bytes | bytearray):
        raise ValueError("keys must be several: put a single text into a list")
    wrong_array = isinstance(keys, np.ndarray) and (keys.ndim != 1 or keys.dtype.kind not in "OSU")
    if wrong_array or not isinstance(keys, Sequence | np.ndarray):
        raise ValueError("keys must be an array of integers, or a sequence of str or bytes")


def _check_texts(keys: Any) -> None:
    _check_sequence(keys)
    if not all(isinstance(key, str | bytes) for key in keys):
        raise ValueError("keys must be all texts (str or bytes) or all integers")


def _overwrite_freed_bytes() -> None:
    """The texts and digests freed last are still in Python's memory pools: overwrite them."""
    # All at once, or one place of each pool would be taken again and again.
    _ = [bytes(length) for length in _POOLED_LENGTHS for _ in range(_OF_EACH_LENGTH)]
