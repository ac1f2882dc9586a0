"""Planted bugs, and code that several of them share."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch import Entropy
from pansketch.randomness import Chance, Counters, LogOdds, Ratio
from pansketch_audit.coupling.agent_cases import agent_cases
from pansketch_audit.coupling.coupled_agents import coupled_agent, why
from pansketch_audit.coupling.hostile import FAMILIES, random_specs
from pansketch_audit.coupling.sketch_runs import audited
from pansketch_audit.empirical.loss_lower_bound import claim_at, lower_bound, moments_of
from pansketch_audit.mechanisms.mechanism import Mechanism
from pansketch_audit.mechanisms.subjects import Subject

QUICK_RUNS = 1500
SEED = 20  # Of the specs, agents and readings that a planted bug is shown: public.
AGENTS = 10


@dataclass(frozen=True)
class Bug:
    """A planted bug: what is wrong, and the part of the audit that must see it.

    `caught`: aims that part at the bug; returns whether the claim is refuted, and what was
    measured. `part`: its name.
    """

    name: str
    what: str
    caught: Callable[[], tuple[bool, str]]
    part: str = "exact"


def _same_scale(scale: Fraction) -> Fraction:
    return scale


def _same_chance(chance: Chance) -> Chance:
    return chance


@dataclass(frozen=True)
class Altered:
    """An `Entropy` that draws other noise than it is asked for."""

    rng: Entropy
    scale: Callable[[Fraction], Fraction] = _same_scale
    chance: Callable[[Chance], Chance] = _same_chance

    def add_discrete_laplace(self, scale: Fraction, counters: Counters) -> None:
        self.rng.add_discrete_laplace(self.scale(scale), counters)

    def fill_bernoulli(self, chance: Chance, bits: npt.NDArray[np.uint8]) -> None:
        self.rng.fill_bernoulli(self.chance(chance), bits)

    def identifier(self) -> int:
        return self.rng.identifier()


def halved(rng: Entropy) -> Altered:
    """Noise of half the scale asked for, and bits of twice the log odds."""
    return Altered(rng, lambda scale: scale / 2, _doubled)


def _doubled(chance: Chance) -> Chance:
    """The chance of twice the log odds: its odds are squared."""
    if isinstance(chance, LogOdds):
        return LogOdds(2 * chance.value)
    yes, no = chance.value**2, (1 - chance.value) ** 2
    return Ratio(yes / (yes + no))


def times_the_claim(ratios: list[float]) -> tuple[bool, str]:
    """Exact losses, each divided by what is allowed: caught when one is above 1."""
    return max(ratios) > 1 + 1e-9, f"exact loss {max(ratios):.3g} times the claim"


def sampled(mechanism: Mechanism, subject: Subject) -> tuple[bool, str]:
    """Runs the mechanism with real entropy: caught when even the lower bound is above the claim.
    One moment that refutes it is enough."""
    bound, allowed = 0.0, 1.0
    for when in moments_of(subject):
        found = lower_bound(mechanism, subject, when, QUICK_RUNS).epsilon
        claimed = float(claim_at(subject, when))
        if found / claimed >= bound / allowed:
            bound, allowed = found, claimed
        if bound > allowed:
            break
    return bound > allowed, f"loss at least {bound:.3g} in {QUICK_RUNS} runs, claimed {allowed:g}"


@contextmanager
def replaced(where: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """A name of the product is another object meanwhile: `module:Class.method`, made from what it
    was. Specs and agents that are built before are not affected."""
    module, _, path = where.partition(":")
    *outer, name = path.split(".")
    owner = reduce(getattr, outer, import_module(module))
    before = vars(owner)[name]
    setattr(owner, name, make(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


def in_draws(family: str, *patches: AbstractContextManager[None]) -> tuple[bool, str]:
    """Couples sketches of a family in a patched product, until one is refuted."""
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        for name, spec in random_specs(SEED, 3 * FAMILIES):
            if name.startswith(family):
                found = audited(spec, SEED, thorough=False)
                if not found.holds:
                    return True, f"{name}: {found}"
    return False, f"all draws of {family} hold"


def in_agent(first: int, *patches: AbstractContextManager[None]) -> tuple[bool, str]:
    """Couples agents in a patched product, beginning with the case `first`, until one differs."""
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        folder = Path(stack.enter_context(TemporaryDirectory()))
        for case in agent_cases(SEED, AGENTS, folder, first):
            found, holds = coupled_agent(case)
            if not holds:
                return True, why(case, found)
    return False, f"{AGENTS} agents are alike"


Make = Callable[[Any], Any]
Targets = list[tuple[str, Make]]


def draws_bugs(found: dict[str, tuple[str, str, str, Make]]) -> list[Bug]:
    """By name: what is wrong, a family that has it, where it is and what takes its place."""
    return [
        Bug(name, what, partial(_drawn, family, where, make), "draws")
        for name, (what, family, where, make) in found.items()
    ]


def agent_bugs(found: dict[str, tuple[str, int, Targets]]) -> list[Bug]:
    """By name: what is wrong, the first case that may show it, and what takes what place."""
    return [
        Bug(name, what, partial(_caught_in_agent, first, targets), "agent")
        for name, (what, first, targets) in found.items()
    ]


def _drawn(family: str, where: str, make: Make) -> tuple[bool, str]:
    return in_draws(family, replaced(where, make))


def _caught_in_agent(first: int, targets: Targets) -> tuple[bool, str]:
    return in_agent(first, *(replaced(where, make) for where, make in targets))
