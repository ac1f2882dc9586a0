"""The questions to keepers and their answers, seen on the wire, and the open questions.

The records of keepers and collector are not used: the broker's traffic holds every answer, also one
that was lost after the broker.
"""

import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from pansketch.blinding import KeeperQuestion
from pansketch.wire import decode_question, encode_question
from pansketch_collector.storage.tables.records import EXCLUDED
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.keeper_messages import Ask, Reply
from pansketch_fleet.units import seconds
from testbed.mqtt_packets import PublishReader

# A keeper that was asked may have answered.
FIXED = "state IN ('answer', 'answered', 'failed')"


class AnswerObserver:
    """Notes every question and every answer. `asked`: how many questions were sent so far."""

    def __init__(self) -> None:
        self.asked = 0
        self._mutex = threading.Lock()
        self._questions: dict[bytes, bytes] = {}
        self._answers: dict[tuple[str, bytes], set[bytes]] = defaultdict(set)

    def questions(self) -> list[bytes]:
        """Each in its wire format, once."""
        with self._mutex:
            return list(self._questions.values())

    def answers(self) -> dict[tuple[str, bytes], set[bytes]]:
        """The answers in their wire format, by keeper and digest of the question: one each, unless
        a keeper has answered twice."""
        with self._mutex:
            return {name: set(found) for name, found in self._answers.items()}

    def asker(self) -> Callable[[bytes], object]:
        """The tap of a connection of the collector."""
        return self._tap("ask", self._note_question)

    def keeper(self) -> Callable[[bytes], object]:
        """The tap of a connection of a keeper."""
        return self._tap("answer", self._note_answer)

    def _tap(self, kind: str, receive: Callable[[str, bytes], None]) -> Callable[[bytes], object]:
        reader = PublishReader()

        def tap(content: bytes) -> None:
            for topic, payload in reader.feed(content):
                place = topics.parse(topic)
                if place is not None and place.kind == kind:
                    receive(place.device, payload)

        return tap

    def _note_question(self, keeper: str, payload: bytes) -> None:
        question = Ask.decode(payload).question
        with self._mutex:
            self._questions.setdefault(question.digest, encode_question(question))
            self.asked += 1

    def _note_answer(self, keeper: str, payload: bytes) -> None:
        reply = Reply.decode(payload)
        if reply.kind == "answered":
            with self._mutex:
                self._answers[keeper, reply.question].add(reply.answer)


def levels_of(question: KeeperQuestion) -> set[str]:
    """The subject of a question, as names of windows at its level."""
    return {level_name(*each.key, question.level) for each in question.windows}


def level_name(device: str, stream: str, incarnation: bytes, sequence: int, level: str) -> str:
    return f"{device}/{stream} {incarnation.hex()} {sequence} at level {level}"


def fixed(database: Path) -> set[str]:
    """The windows, at their levels, that the database records as asked."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(f"SELECT payload FROM questions WHERE {FIXED}").fetchall()
    return {name for (payload,) in rows for name in levels_of(decode_question(payload))}


def waiting_until(database: Path) -> dict[str, tuple[int, int]]:
    """Windows that no question lists, at their levels, with two times in unix seconds.

    The first is the end of their own period. The second is the end of the period whose question is
    to list them; it is later for a late release.
    """
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        rows = connection.execute(
            "SELECT device, stream, incarnation, sequence, level, window_start, (SELECT"
            " max(period_end) FROM questions AS q WHERE (q.stream, q.level, q.fingerprint)"
            " = (w.stream, w.level, w.fingerprint)) FROM window_levels AS w"
            f" WHERE question IS NULL AND problem = '' AND NOT {EXCLUDED}"
        ).fetchall()
    found = {}
    for device, stream, incarnation, sequence, level, start, asked in rows:
        every = int(seconds(level))
        end = (start // every + 1) * every
        late = end if asked is None else max(end, asked + every)
        found[level_name(device, stream, incarnation, sequence, level)] = end, late
    return found


def unsettled(database: Path) -> int:
    """The number of open questions."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        query = "SELECT count(*) FROM questions WHERE state IN ('prepare', 'answer')"
        (found,) = connection.execute(query).fetchone()
    return int(found)
