"""Map keys to slots: the map is public, keyed, and differs in every window.

An open universe is hashed to slots, evenly; keys may share one. An enumerated universe is permuted,
so that every key has a slot of its own. The permutation is a Feistel network (Luby and Rackoff,
"How to construct pseudorandom permutations from pseudorandom functions", 1988) over the next power
of two. It is applied again to results outside of the universe (cycle-walking: Black and Rogaway,
"Ciphers with arbitrary finite domains", 2002). Privacy never depends on either, so the keys are
public and the mixing is only as strong as statistics needs. Scratch is overwritten before a call
returns.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from pansketch.randomness.keyed_hash import derive_word

KEYS_AT_ONCE = 1 << 14
WORD_BITS = 64
HALF_BITS = np.uint64(32)
LOW_HALF = np.uint64((1 << 32) - 1)
LEVEL_BITS = np.uint64(16)  # The highest bits of each word select its level, the others its slot.
LOW_16 = np.uint64((1 << 16) - 1)
# Odd multipliers and shifts of the finaliser of MurmurHash3 as varied by Stafford (his mix 13).
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
ROUNDS = 8
MIN_BITS = 5  # A network over fewer bits has too few round functions to be near random.

Words = npt.NDArray[np.uint64]


class Slots(Protocol):
    """Map of keys to slots."""

    def place(self, words: Words) -> None:
        """Overwrite keys by their slots, in place: uint64[n], n at most `KEYS_AT_ONCE`."""
        ...


class HashedSlots:
    """Slots of an open universe: `tracked` * 2**level of them; any 64-bit word is a key.

    A word is mixed to a uniform fraction of 1, and its slot is that fraction of all slots, rounded
    down. So no slot is likelier than another by more than `tracked` / 2**64.
    """

    def __init__(self, hash_key: int, tracked: int, level: int) -> None:
        self._before, self._between = (
            np.uint64(derive_word(hash_key, f"slots/{place}")) for place in ("before", "between")
        )
        self._tracked, self._level = np.uint64(tracked), np.uint64(level)
        self._high, self._low = np.zeros((2, KEYS_AT_ONCE), np.uint64)

    def place(self, words: Words) -> None:
        """See `Slots`."""
        high, low = self._high[: len(words)], self._low[: len(words)]
        _mix(words, self._before, self._between, high)
        self._multiply_high(words, high, low)
        high.fill(0)
        low.fill(0)

    def _multiply_high(self, words: Words, high: Words, low: Words) -> None:
        """floor(word * slots / 2**64): the first `level` bits choose one of 2**level ranges of
        `tracked` slots, the bits after them a slot of the range."""
        if self._level:
            np.right_shift(words, np.uint64(WORD_BITS) - self._level, out=high)
            np.multiply(high, self._tracked, out=high)
            np.left_shift(words, self._level, out=words)
        np.bitwise_and(words, LOW_HALF, out=low)
        np.right_shift(words, HALF_BITS, out=words)
        for part in (low, words):
            np.multiply(part, self._tracked, out=part)
            if part is low:
                np.right_shift(low, HALF_BITS, out=low)
        np.add(words, low, out=words)
        np.right_shift(words, HALF_BITS, out=words)
        if self._level:
            np.add(words, high, out=words)


class LevelSlots:
    """Slots of an open universe, level after level: a key of level l has a slot of that level.

    A word is mixed to 64 uniform bits. The zeros before the first one of them are its level, the
    last level at most. The lower 48 bits choose the slot evenly, to within `size` / 2**48. So the
    level is a public function of the key: nothing about it follows from other keys.
    """

    def __init__(self, hash_key: int, sizes: tuple[int, ...]) -> None:
        self._before, self._between = (
            np.uint64(derive_word(hash_key, f"levels/{place}")) for place in ("before", "between")
        )
        self._sizes = np.array(sizes, np.uint64)
        self._starts = np.cumsum(self._sizes, dtype=np.uint64) - self._sizes
        self._high, self._low = np.zeros((2, KEYS_AT_ONCE), np.uint64)
        self._fraction = np.zeros(KEYS_AT_ONCE, np.float64)
        self._length = np.zeros(KEYS_AT_ONCE, np.intc)
        self._level = np.zeros(KEYS_AT_ONCE, np.intp)

    def place(self, words: Words) -> None:
        """See `Slots`."""
        high, low = self._high[: len(words)], self._low[: len(words)]
        level = self._level[: len(words)]
        _mix(words, self._before, self._between, high)
        self._find_level(words, high, level)
        np.take(self._sizes, level, out=high, mode="clip")
        # floor(48 bits * size / 2**48), by the lower 16 of them and the other 32.
        np.bitwise_and(words, LOW_16, out=low)
        np.multiply(low, high, out=low)
        np.right_shift(low, LEVEL_BITS, out=low)
        np.right_shift(words, LEVEL_BITS, out=words)
        np.bitwise_and(words, LOW_HALF, out=words)
        np.multiply(words, high, out=words)
        np.add(words, low, out=words)
        np.right_shift(words, HALF_BITS, out=words)
        np.take(self._starts, level, out=high, mode="clip")
        np.add(words, high, out=words)
        for scratch in (high, low, level):
            scratch.fill(0)

    def _find_level(self, words: Words, scratch: Words, level: npt.NDArray[np.intp]) -> None:
        """The zeros in front of the highest 16 bits: 16 less the exponent of that number."""
        fraction, length = self._fraction[: len(words)], self._length[: len(words)]
        np.right_shift(words, np.uint64(WORD_BITS) - LEVEL_BITS, out=scratch)
        np.copyto(fraction, scratch, casting="unsafe")
        np.frexp(fraction, fraction, length)
        np.subtract(int(LEVEL_BITS), length, out=length)
        np.minimum(length, len(self._sizes) - 1, out=length)
        np.copyto(level, length)
        fraction.fill(0)
        length.fill(0)


class PermutedSlots:
    """Slots of an enumerated universe: a permutation of 0 to `universe` - 1."""

    def __init__(self, hash_key: int, universe: int) -> None:
        bits = max(MIN_BITS, (universe - 1).bit_length())
        self._universe = np.uint64(universe)
        # A position has a lower and an upper half, which rounds change in turn.
        halves = bits - bits // 2, bits // 2
        self._lower_bits = np.uint64(halves[0])
        self._mask = np.uint64((1 << halves[0]) - 1)
        self._rounds = [
            (np.uint64(derive_word(hash_key, f"round/{i}")), np.uint64(WORD_BITS - halves[i % 2]))
            for i in range(ROUNDS)
        ]
        self._halves = np.zeros((2, KEYS_AT_ONCE), np.uint64)
        self._mixed, self._walking = np.zeros((2, KEYS_AT_ONCE), np.uint64)
        self._outside = np.zeros(KEYS_AT_ONCE, np.bool_)

    def place(self, words: Words) -> None:
        """See `Slots`. Every word must be below the universe."""
        self._permute(words)
        outside = self._outside[: len(words)]
        while np.greater_equal(words, self._universe, out=outside).any():
            indices = np.flatnonzero(outside)
            walking = self._walking[: len(indices)]
            # In the mode "raise" the words would be copied to a buffer that we cannot erase.
            np.take(words, indices, out=walking, mode="clip")
            self._permute(walking)
            np.put(words, indices, walking)
            walking.fill(0)
            indices.fill(0)
        outside.fill(False)

    def _permute(self, words: Words) -> None:
        """The network over the next power of two: each round adds to one half a function of the
        other."""
        halves, mixed = self._halves[:, : len(words)], self._mixed[: len(words)]
        lower, upper = halves
        np.bitwise_and(words, self._mask, out=lower)
        np.right_shift(words, self._lower_bits, out=upper)
        changed, other = lower, upper
        for key, shift in self._rounds:
            self._mix(other, key, mixed, words)
            np.right_shift(mixed, shift, out=mixed)
            np.bitwise_xor(changed, mixed, out=changed)
            changed, other = other, changed
        np.left_shift(upper, self._lower_bits, out=words)
        np.bitwise_or(words, lower, out=words)
        halves.fill(0)
        mixed.fill(0)

    def _mix(self, half: Words, key: np.uint64, mixed: Words, scratch: Words) -> None:
        np.bitwise_xor(half, key, out=mixed)
        np.multiply(mixed, FIRST, out=mixed)
        np.right_shift(mixed, SHIFTS[0], out=scratch)
        np.bitwise_xor(mixed, scratch, out=mixed)
        np.multiply(mixed, SECOND, out=mixed)


def _mix(words: Words, before: np.uint64, between: np.uint64, scratch: Words) -> None:
    """Overwrite words by mixed ones, a bijection that two public keys choose."""
    np.bitwise_xor(words, before, out=words)
    for shift, multiplier in zip(SHIFTS, (FIRST, SECOND, None), strict=True):
        np.right_shift(words, shift, out=scratch)
        np.bitwise_xor(words, scratch, out=words)
        if multiplier is not None:
            np.multiply(words, multiplier, out=words)
            np.bitwise_xor(words, between, out=words)
