"""A connection to a database, whichever program keeps it: SQLite, or a server.

The statements of this package are written once, in the SQL that all of them read.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

Values = Sequence[Any] | Mapping[str, Any]


class ServerError(Exception):
    """A database server refused a statement, or cannot be reached. `passing`: it may do it later.

    `str()` is one line.
    """

    def __init__(self, text: str, passing: bool = True) -> None:
        super().__init__(" ".join(text.split()))
        self.passing = passing


# What any statement may raise.
ERRORS: Final = (sqlite3.Error, ServerError)


def passing(error: Exception) -> bool:
    """Whether the same statement may succeed later: a disk was full, or a server was away."""
    if isinstance(error, ServerError):
        return error.passing
    return isinstance(error, sqlite3.OperationalError)


class Rows(Protocol):
    """What a statement found."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """One connection, for one thread. Statements name their values `?`, `?1` or `:name`, and raise
    one of ERRORS. `BEGIN IMMEDIATE` begins a transaction in which nobody else writes."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, values: Values = ..., /) -> Rows: ...
    def executemany(self, sql: str, values: Sequence[Values], /) -> object: ...
    def close(self) -> None: ...


def streamed(db: Database, sql: str, values: Values) -> Iterator[Any]:
    """The rows of a long answer, a few of them in memory. From a server, within a transaction."""
    streams = getattr(db, "stream", None)
    if streams is not None and db.in_transaction:
        yield from streams(sql, values)
    else:
        yield from db.execute(sql, values)


@contextmanager
def transaction(connection: Database) -> Iterator[None]:
    """All of what is inside is on the disk after it, or none of it. Raises one of ERRORS."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
