"""A PostgreSQL server as the database, with the tables and statements of SQLite.

The serving process holds an advisory lock. A writing transaction excludes others by another one.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

import psycopg

from pansketch_collector.errors import CommandError
from pansketch_collector.storage.tables import schema
from pansketch_collector.storage.tables.connection import Rows, ServerError, Values, transaction
from pansketch_collector.storage.tables.postgresql_dialect import (
    ROOM,
    adapt,
    named,
    statement_triggers,
    tables,
    translated,
)
from pansketch_collector.storage.tables.records import CopiedRow, blocks
from pansketch_fleet.settings.settings import DatabaseServer

CONNECT_SECONDS: Final = 10
SILENT_SECONDS: Final = 30  # until a transaction fails that waits for the server or a writer
FETCHED: Final = 64  # rows of a streamed answer in memory
# Advisory locks of one database: of the serving process, and of a writing transaction.
SERVING, WRITING = (0x70616E73, 1), (0x70616E73, 2)
# Each statement reads few rows, by an index. The server keeps a plan that it made for a small
# table, and such a plan may scan the table. Compilation takes longer than such a statement.
PLANS: Final = "SET enable_seqscan = off; SET jit = off"

# Insertions of many rows: all of them new, or some of them stored already.
_OF_NEW: Final = re.compile(r"INSERT INTO (\w+(?: \([\w, ]+\))?) VALUES \((?:\?, )*\?\)")
_OF_ANY: Final = re.compile(r"INSERT INTO (\w+) VALUES \((?:\?, )*\?\) ON CONFLICT DO NOTHING")


class Postgresql:
    """One connection, which is renewed at the next transaction after the server was unavailable.

    Attributes:
        in_transaction: True between the begin and the end of a transaction.
    """

    def __init__(self, server: DatabaseServer, serving: bool = False) -> None:
        """Connects. Raises ServerError if the server is unreachable, or another process serves."""
        self._server, self._serves = server, serving
        self._names = count()
        self._tables: dict[str, str] = {}
        self.in_transaction = False
        self._connection = self._connected()

    def _connected(self) -> "psycopg.Connection[Any]":
        try:
            connection = psycopg.connect(
                self._server.url,
                password=self._server.password,
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                fallback_application_name="pansketch-collector",
                client_encoding="utf8",
                keepalives_idle=SILENT_SECONDS,
                tcp_user_timeout=SILENT_SECONDS * 1_000,
            )
        except psycopg.Error as error:
            raise ServerError(str(error)) from error
        try:
            if self._serves:  # The server may hold the lock of an ended session for a moment.
                connection.execute(f"SET lock_timeout = '{CONNECT_SECONDS}s'")
                connection.execute("SELECT pg_advisory_lock(%s, %s)", SERVING)
            connection.execute(f"SET lock_timeout = {SILENT_SECONDS * 1_000}; {PLANS}")
        except psycopg.Error as error:
            connection.close()
            held = isinstance(error, psycopg.errors.LockNotAvailable)
            text = "another collector is serving it: stop that one first" if held else str(error)
            raise ServerError(text) from error
        adapt(connection)
        return connection

    def execute(self, sql: str, values: Values = (), /) -> Rows:
        """See `Database`."""
        if sql.startswith("BEGIN"):
            return self._begin("IMMEDIATE" in sql)
        if sql == "ROLLBACK":
            return self._roll_back()
        done = self._run(translated(sql), named(sql, values))
        if sql == "COMMIT":
            self.in_transaction = False
            if done.statusmessage != "COMMIT":
                raise ServerError("the server gave up the transaction")
        return done

    def executemany(self, sql: str, values: Sequence[Values], /) -> None:
        """See `Database`. An insertion is one statement, so a trigger sees all its rows at once."""
        if not values:
            return
        if found := _OF_ANY.fullmatch(sql):
            columns = [list(column) for column in zip(*values, strict=True)]
            rows = f"SELECT * FROM unnest({self._arrays(found[1])})"
            self._run(f"INSERT INTO {found[1]} {rows} ON CONFLICT DO NOTHING", columns)
            return
        with self._translate_errors(), self._connection.cursor() as cursor:
            if found := _OF_NEW.fullmatch(sql):
                # Unlike an array, a copy does not hold the text of all payloads in memory.
                with cursor.copy(f"COPY {found[1]} FROM STDIN") as copy:
                    for row in values:
                        copy.write_row(row)  # type: ignore[arg-type]
            else:
                cursor.executemany(translated(sql), values)

    def copy(self, columns: str, rows: Iterable[CopiedRow]) -> None:
        """Inserts encoded rows. `columns`: as in an INSERT, a table and its columns."""
        with (
            self._translate_errors(),
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {columns} FROM STDIN (FORMAT BINARY)") as copy,
        ):
            for block in blocks(rows):
                copy.write(block)

    def _arrays(self, table: str) -> str:
        """A parameter for an array of each column of a table."""
        if table not in self._tables:
            types = self._run(
                "SELECT format_type(atttypid, NULL) FROM pg_attribute"
                " WHERE attrelid = CAST(%s AS regclass) AND attnum > 0 AND NOT attisdropped"
                " ORDER BY attnum",
                (table,),
            )
            self._tables[table] = ", ".join(f"CAST(%s AS {name}[])" for (name,) in types)
        return self._tables[table]

    def stream(self, sql: str, values: Values) -> Iterator[Any]:
        """The rows of a long answer within a transaction, FETCHED of them in memory."""
        name = f"long{next(self._names)}"
        with self._translate_errors(), self._connection.cursor(name) as cursor:
            cursor.itersize = FETCHED
            # Values are in the text: a declared cursor does not infer the types of parameters.
            client_cursor = psycopg.ClientCursor(self._connection)
            cursor.execute(client_cursor.mogrify(translated(sql), named(sql, values)))
            yield from cursor

    def script(self, sql: str) -> None:
        """Runs statements without values, untranslated."""
        with self._translate_errors():
            self._connection.execute(sql)

    def server_identity(self) -> str:
        """Names the server's data, its history and the database: it differs after a restore from a
        copy."""
        found = self.execute(
            "SELECT system_identifier, timeline_id, oid FROM pg_control_system(),"
            " pg_control_checkpoint(), pg_database WHERE datname = current_database()"
        ).fetchone()
        return "/".join(map(str, found))

    def close(self) -> None:
        """Ends the session; the server rolls back an open transaction."""
        self._connection.close()

    def _begin(self, writes: bool) -> Rows:
        # A writer sees, after it waited for the lock, all earlier commits.
        level = "READ COMMITTED" if writes else "REPEATABLE READ"
        begun = self._run(f"BEGIN ISOLATION LEVEL {level}", ())
        self.in_transaction = True
        try:
            return self._run("SELECT pg_advisory_xact_lock(%s, %s)", WRITING) if writes else begun
        except BaseException:
            self._roll_back()  # The caller does not know that it was begun.
            raise

    def _roll_back(self) -> Rows:
        try:
            return self._run("ROLLBACK", ())
        except ServerError:
            self._connection.close()  # The server rolls it back.
            return psycopg.Cursor(self._connection)
        finally:
            self.in_transaction = False

    def _run(self, sql: str, values: Values) -> "psycopg.Cursor[Any]":
        if self._connection.closed and not self.in_transaction:
            self._connection = self._connected()
        with self._translate_errors():
            return self._connection.execute(sql, values)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            text, passing = str(error), isinstance(error, psycopg.OperationalError)
            raise ServerError(text or type(error).__name__, passing) from error


def opened(server: DatabaseServer, serving: bool = False, create: bool = False) -> Postgresql:
    """A connection to a collector's database; `create`: creates the tables if absent.

    Raises CommandError: no server, no login, another process serves, or tables of another version.
    """
    try:
        db = Postgresql(server, serving)
    except ServerError as error:
        raise CommandError(
            f"database {server}: {error}: check collector.database, its password and the server"
        ) from error
    try:
        found = _version(db)
        if found is None and create:
            with transaction(db):
                found = _version(db) or _create_tables(db)
        outdated = found == schema.VERSION and _has_row_triggers(db)
        if outdated and create:
            with transaction(db):
                db.script(statement_triggers())
        if found == schema.VERSION and create and _lacks_room(db):
            with transaction(db):
                db.script(ROOM)
    except ServerError as error:
        db.close()
        raise CommandError(f"database {server}: {error}: check the user's rights") from error
    if found != schema.VERSION or (outdated and not create):
        db.close()
        raise _foreign(server, found)
    return db


def _version(db: Postgresql) -> int | None:
    """The version of the tables; 0 for those of another program, None without any."""
    query = "SELECT to_regclass('pansketch_schema'), to_regclass('releases')"
    ours, others = db.execute(query).fetchone()
    if ours is not None:
        return int(db.execute("SELECT version FROM pansketch_schema").fetchone()[0])
    return None if others is None else 0


def _has_row_triggers(db: Postgresql) -> bool:
    """True if earlier triggers count the releases, which a copy of many rows would mislead."""
    query = (
        "SELECT 1 FROM pg_trigger WHERE tgrelid = CAST('releases' AS regclass)"
        " AND tgname = 'releases_held' AND tgtype % 2 = 1"
    )
    return db.execute(query).fetchone() is not None


def _lacks_room(db: Postgresql) -> bool:
    """True if an earlier version made the tables, with full pages, and this role may change it."""
    query = (
        "SELECT 1 FROM pg_class WHERE oid = CAST('tallies' AS regclass)"
        " AND reloptions IS NULL AND pg_has_role(relowner, 'USAGE')"
    )
    return db.execute(query).fetchone() is not None


def _create_tables(db: Postgresql) -> int:
    db.script(tables())
    db.execute("INSERT INTO pansketch_schema (version, place) VALUES (?, '')", (schema.VERSION,))
    return schema.VERSION


def _foreign(server: DatabaseServer, found: int | None) -> CommandError:
    if found is None:
        text = (
            f"there is no collector's database at {server} yet: run `pansketch-collector serve`, "
            "or check collector.database in the configuration"
        )
    elif found == 0:
        text = f"{server} has tables of another program: name an empty one in collector.database"
    elif found == schema.VERSION:
        text = (
            f"{server} has triggers of an earlier version: start `pansketch-collector serve`, "
            "which renews them"
        )
    else:
        text = (
            f"{server} has schema {found}, and this program reads schema {schema.VERSION}: "
            "use the version that made it, or another collector.database"
        )
    return CommandError(text)
