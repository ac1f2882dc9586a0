"""Questions to keepers and their answers as bytes, and back: docs/reference/wire-format.md."""

from fractions import Fraction
from typing import Any

import msgpack

from pansketch.blinding.masks import MAX_EPOCHS
from pansketch.blinding.questions import KeeperAnswer, KeeperQuestion, MaskedWindow
from pansketch.blinding.sodium import KEY_BYTES
from pansketch.sketches.linear_counters import LinearSpec
from pansketch.wire.codec import LIMITS
from pansketch.wire.sealed_message import (
    ANSWER,
    QUESTION,
    malformed,
    opened,
    pieces,
    restored,
    sealed,
    stored,
)
from pansketch.wire.window_label import label_entry, label_of


def encode_question(question: KeeperQuestion) -> bytes:
    """Return the bytes of a question.

    Args:
        question: which is asked.

    Returns:
        The current version of the format: one encoding for one question.

    Raises:
        ValueError: the incarnation of a window has another length than 0 or 8.
    """
    share = [question.share.numerator, question.share.denominator]
    # One array after the other, in a byte string. A decoder of one long list would allocate the
    # memory that its header claims, even for a short message.
    windows = b"".join(
        msgpack.packb([label_entry(each.window), b"".join(each.epochs)])
        for each in question.windows
    )
    return sealed(QUESTION, [question.fleet, question.spec, question.level, share, windows])


def decode_question(data: bytes) -> KeeperQuestion:
    """Return the question in `data`.

    Args:
        data: any bytes.

    Returns:
        The question.

    Raises:
        WireError: the bytes are damaged or malformed.
    """
    fleet, spec, level, share, windows = opened(QUESTION, data, 5)
    try:
        if type(fleet) is not str or type(level) is not str or type(spec) is not bytes:
            raise ValueError("fleet, level or spec")
        numerator, denominator = share
        if type(numerator) is not int or type(denominator) is not int:
            raise ValueError("share")
        part = Fraction(numerator, denominator)
        if (part.numerator, part.denominator) != (numerator, denominator):
            raise ValueError("a share is in lowest terms")
        listed = tuple(
            MaskedWindow(label_of(label), pieces(epochs, KEY_BYTES, 1, MAX_EPOCHS))
            for label, epochs in _entries(windows)
        )
        return KeeperQuestion(fleet, spec, level, part, listed)
    except (ValueError, TypeError, ZeroDivisionError, msgpack.UnpackException) as error:
        raise malformed(QUESTION, error) from None


def _entries(joined: Any) -> list[Any]:
    """The arrays in a byte string. Raises ValueError, TypeError or UnpackException."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(joined) or 1, **LIMITS)
    unpacker.feed(joined)
    found = list(unpacker)
    if b"".join(map(msgpack.packb, found)) != joined:
        raise ValueError("not in the shortest form, or cut off")
    return found


def encode_answer(answer: KeeperAnswer) -> bytes:
    """Return the bytes of an answer.

    Args:
        answer: of one keeper.

    Returns:
        The current version of the format.
    """
    return sealed(ANSWER, [answer.keeper, answer.question, stored(answer.counters)])


def decode_answer(data: bytes, spec: LinearSpec) -> KeeperAnswer:
    """Return the answer in `data`.

    Args:
        data: any bytes.
        spec: of the question.

    Returns:
        The answer, with read-only counters.

    Raises:
        WireError: the bytes are damaged or malformed, or have another number of counters.
    """
    keeper, question, counters = opened(ANSWER, data, 3)
    try:
        if type(keeper) is not bytes or type(question) is not bytes:
            raise ValueError("keeper or question")
        return KeeperAnswer(keeper, question, restored(counters, spec))
    except (ValueError, TypeError) as error:
        raise malformed(ANSWER, error) from None
