"""Real entropy, real wire bytes: an empirical lower bound on the loss, with its confidence.

An intruder who wants to know whether one reading was there looks at what the two ways differ in:
the counters that the reading moves, in the snapshot if it came before, in release minus snapshot
if it came after. The event "each of them at least as large as with the reading" has e^epsilon
times the probability with it, if the noise is as claimed; more, if it is smaller. Clopper-Pearson
bounds of both probabilities give a lower bound on the loss that is above the truth with
probability ALPHA.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, lgamma, log, log1p

import numpy as np
import numpy.typing as npt

from pansketch.audit.mechanism import Mechanism
from pansketch.audit.subjects import Subject
from pansketch.noise import Entropy, os_entropy
from pansketch.wire import decode

ALPHA = 1e-6
Counters = npt.NDArray[np.int64]


class NoNoise:
    """An `Entropy` without entropy: what the counters would be."""

    def add_discrete_laplace(self, scale: object, counters: object) -> None:
        return None

    def identifier(self) -> int:
        return 1


@dataclass(frozen=True)
class Bound:
    """A lower bound on the loss from `runs` runs a stream; too high with probability ALPHA."""

    epsilon: float
    runs: int
    hits_with: int
    hits_without: int


def lower_bound(mechanism: Mechanism, subject: Subject, arrives: str, runs: int) -> Bound:
    """Runs with and without one reading that arrives "before" or "after" the snapshot."""
    moved, rng = _expected(subject), os_entropy()
    touched = moved > 0
    hits = [0, 0]
    for side, present in enumerate((True, False)):
        for _ in range(runs):
            seen = _seen(mechanism, subject, arrives, present, rng)
            hits[side] += bool((seen[touched] >= moved[touched]).all())
    low = proportion_bounds(hits[0], runs, ALPHA / 2)[0]
    high = proportion_bounds(hits[1], runs, ALPHA / 2)[1]
    return Bound(log(low / high) if low > 0 else -inf, runs, hits[0], hits[1])


def _expected(subject: Subject) -> Counters:
    """What one reading adds to the released counters."""
    silence: Entropy = NoNoise()
    sketch = subject.spec.start(silence)
    sketch.update_many(subject.reading(0))
    return sketch.release(silence).counters


def _seen(
    mechanism: Mechanism, subject: Subject, arrives: str, present: bool, rng: Entropy
) -> Counters:
    """The counters that the intruder looks at, in one run."""
    sketch = mechanism.start(subject.spec, rng)
    if present and arrives == "before":
        sketch.update_many(subject.reading(0))
    snapshot = subject.counts(sketch)
    if arrives == "before":
        return snapshot
    if present:
        sketch.update_many(subject.reading(0))
    published = decode(mechanism.publish(sketch, rng, int(present)), subject.spec)
    return published.counters - snapshot


def proportion_bounds(hits: int, runs: int, alpha: float) -> tuple[float, float]:
    """Clopper-Pearson: each bound is wrong with probability at most `alpha`."""
    low = 0.0 if hits == 0 else _solve(lambda p: _at_least(hits, runs, p), alpha)
    high = 1.0 if hits == runs else _solve(lambda p: 1 - _at_least(hits + 1, runs, p), alpha, True)
    return low, high


def _solve(tail: Callable[[float], float], alpha: float, falling: bool = False) -> float:
    """Where a monotone tail probability equals alpha, by bisection."""
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
    start = lgamma(runs + 1)
    terms = (
        exp(start - lgamma(k + 1) - lgamma(runs - k + 1) + k * log(p) + (runs - k) * log1p(-p))
        for k in range(hits, runs + 1)
    )
    return min(1.0, sum(terms))
