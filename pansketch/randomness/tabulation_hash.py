"""Where cells fall in a count-sketch, and with which sign: tabulation hashing, public and keyed.

A count-sketch's error has its textbook variance only if any three cells are hashed independently.
Multiply-add-shift (pansketch/randomness/keyed_hash.py) gives two: neighbouring cells of a smooth
histogram would collide in runs. Simple tabulation gives three (Patrascu, Thorup, "The power of
simple tabulation hashing", JACM 2012): each byte of a key looks up a word of public random bits,
and their exclusive or is the hash. Every row takes bits of its own, so rows are independent of each
other.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pansketch.randomness.index_arrays import Indices, as_indices
from pansketch.randomness.keyed_hash import WORD_BITS, derive_word

CHARACTER_BITS = 8

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class SignedHash:
    """A slot of each row for every key. A slot is twice a column, plus 1 where the sign is minus.

    `tables[word][place]`: the words that the key's byte at `place` looks up, lowest byte first.
    `shifts[row]`: (word, shift), where a row's bits begin.
    """

    tables: tuple[tuple[Words, ...], ...]
    shifts: tuple[tuple[int, int], ...]
    width: int

    @classmethod
    def derive(
        cls, hash_key: int, label: str, key_bits: int, rows: int, width: int
    ) -> "SignedHash":
        """Raises ValueError unless width is a power of two."""
        if width < 2 or width & (width - 1):
            raise ValueError(f"width must be a power of two, not {width}")
        slot_bits = width.bit_length()
        per_word = WORD_BITS // slot_bits
        tables = tuple(
            tuple(_tables(hash_key, f"{label}/{word}", key_bits))
            for word in range(-(-rows // per_word))
        )
        shifts = tuple((row // per_word, slot_bits * (row % per_word)) for row in range(rows))
        return cls(tables, shifts, width)

    def slots(self, keys: Words, scratch: Words) -> Iterator[Words]:
        """Row by row, the slot of every key: uint64[n] -> uint64[n] below twice `width`.

        `scratch`: uint64[3, m], m >= n. The array yielded is part of it, and the next row
        overwrites it.
        """
        mixed, part, slots = (each[: len(keys)] for each in scratch)
        for row, (word, shift) in enumerate(self.shifts):
            if row == 0 or word != self.shifts[row - 1][0]:
                self._mix(self.tables[word], keys, mixed, part, slots)
            np.right_shift(mixed, np.uint64(shift), out=slots)
            np.bitwise_and(slots, np.uint64(2 * self.width - 1), out=slots)
            yield slots

    def _mix(
        self, tables: tuple[Words, ...], keys: Words, mixed: Words, part: Words, spare: Words
    ) -> None:
        for place, table in enumerate(tables):
            np.right_shift(keys, np.uint64(CHARACTER_BITS * place), out=part)
            np.bitwise_and(part, np.uint64(len(table) - 1), out=part)
            # "clip" keeps numpy from taking into a buffer of its own.
            np.take(table, as_indices(part, spare), out=part if place else mixed, mode="clip")
            if place:
                np.bitwise_xor(mixed, part, out=mixed)

    def table(self, keys: Words) -> Indices:
        """All slots at once, for public keys: uint64[n] -> intp[rows, n]."""
        found = np.empty((len(self.shifts), len(keys)), np.intp)
        scratch = np.empty((3, len(keys)), np.uint64)
        for row, slots in zip(found, self.slots(keys, scratch), strict=True):
            np.copyto(row, slots, casting="unsafe")
        return found


def _tables(hash_key: int, label: str, key_bits: int) -> Iterator[Words]:
    for place in range(-(-key_bits // CHARACTER_BITS)):
        bits = min(CHARACTER_BITS, key_bits - place * CHARACTER_BITS)
        words = [derive_word(hash_key, f"{label}/{place}/{byte}") for byte in range(1 << bits)]
        table = np.array(words, np.uint64)
        table.flags.writeable = False
        yield table
