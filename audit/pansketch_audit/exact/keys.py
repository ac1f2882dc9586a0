"""Exact privacy loss of sketches of keys, over every neighbouring pair of a tiny universe.

Probabilities come from `chain`. A loss is the largest difference of the logarithms of an outcome's
two probabilities, right to `TOLERANCE`. An outcome that only one of two streams can have is an
infinite loss.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from math import inf, log

from pansketch_audit.exact.markov_chain import Chain, Memory, Shares
from pansketch_audit.exact.neighbouring_keys import (
    INTRUSION,
    KeySequence,
    Script,
    key_neighbours,
    single_actions,
)
from pansketch_audit.mechanisms.mechanism import Mechanism, View
from pansketch_audit.mechanisms.subjects import Subject

TOLERANCE = 1e-9


@dataclass(frozen=True)
class KeyLoss:
    """The largest log-ratio, the numbers of pairs and outcomes, and the pair that has it. A pair is
    of streams, or of memories before and after one appearance."""

    value: float
    pairs: int
    outcomes: int
    worst: tuple[object, object] | None


@dataclass(frozen=True)
class Range:
    """The least and the largest log-ratio of two distributions, and over how many outcomes."""

    low: float
    high: float
    outcomes: int

    @property
    def loss(self) -> float:
        return max(abs(self.low), abs(self.high))

    def times(self, ratio: float) -> "Range":
        """Of the joint distributions with an outcome that has this log-ratio itself."""
        return Range(self.low + ratio, self.high + ratio, self.outcomes)


NOTHING_PUBLISHED = Range(0.0, 0.0, 1)
IMPOSSIBLE = Range(-inf, inf, 1)


class KeyLosses:
    """The losses of one mechanism and subject in each view; they share what was enumerated."""

    def __init__(self, mechanism: Mechanism, subject: Subject) -> None:
        self._subject, self._chain = subject, Chain(mechanism, subject)
        self._later: dict[tuple[Script, Script], dict[Memory, Range]] = {}

    def largest(self, view: View, quick: bool = False, enough: float = inf) -> KeyLoss:
        """Over all of `key_neighbours`. `enough`: a loss beyond it ends the search."""
        if view == "release":
            return self._of_one_call()
        value, pairs, outcomes, worst = 0.0, 0, 0, None
        for pair in key_neighbours(self._subject, quick):
            found = self.of_pair(view, *pair)
            pairs, outcomes = pairs + 1, outcomes + found.outcomes
            if found.loss > value:
                value, worst = found.loss, pair
            if value > enough:
                break
        return KeyLoss(value, pairs, outcomes, worst)

    def of_pair(self, view: View, one: KeySequence, other: KeySequence) -> Range:
        """The log-ratios of everything that is seen of two streams."""
        if view == "published":
            start = self._chain.after(())
            return self._later_from(start, one.before + one.after, other.before + other.after)
        left, right = self._chain.after(one.before), self._chain.after(other.before)
        if left.keys() != right.keys():
            return IMPOSSIBLE
        seen = self._after_snapshot(view, one.after, other.after, left)
        joint = [seen[memory].times(log(left[memory] / right[memory])) for memory in left]
        return Range(
            min(each.low for each in joint),
            max(each.high for each in joint),
            sum(each.outcomes for each in joint),
        )

    def _after_snapshot(
        self, view: View, one: Script, other: Script, memories: Iterable[Memory]
    ) -> dict[Memory, Range]:
        """The log-ratios of what is published after a snapshot that showed each of `memories`."""
        if view == "terminal":
            return dict.fromkeys(memories, NOTHING_PUBLISHED)
        if view == "known":
            one, other = (INTRUSION, *one), (INTRUSION, *other)
        known = self._later.setdefault((one, other), {})
        for memory in memories:
            if memory not in known:
                known[memory] = self._later_from({memory: 1.0}, one, other)
        return known

    def _of_one_call(self) -> KeyLoss:
        """Loss by a release alone between two memories, one of which a call for one key can turn
        into the other."""
        value, pairs, outcomes, worst = 0.0, 0, 0, None
        for action, memory in product(single_actions(self._subject), self._chain.memories):
            for reached in self._chain.step(memory, action):
                found = self._compared(self._chain.release(memory), self._chain.release(reached))
                pairs, outcomes = pairs + 1, outcomes + found.outcomes
                if found.loss > value:
                    value, worst = found.loss, (memory, reached)
        return KeyLoss(value, pairs, outcomes, worst)

    def _later_from(self, start: Shares, one: Script, other: Script) -> Range:
        return self._compared(
            *(self._chain.published_after(start, script) for script in (one, other))
        )

    def _compared(self, one: Shares, other: Shares) -> Range:
        """The log-ratios of releases of which all origins are enumerated."""
        wires = self._chain.complete & (one.keys() | other.keys())
        if not wires <= one.keys() & other.keys():
            return IMPOSSIBLE
        ratios = [log(one[wire] / other[wire]) for wire in wires]
        return Range(min(ratios), max(ratios), len(ratios))
