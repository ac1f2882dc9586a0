"""Exact privacy loss of production code over tiny universes, by an enumerated random tape.

For two neighbouring streams and a moment of the snapshot, every tape of noise in a range is run
through the code. The outcome is the intruder's view. An outcome's probability is known exactly,
because the tape records the scale of each draw. The loss is the largest difference of the
logarithms of an outcome's two probabilities. The other stream is searched over a wider range of
tapes. So an outcome missing there cannot occur at all, and the loss is infinite.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import exp, inf, log

import numpy as np
import numpy.typing as npt

from pansketch.privacy import readings_of
from pansketch.randomness import Chance, Counters
from pansketch_audit.mechanisms.mechanism import Mechanism, Observation, View, observe
from pansketch_audit.mechanisms.subjects import Stream, Subject

MAX_COMMON_READINGS = 1


@dataclass(frozen=True)
class Neighbours:
    """Two streams that differ by one unit, and when the snapshot is taken.

    `without_at`, `with_at`: how many readings of each stream have arrived at the snapshot.
    """

    without: Stream
    with_unit: Stream
    without_at: int
    with_at: int


def neighbours(subject: Subject) -> Iterator[Neighbours]:
    """Every neighbouring pair of the universe with every moment of the snapshot.

    A unit's readings are put at every position among at most `MAX_COMMON_READINGS` others. For a
    reading at the position of the snapshot both orders are listed.
    """
    values = range(len(subject.universe))
    for count in range(MAX_COMMON_READINGS + 1):
        for common in product(values, repeat=count):
            for unit in product(values, repeat=readings_of(subject.unit)):
                yield from _interleaved(common, unit)


def _interleaved(common: Stream, unit: Stream) -> Iterator[Neighbours]:
    """All ways to merge two streams and a snapshot, each keeping its own order."""
    seen = set()
    for positions in product(range(len(common) + 1), repeat=len(unit)):
        if list(positions) != sorted(positions):
            continue
        merged = _merge(common, unit, positions)
        for with_at in range(len(merged) + 1):
            without_at = sum(not added for _, added in merged[:with_at])
            found = Neighbours(common, tuple(v for v, _ in merged), without_at, with_at)
            if found not in seen:
                seen.add(found)
                yield found


def _merge(common: Stream, unit: Stream, positions: Stream) -> list[tuple[int, bool]]:
    """Values in order of arrival, each with whether it belongs to the unit."""
    merged = []
    for place in range(len(common) + 1):
        merged += [(v, True) for v, where in zip(unit, positions, strict=True) if where == place]
        merged += [(v, False) for v in common[place : place + 1]]
    return merged


Tape = tuple[int, ...]
Scales = tuple[Fraction, ...]
# Wire, the scales of all draws, and how many of them precede the snapshot.
Outcome = tuple[bytes, Scales, int]


class TapeEntropy:
    """An `Entropy` that reads its draws off a tape and writes down their scales and chances; zeros
    at the end."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self.scales: list[Fraction] = []
        self.chances: list[Chance] = []

    def add_discrete_laplace(self, scale: Fraction, counters: Counters) -> None:
        drawn = self._next(len(counters))
        self.scales += [scale] * len(counters)
        counters[: len(drawn)] += np.array(drawn, counters.dtype)

    def fill_bernoulli(self, chance: Chance, bits: npt.NDArray[np.uint8]) -> None:
        """Anything but a zero on the tape is a one."""
        drawn = self._next(len(bits))
        self.chances += [chance] * len(bits)
        bits.fill(0)
        bits[: len(drawn)] = np.array(drawn, np.int64) != 0

    def _next(self, count: int) -> Tape:
        first = len(self.scales) + len(self.chances)
        return self._tape[first : first + count]

    def identifier(self) -> int:
        return 1


@dataclass(frozen=True)
class Loss:
    """The largest log-ratio found, where, and over how many pairs of outcomes.

    `exact`: every outcome came from one tape, so its probability is the tape's, as a rational.
    """

    value: float
    pairs: int
    outcomes: int
    exact: bool
    worst: Neighbours | None


@dataclass(frozen=True)
class _Run:
    """One stream and moment of the snapshot; streams that meet in several pairs share outcomes.

    `memories`: what snapshots show, by tape. Streams that are alike up to the snapshot share it: no
    later reading changes it.
    """

    mechanism: Mechanism
    subject: Subject
    view: View
    stream: Stream
    snapshot_at: int
    memories: dict[Tape, bytes] = field(compare=False)
    known: dict[Tape, Outcome] = field(default_factory=dict, compare=False)

    def outcome(self, tape: Tape) -> Outcome:
        if tape not in self.known:
            self.known[tape] = self._outcome(tape)
        return self.known[tape]

    def memory(self, tape: Tape) -> bytes:
        """The view of the snapshot. The tape holds the draws before it: no later draw changes it,
        so the run ends there."""
        if self.view == "published":
            return b""
        if tape not in self.memories:
            self.memories[tape] = self._observe("terminal", TapeEntropy(tape), lambda: None).memory
        return self.memories[tape]

    def _outcome(self, tape: Tape) -> Outcome:
        entropy, before = TapeEntropy(tape), [0]

        def mark() -> None:
            before[0] = len(entropy.scales)

        seen = self._observe(self.view, entropy, mark, observed=False)
        return seen.wire, tuple(entropy.scales), before[0]

    def _observe(
        self, view: View, rng: TapeEntropy, mark: Callable[[], None], observed: bool = True
    ) -> Observation:
        return observe(
            self.mechanism, self.subject, self.stream, self.snapshot_at, view, rng, mark, observed
        )


def largest_loss(
    mechanism: Mechanism, subject: Subject, view: View, reach: int, enough: float = inf
) -> Loss:
    """Over every neighbouring pair of the subject's universe and every moment of the snapshot.

    `reach`: the tapes of the first stream hold draws from -reach to reach. `enough`: a loss beyond
    it ends the search.
    """
    worst, worst_pair, pairs, outcomes, exact = 0.0, None, 0, 0, True
    shared: dict[tuple[Stream, int], _Run] = {}
    memories: dict[Stream, dict[Tape, bytes]] = {}
    for pair in _distinct(neighbours(subject), view):
        sides = (pair.without, pair.without_at), (pair.with_unit, pair.with_at)
        for first, second in (sides, sides[::-1]):
            runs = [
                shared.setdefault(
                    (stream, at),
                    _Run(
                        mechanism, subject, view, stream, at, memories.setdefault(stream[:at], {})
                    ),
                )
                for stream, at in (first, second)
            ]
            loss, count, injective = _loss(runs[0], runs[1], reach, readings_of(subject.unit))
            outcomes, exact = outcomes + count, exact and injective
            pairs += 1
            if loss > worst:
                worst, worst_pair = loss, pair
        if worst > enough:
            break
    return Loss(worst, pairs, outcomes, exact, worst_pair)


def _distinct(pairs: Iterator[Neighbours], view: View) -> Iterator[Neighbours]:
    """For a view of the release alone, the moment of a snapshot makes no difference."""
    seen = set()
    for pair in pairs:
        key = (pair.without, pair.with_unit) if view == "published" else pair
        if key not in seen:
            seen.add(key)
            yield pair


def _loss(one: _Run, other: _Run, reach: int, shift: int) -> tuple[float, int, bool]:
    """The largest log-ratio of `one`'s outcomes, their number, and whether each has one tape."""
    _, scales, before = one.outcome(())
    if other.outcome(())[1:] != (scales, before):
        return inf, 0, True  # The number of draws of noise depends on the readings.
    draws = range(-reach, reach + 1)
    tapes = _by_outcome(one, dict.fromkeys(product(draws, repeat=before)), draws, scales)
    memories = {memory for memory, _ in tapes}
    wide = range(-reach - shift, reach + shift + 1)
    prefixes = {
        tape: None for tape in product(wide, repeat=before) if other.memory(tape) in memories
    }
    others = _by_outcome(other, prefixes, wide, scales)
    injective = all(len(found) == 1 for found in (*tapes.values(), *others.values()))
    losses = [_log_ratio(scales, found, others.get(key)) for key, found in tapes.items()]
    return max(losses), len(tapes), injective


def _by_outcome(
    run: _Run, prefixes: dict[Tape, None], draws: range, scales: Scales
) -> dict[tuple[bytes, bytes], list[Tape]]:
    """All tapes with these beginnings, by what they lead to."""
    found: dict[tuple[bytes, bytes], list[Tape]] = {}
    for prefix in prefixes:
        memory = run.memory(prefix)
        for suffix in product(draws, repeat=len(scales) - len(prefix)):
            wire, _, _ = run.outcome(prefix + suffix)
            found.setdefault((memory, wire), []).append(prefix + suffix)
    return found


def _log_ratio(scales: Scales, tapes: list[Tape], others: list[Tape] | None) -> float:
    """Absolute log-ratio of two sums of tape probabilities; normalisers cancel."""
    if others is None:
        return inf
    if len(tapes) == len(others) == 1:
        return float(abs(_weight(scales, tapes[0]) - _weight(scales, others[0])))
    return abs(_log_sum(scales, tapes) - _log_sum(scales, others))


def _weight(scales: Scales, tape: Tape) -> Fraction:
    """Minus the logarithm of a tape's probability, up to the normaliser: exact."""
    return sum((abs(z) / scale for z, scale in zip(tape, scales, strict=True)), Fraction(0))


def _log_sum(scales: Scales, tapes: list[Tape]) -> float:
    return log(sum(exp(-float(_weight(scales, tape))) for tape in tapes))
