"""Exact privacy loss of masked counters: the joint law of all that the adversary sees.

Every tape of the honest keeper's masks is run through production code, or follows from the tapes
that were run: see `_every_tape`. Noise is added to each counter of an answer. So its exact law,
discrete Laplace modulo the toy's modulus, is folded into that of the answers' sums. Other memory of
the sketch must not depend on masks or readings at all.
"""

from collections.abc import Callable, Iterator
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
    two_levels,
)

CLAIM = SPEC.guarantee.epsilon
SAMPLED_TAPES = 3  # of each story: memory beside the counters is compared over these
FEW_TAPES = 256  # Up to so many are run one by one, also by the quick audit.
OTHER_TAPES = 100  # Run beside those of at most two draws that are not zero.
# Refused questions, the scales of all noise, and how many counters and sums are seen.
Form = tuple[tuple[str, ...], tuple[Fraction, ...], int, int]
# By form: unnormalised probabilities, an axis for each counter and each sum.
Law = dict[Form, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Scenario:
    """The number of the adversary's snapshots, its questions to the honest keeper, and the modulus
    of the counters. Each snapshot is in an epoch of its own."""

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
    Scenario("two levels that share epsilon", 1, two_levels),
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
                laws[story] = law_of(mechanism, scenario, story, quick)
        loss = _ratio(*(laws[story] for story in pair))
        pairs += 1
        outcomes += sum(int(np.count_nonzero(each)) for each in laws[pair[0]].values())
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
    """The rest of the memory, over some tapes."""
    length = _run(mechanism, scenario, story, ()).drawn
    tapes = [(number,) * length for number in range(SAMPLED_TAPES)]
    return {_run(mechanism, scenario, story, tape, memory=True).rest for tape in tapes}


def law_of(mechanism: BlindedMechanism, scenario: Scenario, story: Story, quick: bool) -> Law:
    """Unnormalised probabilities of all outcomes; `quick`: see `_every_tape`."""
    modulus, length = scenario.modulus, _run(mechanism, scenario, story, ()).drawn

    def run(tape: tuple[int, ...]) -> tuple[Form, npt.NDArray[np.int64]]:
        seen = _run(mechanism, scenario, story, tape)
        counters = [each for snapshot in seen.counters for each in snapshot]
        sums = [each for values, _ in seen.answers for each in values]
        noises = (drawn or (Fraction(0),) * len(values) for values, drawn in seen.answers)
        scales = tuple(scale for drawn in noises for scale in drawn)
        return (seen.refused, scales, len(counters), len(sums)), np.array(counters + sums)

    law: Law = {}
    for form, values in _every_tape(run, modulus, length, quick):
        _, _, counters, sums = form
        held = law.setdefault(form, np.zeros((modulus,) * (counters + sums)))
        np.add.at(held, tuple(values.T), 1)
    return {form: _noisy(held, form[1], modulus) for form, held in law.items()}


def _every_tape(
    run: Callable[[tuple[int, ...]], tuple[Form, npt.NDArray[np.int64]]],
    modulus: int,
    length: int,
    quick: bool,
) -> Iterator[tuple[Form, npt.NDArray[np.int64]]]:
    """The view of every tape, int64[tapes, values] by form.

    Production adds masks to counters, so the view is an affine function of the tape, modulo
    `modulus`. `quick`: the function is read off the tapes with one draw of 1. It must predict all
    tapes with at most two draws that are not zero, and OTHER_TAPES more. These are values of every
    draw and of every pair of draws: no branch on them goes unseen. Any other mechanism, and any in
    the full audit, is run with every tape.
    """
    tapes = np.indices((modulus,) * length).reshape(length, -1).T
    if quick and len(tapes) > FEW_TAPES:
        others = np.random.default_rng(1).permutation(len(tapes))[:OTHER_TAPES]
        sample = [*tapes[np.count_nonzero(tapes, axis=1) <= 2], *tapes[others]]
        form, start = run((0,) * length)
        slopes = np.array([run(tuple(unit))[1] - start for unit in np.eye(length, dtype=int)])
        shown = (run(tuple(tape.tolist())) for tape in sample)
        if all(
            found == form and np.array_equal(values, (start + tape @ slopes) % modulus)
            for tape, (found, values) in zip(sample, shown, strict=True)
        ):
            yield form, (start + tapes @ slopes) % modulus
            return
    for tape in tapes.tolist():
        form, values = run(tuple(tape))
        yield form, values[np.newaxis]


def _noisy(
    held: npt.NDArray[np.float64], scales: tuple[Fraction, ...], modulus: int
) -> npt.NDArray[np.float64]:
    """The law of the sums, the last axes, with a draw added to each; of scale 0 there is none."""
    for axis, scale in enumerate(scales, held.ndim - len(scales)):
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
