"""Noise that a script decides, drawn by the production sampler, with a record of every draw.

The script chooses the value of each draw, and the words that make `ExactNoise` draw it. So sampler,
blocks and scratch are those of a device. Each draw is recorded with its scale and its address: the
array that it was added to, and the place in it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.randomness import Chance, Counters, geometric
from pansketch.randomness.exact_noise import ExactNoise

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
ONE, ZERO = 0, (1 << 64) - 1  # Words below and above every chance.
WIDEST = 2**20  # of a scripted draw: a sum of a few of them is far from the ends of a counter
FARTHEST = 30  # scales: words tell such values apart


class ScriptedWords:
    """`Words` that make the sampler draw scripted values; others are public, from `seed`."""

    def __init__(self, seed: int) -> None:
        self._public = np.random.default_rng(seed)
        self._left: list[Words] = []

    def begin(self, parts: list[Words]) -> None:
        """Words for the next calls."""
        self._left = parts

    def fill(self, words: Words) -> None:
        if self._left and len(self._left[0]) == len(words):
            words[:] = self._left.pop(0)
            return
        # A tie reads on. A sampler with other blocks misses its draws, which is seen there.
        self._left = []
        words[:] = self._public.integers(0, 1 << 63, len(words), np.uint64)


def laplace_words(scale: Fraction, values: Integers, at_once: int) -> list[Words]:
    """Words from which the sampler draws these values, call by call."""
    parts = []
    for start in range(0, len(values), at_once):
        for sign in (1, -1):
            left = np.maximum(sign * values[start : start + at_once], 0)
            for weight, digit in geometric(scale):
                drawn, left = np.divmod(left, weight)
                last = len(digit.table) - 1
                # One below the first word of the next value: no tie, and no rounding.
                words = digit.table[np.minimum(drawn, last)] - np.uint64(1)
                words[drawn > last] = np.uint64(ZERO)
                parts.append(words)
    return parts


@dataclass(frozen=True)
class Draws:
    """One call of the sampler: `count` draws of one scale, or bits of one chance. Or the masks of
    an epoch, which are uniform and have no scale.

    `number`: of the call, from 0. `sketch`: the how-manieth sketch of its source it is for;
    `first`: the address of the first draw among the counters or bits of that sketch. `bits`:
    whether they are bits. `missed`: the addresses that did not receive the draw of the script.
    """

    number: int
    sketch: int
    first: int
    count: int
    scale: Fraction | Chance | None
    bits: bool
    missed: tuple[int, ...]


@dataclass
class ScriptedNoise:
    """`KeyEntropy` for the sketches of one source.

    `shifts`: by the number of a call, what is added to its draws: int64[n]. Of a source of keys
    that tracks `tracked` of them: `later_chance`, that of an appearance, which always draws
    `appearance`; `flip`, that of a released bit.
    """

    seed: int
    shifts: Mapping[int, Integers] = field(default_factory=dict)
    later_chance: Chance | None = None
    flip: Chance | None = None
    tracked: int = 0
    appearance: int = 1
    draws: list[Draws] = field(default_factory=list)
    bases: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._words = ScriptedWords(self.seed)
        self._exact = ExactNoise(self._words)
        self._filled, self._open = 0, False
        self._masks = np.zeros(0, np.int64)

    @property
    def calls(self) -> int:
        """Number of calls, without those of appearances."""
        return len(self.draws)

    @property
    def faults(self) -> list[str]:
        """Addresses to which the production sampler added another draw than it was given, or no
        mask, and masks that were added twice."""
        found = [
            f"sketch {each.sketch}: not the draw of its own at {_listed(each.first, each.missed)}"
            for each in self.draws
            if each.missed
        ]
        repeated = len(self._masks) - len(np.unique(self._masks))
        return [*found, f"{repeated} masks are used twice"] if repeated else found

    def add_discrete_laplace(self, scale: Fraction, counters: Counters) -> None:
        """See `Entropy`."""
        number, count = len(self.draws), len(counters)
        widest = min(ceil(4 * scale) + 3, WIDEST)
        values = self._chosen(number).integers(-widest, widest, count, endpoint=True)
        values += self.shifts.get(number, 0)
        farthest = ceil(FARTHEST * scale)
        near = np.clip(values, -farthest, farthest)
        before = counters.copy()
        self._draw(laplace_words(scale, near, _at_once()), lambda: self._add(scale, counters))
        missed = np.flatnonzero(counters - before != near.astype(counters.dtype))
        counters += (values - near).astype(counters.dtype)
        sketch, first = self._address(counters)
        self.draws.append(Draws(number, sketch, first, count, scale, False, tuple(missed.tolist())))

    def add_masks(self, counters: Counters, add: Callable[[], None]) -> None:
        """Production's masks of an epoch, which `add` adds, and the shift of the script. A mask is
        uniform, so any shift of it is as likely."""
        number, before = len(self.draws), counters.copy()
        add()
        masks = counters - before
        missed = tuple(np.flatnonzero(masks == 0).tolist())
        pairs = masks[: len(masks) * masks.itemsize // 8 * 8 // masks.itemsize].view(np.int64)
        self._masks = np.concatenate([self._masks, pairs])
        if number in self.shifts:
            counters += self.shifts[number].astype(counters.dtype)
        sketch, first = self._address(counters)
        self.draws.append(Draws(number, sketch, first, len(counters), None, False, missed))

    def _add(self, scale: Fraction, counters: Counters) -> None:
        self._exact.add_discrete_laplace(scale, counters)

    def fill_bernoulli(self, chance: Chance, bits: npt.NDArray[np.uint8]) -> None:
        """See `Entropy`."""
        if chance == self.later_chance:
            self._fill(chance, bits, np.full(len(bits), self.appearance))
            return
        number = len(self.draws)
        wanted = self._chosen(number).integers(0, 2, len(bits))
        wanted ^= np.abs(self.shifts.get(number, np.zeros(len(bits), np.int64)))
        self._fill(chance, bits, wanted)
        missed = tuple(np.flatnonzero(bits != wanted).tolist())
        # A release's flips may have the chance of a start. After its start a sketch is open.
        if self._open and chance == self.flip:
            self._open, first = False, 0
        else:
            if self._filled == 0:
                self.bases.append(None)
            first = self._filled
            self._filled = (self._filled + len(bits)) % self.tracked
            self._open = self._filled == 0
        sketch = len(self.bases) - 1
        self.draws.append(Draws(number, sketch, first, len(bits), chance, True, missed))

    def _fill(self, chance: Chance, bits: npt.NDArray[np.uint8], wanted: Integers) -> None:
        words = np.where(wanted != 0, np.uint64(ONE), np.uint64(ZERO))
        step = _at_once()
        parts = [words[start : start + step] for start in range(0, len(words), step)]
        self._draw(parts, lambda: self._exact.fill_bernoulli(chance, bits))

    def identifier(self) -> int:
        return 1

    def fill_words(self, words: Words) -> None:
        """See `KeyEntropy`."""
        words[:] = self._chosen(-1).integers(0, 1 << 63, len(words), np.uint64)

    def _chosen(self, number: int) -> np.random.Generator:
        """The same for every run of one seed, independent of earlier draws."""
        return np.random.default_rng((self.seed, number + 1))

    def _draw(self, parts: list[Words], draw: Any) -> None:
        self._words.begin(parts)
        draw()
        self._words.begin([])

    def _address(self, counters: Any) -> tuple[int, int]:
        """The sketch whose counters these are, and the place of the first one. A reference is kept,
        so that no other sketch gets the same memory."""
        if self.tracked:
            return len(self.bases) - 1, 0
        base = counters if counters.base is None else counters.base
        known = [sketch for sketch, other in enumerate(self.bases) if other is base]
        if not known:
            self.bases.append(base)
        sketch = known[0] if known else len(self.bases) - 1
        apart = counters.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        return sketch, apart // counters.itemsize


def scripted(begin: Any) -> Any:
    """`WindowMasks.begin_epoch` of production, with its masks in the script's record."""

    def begin_epoch(self: Any, rng: Any, counters: Counters, last: bool = False) -> None:
        rng.add_masks(counters, lambda: begin(self, rng, counters, last))

    return begin_epoch


def _listed(first: int, addresses: tuple[int, ...]) -> str:
    return ", ".join(
        [str(first + place) for place in addresses[:3]] + ["..."] * (len(addresses) > 3)
    )


def _at_once() -> int:
    """Number of draws of the sampler in one block."""
    return 4096
