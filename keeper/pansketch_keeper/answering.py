"""The replies of a keeper: one message at a time, and never an exception.

The order of checks is: form, fleet, key, share, ledger, public keys. A refusal by these checks
spends no epsilon of any window. Only then the ledger reserves the windows.
"""

import logging
from dataclasses import dataclass

from pansketch.blinding import (
    AlreadyAnswered,
    KeeperAnswer,
    KeeperQuestion,
    PrivateKey,
    SodiumMasks,
    WindowKey,
    answer_once,
    check_answerable,
)
from pansketch.sketches import LinearSpec
from pansketch.wire import decode_answer
from pansketch_fleet.errors import one_line
from pansketch_fleet.protocol.keeper_messages import (
    DIGEST_BYTES,
    KEY_ID_BYTES,
    MAX_REFUSED,
    Ask,
    Reply,
)
from pansketch_fleet.protocol.strict_json import MAX_LINE
from pansketch_keeper.ledger import KeeperLedger, StateError

MAX_DENOMINATOR = 10**6  # of a share
LOW_ORDER = "epochs: a public key is of low order, which hides nothing"
SPENT = "spent: these windows were answered before at this level, or have no epsilon left"

log = logging.getLogger("keeper")


@dataclass(frozen=True)
class SpecLedger:
    """A keeper's ledger as an `AnswerLedger`. The spec decodes the answers.

    Its methods raise the errors of `KeeperLedger`.
    """

    ledger: KeeperLedger
    spec: LinearSpec

    def stored(self, question: bytes) -> KeeperAnswer | None:
        """See `AnswerLedger`."""
        found = self.ledger.stored_bytes(question)
        return None if found is None else decode_answer(found, self.spec)

    def reserve(self, question: KeeperQuestion) -> None:
        """See `AnswerLedger`."""
        self.ledger.reserve(question)

    def keep(self, answer: KeeperAnswer) -> None:
        """See `AnswerLedger`."""
        self.ledger.keep(answer)


class Answerer:
    """One keeper: its fleet, its ledger, and its keys, from which its noise follows too."""

    def __init__(self, fleet: str, keys: dict[bytes, PrivateKey], ledger: KeeperLedger) -> None:
        self._fleet, self._keys, self._ledger = fleet, keys, ledger

    def reply(self, payload: bytes) -> Reply:
        """The reply to any bytes.

        Args:
            payload: received under the keeper's topic, from any client that may write there.

        Returns:
            The prepared question or the answer, or a refusal with its reason.
        """
        try:
            ask = Ask.decode(payload)
        except ValueError as error:
            return _refusal(bytes(DIGEST_BYTES), bytes(KEY_ID_BYTES), f"malformed: {error}")
        except Exception as error:
            # The text of an unexpected error may quote a stranger's message.
            reason = f"malformed: {type(error).__name__}"
            return _refusal(bytes(DIGEST_BYTES), bytes(KEY_ID_BYTES), reason)
        digest = ask.question.digest
        try:
            if why := self._unanswerable(ask):
                return _refusal(digest, ask.key, why)
            found = self._prepared(ask) if ask.kind == "prepare" else self._answered(ask)
        except StateError as error:
            log.error("%s", error)
            return _refusal(digest, ask.key, "ledger: cannot be read or written; see its log")
        except Exception as error:
            log.error("a question failed (%s)", type(error).__name__)
            return _refusal(digest, ask.key, f"failed: {type(error).__name__}")
        level, windows = ask.question.level, len(ask.question.windows)
        left = f", {len(found.refused)} refused" if found.refused else ""
        log.info("%s: %d windows at level %s%s", found.kind, windows, level, left)
        return found

    def _unanswerable(self, ask: Ask) -> str:
        """The reason why this keeper cannot answer such a question, or ""."""
        if ask.question.fleet != self._fleet:
            return f"fleet: this is a keeper of {self._fleet}"
        if ask.key not in self._keys:
            return "key: this keeper has no such key, or has erased it"
        if ask.question.share.denominator > MAX_DENOMINATOR:
            return f"share: its denominator exceeds {MAX_DENOMINATOR}"
        try:
            check_answerable(ask.question, ask.spec)
        except ValueError as error:
            return f"share: {error}"
        return ""

    def _prepared(self, ask: Ask) -> Reply:
        left_out = {*self._ledger.left_out(ask.question), *_low_order(ask.question)}
        if self._ledger.stored_bytes(ask.question.digest) is not None:
            left_out = set()
        listed = tuple(each.key for each in ask.question.windows if each.key in left_out)
        return Reply("prepared", ask.question.digest, ask.key, listed[:MAX_REFUSED])

    def _answered(self, ask: Ask) -> Reply:
        question = ask.question
        if self._ledger.stored_bytes(question.digest) is None:
            private, ledger = self._keys[ask.key], SpecLedger(self._ledger, ask.spec)
            try:
                with private.noise(question.digest) as rng:
                    answer_once(question, ask.spec, private, rng, ledger)
            except AlreadyAnswered as error:
                return _refusal(question.digest, ask.key, SPENT, error.windows)
            except ValueError:
                if bad := _low_order(question):
                    return _refusal(question.digest, ask.key, LOW_ORDER, bad)
                raise
        # The reply has the stored bytes, the first time as later.
        found = self._ledger.stored_bytes(question.digest)
        if found is None:
            raise StateError("the answer was not stored; nothing is sent")
        return Reply("answered", question.digest, ask.key, answer=found)


def _low_order(question: KeeperQuestion) -> tuple[WindowKey, ...]:
    """The windows with a public key that shares no secret."""
    masks = SodiumMasks()

    def sound(public: bytes) -> bool:
        try:
            masks.check(public)
        except ValueError:
            return False
        return True

    return tuple(each.key for each in question.windows if not all(map(sound, each.epochs)))


def _refusal(
    question: bytes, key: bytes, reason: str, windows: tuple[WindowKey, ...] = ()
) -> Reply:
    reason = one_line(reason)[:MAX_LINE]
    log.warning("refused: %s", reason)
    return Reply("refused", question, key, windows[:MAX_REFUSED], reason)
