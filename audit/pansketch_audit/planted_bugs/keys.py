"""Bugs in counters of distinct keys, planted on purpose: two of them were published."""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import exp
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pansketch import Entropy, Sketch, Spec, encode
from pansketch.randomness import Chance, Counters
from pansketch_audit.empirical import attacks
from pansketch_audit.exact.keys import KeyLosses
from pansketch_audit.exact.neighbouring_keys import Action, KeySequence
from pansketch_audit.mechanisms.mechanism import WINDOW, Mechanism, claim, publish, start, views_of
from pansketch_audit.mechanisms.subjects import TWO_LEVELS, Subject, key_subject
from pansketch_audit.mechanisms.zero_noise import NoNoise
from pansketch_audit.planted_bugs.bug import Altered, Bug, halved, sampled, times_the_claim
from pansketch_audit.planted_bugs.published_distinct import PublishedPpds, scale_on_bits

APPEARANCES = (1, 2, 5, 20, 100)
PUBLISHED = PublishedPpds(levels=(0, 1, 0, 2), sample_size=3, epsilon=Fraction(1, 2))


@dataclass(frozen=True)
class _OneDraw:
    """Draws one bit for all that are asked for together."""

    rng: Entropy

    def fill_bernoulli(self, chance: Chance, bits: npt.NDArray[np.uint8]) -> None:
        self.rng.fill_bernoulli(chance, bits[:1])
        bits[1:] = bits[:1]

    def add_discrete_laplace(self, scale: Fraction, counters: Counters) -> None:
        self.rng.add_discrete_laplace(scale, counters)

    def identifier(self) -> int:
        return self.rng.identifier()


@dataclass(frozen=True)
class _OneLevelsNoise:
    """Draws the noise of the first level's count, and none for the others."""

    rng: Entropy

    def fill_bernoulli(self, chance: Chance, bits: npt.NDArray[np.uint8]) -> None:
        self.rng.fill_bernoulli(chance, bits)

    def add_discrete_laplace(self, scale: Fraction, counters: Counters) -> None:
        self.rng.add_discrete_laplace(scale, counters[:1])

    def identifier(self) -> int:
        return self.rng.identifier()


@dataclass(frozen=True)
class _AdaptiveLevels:
    """Moves keys of the first level on to the second one while most bits of the first are set."""

    sketch: Any
    public: Any

    def place(self, words: npt.NDArray[np.uint64]) -> None:
        self.public.place(words)
        first, second, *_ = self.sketch._spec.levels
        if 2 * int(np.unpackbits(self.sketch._bits, count=first).sum()) > first:
            words[words < first] = first + words[words < first] % second


def _start_halved(spec: Spec, rng: Entropy) -> Sketch:
    return spec.start(halved(rng))


def _start_one_draw(spec: Spec, rng: Entropy) -> Sketch:
    sketch: Any = spec.start(rng)
    sketch._rng = _OneDraw(rng)
    return cast(Sketch, sketch)


def _start_adaptive(spec: Spec, rng: Entropy) -> Sketch:
    sketch: Any = spec.start(rng)
    sketch._slots = _AdaptiveLevels(sketch, sketch._slots)
    return cast(Sketch, sketch)


def _start_unfrozen(spec: Spec, rng: Entropy) -> Sketch:
    """Goes on as before after an announced intrusion."""
    sketch = spec.start(rng)
    vars(sketch)["rerandomise"] = lambda _: None
    return sketch


def _start_sticky(spec: Spec, rng: Entropy) -> Sketch:
    """A bit that is set is not drawn again."""
    sketch: Any = spec.start(rng)
    absorb = sketch.update_many

    def update_many(keys: object) -> None:
        before = sketch._bits.copy()
        absorb(keys)
        sketch._bits |= before

    vars(sketch)["update_many"] = update_many
    return cast(Sketch, sketch)


def _publish_halved(sketch: Any, rng: Entropy, readings: int) -> bytes:
    return encode(sketch.release(halved(rng), WINDOW))


def _publish_bare(sketch: Any, rng: Entropy, readings: int) -> bytes:
    return encode(sketch.release(NoNoise(), WINDOW))


def _publish_one_levels_noise(sketch: Any, rng: Entropy, readings: int) -> bytes:
    return encode(sketch.release(_OneLevelsNoise(rng), WINDOW))


def _publish_as_published(sketch: Any, rng: Entropy, readings: int) -> bytes:
    """With the noise that the papers add, as it lies on the number of ones."""
    altered = Altered(rng, lambda scale: Fraction(scale_on_bits(float(1 / scale))))
    return encode(sketch.release(altered, WINDOW))


def enumerated(mechanism: Mechanism, subject: Subject) -> tuple[bool, str]:
    """Enumerates the mechanism: caught when its loss is above the claim."""
    losses = KeyLosses(mechanism, subject)
    return times_the_claim(
        [losses.largest(v, quick=True).value / float(claim(subject, v)) for v in views_of(subject)]
    )


def level_losses() -> list[float]:
    """The state's loss of key 0 against the empty stream, for each number of `APPEARANCES`."""
    subject = Subject("published", cast(Spec, PUBLISHED), np.arange(4), lambda _: np.zeros(4, int))
    losses = KeyLosses(Mechanism(start, publish), subject)
    return [losses.of_pair("terminal", _alone(n), _alone(0)).loss for n in APPEARANCES]


def published_level() -> tuple[bool, str]:
    """The level's loss grows with every appearance of a key."""
    found, allowed = level_losses(), float(PUBLISHED.epsilon)
    listed = ", ".join(f"{loss:.3g}" for loss in found)
    times = ", ".join(map(str, APPEARANCES))
    return max(found) > allowed, f"loss of the state {listed} at {times} times, claimed {allowed:g}"


def output_loss() -> tuple[float, float]:
    """The loss of a key that first appears after the snapshot, by the release, and the claim."""
    subject = key_subject("published", universe=4)
    losses = KeyLosses(Mechanism(start, _publish_as_published), subject)
    without, later = KeySequence((), ()), KeySequence((), _alone(1).before)
    loss = losses.of_pair("joint", without, later).loss
    return loss, float(claim(subject, "release"))


def published_output_noise() -> tuple[bool, str]:
    """The noise that the papers add to the output."""
    loss, allowed = output_loss()
    return loss > allowed, f"conditional loss {loss:.3g} = ln {exp(loss):.3g}, claimed {allowed:g}"


def _alone(times: int) -> KeySequence:
    return KeySequence((Action("update_many", (0,)),) * times, ())


def key_bugs() -> list[Bug]:
    """Planted bugs of counters of distinct keys, which the audit must refute."""
    count = key_subject("count", universe=2)
    bitmap = key_subject("bitmap", universe=2, release="bitmap")
    levels = key_subject("levels", levels=TWO_LEVELS)
    half = Mechanism(_start_halved, _publish_halved)
    mechanisms = {
        "keys-half-scale": ("noise and bits of half the scale", half, count),
        "keys-bare-bitmap": (
            "a bitmap released as it is",
            Mechanism(start, _publish_bare),
            bitmap,
        ),
        "keys-sticky-bits": (
            "a bit that is set is not drawn again",
            Mechanism(_start_sticky, publish),
            count,
        ),
        "keys-one-draw": (
            "one draw for all keys of a batch",
            Mechanism(_start_one_draw, publish),
            count,
        ),
        "keys-one-levels-noise": (
            "noise on the count of the first level alone",
            Mechanism(start, _publish_one_levels_noise),
            levels,
        ),
        "keys-adaptive-levels": (
            "levels that follow the bits, as the published level does",
            Mechanism(_start_adaptive, publish),
            levels,
        ),
        "keys-unfrozen": (
            "keys absorbed after an announced intrusion",
            Mechanism(_start_unfrozen, publish),
            key_subject("announced", "announced", universe=2),
        ),
    }
    return [
        Bug("ppds-level", "the sample's level as published, for one key", published_level),
        Bug("ppds-output-noise", "the output's noise as published", published_output_noise),
        *(
            Bug(name, what, partial(enumerated, mechanism, subject))
            for name, (what, mechanism, subject) in mechanisms.items()
        ),
        Bug(
            "keys-half-scale-sampled",
            "half the scale, seen through wire bytes only",
            partial(sampled, half, key_subject("hashed", expected_keys=2)),
            "statistical",
        ),
        Bug(
            "keys-pcg64",
            "a user-space generator whose state is in memory",
            partial(
                attacks.rewound, attacks.Pcg64Entropy, key_subject("many", universe=256, memory=32)
            ),
            "attack",
        ),
    ]
