"""The secret state of a distinct counter in one window: one bit for each tracked slot.

Every appearance of a key of its slot draws the bit again, independently of its former value. So an
intruder cannot distinguish one appearance from a thousand, and no list of former keys is needed.

Bits are packed. They are unpacked section by section, for a moment, and erased, so that scratch
stays small for any array. Bit i is bit 7 - i % 8 of byte i // 8; the rest of the last byte stays
zero.
"""

from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pansketch.privacy import MICRO
from pansketch.randomness.exact_noise import Chance, Entropy, threshold
from pansketch.randomness.random_words import WORD_BITS
from pansketch.sketches.distinct.keys import Keys, as_words
from pansketch.sketches.distinct.slots import (
    KEYS_AT_ONCE,
    HashedSlots,
    LevelSlots,
    PermutedSlots,
    Slots,
)
from pansketch.sketches.distinct.variants import Form
from pansketch.sketches.release_model import Release, SketchClosed, Spec, WindowId

SECTION_BITS = 1 << 15

Bytes = npt.NDArray[np.uint8]


def draw_bits(packed: Bytes, count: int, chance: Chance, rng: Entropy) -> None:
    """Overwrite each of `count` bits by an independent draw."""
    drawn = np.zeros(min(SECTION_BITS, count), np.uint8)
    for start in range(0, count, SECTION_BITS):
        part = drawn[: count - start]
        rng.fill_bernoulli(chance, part)
        _store(packed, start, part)
    drawn.fill(0)


def write_bits(packed: Bytes, count: int, indices: npt.NDArray[np.intp], values: Bytes) -> None:
    """Set the bits at `indices`, intp[n], to `values`, uint8[n]. `indices` is overwritten, sorted.

    An index of `count` or more is ignored. Of several values for one index the last one stays.
    """
    indices.sort()
    low = 0
    while low < len(indices) and indices[low] < count:
        start = int(indices[low]) // SECTION_BITS * SECTION_BITS
        end = min(start + SECTION_BITS, count)
        high = int(np.searchsorted(indices, end))
        section = _section(packed, start, end)
        np.subtract(indices[low:high], start, out=indices[low:high])
        section[indices[low:high]] = values[low:high]
        _store(packed, start, section)
        section.fill(0)
        low = high


def count_ones(packed: Bytes, start: int, end: int) -> int:
    """Number of ones among the bits from `start` to `end`."""
    total = 0
    for low in range(start // 8 * 8, end, SECTION_BITS):
        section = _section(packed, low, min(low + SECTION_BITS, end))
        total += int(np.count_nonzero(section[max(0, start - low) :]))
        section.fill(0)
    return total


def _section(packed: Bytes, start: int, end: int) -> Bytes:
    return np.unpackbits(packed[start // 8 : -(-end // 8)], count=end - start)


def _store(packed: Bytes, start: int, section: Bytes) -> None:
    stored = np.packbits(section)
    packed[start // 8 : start // 8 + len(stored)] = stored
    stored.fill(0)


class KeySpec(Spec, Protocol):
    """The parts of a spec that a sketch of keys needs. See `DistinctSpec`."""

    @property
    def universe(self) -> int | None: ...
    @property
    def tracked(self) -> int: ...
    @property
    def level(self) -> int: ...
    @property
    def levels(self) -> tuple[int, ...]: ...
    @property
    def hash_key(self) -> int: ...
    @property
    def release(self) -> Form: ...
    @property
    def turnstile(self) -> bool: ...
    @property
    def chances(self) -> tuple[Chance, Chance]:
        """P(a bit is 1): at first, and after an appearance of a key of its slot."""
        ...

    @property
    def flip(self) -> Chance | None:
        """P(a bit is turned over at the release)."""
        ...


class DistinctSketch:
    """Exactly `spec.nbytes` bytes of packed bits, and scratch."""

    def __init__(self, spec: KeySpec, rng: Entropy) -> None:
        self._spec = spec
        self._rng = rng
        self._bits = np.zeros(spec.nbytes, np.uint8)
        self._slots = _slots(spec)
        self._words = np.zeros(KEYS_AT_ONCE, np.uint64)
        self._indices = np.zeros(KEYS_AT_ONCE, np.intp)
        self._drawn = np.zeros(KEYS_AT_ONCE, np.uint8)
        self._intrusions = 0
        self._closed = False
        # For all draws to come: a cache that the first key fills would show that it came.
        for chance in (*spec.chances, spec.flip):
            if chance is not None:
                threshold(chance, WORD_BITS)
        draw_bits(self._bits, spec.tracked, spec.chances[0], rng)

    def __repr__(self) -> str:
        return f"DistinctSketch({self._spec!r})"

    def __reduce__(self) -> str:
        raise TypeError("a sketch is secret: it is never copied or stored")

    def update_many(self, keys: Keys) -> None:
        """Absorb appearances of keys: integers, int or uint[n], or in an open universe texts, a
        sequence of str or bytes. A text is the same key as its word (`key_words`).

        An invalid key, such as a number outside the universe, is ignored alone, as a reading that
        is not a number. If other keys were ignored with it, one unit would affect a whole batch.
        After `rerandomise` nothing is absorbed. Raises ValueError for an argument that cannot hold
        keys, such as a single text, and SketchClosed after the release.
        """
        self._redraw(keys, self._spec.chances[1])

    def remove_many(self, keys: Keys) -> None:
        """Take keys out again, however often they appeared (the papers' turnstile model): their
        bits are drawn as if they had never appeared.

        Raises ValueError unless the spec is a turnstile, and as `update_many` does.
        """
        if not self._spec.turnstile:
            raise ValueError("this sketch accepts no removals: its spec must have turnstile=True")
        self._redraw(keys, self._spec.chances[0])

    def rerandomise(self, rng: Entropy) -> None:
        """An announced intrusion: the sketch absorbs no more keys in this window.

        Fresh noise would not suffice: a key that the intruder saw spends epsilon again if it
        appears again. That the window is incomplete shows in the release's `draws`, one more for
        each intrusion.
        """
        self._check_open()
        self._intrusions += 1

    def release(self, rng: Entropy, window: WindowId | None = None) -> Release:
        """The counts or the bitmap of this window, once; the sketch is closed and its state erased.

        In `silent` mode with fresh noise: an intruder may have seen the bits. `window` labels the
        release; without it a random identifier does. Raises SketchClosed.
        """
        self._check_open()
        self._closed = True
        label = window or WindowId("", "", rng.identifier())
        counters = self._bitmap(rng) if self._spec.release == "bitmap" else self._count(rng)
        self._bits.fill(0)
        draws = self._spec.guarantee.draws + self._intrusions
        return Release(self._spec, (label,), draws, counters)

    def _bitmap(self, rng: Entropy) -> npt.NDArray[np.int64]:
        bits = np.unpackbits(self._bits, count=self._spec.tracked)
        if self._spec.flip is not None:
            flips = np.zeros(len(bits), np.uint8)
            rng.fill_bernoulli(self._spec.flip, flips)
            np.bitwise_xor(bits, flips, out=bits)
            flips.fill(0)
        return bits.astype(np.int64)

    def _count(self, rng: Entropy) -> npt.NDArray[np.int64]:
        sizes = self._spec.levels or (self._spec.tracked,)
        counters, start = np.zeros(len(sizes), np.int64), 0
        for level, size in enumerate(sizes):
            counters[level] = count_ones(self._bits, start, start + size)
            start += size
        if self._spec.guarantee.release_micro:
            rng.add_discrete_laplace(Fraction(MICRO, self._spec.guarantee.release_micro), counters)
        return counters

    def _redraw(self, keys: Keys, chance: Chance) -> None:
        self._check_open()
        words, wrong, copied = as_words(keys, self._spec.universe)
        try:
            for start in range(0, 0 if self._intrusions else len(words), KEYS_AT_ONCE):
                some = slice(start, start + KEYS_AT_ONCE)
                self._redraw_some(words[some], wrong[some], chance)
        finally:
            for scratch in (self._words, self._indices, self._drawn):
                scratch[: len(words)].fill(0)
            wrong.fill(False)
            if copied:
                words.fill(0)

    def _redraw_some(
        self, keys: npt.NDArray[np.integer[Any]], wrong: npt.NDArray[np.bool_], chance: Chance
    ) -> None:
        """Draw the bit of every key's slot again.

        Of a slot's draws in one batch the last one stays. This equals a single draw, because they
        are independent of each other and of the keys. So there is one draw for every key, tracked
        or not, valid or not, and the work does not depend on the keys.
        """
        count = len(keys)
        words, indices, drawn = self._words[:count], self._indices[:count], self._drawn[:count]
        self._rng.fill_bernoulli(chance, drawn)
        np.copyto(words, keys, casting="unsafe")
        np.putmask(words, wrong, 0)
        self._slots.place(words)
        np.putmask(words, wrong, self._spec.tracked)
        # An untracked slot has no bit. Clipped while it has 64 bits, as an index may have 32.
        np.minimum(words, np.uint64(self._spec.tracked), out=words)
        np.copyto(indices, words, casting="unsafe")
        write_bits(self._bits, self._spec.tracked, indices, drawn)

    def _check_open(self) -> None:
        if self._closed:
            raise SketchClosed("this sketch has been released; start another one for a new window")


def _slots(spec: KeySpec) -> Slots:
    if spec.levels:
        return LevelSlots(spec.hash_key, spec.levels)
    if spec.universe is None:
        return HashedSlots(spec.hash_key, spec.tracked, spec.level)
    return PermutedSlots(spec.hash_key, spec.universe)
