"""Bugs of masks, of keepers and of their ledgers, planted on purpose."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pansketch.blinding import (
    AnswersInMemory,
    BlindedRelease,
    BlindedSketch,
    KeeperAnswer,
    KeeperQuestion,
    MaskContext,
    MaskedWindow,
)
from pansketch_audit.exact.blinded import CLAIM, SCENARIOS, Scenario, blinded_loss
from pansketch_audit.mechanisms.blinded import BlindedMechanism, IdealMasks, again, once
from pansketch_audit.mechanisms.zero_noise import NoNoise
from pansketch_audit.planted_bugs.bug import Bug, times_the_claim

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


class Around:
    """Masks that another source makes, in a changed context."""

    def __init__(self, ideal: IdealMasks, change: Callable[[MaskContext], MaskContext]) -> None:
        self._ideal, self._change = ideal, change
        self.new_key, self.check, self.finish = ideal.new_key, ideal.check, ideal.finish

    def add(self, private: Any, public: bytes, context: MaskContext, counters: Any) -> None:
        self._ideal.add(private, public, self._change(context), counters)


def _one_epoch(ideal: IdealMasks) -> Around:
    """The mask of the first epoch, in every epoch."""
    return Around(ideal, lambda context: replace(context, epoch=0, epoch_key=b"1" * 32))


def _no_sequence(ideal: IdealMasks) -> Around:
    def change(context: MaskContext) -> MaskContext:
        return replace(context, window=replace(context.window, sequence=0))

    return Around(ideal, change)


def _kept_by_the_sketch(sketch: BlindedSketch, rng: Any) -> None:
    """An epoch after which its mask stays in the sketch."""
    before = sketch._counters.copy()
    BlindedSketch.begin_epoch(sketch, rng)
    vars(sketch)["_last_mask"] = sketch._counters - before


def _unmasked_release(sketch: BlindedSketch, rng: Any) -> BlindedRelease:
    """No output mask: the counters as the last snapshot shows them."""
    masks = sketch._masks
    return BlindedRelease(
        sketch._spec,
        sketch._window,
        masks.keeper_ids,
        masks.epoch_keys,
        sketch._counters.astype(np.int32),
    )


class Forgetful(AnswersInMemory):
    """A ledger that forgets which windows were answered."""

    def reserve(self, question: KeeperQuestion) -> None:
        return None


class Redrawing(AnswersInMemory):
    """A ledger that keeps no answers, so that a retry is answered with fresh noise."""

    def keep(self, answer: KeeperAnswer) -> None:
        return None


def _unchecked(question: KeeperQuestion, windows: tuple[MaskedWindow, ...]) -> KeeperQuestion:
    """A question that no keeper checks."""
    made: KeeperQuestion = object.__new__(KeeperQuestion)
    for name in ("fleet", "spec", "level", "share"):
        object.__setattr__(made, name, getattr(question, name))
    object.__setattr__(made, "windows", windows)
    return made


def blinded_bugs() -> list[Bug]:
    """All bugs of masked counters, each with the scenario that must show it."""
    one = Scenario("one snapshot", 1, once)
    two = BY_NAME["two snapshots in different epochs"]
    planted: dict[str, tuple[str, BlindedMechanism, Scenario]] = {
        "blinded-no-output-mask": (
            "a release under the masks of the last snapshot",
            BlindedMechanism(release=_unmasked_release),
            one,
        ),
        "blinded-mask-reused": (
            "the mask of one epoch in all epochs",
            BlindedMechanism(masks=_one_epoch),
            two,
        ),
        "blinded-mask-kept": (
            "a mask that stays in memory",
            BlindedMechanism(epoch=_kept_by_the_sketch),
            two,
        ),
        "blinded-bare-answer": ("a keeper without noise", BlindedMechanism(noise=NoNoise), one),
        "blinded-answered-twice": (
            "a window answered at full share for two levels",
            BlindedMechanism(ledger=Forgetful),
            BY_NAME["another level"],
        ),
        "blinded-redrawn": (
            "an answer drawn once more on retry",
            BlindedMechanism(ledger=Redrawing),
            Scenario("the question again", 1, again),
        ),
        "blinded-no-sequence": (
            "masks that are not bound to the sequence number",
            BlindedMechanism(masks=_no_sequence),
            BY_NAME["another sequence number"],
        ),
        "blinded-window-twice": (
            "a question that lists a window twice",
            BlindedMechanism(listed=_unchecked),
            BY_NAME["a window listed twice"],
        ),
    }
    return [
        Bug(name, what, partial(_caught, mechanism, scenario))
        for name, (what, mechanism, scenario) in planted.items()
    ]


def _caught(mechanism: BlindedMechanism, scenario: Scenario) -> tuple[bool, str]:
    found = blinded_loss(mechanism, scenario, quick=True, enough=CLAIM + 1e-9).value
    return times_the_claim([found / CLAIM])
