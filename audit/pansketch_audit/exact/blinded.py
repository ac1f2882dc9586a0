"""Exact privacy loss of masked counters: the joint law of all that the adversary sees.

Every tape of the honest keeper's masks is run through production code. Noise is added to each
counter of an answer, so its exact law, discrete Laplace modulo the toy's modulus, is folded into
that of the answers' sums. Other memory of the sketch must not depend on masks or readings at all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import exp, inf
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch_audit.mechanisms.blinded import (
    SPEC,
    UNIVERSE,
    Ask,
    BlindedMechanism,
    Seen,
    Story,
    again,
    another_level,
    another_number,
    observe_blinded,
    once,
    twice_in_one,
)

CLAIM = SPEC.guarantee.epsilon
SAMPLED_TAPES = 3  # of each story: memory beside the counters is compared over these
Law = dict[Any, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Scenario:
    """How many snapshots the adversary takes, each in an epoch of its own, what it asks the honest
    keeper, and the modulus of the counters."""

    name: str
    snapshots: int
    ask: Ask
    bits: int = 2

    @property
    def modulus(self) -> int:
        return 1 << self.bits


SCENARIOS = (
    Scenario("two snapshots in different epochs", 2, once),
    Scenario("one snapshot, 3 bits", 1, once, 3),
    Scenario("the question again", 1, again),
    Scenario("another level", 1, another_level),
    Scenario("another sequence number", 1, another_number),
    Scenario("a window listed twice", 1, twice_in_one),
)


@dataclass(frozen=True)
class BlindedLoss:
    """The largest log-ratio of two neighbouring stories' laws, over how many pairs and outcomes."""

    value: float
    pairs: int
    outcomes: int
    worst: tuple[Story, Story] | None


def pairs_of(scenario: Scenario, quick: bool) -> Iterator[tuple[Story, Story]]:
    """Stories that differ by one reading, at every moment: of every value, and with one snapshot
    also beside another reading; `quick`: of one value, alone."""
    moments, values = range(2 * scenario.snapshots), range(1 if quick else len(UNIVERSE))
    others: list[tuple[int, int] | None] = [None]
    others += product(moments, values) if not quick and scenario.snapshots == 1 else ()
    for other, moment, value in product(others, moments, values):
        story: list[tuple[int, ...]] = [()] * len(moments)
        if other is not None:
            story[other[0]] = (other[1],)
        without = tuple(story)
        story[moment] = (*story[moment], value)
        yield without, tuple(story)


def blinded_loss(
    mechanism: BlindedMechanism, scenario: Scenario, quick: bool = False, enough: float = inf
) -> BlindedLoss:
    """Over all of `pairs_of`. `enough`: a loss beyond it ends the search."""
    laws: dict[Story, Law] = {}
    kept: set[Any] = set()
    value, pairs, outcomes, worst = 0.0, 0, 0, None
    for pair in pairs_of(scenario, quick):
        for story in pair:
            kept |= _kept(mechanism, scenario, story) if story not in laws else set()
            if len(kept) > 1:  # Masks or readings show in other memory than the counters.
                return BlindedLoss(inf, pairs + 1, outcomes, pair)
            if story not in laws:
                laws[story] = _law(mechanism, scenario, story)
        loss = _ratio(*(laws[story] for story in pair))
        pairs += 1
        outcomes += sum(each.size for each in laws[pair[0]].values())
        if loss > value:
            value, worst = loss, pair
        if value > enough:
            break
    return BlindedLoss(value, pairs, outcomes, worst)


def _run(
    mechanism: BlindedMechanism,
    scenario: Scenario,
    story: Story,
    tape: tuple[int, ...],
    memory: bool = False,
) -> Seen:
    return observe_blinded(mechanism, story, scenario.ask, scenario.modulus, tape, memory)


def _kept(mechanism: BlindedMechanism, scenario: Scenario, story: Story) -> set[Any]:
    """What the rest of the memory is, over some tapes."""
    length = _run(mechanism, scenario, story, ()).drawn
    tapes = [(number,) * length for number in range(SAMPLED_TAPES)]
    return {_run(mechanism, scenario, story, tape, memory=True).rest for tape in tapes}


def _law(mechanism: BlindedMechanism, scenario: Scenario, story: Story) -> Law:
    """Unnormalised probabilities of all outcomes."""
    modulus, length = scenario.modulus, _run(mechanism, scenario, story, ()).drawn
    law: Law = {}
    for tape in product(range(modulus), repeat=length):
        seen = _run(mechanism, scenario, story, tape)
        sums = tuple(each for values, _ in seen.answers for each in values)
        noises = tuple(drawn or (Fraction(0),) * len(values) for values, drawn in seen.answers)
        scales = tuple(scale for drawn in noises for scale in drawn)
        key = seen.counters, seen.refused, scales
        if key not in law:
            law[key] = np.zeros((modulus,) * len(sums))
        law[key][sums] += 1
    return {key: _noisy(held, key[2], modulus) for key, held in law.items()}


def _noisy(
    held: npt.NDArray[np.float64], scales: tuple[Fraction, ...], modulus: int
) -> npt.NDArray[np.float64]:
    """The law of the sums with a draw added to each; of scale 0 there is none."""
    for axis, scale in enumerate(scales):
        if scale:
            kernel = wrapped(scale, modulus)
            held = sum(
                (chance * np.roll(held, shift, axis) for shift, chance in enumerate(kernel)),
                np.zeros_like(held),
            )
    return held


def wrapped(scale: Fraction, modulus: int) -> list[float]:
    """P(a discrete Laplace draw is r modulo `modulus`), for each r, by the geometric series."""
    q = exp(-float(1 / scale))
    norm = (1 - q) / (1 + q) / (1 - q**modulus)
    return [norm * (q**r + q ** (modulus - r)) for r in range(modulus)]


def _ratio(one: Law, other: Law) -> float:
    """The largest absolute log-ratio; infinite for what only one of two stories can show."""
    if one.keys() != other.keys():
        return inf
    largest = 0.0
    for key, left in one.items():
        right = other[key]
        if ((left > 0) != (right > 0)).any():
            return inf
        both = left > 0
        if both.any():
            largest = max(largest, float(np.abs(np.log(left[both] / right[both])).max()))
    return largest
