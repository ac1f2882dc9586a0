"""Coupled runs of one sketch: any spec, any reading, alone and in batches, before and after an
announced intrusion and an unnoticed snapshot.

A case is a window's history. The unit's readings are among others, in a batch of some size, at some
position. The unit's loss is at most epsilon, exactly.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pansketch import DistinctSpec, Spec, WindowId, decode, encode
from pansketch.privacy import MICRO, readings_of
from pansketch.randomness import LogOdds
from pansketch_audit.coupling.coupled_runs import (
    Coupling,
    Exposure,
    Noises,
    Shifts,
    as_counts,
    couple,
)
from pansketch_audit.coupling.hostile import hostile_readings, ordinary_readings
from pansketch_audit.coupling.scripted_noise import Integers, ScriptedNoise
from pansketch_audit.mechanisms.mechanism import memory_of

SIZES = (1, 2, 8, 9, 16, 17, 100, 1000)
WINDOW = WindowId("device", "stream", 1, 0, 60)
SOURCE = "sketch"
# So few of twice as many fall into the same slots again with a probability of 2e-9.
MAX_KEYS, MIN_KEYS = 512, 16

Rows = npt.NDArray[Any]
Event = Literal["announce", "snapshot"]


@dataclass(frozen=True)
class RowBatch:
    """Rows that are absorbed in one call. `units`: the positions of the unit's readings."""

    rows: Rows
    units: tuple[int, ...] = ()

    def given(self, with_unit: bool) -> Rows:
        return self.rows.copy() if with_unit else np.delete(self.rows, self.units, axis=0)


Case = tuple[RowBatch | Event, ...]


@dataclass(frozen=True)
class DrawResult:
    """The worst of all cases of a spec: `loss` in units of epsilon, and what was not hidden."""

    spec: Spec
    cases: int
    loss: Fraction
    problems: tuple[str, ...]

    @property
    def allowed(self) -> Fraction:
        return Fraction(self.spec.guarantee.epsilon_micro, MICRO)

    @property
    def holds(self) -> bool:
        return not self.problems and self.loss <= self.allowed

    def __str__(self) -> str:
        if self.problems:
            return f"not hidden: {'; '.join(self.problems[:2])}; {self.cases} runs"
        share = self.loss / self.allowed
        slack = float(1 - share)
        how = (
            "equality reached"
            if share == 1
            else f"slack {slack:.3g}"
            if share < 1
            else f"exceeded, {float(share):.4g} times"
        )
        return f"{how}; {self.cases} coupled runs"


def play(
    spec: Any, case: Case, with_unit: bool, noises: Noises, everything: bool
) -> list[Exposure]:
    """One run of one sketch through a history, with a spec that no other run has used."""
    noise, spec = noises[SOURCE], deepcopy(spec)
    sketch = spec.start(noise)
    exposures = []

    def expose(what: str) -> None:
        seen = {f"memory at the {what}": memory_of(sketch, noise) if everything else b""}
        exposures.append(Exposure({(SOURCE, 0): counts_of(sketch)}, seen, {SOURCE: noise.calls}))

    for step in case:
        if isinstance(step, RowBatch):
            rows = step.given(with_unit)
            if len(rows):
                sketch.update_many(rows)
        elif step == "announce":
            expose("announced intrusion")
            sketch.rerandomise(noise)
        else:
            expose("snapshot")
    # A release without noise of its own follows from the bits, whose noise hides the unit.
    keys = isinstance(spec, DistinctSpec) and spec.guarantee.intrusion == "announced"
    bits = counts_of(sketch) if keys else None
    wire = encode(sketch.release(noise, WINDOW))
    seen = {"wire": wire, "memory after the release": memory_of(sketch, noise)}
    counters = decode(wire, spec).counters if bits is None else bits
    exposures.append(Exposure({(SOURCE, 0): counters}, seen, {SOURCE: noise.calls}))
    return exposures


def counts_of(sketch: Any) -> Integers:
    """Return the contents of a sketch's memory: counts with noise, or the bit of each slot."""
    if hasattr(sketch, "_bits"):
        bits = np.unpackbits(sketch._bits, count=sketch._spec.tracked)
        return np.asarray(bits.astype(np.int64))
    return as_counts(sketch, sketch._counters)


def noise_for(spec: Spec, seed: int, shifts: Shifts, appearance: int = 1) -> Noises:
    """The scripted noise of one sketch."""
    moved = shifts.get(SOURCE, {})
    if isinstance(spec, DistinctSpec):
        noise = ScriptedNoise(seed, moved, spec.chances[1], spec.flip, spec.tracked, appearance)
        return {SOURCE: noise}
    return {SOURCE: ScriptedNoise(seed, moved)}


def coupled(spec: Spec, case: Case, seed: int) -> Coupling:
    return couple(partial(play, spec, case), partial(noise_for, spec, seed))


def audited(spec: Spec, seed: int, thorough: bool = True) -> DrawResult:
    """Couples every case of a spec. `seed`: of the readings and the noise, all of them public."""
    rng = np.random.default_rng(seed)
    worst, cases, problems = Fraction(0), 0, dict[str, None]()
    listed = (
        key_cases(spec, rng)
        if isinstance(spec, DistinctSpec)
        else reading_cases(spec, rng, thorough)
    )
    for case in listed:
        found = coupled(spec, case, int(rng.integers(1 << 30)))
        cases += 1
        problems |= dict.fromkeys((*found.bare, *found.differing))
        worst = max(worst, found.loss)
        if len(problems) > 3:
            break
    if isinstance(spec, DistinctSpec):
        worst = key_loss(spec)
        problems |= dict.fromkeys(window_problems(spec))
    return DrawResult(spec, cases, worst, (*problems,))


def reading_cases(spec: Any, rng: np.random.Generator, thorough: bool) -> Iterator[Case]:
    """Each hostile reading alone, then units among others in batches of each size class."""
    hostile = hostile_readings(spec.domain)
    rng.shuffle(hostile)
    events = _histories(spec)
    for number, row in enumerate(hostile if thorough else hostile[:8]):
        yield _case(events[number % len(events)], [RowBatch(row[None], (0,))], rng)
    count = readings_of(spec.guarantee.unit)
    for number, size in enumerate(SIZES):
        for kind in range(4 if thorough else 2):
            rows = ordinary_readings(spec.domain, size, rng)
            indices = tuple(rng.choice(size, min(count, size), replace=False).tolist())
            if kind % 2:
                rows[rng.integers(size)] = np.nan
            if kind >= 2 or size == 17:
                rows[list(indices)] = hostile[rng.integers(len(hostile), size=len(indices))]
            if kind == 3 or size == 16:
                rows[indices[0]] = np.nan
            yield _case(events[(number + kind) % len(events)], [RowBatch(rows, indices)], rng)
    if count > 1:
        yield from _straddling(spec, events, count, rng)


def _straddling(
    spec: Any, events: list[tuple[Event, ...]], count: int, rng: np.random.Generator
) -> Iterator[Case]:
    """The readings of a span before and after any event."""
    for history in events:
        rows = ordinary_readings(spec.domain, count, rng)
        before = int(rng.integers(count + 1))
        halves = [
            RowBatch(part, tuple(range(len(part)))) for part in (rows[:before], rows[before:])
        ]
        yield (halves[0], *history, halves[1])


def _histories(spec: Any) -> list[tuple[Event, ...]]:
    """The actions of an adversary in a window, by mode."""
    if spec.guarantee.intrusion == "silent":
        return [("snapshot",), ("announce", "snapshot"), ("announce", "announce", "snapshot"), ()]
    return [("announce",), (), ("announce", "announce")]


def _case(history: tuple[Event, ...], batches: list[RowBatch], rng: np.random.Generator) -> Case:
    """The batches at a random place of the history."""
    place = int(rng.integers(len(history) + 1))
    return (*history[:place], *batches, *history[place:])


def key_cases(spec: DistinctSpec, rng: np.random.Generator) -> Iterator[Case]:
    """A key among others, once and several times, before and after a snapshot."""
    highest = min(spec.universe or 1 << 63, 1 << 63)
    histories: list[tuple[Event, ...]] = [("snapshot",), ()]
    if spec.guarantee.intrusion == "announced":
        histories = [("announce",), ()]
    for number, size in enumerate(SIZES):
        for times in (1, min(3, size)):
            rows = rng.integers(0, highest, size).astype(np.uint64)
            indices = rng.choice(size, times, replace=False)
            key = np.uint64(rng.integers(highest))
            rows[rows == key] = (key + np.uint64(1)) % np.uint64(highest)
            rows[indices] = key
            unit = RowBatch(rows, tuple(indices.tolist()))
            yield _case(histories[(number + times) % 2], [unit], rng)
            if spec.guarantee.intrusion == "silent":
                yield (
                    unit,
                    "snapshot",
                    replace(
                        unit,
                        rows=unit.rows[::-1].copy(),
                        units=tuple(size - 1 - place for place in unit.units),
                    ),
                )


def key_loss(spec: DistinctSpec) -> Fraction:
    """Loss of a key in one window: by its bit plus by the noise of the release.

    The bit's chances are odds of e^a and e^-a: their ratio is e^a exactly. Others are compared as
    floats, rounded up.
    """
    first, later = spec.chances
    if isinstance(first, LogOdds) and isinstance(later, LogOdds) and first.value == -later.value:
        state = abs(later.value)
    else:
        one, two = (Fraction(chance.probability) for chance in (first, later))
        state = max(_log_above(one, two), _log_above(1 - one, 1 - two))
    draws = released_noise(spec)
    if draws is None:
        return state
    return state + (abs(draws.value) if isinstance(draws, LogOdds) else 1 / draws)


def released_noise(spec: DistinctSpec) -> Any:
    """The scale or the chance of what a release adds, as it is drawn; None if it adds nothing."""
    noise = noise_for(spec, 1, {})[SOURCE]
    sketch = spec.start(noise)
    before = noise.calls
    sketch.release(noise, WINDOW)
    return noise.draws[before].scale if noise.calls > before else None


def _log_above(one: Fraction, two: Fraction) -> Fraction:
    """|log(one / two)|, up to the error of a float's logarithm."""
    ratio = float(max(one, two) / min(one, two))
    return Fraction(float(np.log(ratio)))


def window_problems(spec: DistinctSpec) -> Iterator[str]:
    """Windows w and w + 1: no key can be followed, and all devices have the same slots."""
    this, other, again = (spec.for_window(index) for index in (7, 8, 7))
    if this.hash_key in (other.hash_key, spec.hash_key):
        yield "keys have the same slots in every window: they can be followed"
    if this != again:
        yield "devices have other slots in the same window"
    # Half of the keys: all keys of a universe fill all slots in every window.
    keys = np.arange(min(spec.universe or MAX_KEYS, MAX_KEYS) // 2, dtype=np.uint64)
    if len(keys) >= MIN_KEYS and slots_of(this, keys) == slots_of(other, keys):
        yield "keys fall into the same slots in two windows"


def slots_of(spec: DistinctSpec, keys: Rows) -> tuple[int, ...]:
    """The addresses of bits that appearances of some keys set, with noise that leaves all others
    0."""
    noise = noise_for(spec, 1, {})[SOURCE]
    sketch: Any = spec.start(noise)
    sketch._bits.fill(0)
    sketch.update_many(keys.copy())
    return tuple(np.flatnonzero(counts_of(sketch)).tolist())
