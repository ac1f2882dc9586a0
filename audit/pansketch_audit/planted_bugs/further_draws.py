"""More bugs that the draws of a sketch show: in the sampler, in budgets, at an intrusion."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from pansketch.randomness import LogOdds
from pansketch_audit.planted_bugs.bug import Bug, draws_bugs
from pansketch_audit.planted_bugs.sceptic_draws import SAMPLER, SKETCH


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
