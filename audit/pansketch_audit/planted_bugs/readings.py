"""Bugs planted on purpose, each of a kind that has shipped somewhere. The audit must catch them
all.

They exist here and in tests only: no configuration reaches them. An audit that cannot fail is not
evidence.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch import Entropy, Sketch, Spec, WindowId, encode, os_entropy
from pansketch.randomness import Chance, Counters
from pansketch_audit.empirical import attacks
from pansketch_audit.empirical.outside_search import most_that_runs_show, searched, sites
from pansketch_audit.exact.readings import largest_loss
from pansketch_audit.mechanisms.mechanism import WINDOW, Mechanism, claim, publish, start, views_of
from pansketch_audit.mechanisms.subjects import (
    SeveralSketches,
    Subject,
    several_subject,
    subjects,
)
from pansketch_audit.mechanisms.zero_noise import NoNoise
from pansketch_audit.planted_bugs.agent_leaks import agent_leaks
from pansketch_audit.planted_bugs.blinded import blinded_bugs
from pansketch_audit.planted_bugs.bug import Bug, halved, replaced, sampled, times_the_claim
from pansketch_audit.planted_bugs.further_draws import further_draws, sampler_bugs
from pansketch_audit.planted_bugs.keys import key_bugs
from pansketch_audit.planted_bugs.process_leaks import process_leaks
from pansketch_audit.planted_bugs.sceptic_draws import LINEAR, sceptic_draws, shared_by_size

SEARCH_RUNS = 1600


def _start_halved(spec: Spec, rng: Entropy) -> Sketch:
    return spec.start(halved(rng))


def _publish_halved(sketch: Any, rng: Entropy, readings: int) -> bytes:
    return encode(sketch.release(halved(rng), WINDOW))


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


class _CountsMissingTwice:
    """Counts a reading without a value as missing, and once more at a bound."""

    def __init__(self, absorber: Any) -> None:
        self._absorber = absorber

    def absorb(self, readings: npt.NDArray[np.float64], counters: npt.NDArray[np.int32]) -> None:
        self._absorber.absorb(readings, counters)
        missing = np.isnan(readings).any(axis=1)
        self._absorber.absorb(np.nan_to_num(readings[missing]), counters)


def _start_counting_twice(spec: Spec, rng: Entropy) -> Sketch:
    sketch: Any = spec.start(rng)
    sketch._absorber = _CountsMissingTwice(sketch._absorber)
    return sketch  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Repeated:
    """An `Entropy` that gives one sketch the draws that another one had."""

    rng: Entropy
    drawn: list[int] = field(default_factory=list)

    def add_discrete_laplace(self, scale: Fraction, counters: Counters) -> None:
        again = len(counters[: len(self.drawn)])
        counters[:again] += np.array(self.drawn[:again], counters.dtype)
        del self.drawn[:again]
        self.rng.add_discrete_laplace(scale, counters[again:])

    def fill_bernoulli(self, chance: Chance, bits: npt.NDArray[np.uint8]) -> None:
        self.rng.fill_bernoulli(chance, bits)

    def identifier(self) -> int:
        return self.rng.identifier()


def _start_alike(spec: Any, rng: Entropy) -> SeveralSketches:
    """The sketches of one source begin with the same draws."""
    first = spec.specs[0].start(rng)
    repeated = _Repeated(rng, first._counters.tolist())
    return SeveralSketches((first, *(each.start(repeated) for each in spec.specs[1:])))


def enumerated(mechanism: Mechanism, subject: Subject) -> tuple[bool, str]:
    """Enumerates the mechanism: caught when its loss is above the claim."""
    ratios = []
    for view in views_of(subject):
        allowed = float(claim(subject, view))
        ratios.append(largest_loss(mechanism, subject, view, 0, allowed).value / allowed)
    return times_the_claim(ratios)


@cache
def bugs() -> tuple[Bug, ...]:
    """All planted bugs; made once, as a worker asks for each task."""
    gaps = next(each for each in subjects() if "missing" in each.name)
    twice = Mechanism(_start_counting_twice, publish)
    what = "a reading without a value counted twice"
    missing = Bug("missing-twice", what, partial(enumerated, twice, gaps))
    readings = _reading_bugs(subjects()[0])
    enumerated_bugs = [
        *readings,
        missing,
        _shared_noise(),
        *key_bugs(),
        *blinded_bugs(),
        *sampler_bugs(),
    ]
    coupled_bugs = [*sceptic_draws(), *further_draws(), *agent_leaks(), *process_leaks()]
    return (*enumerated_bugs, *_outside_bugs(), *coupled_bugs)


def _shared_noise() -> Bug:
    mechanism = Mechanism(_start_alike, publish)
    what = "two sketches of one source with the same noise"
    return Bug("shared-noise", what, partial(enumerated, mechanism, several_subject()))


def _reading_bugs(subject: Subject) -> list[Bug]:
    half = Mechanism(_start_halved, _publish_halved)
    mechanisms = {
        "half-scale": ("noise of half the scale", half),
        "init-only": ("no fresh noise at the release", Mechanism(start, _publish_bare)),
        "output-only": ("noise at the release only", Mechanism(_start_bare, publish)),
        "re-noise-on-retry": (
            "a lost release made again with fresh noise",
            Mechanism(start, _publish_twice),
        ),
        "exact-count": (
            "the number of readings in a release's label",
            Mechanism(start, _publish_count),
        ),
    }
    return [
        *(
            Bug(name, what, partial(enumerated, mechanism, subject))
            for name, (what, mechanism) in mechanisms.items()
        ),
        Bug(
            "half-scale-sampled",
            "half the scale, seen through wire bytes only",
            partial(sampled, half, subject),
            "statistical",
        ),
        Bug(
            "pcg64",
            "a user-space generator whose state is in memory",
            partial(attacks.rewound, attacks.Pcg64Entropy, subject),
            "attack",
        ),
        Bug(
            "float-laplace",
            "floating-point Laplace noise",
            partial(attacks.distinguish_floats, subject),
            "attack",
        ),
    ]


def _deepest_half(add: Any) -> Any:
    """Half the scale that is declared, in the deepest level."""

    def add_noise(spec: Any, rng: Any, counters: Any, factor: Fraction = Fraction(1)) -> None:
        start, last = 0, len(spec.blocks) - 1
        for number, (size, scale) in enumerate(zip(spec.blocks, spec.scales, strict=True)):
            drawn = scale * factor / (1 + (number == last))
            rng.add_discrete_laplace(drawn, counters[start : start + size])
            start += size

    return add_noise


def _outside_bugs() -> list[Bug]:
    """By the family that has them."""
    return [
        Bug(
            "deepest-level-half-outside",
            "half the scale in the deepest level of a hierarchy",
            partial(_found_outside, "hierarchy", _deepest_half),
            "outside",
        ),
        Bug(
            "views-share-noise-outside",
            "views of one size with one array of noise",
            partial(_found_outside, "views", shared_by_size),
            "outside",
        ),
    ]


def _found_outside(family: str, make: Any) -> tuple[bool, str]:
    """Searches a patched product: caught when a bound is above its claim."""
    (site,) = (each for each in sites() if each.name == family)
    with replaced(f"{LINEAR}:add_noise", make):
        found = searched(Mechanism(start, publish), site, "before", SEARCH_RUNS, os_entropy())
    return (
        not found.holds,
        f"{found}; {SEARCH_RUNS} runs show {most_that_runs_show(SEARCH_RUNS):.2f} at most",
    )
