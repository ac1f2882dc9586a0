"""More bugs that the draws of a sketch show: in the sampler, in budgets, at an intrusion. Those of
`sampler_bugs` no sample shows: at 64 bits most change a probability by 2**-64.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from pansketch.randomness import LogOdds
from pansketch_audit.exact.sampler import SamplerFound, chances_found, laplace_found
from pansketch_audit.planted_bugs.bug import Bug, Make, draws_bugs, replaced
from pansketch_audit.planted_bugs.sceptic_draws import SAMPLER, SKETCH

WORD_BITS, WORDS = 6, 2
NOISE = "pansketch.randomness.exact_noise"


def _eight_bits(add: Any) -> Any:
    def _add_block(self: Any, digits: Any, scratch: Any, counters: Any) -> None:
        add(self, digits, scratch, counters)
        noise = scratch.cast
        counters -= noise - noise.astype(np.int8).astype(noise.dtype)

    return _add_block


def _positive(add: Any) -> Any:
    def add_discrete_laplace(self: Any, scale: Any, counters: Any) -> None:
        before = counters.copy()
        add(self, scale, counters)
        counters[:] = before + np.abs(counters - before)

    return add_discrete_laplace


def _whole_epsilon(_: Any) -> Any:
    return property(lambda self: self.epsilon_micro)


def _count_for_nothing(derive: Any) -> Any:
    def _derive_tables(self: Any, shares: Any) -> Iterator[Any]:
        yield from derive(self, [share / Fraction(19, 20) for share in shares])

    return _derive_tables


def _without_draw(_: Any) -> Any:
    return lambda self, rng: self._check_open()


def _first_block_only(_: Any) -> Any:
    def rerandomise(self: Any, rng: Any) -> None:
        self._to_counts()
        first = self._spec.blocks[0]
        rng.add_discrete_laplace(self._spec.scales[0], self._counters[:first])
        self._draws += 1
        self._from_counts()

    return rerandomise


def _less_for_many(add: Any) -> Any:
    def added(self: Any, rng: Any) -> None:
        spec, start = self._spec, 0
        many = self._closed and int(np.abs(self._counters).sum()) % 2
        for size, scale in zip(spec.blocks, spec.scales, strict=True):
            part = self._counters[start : start + size]
            rng.add_discrete_laplace(scale / 2 if many else scale, part)
            start += size
        self._draws += 1

    return added


def _sines_twice(unpack: Any) -> Any:
    def _unpack(self: Any, counters: Any) -> None:
        unpack(self, counters)
        half = counters[self._count :]
        np.add(half, self._sines, out=half)

    return _unpack


def _doubled_odds(chances: Any) -> Any:
    def doubled(self: Any) -> tuple[Any, ...]:
        return tuple(
            LogOdds(2 * each.value) if isinstance(each, LogOdds) else each
            for each in chances.fget(self)
        )

    return property(doubled)


def _rejected_counted(update: Any) -> Any:
    def update_many(self: Any, readings: Any) -> None:
        self._rejected = getattr(self, "_rejected", 0) + int(np.isnan(readings).any(axis=1).sum())
        update(self, readings)

    return update_many


def further_draws() -> list[Bug]:
    """Ten more of the kind."""
    tables = "pansketch.sketches.cells:CellsSpec._derive_tables"
    unpack = "pansketch.sketches.moments.fourier:FourierSums._unpack"
    chances = "pansketch.sketches.distinct.spec:DistinctSpec.chances"
    drawn = {
        "noise-8-bits": ("noise cut to 8 bits", "moments", f"{SAMPLER}._add_block", _eight_bits),
        "noise-positive": (
            "noise of one sign",
            "hierarchy",
            f"{SAMPLER}.add_discrete_laplace",
            _positive,
        ),
        "span-whole-epsilon": (
            "each reading of a span with the whole epsilon",
            "guided cells",
            "pansketch.privacy:Guarantee.reading_micro",
            _whole_epsilon,
        ),
        "count-for-nothing": (
            "the number of readings beside a budget that is spent",
            "cells",
            tables,
            _count_for_nothing,
        ),
        "intrusion-no-draw": (
            "no fresh noise at an announced intrusion",
            "views",
            f"{SKETCH}.rerandomise",
            _without_draw,
        ),
        "intrusion-one-block": (
            "fresh noise of an announced intrusion on one block",
            "views",
            f"{SKETCH}.rerandomise",
            _first_block_only,
        ),
        "scale-by-count": (
            "less noise for some counts",
            "hierarchy",
            f"{SKETCH}._add_noise",
            _less_for_many,
        ),
        "sines-twice": ("sines added twice", "moments, rff", unpack, _sines_twice),
        "odds-doubled": ("bits of twice the log odds", "distinct", chances, _doubled_odds),
        "rejected-counted": (
            "dropped readings counted in the sketch",
            "views",
            f"{SKETCH}.update_many",
            _rejected_counted,
        ),
    }
    return draws_bugs(drawn)


def _biased_row(geometric: Any) -> Any:
    def biased(scale: Fraction, word_bits: int = 64) -> Any:
        (weight, digit), *others = geometric(scale, word_bits)
        table = digit.table.copy()
        table[0] += np.uint64(1)
        return ((weight, replace(digit, table=table)), *others)

    return biased


def _table_alone(resolve: Any) -> Any:
    """The effect of a sampler with a table of finite precision."""
    return lambda self, first, words: int(np.searchsorted(self.table, first, side="right"))


def _one_above(threshold: Any) -> Any:
    return lambda chance, word_bits=64: np.uint64(min(threshold(chance, word_bits) + 1, 63))


class _Same:
    """`Words` that were read before."""

    def __init__(self, read: Any) -> None:
        self._read = read

    def fill(self, words: Any) -> None:
        words[:] = self._read if len(words) == len(self._read) else 0  # a tie reads on


def _same_words(draw: Any) -> Any:
    def _draw_digit(self: Any, digit: Any, scratch: Any) -> None:
        words, read = self._words, vars(self).get("_read")
        if read is not None:
            self._words = _Same(read)
            draw(self, digit, scratch)
            self._words, self._read = words, None
            return
        draw(self, digit, scratch)
        self._read = scratch.words.copy()

    return _draw_digit


def _laplace() -> SamplerFound:
    return laplace_found(Fraction(1), WORD_BITS, WORDS)


def _bits() -> SamplerFound:
    return chances_found(WORD_BITS, WORDS)


def _enumerated(where: str, make: Make, found: Callable[[], SamplerFound]) -> tuple[bool, str]:
    with replaced(where, make):
        law = found()
    return not law.holds, str(law)


def sampler_bugs() -> list[Bug]:
    """By name: what is wrong, where, what takes its place, and the law that it changes."""
    listed: dict[str, tuple[str, str, Make, Callable[[], SamplerFound]]] = {
        "biased-row": (
            "one row of a table is a unit too large",
            f"{NOISE}:geometric",
            _biased_row,
            _laplace,
        ),
        "tie-by-table": (
            "a tie is decided without another word",
            "pansketch.randomness.geometric:Digit.resolve",
            _table_alone,
            _laplace,
        ),
        "same-words": (
            "two digits of one draw read the same words",
            f"{SAMPLER}._draw_digit",
            _same_words,
            _laplace,
        ),
        "biased-bit": (
            "a bit's threshold is a unit too large",
            f"{NOISE}:threshold",
            _one_above,
            _bits,
        ),
    }
    return [
        Bug(name, what, partial(_enumerated, where, make, found))
        for name, (what, where, make, found) in listed.items()
    ]
