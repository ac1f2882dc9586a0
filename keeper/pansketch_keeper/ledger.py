"""The ledger of a keeper, in SQLite: it records each answered window once for each level, for ever.

A change is on the disk when the call returns (WAL, synchronous FULL). Texts are stored once, so
that a million windows take some tens of megabytes. An entry is never removed.

Changes are numbered, and a file beside the ledger has the number of the last one. The keeper writes
it after the change and before it publishes anything. So a ledger with a lower number is an old copy
without the last answers, and the keeper refuses it.
"""

import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from pansketch.blinding import (
    AlreadyAnswered,
    KeeperAnswer,
    KeeperQuestion,
    WindowKey,
    keeper_id,
    refused,
)
from pansketch.wire import encode_answer
from pansketch_agent.host.durable_files import replace_file

LEDGER, MARK = "ledger.sqlite", "ledger-mark"
APPLICATION, VERSION = 0x70736B4C, 1
MAX_LEVELS = 64  # of one window: sums of shares stay small numbers
SCHEMA = """
CREATE TABLE keys (number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, public BLOB NOT NULL,
    retired INTEGER NOT NULL DEFAULT 0);
CREATE TABLE histories (id INTEGER PRIMARY KEY, device TEXT NOT NULL, stream TEXT NOT NULL,
    incarnation BLOB NOT NULL, UNIQUE (device, stream, incarnation));
CREATE TABLE questions (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, level TEXT NOT NULL,
    share TEXT NOT NULL, answer BLOB);
CREATE TABLE windows (history INTEGER NOT NULL, sequence INTEGER NOT NULL,
    question INTEGER NOT NULL, PRIMARY KEY (history, sequence, question)) WITHOUT ROWID;
CREATE TABLE changes (number INTEGER NOT NULL);
INSERT INTO changes VALUES (0);
"""
Spent = dict[WindowKey, dict[str, tuple[Fraction, bytes]]]


class StateError(Exception):
    """A keeper's state cannot be used; a single line with the problem, its cause and the fix."""


@dataclass(frozen=True)
class AnsweredLevel:
    """The answers about one stream at one level. `open`: reserved windows without a stored answer,
    because the keeper was stopped in between."""

    stream: str
    level: str
    share: Fraction
    questions: int
    devices: int
    windows: int
    open: int


class KeeperLedger:
    """A ledger on disk, from `create` or `open`; as a context manager it closes itself."""

    def __init__(self, path: Path, connection: sqlite3.Connection, mark: int) -> None:
        self.path, self._connection = path, connection
        self._mark = mark  # the number in the file beside the ledger

    @classmethod
    def create(cls, path: Path) -> "KeeperLedger":
        """An empty ledger in a new file, for its owner only. Raises StateError."""
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
            connection = _connected(path, "rw")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.executescript(f"BEGIN;{SCHEMA}PRAGMA user_version = {VERSION};COMMIT;")
            replace_file(path.with_name(MARK), b"0\n")
        except (OSError, sqlite3.Error) as error:
            raise StateError(f"{path}: cannot be made ({error})") from None
        return cls(path, connection, 0)

    @classmethod
    def open(cls, path: Path, readonly: bool = False) -> "KeeperLedger":
        """The ledger of an existing file. Raises StateError."""
        if not path.is_file() or path.is_symlink():
            raise StateError(
                f"{path}: there is no ledger; its keys must not answer without it: make a new "
                "keeper with init"
            )
        with ExitStack() as refused:
            try:
                connection = _connected(path, "ro" if readonly else "rw")
                refused.callback(connection.close)
                names = "application_id", "user_version"
                found = [connection.execute(f"PRAGMA {each}").fetchone()[0] for each in names]
            except sqlite3.Error as error:
                raise StateError(f"{path}: is no ledger of a keeper ({error})") from None
            if found != [APPLICATION, VERSION]:
                problem = "is no ledger that this version knows"
                raise StateError(f"{path}: {problem}; is it in the folder of this keeper?")
            ledger = cls(path, connection, 0 if readonly else _marked(path.with_name(MARK)))
            if not readonly:
                with ledger._guarded():
                    ledger._raise_mark()
            refused.pop_all()
        return ledger

    def __enter__(self) -> "KeeperLedger":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def stored_bytes(self, question: bytes) -> bytes | None:
        """The published answer to a question, by its digest. Raises StateError."""
        with self._guarded():
            self._raise_mark()
            found = self._one("SELECT answer FROM questions WHERE digest = ?", question)
        return None if found is None else found[0]

    def left_out(self, question: KeeperQuestion) -> tuple[WindowKey, ...]:
        """The windows that `reserve` would refuse. Raises StateError."""
        with self._guarded():
            return self._left_out(question)

    def reserve(self, question: KeeperQuestion) -> None:
        """See `AnswerLedger`.

        Raises:
            AlreadyAnswered: windows were answered at this level, or have no epsilon left.
            StateError: the disk refuses; nothing is reserved.
        """
        with self._guarded(), self._changing() as change:
            if left_out := self._left_out(question):
                raise AlreadyAnswered(left_out)
            if self._one("SELECT 1 FROM questions WHERE digest = ?", question.digest):
                return
            share = str(question.share)
            row = change(
                "INSERT INTO questions (digest, level, share) VALUES (?, ?, ?)",
                (question.digest, question.level, share),
            ).lastrowid
            for each in question.windows:
                history = self._history(each.key) or self._new_history(each.key)
                change("INSERT INTO windows VALUES (?, ?, ?)", (history, each.key[3], row))

    def keep(self, answer: KeeperAnswer) -> None:
        """See `AnswerLedger`. Raises StateError: the disk refuses."""
        with self._guarded(), self._changing() as change:
            change(
                "UPDATE questions SET answer = ? WHERE digest = ? AND answer IS NULL",
                (encode_answer(answer), answer.question),
            )

    def summary(self) -> list[AnsweredLevel]:
        """The answers by stream and level. Raises StateError."""
        rows = """SELECT stream, level, share, COUNT(DISTINCT question), COUNT(DISTINCT device),
            COUNT(*), SUM(answer IS NULL) FROM windows JOIN questions ON question = questions.id
            JOIN histories ON history = histories.id GROUP BY stream, level, share
            ORDER BY stream, level, share"""
        with self._guarded():
            found = self._connection.execute(rows).fetchall()
        return [AnsweredLevel(row[0], row[1], Fraction(row[2]), *row[3:]) for row in found]

    def add_key(self, public: bytes) -> None:
        """Record a key; it is the current one from then on. Raises StateError."""
        self._change_keys(
            "INSERT INTO keys (id, public) VALUES (?, ?)", (keeper_id(public), public)
        )

    def retire_key(self, key: bytes) -> None:
        """Record that a private key is erased. Raises StateError."""
        self._change_keys("UPDATE keys SET retired = 1 WHERE id = ?", (key,))

    def public_keys(self) -> list[bytes]:
        """All public keys with a stored private key; the current one is the last. Raises
        StateError."""
        found = self._column("SELECT public FROM keys WHERE NOT retired ORDER BY number")
        if not found:
            problem = "has no key, because its init was cut off"
            raise StateError(f"{self.path}: {problem}; remove its folder, and run init again")
        return found

    def retired_keys(self) -> list[bytes]:
        """The ids of erased keys."""
        return self._column("SELECT id FROM keys WHERE retired")

    def damage(self) -> str:
        """The result of SQLite's check of the file: "ok", or the first problem."""
        try:
            return str(self._one("PRAGMA quick_check")[0])
        except sqlite3.Error as error:
            return str(error)

    def _left_out(self, question: KeeperQuestion) -> tuple[WindowKey, ...]:
        spent = self._spent(question)
        full = {key for key, levels in spent.items() if len(levels) >= MAX_LEVELS}
        left_out = {*refused(question, spent)} | {
            key for key in full if question.level not in spent[key]
        }
        return tuple(each.key for each in question.windows if each.key in left_out)

    def _spent(self, question: KeeperQuestion) -> Spent:
        rows = """SELECT level, share, digest FROM windows JOIN questions ON question = id
            WHERE history = ? AND sequence = ?"""
        found: Spent = defaultdict(dict)
        for each in question.windows:
            history = self._history(each.key)
            if history is not None:
                for level, share, digest in self._connection.execute(rows, (history, each.key[3])):
                    found[each.key][level] = Fraction(share), digest
        return found

    def _history(self, key: WindowKey) -> int | None:
        row = self._one(
            "SELECT id FROM histories WHERE device = ? AND stream = ? AND incarnation = ?", *key[:3]
        )
        return None if row is None else row[0]

    def _new_history(self, key: WindowKey) -> int | None:
        made = "INSERT INTO histories (device, stream, incarnation) VALUES (?, ?, ?)"
        return self._connection.execute(made, key[:3]).lastrowid

    def _column(self, text: str) -> list[bytes]:
        with self._guarded():
            return [row[0] for row in self._connection.execute(text)]

    def _one(self, text: str, *values: Any) -> Any:
        return self._connection.execute(text, values).fetchone()

    def _change_keys(self, text: str, values: tuple[bytes, ...]) -> None:
        with self._guarded(), self._changing() as change:
            change(text, values)

    @contextmanager
    def _changing(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """One transaction, with the number of the change; it is on the disk after the block."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._number()
            yield self._connection.execute
            self._connection.execute("UPDATE changes SET number = number + 1")
            self._connection.execute("COMMIT")
        except BaseException:
            # A failed COMMIT may have ended the transaction.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._raise_mark()

    def _number(self) -> int:
        """The number of the last change. Raises StateError in an old copy."""
        number = int(self._one("SELECT number FROM changes")[0])
        if number < self._mark:
            forgotten = f"is an old copy, which has forgotten {self._mark - number} changes"
            fix = "never restore one: make a new keeper with init"
            raise StateError(f"{self.path}: {forgotten} and would answer again; {fix}")
        return number

    def _raise_mark(self) -> None:
        """Updates the mark, before anything that depends on the last change is published."""
        if (number := self._number()) > self._mark:
            replace_file(self.path.with_name(MARK), f"{number}\n".encode())
            self._mark = number

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise StateError(f"{self.path}: cannot be used ({error})") from None


def _marked(path: Path) -> int:
    """The number in the file beside a ledger. Raises StateError."""
    try:
        return int(path.read_bytes())
    except (OSError, ValueError):
        problem = "cannot be read, and it shows whether the ledger is an old copy"
        raise StateError(f"{path}: {problem}; make a new keeper with init") from None


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    try:
        if mode == "rw":
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error:
        connection.close()
        raise
    return connection
