"""A connection to a database, whichever program keeps it: SQLite, or a server.

The statements of this package are written once, in the SQL that all of them read.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

Values = Sequence[Any] | Mapping[str, Any]


# What any statement may raise.
ERRORS: Final = (sqlite3.Error,)


def passing(error: Exception) -> bool:
    """Whether the same statement may succeed later: a disk was full."""
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
