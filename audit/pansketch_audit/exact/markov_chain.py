"""Production code of a sketch of keys as a Markov chain over its memories.

Every appearance draws a key's bit again, so the tapes of a hundred appearances cannot be listed.
But a sketch's next step depends on nothing but its memory and its draws. So each call is made once
from each reachable memory, under every outcome of its draws. Streams of any length follow by
multiplying and adding probabilities, none of them negative. So even a small probability is right to
about twelve digits.

To find every outcome, the code runs repeatedly with an `Entropy` that dictates its draws. The
number of draws, and whether they depend on earlier ones, need not be known beforehand. A run that
requests one more draw than it was given gets the first outcome, and later runs get the others.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import exp
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pansketch import Sketch
from pansketch.randomness import Chance, Counters, LogOdds
from pansketch_audit.exact.neighbouring_keys import Action, Script
from pansketch_audit.mechanisms.mechanism import Mechanism, memory_of
from pansketch_audit.mechanisms.subjects import Subject

T = TypeVar("T")
Memory = bytes
Wire = bytes
Shares = dict[bytes, float]


class Dictated:
    """An `Entropy` whose draws are given: `made[i]` is the way that draw i turns out.

    A bit has one of two outcomes. Discrete Laplace noise has any outcome from -reach to reach; the
    probability of outcomes beyond is left out. `probability` is that of the draws since `forget`,
    `furthest` the largest noise among them.
    """

    def __init__(self, made: tuple[int, ...], reach: int) -> None:
        self.made = list(made)
        self._ways: list[int] = []
        self._reach = reach
        self.forget()

    def forget(self) -> None:
        self.probability, self.furthest = 1.0, 0

    def fill_bernoulli(self, chance: Chance, bits: npt.NDArray[np.uint8]) -> None:
        probabilities = both(chance)
        for place in range(len(bits)):
            bits[place] = self._draw(2)
            self.probability *= probabilities[bits[place]]

    def add_discrete_laplace(self, scale: Fraction, counters: Counters) -> None:
        ratio = exp(-1 / scale)
        for place in range(len(counters)):
            noise = self._draw(2 * self._reach + 1) - self._reach
            counters[place] += noise
            self.probability *= (1 - ratio) / (1 + ratio) * ratio ** abs(noise)
            self.furthest = max(self.furthest, abs(noise))

    def identifier(self) -> int:
        return 1

    def _draw(self, ways: int) -> int:
        place = len(self._ways)
        self._ways.append(ways)
        if place == len(self.made):
            self.made.append(0)
        return self.made[place]

    def successor(self, given: int) -> tuple[int, ...] | None:
        """The draws of the next run; the first `given` stay as they are. None after the last."""
        made = list(self.made)
        while len(made) > given and made[-1] + 1 == self._ways[len(made) - 1]:
            made.pop()
        if len(made) == given:
            return None
        made[-1] += 1
        return tuple(made)


def every_way(
    run: Callable[[Dictated], T], reach: int = 0, given: tuple[int, ...] = ()
) -> Iterator[tuple[T, Dictated]]:
    """Every result of `run` that can occur, with the draws that lead to it.

    `given`: how the first draws turn out in all runs.
    """
    made: tuple[int, ...] | None = given
    while made is not None:
        draws = Dictated(made, reach)
        result = run(draws)
        if draws.probability > 0:
            yield result, draws
        made = draws.successor(len(given))


def both(chance: Chance) -> tuple[float, float]:
    """The probabilities of 0 and of 1, each to the last digits even where it is tiny."""
    if isinstance(chance, LogOdds):
        return LogOdds(-chance.value).probability, chance.probability
    return float(1 - chance.value), chance.probability


MARGIN = 1


class Chain:
    """A mechanism's memories, and the probabilities with which its calls lead from one to another.

    A count is released with unbounded noise. It is enumerated out to the number of slots and
    `MARGIN` beyond. So a release made by noise of at most MARGIN has all its origins: these are
    `complete`. A release further out needs no enumeration. From the lowest count downwards, and
    from the highest upwards, all origins' shares fall at one rate, and no ratio changes.
    """

    def __init__(self, mechanism: Mechanism, subject: Subject) -> None:
        self._mechanism, self._subject = mechanism, subject
        first = mechanism.start(subject.spec, Dictated((), 0))
        self._reach = len(subject.counts(first)) + MARGIN
        # The path to each memory: the calls, and the draws made from the start to their end.
        self._recipes: dict[Memory, tuple[Script, tuple[int, ...]]] = {}
        self._steps: dict[tuple[Memory, Action], Shares] = {}
        self._releases: dict[Memory, Shares] = {}
        self._reached: dict[Script, Shares] = {(): self._begin()}
        self.complete: set[Wire] = set()

    @property
    def memories(self) -> tuple[Memory, ...]:
        return tuple(self._recipes)

    def step(self, memory: Memory, action: Action) -> Shares:
        """The memories that a call leads to."""
        if (memory, action) not in self._steps:
            shares: Shares = {}
            actions, _ = self._recipes[memory]

            def call(sketch: Sketch, draws: Dictated) -> Memory:
                action.on(sketch, self._subject, draws)
                return memory_of(sketch, draws)

            for reached, draws in self._ways(memory, call):
                self._recipes.setdefault(reached, ((*actions, action), tuple(draws.made)))
                shares[reached] = shares.get(reached, 0.0) + draws.probability
            self._steps[memory, action] = shares
        return self._steps[memory, action]

    def release(self, memory: Memory) -> Shares:
        """The bytes that a memory is published as."""
        if memory not in self._releases:
            shares: Shares = {}

            def publish(sketch: Sketch, draws: Dictated) -> Wire:
                return self._mechanism.publish(sketch, draws, 0)

            for wire, draws in self._ways(memory, publish):
                shares[wire] = shares.get(wire, 0.0) + draws.probability
                if draws.furthest <= MARGIN:
                    self.complete.add(wire)
            self._releases[memory] = shares
        return self._releases[memory]

    def after(self, script: Script) -> Shares:
        """The memories that a stream leads to from the start."""
        if script not in self._reached:
            shares = self._reached[()]
            for action in script:
                shares = self._moved(shares, action)
            self._reached[script] = shares
        return self._reached[script]

    def published_after(self, shares: Shares, script: Script) -> Shares:
        """The releases that a stream leads to from these memories."""
        for action in script:
            shares = self._moved(shares, action)
        wires: Shares = {}
        for memory, share in shares.items():
            for wire, probability in self.release(memory).items():
                wires[wire] = wires.get(wire, 0.0) + share * probability
        return wires

    def _moved(self, shares: Shares, action: Action) -> Shares:
        moved: Shares = {}
        for memory, share in shares.items():
            for reached, probability in self.step(memory, action).items():
                moved[reached] = moved.get(reached, 0.0) + share * probability
        return moved

    def _begin(self) -> Shares:
        shares: Shares = {}

        def start(draws: Dictated) -> Memory:
            return memory_of(self._mechanism.start(self._subject.spec, draws), draws)

        for memory, draws in every_way(start, self._reach):
            self._recipes.setdefault(memory, ((), tuple(draws.made)))
            shares[memory] = shares.get(memory, 0.0) + draws.probability
        return shares

    def _ways(
        self, memory: Memory, last: Callable[[Sketch, Dictated], T]
    ) -> Iterator[tuple[T, Dictated]]:
        """Brings a sketch to `memory`, as it was first reached, and makes one more call of it."""
        actions, made = self._recipes[memory]

        def run(draws: Dictated) -> T:
            sketch = self._mechanism.start(self._subject.spec, draws)
            for action in actions:
                action.on(sketch, self._subject, draws)
            if memory_of(sketch, draws) != memory:
                raise ValueError("the same calls with the same draws ended in another memory")
            draws.forget()
            return last(sketch, draws)

        return every_way(run, self._reach, made)
