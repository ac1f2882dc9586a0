"""Masked counters as an adversary meets them: snapshots, the release, and one honest keeper.

The adversary is the collector, knows all masks of the other keepers, and asks what it likes. The
masks of the honest keeper are ideal: a random function of the context, uniform modulo `modulus`.
Reduction modulo `modulus` is a homomorphism of the counters' arithmetic, so production code runs
with its own integers, and what the adversary sees is reduced. A planted bug replaces one field of
`BlindedMechanism`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch import Attribute, Domain, Privacy, View, ViewsSpec, WindowId
from pansketch.blinding import (
    AnswerLedger,
    AnswersInMemory,
    BlindedRelease,
    BlindedSketch,
    KeeperAnswer,
    KeeperQuestion,
    MaskContext,
    MaskedWindow,
    answer_once,
    question_about,
    start,
)
from pansketch_audit.mechanisms.mechanism import memory_of
from pansketch_audit.mechanisms.zero_noise import NoNoise

FLEET = "toy"
WINDOW = WindowId("device", "stream", 1, 0, 60)
HONEST, CORRUPT = b"h" * 32, b"c" * 32
SPEC = ViewsSpec(
    Domain([Attribute("x", low=0, high=1)]),
    Privacy(1.0, aggregation="blinded"),
    (View(("x",), (1,), 1_000_000),),
)
UNIVERSE = np.array([[0.25], [0.75]])
Story = tuple[tuple[int, ...], ...]  # the readings before and after each snapshot, in order


class ToyKey:
    """A key pair that has a name only: ideal masks need no curve."""

    def __init__(self, public: bytes) -> None:
        self.public = public

    def erase(self) -> None:
        return None


class IdealMasks:
    """A random function of the context, read off a tape; zeros at its end. `drawn`: how much of it
    was read."""

    def __init__(self, tape: tuple[int, ...]) -> None:
        self._tape, self._masks = tape, dict[bytes, npt.NDArray[np.int32]]()
        self._keys = self.drawn = 0

    def new_key(self, rng: object) -> ToyKey:
        self._keys += 1
        return ToyKey(bytes([self._keys]) * 32)

    def check(self, public: bytes) -> None:
        return None

    def add(self, private: ToyKey, public: bytes, context: MaskContext, counters: Any) -> None:
        named = context.encode()
        if named not in self._masks:
            self._masks[named] = self._next(len(counters), context.keeper)
        np.add(counters, self._masks[named], out=counters)

    def finish(self) -> None:
        return None

    def _next(self, count: int, keeper: bytes) -> npt.NDArray[np.int32]:
        if keeper != HONEST:
            return np.ones(count, np.int32)  # The adversary knows them, so any will do.
        mask = np.zeros(count, np.int32)
        read = self._tape[self.drawn : self.drawn + count]
        mask[: len(read)] = read
        self.drawn += count
        return mask


class ScaleRecorder(NoNoise):
    """An `Entropy` that writes down the scale of each draw and draws nothing."""

    def __init__(self) -> None:
        self.scales: list[Fraction] = []

    def fill_words(self, words: npt.NDArray[np.uint64]) -> None:
        words.fill(0)

    def add_discrete_laplace(self, scale: object, counters: Any) -> None:
        assert isinstance(scale, Fraction)
        self.scales += [scale] * len(counters)


def _same(masks: IdealMasks) -> Any:
    return masks


def _listed(question: KeeperQuestion, windows: tuple[MaskedWindow, ...]) -> KeeperQuestion:
    return replace(question, windows=windows)


@dataclass(frozen=True)
class BlindedMechanism:
    """The steps of device and keeper: production code, unless a field is replaced."""

    epoch: Callable[[BlindedSketch, Any], None] = BlindedSketch.begin_epoch
    release: Callable[[BlindedSketch, Any], BlindedRelease] = BlindedSketch.release
    masks: Callable[[IdealMasks], Any] = _same
    noise: Callable[[], NoNoise] = ScaleRecorder
    ledger: Callable[[], AnswerLedger] = AnswersInMemory
    listed: Callable[[KeeperQuestion, tuple[MaskedWindow, ...]], KeeperQuestion] = _listed


Ask = Callable[[BlindedMechanism, KeeperQuestion], Iterable[Callable[[], KeeperQuestion]]]


def once(
    mechanism: BlindedMechanism, question: KeeperQuestion
) -> list[Callable[[], KeeperQuestion]]:
    """The question that the release is for."""
    return [lambda: question]


def again(
    mechanism: BlindedMechanism, question: KeeperQuestion
) -> list[Callable[[], KeeperQuestion]]:
    """The same, as after a lost answer."""
    return [lambda: question] * 2


def another_level(
    mechanism: BlindedMechanism, question: KeeperQuestion
) -> list[Callable[[], KeeperQuestion]]:
    """The same window, for another level at the full share."""
    return [lambda: question, lambda: replace(question, level="other")]


def two_levels(
    mechanism: BlindedMechanism, question: KeeperQuestion
) -> list[Callable[[], KeeperQuestion]]:
    """Two levels that share epsilon, and a third one, for which nothing is left."""
    names = ("day", "month", "year")
    levels = [replace(question, level=name, share=Fraction(1, 2)) for name in names]
    return [partial(mechanism.listed, each, question.windows) for each in levels]


def another_number(
    mechanism: BlindedMechanism, question: KeeperQuestion
) -> list[Callable[[], KeeperQuestion]]:
    """The first epoch of the window under another sequence number: what unmasks a snapshot."""
    (window,) = question.windows
    forged = MaskedWindow(replace(window.window, sequence=2), window.epochs[:1])
    return [lambda: question, lambda: mechanism.listed(question, (forged,))]


def twice_in_one(
    mechanism: BlindedMechanism, question: KeeperQuestion
) -> list[Callable[[], KeeperQuestion]]:
    """A question that lists the window twice."""
    (window,) = question.windows
    return [lambda: mechanism.listed(question, (window, window))]


@dataclass(frozen=True)
class Seen:
    """All that the adversary sees of one run. `answers`: sums without their noise, and the scales
    of the draws that belong to them; a repeated answer is one answer."""

    counters: tuple[tuple[int, ...], ...]
    rest: tuple[bytes, ...]
    refused: tuple[str, ...]
    answers: tuple[tuple[tuple[int, ...], tuple[Fraction, ...]], ...]
    drawn: int


def observe_blinded(
    mechanism: BlindedMechanism,
    story: Story,
    ask: Ask,
    modulus: int,
    tape: tuple[int, ...],
    memory: bool = False,
) -> Seen:
    """One run: a snapshot in each epoch but the last, the release, and the keeper's answers.

    `memory`: whether the snapshots hold all memory beside the counters too.
    """
    ideal = IdealMasks(tape)
    masks, rng = mechanism.masks(ideal), ScaleRecorder()
    sketch = start(SPEC, rng, FLEET, WINDOW, (HONEST, CORRUPT), masks)
    counters, rest = [], []
    for place in range(0, len(story), 2):
        if place:
            mechanism.epoch(sketch, rng)
        _feed(sketch, story[place])
        counters.append(_reduced(sketch._counters, modulus))
        if memory:
            rest.append(_memory(sketch, masks, ideal))
        _feed(sketch, story[place + 1])
    released = mechanism.release(sketch, rng)
    counters.append(_reduced(released.counters, modulus))
    answers, refused = _answered(mechanism, released, ask, masks, modulus)
    return Seen(tuple(counters), tuple(rest), refused, answers, ideal.drawn)


def _feed(sketch: BlindedSketch, readings: tuple[int, ...]) -> None:
    for each in readings:
        sketch.update_many(UNIVERSE[each : each + 1])


def _reduced(counters: npt.NDArray[Any], modulus: int) -> tuple[int, ...]:
    return tuple((counters % modulus).tolist())


def _memory(sketch: BlindedSketch, *public: object) -> bytes:
    """All that a sketch holds beside its counters."""
    held = sketch._counters.copy()
    sketch._counters.fill(0)
    found = memory_of(sketch, *public)
    np.copyto(sketch._counters, held)
    return found


def _answered(
    mechanism: BlindedMechanism, released: BlindedRelease, ask: Ask, masks: Any, modulus: int
) -> tuple[tuple[tuple[tuple[int, ...], tuple[Fraction, ...]], ...], tuple[str, ...]]:
    """The distinct answers, and which questions were refused."""
    ledger, found, refused = mechanism.ledger(), dict[int, Any](), []
    held: list[KeeperAnswer] = []
    for number, make in enumerate(ask(mechanism, question_about(FLEET, [released]))):
        noise = mechanism.noise()
        try:
            held.append(answer_once(make(), SPEC, ToyKey(HONEST), noise, ledger, masks))
        except ValueError:
            refused.append(f"question {number}")
            continue
        drawn = tuple(getattr(noise, "scales", ()))
        found.setdefault(id(held[-1]), (_reduced(held[-1].counters, modulus), drawn))
    return tuple(found.values()), tuple(refused)
