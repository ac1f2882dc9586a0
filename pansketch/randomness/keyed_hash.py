"""Public keyed hashing, identical on every machine.

Hashing spreads cells over counters. Privacy never depends on it, so its key is public.
Multiply-add-shift over 64-bit words costs two vector operations (Dietzfelbinger, "Universal hashing
and k-wise independent random variables via integer arithmetic without primes", STACS 1996). It is
pairwise independent in its upper bits, as count-min needs.

It is also linear. If one child of a cell shares a counter with a child of another cell, all their
children do, pair by pair. No estimator can separate the two families. So the product is folded with
a public function of the key that is not linear. Pairs stay independent for any such function.

A count-sketch's error has its textbook variance only if any three cells are hashed independently.
Multiply-add-shift gives two: neighbouring cells of a smooth histogram would collide in runs. Simple
tabulation gives three (Patrascu, Thorup, "The power of simple tabulation hashing", JACM 2012). Each
byte of a key selects a word of public random bits, and their exclusive or is the hash. Every row
takes bits of its own, so rows are independent of each other.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.erasable_arrays import Indices, as_indices

WORD_BITS = 64
FOLD_MULTIPLIER = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio, odd
FOLD_SHIFT = 32
CHARACTER_BITS = 8  # of a key, in a tabulation hash

Words = npt.NDArray[np.uint64]


def digest(data: bytes, size: int) -> bytes:
    """BLAKE2b of some bytes.

    Args:
        data: any bytes.
        size: length of the digest, 1 to 64 bytes.

    Returns:
        `size` bytes.
    """
    return hashlib.blake2b(data, digest_size=size).digest()


def form_digest(form: dict[str, Any], size: int = 8) -> bytes:
    """`size` bytes over the canonical JSON of a spec's description."""
    return digest(json.dumps(form, sort_keys=True, separators=(",", ":")).encode(), size)


def derive_word(hash_key: int, label: str) -> int:
    """A 64-bit word that is a fixed function of a public key and a label."""
    key = hash_key.to_bytes(8, "big")
    return int.from_bytes(hashlib.blake2b(label.encode(), key=key, digest_size=8).digest(), "big")


def fold(
    keys: npt.NDArray[np.uint64],
    multiplier: np.uint64 | npt.NDArray[np.uint64],
    folded: npt.NDArray[np.uint64],
    spare: npt.NDArray[np.uint64],
) -> None:
    """A function of keys that is not linear, into `folded`; where the multiplier is 0 it is 0.

    All arrays have the keys' shape; `spare` is scratch.
    """
    np.copyto(folded, keys)
    np.multiply(folded, multiplier, out=folded)
    np.right_shift(folded, np.uint64(FOLD_SHIFT), out=spare)
    np.bitwise_xor(folded, spare, out=folded)
    np.multiply(folded, multiplier, out=folded)


@dataclass(frozen=True)
class RowHash:
    """Indices of a key of at most `key_bits` bits in each row of a table of power-of-two width.

    Rows share one 64-bit word as long as all their bits are pairwise independent, then a second
    word begins. `words` holds (multiplier, addend) pairs; `shifts[row]` is (word, shift).
    """

    words: tuple[tuple[int, int], ...]
    shifts: tuple[tuple[int, int], ...]
    width: int

    @classmethod
    def derive(cls, hash_key: int, label: str, key_bits: int, rows: int, width: int) -> "RowHash":
        """Raises ValueError unless width is a power of two that leaves room for the key's bits."""
        if width < 2 or width & (width - 1):
            raise ValueError(f"width must be a power of two, not {width}")
        row_bits = width.bit_length() - 1
        per_word = (WORD_BITS + 1 - key_bits) // row_bits
        if per_word < 1:
            raise ValueError(f"keys of {key_bits} bits do not fit a table of width {width}")
        words = tuple(
            (
                derive_word(hash_key, f"{label}/multiplier/{i}") | 1,
                derive_word(hash_key, f"{label}/addend/{i}"),
            )
            for i in range(-(-rows // per_word))
        )
        shifts = tuple(
            (row // per_word, WORD_BITS - row_bits * (row % per_word + 1)) for row in range(rows)
        )
        return cls(words, shifts, width)

    def columns(
        self,
        keys: npt.NDArray[np.uint64],
        mixed: npt.NDArray[np.uint64],
        columns: npt.NDArray[np.uint64],
    ) -> Iterator[npt.NDArray[np.uint64]]:
        """Row by row, the column of every key: uint64[n] -> uint64[n] below `width`.

        `mixed` and `columns` are scratch of the keys' length; the array yielded is `columns`, which
        the next row overwrites. `keys` must be another array.
        """
        for row, (word, shift) in enumerate(self.shifts):
            if row == 0 or word != self.shifts[row - 1][0]:
                multiplier, addend = self.words[word]
                fold(keys, np.uint64(FOLD_MULTIPLIER), columns, mixed)
                np.multiply(keys, np.uint64(multiplier), out=mixed)
                np.add(mixed, np.uint64(addend), out=mixed)
                np.bitwise_xor(mixed, columns, out=mixed)
            np.right_shift(mixed, np.uint64(shift), out=columns)
            if shift + self.row_bits < WORD_BITS:
                np.bitwise_and(columns, np.uint64(self.width - 1), out=columns)
            yield columns

    @property
    def row_bits(self) -> int:
        return self.width.bit_length() - 1

    def table(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
        """All columns at once, for public keys: uint64[n] -> intp[rows, n]."""
        scratch = np.empty_like(keys), np.empty_like(keys)
        return np.stack([row.astype(np.intp) for row in self.columns(keys, *scratch)])


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
