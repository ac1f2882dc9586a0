"""Bugs planted on purpose, each of a kind that has shipped somewhere. The audit must catch them
all.

They exist here and in tests only: no configuration reaches them. An audit that cannot fail is not
evidence.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.audit import attacks
from pansketch.audit.exact import claim, largest_loss
from pansketch.audit.mechanism import VIEWS, WINDOW, Mechanism, publish, start
from pansketch.audit.statistical import NoNoise, lower_bound
from pansketch.audit.subjects import Subject
from pansketch.noise import Entropy
from pansketch.sketch import Sketch, Spec, WindowId
from pansketch.wire import encode

QUICK_RUNS = 1500


@dataclass(frozen=True)
class Bug:
    """A planted bug: what is wrong, and the part of the audit that must see it.

    `caught`: aims that part at the bug in a subject; returns whether the claim is refuted, and what
    was measured.
    """

    name: str
    what: str
    caught: Callable[[Subject], tuple[bool, str]]


class _Halved:
    """Draws noise of half the scale asked for."""

    def __init__(self, rng: Entropy) -> None:
        self._rng = rng

    def add_discrete_laplace(self, scale: Fraction, counters: npt.NDArray[np.int32]) -> None:
        self._rng.add_discrete_laplace(scale / 2, counters)

    def identifier(self) -> int:
        return self._rng.identifier()


def _start_halved(spec: Spec, rng: Entropy) -> Sketch:
    return spec.start(_Halved(rng))


def _publish_halved(sketch: Any, rng: Entropy, readings: int) -> bytes:
    return encode(sketch.release(_Halved(rng), WINDOW))


def _start_bare(spec: Spec, rng: Entropy) -> Sketch:
    return spec.start(NoNoise())


def _publish_bare(sketch: Any, rng: Entropy, readings: int) -> bytes:
    return encode(sketch.release(NoNoise(), WINDOW))


def _publish_twice(sketch: Any, rng: Entropy, readings: int) -> bytes:
    """Retries a lost release by making it again."""
    kept = sketch._counters.copy()
    first = publish(sketch, rng, readings)
    sketch._counters[:], sketch._closed = kept, False
    return first + publish(sketch, rng, readings)


def _publish_count(sketch: Any, rng: Entropy, readings: int) -> bytes:
    """Numbers its releases by the readings so far."""
    window = WindowId(WINDOW.device, WINDOW.stream, readings + 1, WINDOW.start, WINDOW.end)
    return encode(sketch.release(rng, window))


def exact_evidence(mechanism: Mechanism, subject: Subject) -> tuple[bool, str]:
    """Enumerates the mechanism: caught when its loss is above the claim."""
    allowed = float(claim(subject))
    views = VIEWS[subject.intrusion]
    worst = max(largest_loss(mechanism, subject, view, 0, allowed).value for view in views)
    return worst > allowed, f"exact loss {worst / allowed:.3g} times the claim"


def statistical_evidence(mechanism: Mechanism, subject: Subject) -> tuple[bool, str]:
    """Runs the mechanism with real entropy: caught when even the lower bound is above the claim."""
    bounds = [lower_bound(mechanism, subject, when, QUICK_RUNS) for when in ("before", "after")]
    worst = max(bound.epsilon for bound in bounds)
    return worst > float(claim(subject)), f"loss at least {worst:.3g} in {QUICK_RUNS} runs"


def bugs() -> list[Bug]:
    """All planted bugs."""
    half = Mechanism(_start_halved, _publish_halved)
    retry = Mechanism(start, _publish_twice)
    return [
        Bug("half-scale", "noise of half the scale", partial(exact_evidence, half)),
        Bug(
            "half-scale-sampled",
            "the same, seen through wire bytes only",
            partial(statistical_evidence, half),
        ),
        Bug(
            "init-only",
            "no fresh noise at the release",
            partial(exact_evidence, Mechanism(start, _publish_bare)),
        ),
        Bug(
            "output-only",
            "noise at the release only",
            partial(exact_evidence, Mechanism(_start_bare, publish)),
        ),
        Bug(
            "re-noise-on-retry",
            "a lost release made again with fresh noise",
            partial(exact_evidence, retry),
        ),
        Bug(
            "exact-count",
            "the number of readings in a release's label",
            partial(exact_evidence, Mechanism(start, _publish_count)),
        ),
        Bug(
            "pcg64",
            "a user-space generator whose state is in memory",
            partial(attacks.rewound, attacks.Pcg64Entropy),
        ),
        Bug("float-laplace", "floating-point Laplace noise", attacks.floats_betray),
    ]
