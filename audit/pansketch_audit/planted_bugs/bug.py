"""What a planted bug is, and what some have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pansketch import Entropy
from pansketch.randomness import Chance, Counters, LogOdds, Ratio
from pansketch_audit.empirical.loss_lower_bound import claim_at, lower_bound, moments_of
from pansketch_audit.mechanisms.mechanism import Mechanism
from pansketch_audit.mechanisms.subjects import Subject

QUICK_RUNS = 1500


@dataclass(frozen=True)
class Bug:
    """A planted bug: what is wrong, and the part of the audit that must see it.

    `caught`: aims that part at the bug; returns whether the claim is refuted, and what was
    measured.
    """

    name: str
    what: str
    caught: Callable[[], tuple[bool, str]]


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
