"""The coupling: a run with a unit beside one without it, whose noise is shifted to hide the unit.

At each exposure (a snapshot or a release) the counters of both runs are compared. Draws absorb
their difference, address by address: those made after the last exposure of the sketch and before
this one. The probability of a draw that moves by d changes by at most exp(|d| / scale). So the unit
loses the sum of |d| / scale, as rationals. With all shifts in place both runs must then show the
same everywhere. The argument needs nothing else: shifting is a bijection of the draws, and it is
checked on the code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pansketch_audit.coupling.scripted_noise import Draws, Integers, ScriptedNoise

Name = tuple[str, int]  # a source, and which of its sketches


@dataclass(frozen=True)
class Exposure:
    """The view of an adversary at one moment.

    `counters`: of each sketch that shows, int64[n], as counts. `seen`: everything else, by its
    name; values are compared. `calls`: the number of draws of each source so far.
    """

    counters: Mapping[Name, Integers]
    seen: Mapping[str, object]
    calls: Mapping[str, int]


Noises = Mapping[str, ScriptedNoise]
Shifts = dict[str, dict[int, Integers]]
# Plays the run with the unit, or without it; the last argument: whether everything is looked at, or
# the counters alone, which takes less time.
Play = Callable[[bool, Noises, bool], list[Exposure]]
MakeNoises = Callable[[Shifts], Noises]


@dataclass(frozen=True)
class Coupling:
    """The result of a pair of runs.

    `loss`: the sum of |d| / scale over all draws of counters, exact. `shifted`: the number of draws
    that moved. `bare`: addresses that differ without a draw to hide it, an infinite loss.
    `differing`: all other differences.
    """

    loss: Fraction
    shifted: int
    bare: tuple[str, ...]
    differing: tuple[str, ...]

    @property
    def hidden(self) -> bool:
        return not self.bare and not self.differing


@dataclass
class _Search:
    """Finds the shifts, exposure by exposure."""

    play: Play
    make: MakeNoises
    shifts: Shifts = field(default_factory=dict)
    loss: Fraction = Fraction(0)
    shifted: int = 0
    bare: list[str] = field(default_factory=list)

    def run(self) -> Coupling:
        noises = self.make({})
        wanted = self.play(True, noises, True)
        found, other = self._without()
        faults = self._structure(noises, other, wanted, found)
        exposed: dict[Name, int] = {}
        for place, one in enumerate(wanted):
            if faults or self.bare:
                break
            if self._hide(one, found[place], exposed, other):
                found, other = self._without()
            exposed |= {name: one.calls[name[0]] for name in one.counters}
        unhidden = faults or self.bare
        differing = [] if unhidden else self._differing(wanted, self._without(True)[0])
        return Coupling(
            self.loss, self.shifted, (*dict.fromkeys((*faults, *self.bare)),), (*differing,)
        )

    def _without(self, everything: bool = False) -> tuple[list[Exposure], Noises]:
        noises = self.make(self.shifts)
        return self.play(False, noises, everything), noises

    def _structure(
        self, noises: Noises, other: Noises, wanted: list[Exposure], found: list[Exposure]
    ) -> list[str]:
        """The number, addresses and scales of draws must not depend on the unit."""
        faults = [fault for noise in noises.values() for fault in noise.faults]
        for name, noise in noises.items():
            if noise.draws != other[name].draws:
                faults.append(f"{name}: the draws differ")
        if [sorted(each.counters) for each in wanted] != [sorted(each.counters) for each in found]:
            faults.append("other sketches are released")
        return faults

    def _hide(
        self, one: Exposure, two: Exposure, exposed: Mapping[Name, int], noises: Noises
    ) -> bool:
        """Shifts draws of the run without the unit so that this exposure agrees."""
        moved = False
        for name, counters in one.counters.items():
            apart = counters - two.counters[name]
            addresses = np.flatnonzero(apart)
            if not len(addresses):
                continue
            noise, first = noises[name[0]], exposed.get(name, 0)
            draws = [
                each for each in noise.draws[first : one.calls[name[0]]] if each.sketch == name[1]
            ]
            moved = True
            for draw in reversed(draws):
                inside = addresses[
                    (addresses >= draw.first) & (addresses < draw.first + draw.count)
                ]
                if len(inside):
                    self._shift(name[0], draw, inside - draw.first, apart[inside])
                    addresses = np.setdiff1d(addresses, inside)
            if len(addresses):
                shown = ", ".join(map(str, addresses[:3].tolist()))
                self.bare.append(f"{name[0]}: counter {shown} has no draw of its own")
        return moved

    def _shift(self, source: str, draw: Draws, addresses: Integers, apart: Integers) -> None:
        shift = self.shifts.setdefault(source, {}).setdefault(
            draw.number, np.zeros(draw.count, np.int64)
        )
        shift[addresses] += apart
        self.shifted += len(addresses)
        if isinstance(draw.scale, Fraction):
            # Python integers: a hostile reading may move a broken counter by any amount.
            self.loss += Fraction(sum(map(abs, apart.tolist()))) / draw.scale

    @staticmethod
    def _differing(wanted: list[Exposure], found: list[Exposure]) -> list[str]:
        apart = []
        for one, two in zip(wanted, found, strict=True):
            apart += [
                what
                for what in dict.fromkeys((*one.seen, *two.seen))
                if one.seen.get(what) != two.seen.get(what)
            ]
            if any(
                (counters != two.counters[name]).any() for name, counters in one.counters.items()
            ):
                apart.append("counters: their noise is not their own")
        return [*dict.fromkeys(apart)]


def couple(play: Play, make: MakeNoises) -> Coupling:
    """Couples the run with a unit and the run without it.

    Raises nothing of its own: what a run raises is a fault of the harness.
    """
    return _Search(play, make).run()


def as_counts(sketch: object, held: npt.NDArray[np.generic]) -> Integers:
    """Counters of a sketch in memory as counts: a public bijection of them."""
    form = getattr(sketch, "_form", None)
    counts = held.copy()
    if form is not None:
        form.to_counts(counts)
    return counts.astype(np.int64)
