"""Answer questions as a keeper: each window once per level, and never beyond its epsilon.

The order is: look for a stored answer, reserve the windows in the ledger, compute, store, return. A
repeated question gets the same answer. A question that was reserved and never stored is answered
when it is repeated, because its answer was never returned. A keeper knows no counters. It takes the
spec from the collector, because the masks are bound to the spec's digest. Under another spec the
masks are others, and the answer is noise.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from pansketch.blinding.mask_context import MaskContext
from pansketch.blinding.masks import Masks, SodiumMasks, keeper_id
from pansketch.blinding.questions import KeeperAnswer, KeeperQuestion, WindowKey
from pansketch.randomness.exact_noise import Entropy
from pansketch.randomness.geometric import MAX_SCALE
from pansketch.sketches.linear_counters import LinearSpec, add_noise


class AlreadyAnswered(ValueError):
    """A question names windows that this keeper does not answer again.

    Args:
        windows: their keys: device, stream, incarnation, sequence.
    """

    def __init__(self, windows: tuple[WindowKey, ...]) -> None:
        super().__init__(f"{len(windows)} windows were answered before at this level or in full")
        self.windows = windows


class AnswerLedger(Protocol):
    """The answers and the ledger of a keeper. Every method that changes it returns after the change
    is safe."""

    def stored(self, question: bytes) -> KeeperAnswer | None:
        """The answer that was kept for a question's digest."""
        ...

    def reserve(self, question: KeeperQuestion) -> None:
        """Record every window of a question at its level, all or none. Reserving the same question
        again changes nothing. Raises AlreadyAnswered for what `refused` lists."""
        ...

    def keep(self, answer: KeeperAnswer) -> None:
        """Store the answer of a reserved question."""
        ...


class AnswersInMemory:
    """An `AnswerLedger` that lives as long as its process: for simulations."""

    def __init__(self) -> None:
        self._answers: dict[bytes, KeeperAnswer] = {}
        self._spent: dict[WindowKey, dict[str, tuple[Fraction, bytes]]] = {}

    def stored(self, question: bytes) -> KeeperAnswer | None:
        """See `AnswerLedger`."""
        return self._answers.get(question)

    def reserve(self, question: KeeperQuestion) -> None:
        """See `AnswerLedger`.

        Raises:
            AlreadyAnswered: windows were answered at this level, or have no epsilon left.
        """
        left_out = refused(
            question, {each.key: self._levels(each.key) for each in question.windows}
        )
        if left_out:
            raise AlreadyAnswered(left_out)
        for each in question.windows:
            levels = self._spent.setdefault(each.key, {})
            levels[question.level] = question.share, question.digest

    def keep(self, answer: KeeperAnswer) -> None:
        """See `AnswerLedger`."""
        self._answers[answer.question] = answer

    def _levels(self, key: WindowKey) -> Mapping[str, tuple[Fraction, bytes]]:
        return self._spent.get(key, {})


def refused(
    question: KeeperQuestion, spent: Mapping[WindowKey, Mapping[str, tuple[Fraction, bytes]]]
) -> tuple[WindowKey, ...]:
    """The windows of a question that a keeper must not answer.

    Args:
        question: which is asked.
        spent: of each window the share and the question's digest by level, as reserved so far.

    Returns:
        The keys of windows that another question had at this level, and of windows whose shares
        would add up to more than 1.
    """
    return tuple(
        each.key for each in question.windows if not _fits_budget(question, spent.get(each.key, {}))
    )


def _fits_budget(question: KeeperQuestion, levels: Mapping[str, tuple[Fraction, bytes]]) -> bool:
    if question.level in levels:
        return levels[question.level][1] == question.digest
    return sum((share for share, _ in levels.values()), question.share) <= 1


def answer_once(
    question: KeeperQuestion,
    spec: LinearSpec,
    private: Any,
    rng: Entropy,
    ledger: AnswerLedger,
    masks: Masks[Any] | None = None,
) -> KeeperAnswer:
    """Answer a question, or repeat the answer that it had.

    Args:
        question: of a collector, who may lie.
        spec: whose digest is in the question.
        private: the keeper's `PrivateKey`.
        rng: where the noise is drawn from.
        ledger: what was answered before.
        masks: where masks come from; None: libsodium.

    Returns:
        The answer; for the same question always the same one.

    Raises:
        AlreadyAnswered: the ledger refuses windows of it.
        ValueError: the spec is another one, or an epoch's key is of low order.
    """
    by = SodiumMasks() if masks is None else masks
    check_answerable(question, spec)
    for each in {epoch for window in question.windows for epoch in window.epochs}:
        by.check(each)  # Before it is reserved: a bad key must not cost the others their answer.
    found = ledger.stored(question.digest)
    if found is None:
        ledger.reserve(question)
        found = answer(question, spec, private, rng, by)
        ledger.keep(found)
    return found


def check_answerable(question: KeeperQuestion, spec: LinearSpec) -> None:
    """Check that a keeper can answer a question.

    Args:
        question: about releases of one spec.
        spec: that the collector sends with it.

    Raises:
        ValueError: the spec is not blinded or not the one of the question, or no exact draw exists
            for the noise of its share.
    """
    if not isinstance(spec, LinearSpec) or not spec.guarantee.answer_micro:
        raise ValueError("this spec is not blinded")
    if spec.digest != question.spec:
        raise ValueError("the question is about another spec")
    if max(spec.scales) / question.share > MAX_SCALE:
        raise ValueError("the share is too small: its noise is beyond what is drawn exactly")


def answer(
    question: KeeperQuestion,
    spec: LinearSpec,
    private: Any,
    rng: Entropy,
    masks: Masks[Any] | None = None,
) -> KeeperAnswer:
    """The sum of a keeper's masks over all windows and epochs, with one draw in every counter.

    A keeper calls `answer_once`: answering twice with different noise costs epsilon twice.

    Args:
        question: which is asked.
        spec: whose digest is in the question. The noise has its scales, divided by the share.
        private: the keeper's `PrivateKey`.
        rng: where the noise is drawn from.
        masks: where masks come from; None: libsodium.

    Returns:
        The answer.

    Raises:
        ValueError: the spec is another one, or an epoch's key is of low order.
    """
    check_answerable(question, spec)
    by = SodiumMasks() if masks is None else masks
    sums = np.zeros(sum(spec.blocks), spec.counter)
    add_noise(spec, rng, sums, 1 / question.share)
    for each in question.windows:
        for epoch, epoch_key in enumerate(each.epochs):
            context = MaskContext(
                question.fleet, each.window, question.spec, epoch, epoch_key, private.public
            )
            by.add(private, epoch_key, context, sums)
    by.finish()
    return KeeperAnswer(keeper_id(private.public), question.digest, sums)
