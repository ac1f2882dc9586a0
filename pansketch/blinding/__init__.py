"""Masked counters: a fleet's answers have noise once per question, not once per device."""

from pansketch.blinding.answering import (
    AlreadyAnswered,
    AnswerLedger,
    AnswersInMemory,
    answer,
    answer_once,
    check_answerable,
    refused,
)
from pansketch.blinding.blinded_sketch import BlindedRelease, BlindedSketch, start
from pansketch.blinding.mask_context import MaskContext
from pansketch.blinding.masks import Masks, PrivateKey, SodiumMasks, keeper_id
from pansketch.blinding.questions import (
    KeeperAnswer,
    KeeperQuestion,
    MaskedWindow,
    WindowKey,
    question_about,
)
from pansketch.blinding.sodium import BlindingUnavailable
from pansketch.blinding.unblinding import (
    MasksLeft,
    combine_levels,
    most_windows,
    sum_bounds,
    unblind,
)

__all__ = [
    "AlreadyAnswered",
    "AnswerLedger",
    "AnswersInMemory",
    "BlindedRelease",
    "BlindedSketch",
    "BlindingUnavailable",
    "KeeperAnswer",
    "KeeperQuestion",
    "MaskContext",
    "MaskedWindow",
    "Masks",
    "MasksLeft",
    "PrivateKey",
    "SodiumMasks",
    "WindowKey",
    "answer",
    "answer_once",
    "check_answerable",
    "combine_levels",
    "keeper_id",
    "most_windows",
    "question_about",
    "refused",
    "start",
    "sum_bounds",
    "unblind",
]
