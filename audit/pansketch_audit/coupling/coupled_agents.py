"""A pair of agents: with the unit, and without it under shifted noise."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from pansketch.privacy import MICRO
from pansketch_audit.coupling.agent_runs import MEMORY, Step, play
from pansketch_audit.coupling.coupled_runs import Coupling, Exposure, Noises, Shifts, couple
from pansketch_audit.coupling.scripted_noise import Integers, ScriptedNoise
from pansketch_fleet.config.programs import AgentConfig
from pansketch_fleet.settings.settings import KeyStream


def noises_for(config: AgentConfig, seed: int, shifts: Shifts) -> Noises:
    found: dict[str, ScriptedNoise] = {}
    for number, stream in enumerate(config.streams):
        moved: Mapping[int, Integers] = shifts.get(stream.name, {})
        if isinstance(stream, KeyStream):
            spec = stream.spec
            chances = spec.chances[1], spec.flip
            found[stream.name] = ScriptedNoise(seed + number, moved, *chances, spec.tracked)
        else:
            found[stream.name] = ScriptedNoise(seed + number, moved)
    return found


@dataclass(frozen=True)
class AgentCase:
    """A configuration with what happens to it, and the stream that has the unit."""

    config: AgentConfig
    steps: tuple[Step, ...]
    stream: str
    seed: int

    @property
    def allowed(self) -> Fraction:
        """Epsilon that the unit spends in all sketches of its source."""
        (stream,) = (each for each in self.config.streams if each.name == self.stream)
        parts = self.config.parts(stream)
        return Fraction(sum(part.spec.guarantee.epsilon_micro for part in parts), MICRO)


def coupled_agent(case: AgentCase) -> tuple[Coupling, bool]:
    """Couple the two runs. The second value is true if the unit's loss is within its limit.

    Two runs without the unit come first. The first fills caches of public values. After the second
    the process must hold the same as after a run with the unit.
    """
    once = partial(play, case.config, case.steps)
    make = partial(noises_for, case.config, case.seed)
    once(False, make({}), False)
    before, after = once(False, make({}), True), list[list[Exposure]]()

    def kept(with_unit: bool, noises: Noises, everything: bool) -> list[Exposure]:
        exposures = once(with_unit, noises, everything)
        if with_unit:
            after.append(exposures)
        return exposures

    found = couple(kept, make)
    left = [
        what
        for one, two in zip(before, after[0], strict=True)
        for what in one.seen.keys() | two.seen.keys()
        if f"{MEMORY}module " in what and one.seen.get(what) != two.seen.get(what)
    ]
    found = replace(found, differing=(*found.differing, *sorted(left)))
    return found, found.hidden and found.loss <= case.allowed


def why(case: AgentCase, found: Coupling) -> str:
    """The result of a pair of agents, as one row of the report."""
    if found.bare or found.differing:
        return "; ".join((found.bare or found.differing)[:2])
    return f"sum of |d|/scale is {float(found.loss / case.allowed):.4g} times epsilon"
