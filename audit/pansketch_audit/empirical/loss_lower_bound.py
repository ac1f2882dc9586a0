"""Real entropy, real wire bytes: an empirical lower bound on the loss, with its confidence.

An intruder tests whether one reading arrived by the counters that it moves. They are in the
snapshot if it came before, in release minus snapshot if it came after. The event is "each of them
at least as large as with the reading". With the reading it has e^epsilon times the probability, if
the noise is as claimed. If the noise is smaller, the ratio is larger. Clopper-Pearson bounds of
both probabilities give a lower bound on the loss that is above the truth with probability ALPHA. A
key moves no counter by a fixed number, but it changes its bit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, lgamma, log, log1p
from typing import Literal

import numpy as np
import numpy.typing as npt

from pansketch import Entropy, Sketch, decode, os_entropy
from pansketch_audit.mechanisms.mechanism import Mechanism, View, claim
from pansketch_audit.mechanisms.subjects import Subject, slot_of
from pansketch_audit.mechanisms.zero_noise import NoNoise

ALPHA = 1e-6
APPEARANCES = 3
Moment = Literal["before", "after", "both"]
Counters = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Bound:
    """A lower bound on the loss from `runs` runs a stream; too high with probability ALPHA."""

    epsilon: float
    runs: int


@dataclass(frozen=True)
class Event:
    """The intruder's event in the snapshot and in the release. It is likelier with one of two
    streams: the one with the unit, or the one without."""

    happened: Callable[[Counters, Counters], bool]
    likelier_with: bool = True


def moments_of(subject: Subject) -> tuple[Moment, ...]:
    """When the unit may arrive, seen from the snapshot. A device that noticed the snapshot, or
    publishes no more, shows nothing of what came after it."""
    if subject.intrusion == "announced":
        return ("before",)
    return ("before", "after", "both") if subject.unit == "key" else ("before", "after")


def claim_at(subject: Subject, arrives: Moment) -> Fraction:
    """The loss that is allowed for a unit that arrives then. A key that comes on both sides of the
    snapshot spends epsilon for the state and for the release."""
    views: dict[Moment, View] = {"before": "terminal", "after": "release", "both": "joint"}
    return claim(subject, views[arrives])


def lower_bound(mechanism: Mechanism, subject: Subject, arrives: Moment, runs: int) -> Bound:
    """Runs with and without one reading, or a key's `APPEARANCES` in one batch, that arrive before
    or after the snapshot; a key also both."""
    event = (_key_event if subject.unit == "key" else _reading_event)(subject, arrives)
    rng = os_entropy()
    hits = [0, 0]
    for side, present in enumerate((True, False)):
        for _ in range(runs):
            hits[side] += event.happened(*_seen(mechanism, subject, arrives, present, rng))
    often, seldom = hits if event.likelier_with else hits[::-1]
    low = proportion_bounds(often, runs, ALPHA / 2)[0]
    high = proportion_bounds(seldom, runs, ALPHA / 2)[1]
    return Bound(log(low / high) if low > 0 else -inf, runs)


def _reading_event(subject: Subject, arrives: Moment) -> Event:
    """Each counter that a reading moves is at least as large as with it."""
    silence: Entropy = NoNoise()
    sketch = subject.spec.start(silence)
    sketch.update_many(subject.reading(0))
    moved = sketch.release(silence).counters
    touched = moved > 0

    def happened(snapshot: Counters, published: Counters) -> bool:
        seen = snapshot if arrives == "before" else published - snapshot
        return bool((seen[touched] >= moved[touched]).all())

    return Event(happened)


def _key_event(subject: Subject, arrives: Moment) -> Event:
    """The key's bit is set, or it was not and the release counts more than the snapshot. For a key
    on both sides its absence is the event: its bit is not set, and the release counts no more."""
    slot = slot_of(subject.spec, int(subject.universe[0]))

    def rose(snapshot: Counters, published: Counters) -> bool:
        if len(published) == len(snapshot):
            return bool(published[slot])
        return bool(published[0] > snapshot.sum())

    if arrives == "before":
        return Event(lambda snapshot, _: bool(snapshot[slot]))
    if arrives == "after":
        return Event(lambda before, after: not before[slot] and rose(before, after))
    return Event(lambda before, after: not (before[slot] or rose(before, after)), False)


def _seen(
    mechanism: Mechanism, subject: Subject, arrives: Moment, present: bool, rng: Entropy
) -> tuple[Counters, Counters]:
    """The intruder's view of one run: memory, and the wire if a release follows."""
    sketch = mechanism.start(subject.spec, rng)
    if present and arrives != "after":
        _feed(sketch, subject)
    snapshot = subject.counts(sketch)
    if arrives == "before":
        return snapshot, snapshot
    if present:
        _feed(sketch, subject)
    published = decode(mechanism.publish(sketch, rng, int(present)), subject.spec)
    return snapshot, published.counters


def _feed(sketch: Sketch, subject: Subject) -> None:
    unit = subject.reading(0)
    sketch.update_many(np.repeat(unit, APPEARANCES) if subject.unit == "key" else unit)


def proportion_bounds(hits: int, runs: int, alpha: float) -> tuple[float, float]:
    """Clopper-Pearson: each bound is wrong with probability at most `alpha`."""
    low = 0.0 if hits == 0 else _solve(lambda p: _at_least(hits, runs, p), alpha)
    high = 1.0 if hits == runs else _solve(lambda p: 1 - _at_least(hits + 1, runs, p), alpha, True)
    return low, high


def _solve(tail: Callable[[float], float], alpha: float, falling: bool = False) -> float:
    """Return where a monotone tail probability equals alpha, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if (tail(middle) < alpha) != falling:
            low = middle
        else:
            high = middle
    return high if falling else low


def _at_least(hits: int, runs: int, p: float) -> float:
    """P(X >= hits) for X binomial."""
    if p <= 0 or p >= 1:
        return float(p >= 1)
    chosen = _log_choose(runs)[hits:]
    k = np.arange(hits, runs + 1)
    return min(1.0, float(np.exp(chosen + k * log(p) + (runs - k) * log1p(-p)).sum()))


@lru_cache(maxsize=8)
def _log_choose(runs: int) -> npt.NDArray[np.float64]:
    """ln C(runs, k) for k from 0 to runs."""
    factorials = np.array([lgamma(k + 1) for k in range(runs + 1)])
    return np.asarray(factorials[-1] - factorials - factorials[::-1])
