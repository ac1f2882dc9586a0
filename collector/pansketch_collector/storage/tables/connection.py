"""The interface of a database connection: SQLite or a server.

The statements of this package use SQL that both execute.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

Values = Sequence[Any] | Mapping[str, Any]
PORTION: Final = 500  # devices that one statement names


class ServerError(Exception):
    """A database server rejected a statement or is unreachable. `passing`: a retry may succeed.

    `str()` is one line.
    """

    def __init__(self, text: str, passing: bool = True) -> None:
        super().__init__(" ".join(text.split()))
        self.passing = passing


# The exceptions of any statement.
ERRORS: Final = (sqlite3.Error, ServerError)


def passing(error: Exception) -> bool:
    """True if a retry of the statement may succeed: a full disk, or an unavailable server."""
    if isinstance(error, ServerError):
        return error.passing
    return isinstance(error, sqlite3.OperationalError)


def remedy(error: Exception) -> str:
    """Tells an operator how to end an error that may pass."""
    if isinstance(error, ServerError):
        return "start the database server, or read its log"
    if "locked" in str(error):
        return "end the other program that writes it"
    return "free its disk"


class Rows(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """One connection, for one thread.

    Statements name their values `?`, `?1` or `:name`, and raise one of ERRORS. `BEGIN IMMEDIATE`
    begins a transaction that excludes other writers.
    """

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, values: Values = ..., /) -> Rows: ...
    def executemany(self, sql: str, values: Sequence[Values], /) -> object: ...
    def close(self) -> None: ...


def streamed(db: Database, sql: str, values: Values) -> Iterator[Any]:
    """The rows of a long answer; from a server, within a transaction, a few of them in memory."""
    streams = getattr(db, "stream", None)
    if streams is not None and db.in_transaction:
        yield from streams(sql, values)
    else:
        yield from db.execute(sql, values)


def of_devices(db: Database, query: str, devices: Sequence[str] | None = None) -> Iterator[Any]:
    """The rows of a query about all devices, or about these.

    `query` has `{of}` in the place of its condition on the column `device`. Its order is that of
    the rows of PORTION devices.
    """
    if devices is None:
        yield from db.execute(query.format(of="TRUE"))
        return
    for first in range(0, len(devices), PORTION):
        part = devices[first : first + PORTION]
        names = ", ".join("?" * len(part))
        yield from db.execute(query.format(of=f"device IN ({names})"), part)


@contextmanager
def transaction(connection: Database) -> Iterator[None]:
    """One transaction: its whole effect is on the disk after the block, or none. Raises one of
    ERRORS."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
