"""Questions to keepers in the database: waiting releases, open questions, and answers.

State `answer` fixes the set of windows that a question lists. That state is on the disk before any
keeper is asked for an answer. Until then keepers are only asked which windows they would refuse. If
a keeper still refuses windows of a fixed list, the store replaces the question by one without them.
The new question is prepared again, and refused for windows that another keeper has answered. Every
method that changes something is one transaction; methods raise one of ERRORS.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from pansketch import Release
from pansketch.blinding import KeeperQuestion, WindowKey
from pansketch.wire import decode_question, encode_question
from pansketch_collector.asking.waiting_releases import KEY, SAME, Group
from pansketch_collector.storage.tables.connection import Database, transaction
from pansketch_collector.storage.tables.records import EXCLUDED
from pansketch_collector.validation.verdicts import MAX_TEXT
from pansketch_fleet.errors import one_line
from pansketch_fleet.protocol.keeper_messages import Reply
from pansketch_fleet.protocol.messages import Status, digest


@dataclass(frozen=True)
class AskedKeeper:
    """One keeper of a question: the id of its key, its name, and "asked", "prepared" or
    "answered"."""

    key: bytes
    name: str
    state: str


@dataclass(frozen=True)
class OpenQuestion:
    """A question that is not settled; `state`: "prepare" or "answer"."""

    number: int
    digest: bytes
    stream: str
    fingerprint: bytes
    state: str
    keepers: tuple[AskedKeeper, ...]


class QuestionStore:
    """The questions of one serving process, on the connection that writes."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def retry(self) -> None:
        """Tries again to unblind what failed, where all keepers have answered: the settings may be
        others now."""
        with transaction(self._db):
            self._db.execute(
                "UPDATE questions SET state = 'answer', problem = '' WHERE state = 'failed'"
                " AND NOT EXISTS (SELECT 1 FROM keeper_answers"
                " WHERE question = questions.id AND state != 'answered')"
            )

    def add(
        self,
        group: Group,
        period: int,
        question: KeeperQuestion,
        names: Mapping[bytes, str],
        at: int,
    ) -> None:
        """Stores a question that keepers are to prepare."""
        start = period * group.level.every_seconds
        with transaction(self._db):
            (number,) = self._db.execute(
                "INSERT INTO questions (digest, stream, fingerprint, level, period_start,"
                " period_end, windows, state, problem, asked_at, payload)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 'prepare', '', ?, ?) RETURNING id",
                (
                    *(question.digest, group.stream, group.fingerprint, group.level.name),
                    *(start, start + group.level.every_seconds, len(question.windows)),
                    *(at, encode_question(question)),
                ),
            ).fetchone()
            self._db.executemany(
                f"UPDATE window_levels SET question = ? WHERE ({KEY}, level, window_start)"
                " = (?, ?, ?, ?, ?, ?) AND question IS NULL AND problem = ''",
                [
                    (number, *each.key, group.level.name, each.window.start)
                    for each in question.windows
                ],
            )
            self._db.executemany(
                "INSERT INTO keeper_answers VALUES (?, ?, ?, 'asked', '', NULL, NULL)",
                [(number, key, names[key]) for key in group.keepers],
            )

    def open(self) -> Iterator[OpenQuestion]:
        """Those that are not settled, the oldest first."""
        # One statement: while a keeper is offline there may be many thousands.
        rows = self._db.execute(
            "SELECT id, digest, stream, fingerprint, q.state, key, keeper, a.state"
            " FROM questions AS q JOIN keeper_answers AS a ON question = id"
            " WHERE q.state IN ('prepare', 'answer') ORDER BY id, key"
        ).fetchall()
        for _, group in groupby(rows, key=itemgetter(0)):
            found = list(group)
            number, name, stream, fingerprint, state = found[0][:5]
            keepers = tuple(AskedKeeper(*each[5:]) for each in found)
            yield OpenQuestion(number, name, stream, fingerprint, state, keepers)

    def question(self, number: int) -> KeeperQuestion:
        """One question. Raises WireError where its bytes have changed on the disk."""
        query = "SELECT payload FROM questions WHERE id = ?"
        return decode_question(self._db.execute(query, (number,)).fetchone()[0])

    def record_reply(self, keeper: str, reply: Reply, at: int) -> None:
        """Notes a keeper's reply to an open question; any other is nothing."""
        row = self._db.execute(
            "SELECT id, q.state FROM questions AS q JOIN keeper_answers ON question = id"
            " WHERE (digest, key, keeper) = (?, ?, ?)",
            (reply.question, reply.key, keeper),
        ).fetchone()
        if row is None:
            return
        number, state = row
        with transaction(self._db):
            match state, reply.kind:
                case "prepare", "prepared" if not reply.refused:
                    self._note(number, reply.key, "prepared")
                case "prepare", ("prepared" | "refused") if reply.refused:
                    self._leave(number, dict.fromkeys(reply.refused, _refused_by(keeper)))
                case "answer", "answered":
                    self._note(number, reply.key, "answered", reply.answer, at)
                case "answer", "refused" if reply.refused:
                    if not self._leave(number, dict.fromkeys(reply.refused, _refused_by(keeper))):
                        self._complain(number, reply.key, reply.reason)
                case (("prepare" | "answer"), "refused"):
                    self._complain(number, reply.key, reply.reason)

    def leave(self, number: int, windows: Mapping[WindowKey, str]) -> None:
        """Removes windows from a question that is being prepared: lost for a reason, or for "" to
        wait for the next one."""
        with transaction(self._db):
            self._leave(number, windows)

    def _leave(self, number: int, windows: Mapping[WindowKey, str]) -> bool:
        """Remove the windows. Return True if the question listed one and was replaced."""
        question = self.question(number)
        left = tuple(each for each in question.windows if each.key not in windows)
        if len(left) == len(question.windows):
            return False
        self._db.executemany(
            f"UPDATE window_levels SET question = NULL, problem = ? WHERE ({KEY}) = (?, ?, ?, ?)"
            " AND question = ?",
            [(problem, *key, number) for key, problem in windows.items()],
        )
        if not left:
            self._db.execute("DELETE FROM questions WHERE id = ?", (number,))
            return True
        fewer = KeeperQuestion(question.fleet, question.spec, question.level, question.share, left)
        self._db.execute(
            "UPDATE questions SET digest = ?, payload = ?, windows = ?, state = 'prepare'"
            " WHERE id = ?",
            (fewer.digest, encode_question(fewer), len(left), number),
        )
        self._db.execute(
            "UPDATE keeper_answers SET state = 'asked', problem = '', payload = NULL,"
            " answered_at = NULL WHERE question = ?",
            (number,),
        )
        return True

    def unfit(self, number: int) -> dict[WindowKey, str]:
        """Windows that an unasked question must not list.

        They are excluded ones, which wait, and those without a release, with that as the reason.
        """
        rows = self._db.execute(
            f"SELECT {KEY}, {EXCLUDED} FROM window_levels AS w WHERE question = ? AND ({EXCLUDED}"
            f" OR NOT EXISTS (SELECT 1 FROM releases AS r WHERE {SAME}))",
            (number,),
        )
        return {row[:4]: "" if row[4] else "its release is not stored any more" for row in rows}

    def fix(self, number: int) -> None:
        """From now on the list of a question stays as it is, and keepers are asked to answer."""
        with transaction(self._db):
            self._db.execute("UPDATE questions SET state = 'answer' WHERE id = ?", (number,))

    def answers(self, number: int) -> dict[bytes, bytes]:
        """The answers to a question, by the id of the keeper's key."""
        query = "SELECT key, payload FROM keeper_answers WHERE question = ? ORDER BY key"
        return dict(self._db.execute(query, (number,)).fetchall())

    def complain(self, number: int, key: bytes, problem: str) -> None:
        """Notes why a keeper is not asked, or gives no answer."""
        with transaction(self._db):
            self._complain(number, key, problem)

    def again(self, number: int, key: bytes, problem: str) -> None:
        """Asks a keeper again, whose answer cannot be used."""
        with transaction(self._db):
            self._note(number, key, "asked")
            self._complain(number, key, problem)

    def releases(self, number: int) -> list[int]:
        """The rows of the releases that a question lists, as far as they are stored."""
        rows = self._db.execute(
            f"SELECT r.id FROM window_levels AS w JOIN releases AS r ON {SAME}"
            " WHERE w.question = ? ORDER BY w.device, w.sequence",
            (number,),
        )
        return [row[0] for row in rows]

    def payload(self, release: int) -> bytes:
        """The bytes of one stored release."""
        query = "SELECT payload FROM releases WHERE id = ?"
        return bytes(self._db.execute(query, (release,)).fetchone()[0])

    def settle(self, number: int, total: Release, at: int) -> None:
        """Stores the unblinded sum of a question."""
        counters = total.counters.astype("<i8").tobytes()
        with transaction(self._db):
            self._db.execute(
                "UPDATE questions SET state = 'answered', problem = '', settled_at = ?, draws = ?,"
                " noise = ?, counters = ?, seal = ? WHERE id = ?",
                (at, total.draws, total.noise, counters, digest(counters), number),
            )

    def fail(self, number: int, problem: str, at: int) -> None:
        """Sets a question aside; its windows are in no answer of this level."""
        with transaction(self._db):
            self._fail(number, problem, at)

    def presences(self) -> dict[str, tuple[str, str]]:
        """State and session of each keeper that has reported itself."""
        rows = self._db.execute("SELECT keeper, state, session FROM keepers")
        return {keeper: (state, session) for keeper, state, session in rows}

    def note_presence(self, keeper: str, status: Status, at: int) -> None:
        """Store the status of a keeper."""
        with transaction(self._db):
            self._db.execute(
                "INSERT INTO keepers VALUES (?, ?, ?, ?) ON CONFLICT (keeper) DO UPDATE SET"
                " state = excluded.state, session = excluded.session, since = excluded.since",
                (keeper, status.state, status.session, at),
            )

    def _note(
        self,
        number: int,
        key: bytes,
        state: str,
        payload: bytes | None = None,
        at: int | None = None,
    ) -> None:
        self._db.execute(
            "UPDATE keeper_answers SET state = ?, problem = '', payload = ?, answered_at = ?"
            " WHERE (question, key) = (?, ?)",
            (state, payload, at, number, key),
        )

    def _complain(self, number: int, key: bytes, problem: str) -> None:
        self._db.execute(
            "UPDATE keeper_answers SET problem = ? WHERE (question, key) = (?, ?)",
            (one_line(problem)[:MAX_TEXT], number, key),
        )

    def _fail(self, number: int, problem: str, at: int) -> None:
        self._db.execute(
            "UPDATE questions SET state = 'failed', problem = ?, settled_at = ? WHERE id = ?",
            (one_line(problem)[:MAX_TEXT], at, number),
        )


def _refused_by(keeper: str) -> str:
    return f"keeper {keeper} has answered about it in another question, or in full"
