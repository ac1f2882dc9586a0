"""SQLite connections, upgrades of the schema, and the lock of the serving process."""

import fcntl
import json
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pansketch.wire import spec_of
from pansketch_collector.errors import CommandError
from pansketch_collector.storage.tables import holding_counts, schema, sum_changes, sums
from pansketch_collector.storage.tables.connection import Database
from pansketch_fleet.settings.settings import DatabaseServer
from pansketch_fleet.units import utc_text

if TYPE_CHECKING:
    from pansketch_collector.storage.postgresql import Postgresql

BUSY_MILLISECONDS: Final = 3_000
PAGE_BYTES: Final = 8_192  # of new files: fewer pages are half empty than with 4,096

LOGGED_HOURS: Final = 1_000  # between two progress lines in the log

log = logging.getLogger("collector")


def open_writing(path: Path) -> sqlite3.Connection:
    """The one writing connection. Creates the database if absent, and upgrades an earlier schema.

    Every commit is on the disk when it returns. Raises CommandError for a file that is no collector
    database, has an unknown schema, or is damaged.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Private from its creation on; SQLite gives the files beside it the same permissions.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise _failed(path, error) from error
    connection.text_factory = _text
    try:
        _prepare(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise _failed(path, error) from error
    except CommandError:
        connection.close()
        raise
    return connection


def open_server(
    server: DatabaseServer, serving: bool = False, create: bool = False
) -> "Postgresql":
    """See `postgresql.opened`. Raises CommandError, also if psycopg is not installed."""
    try:
        # Imported only with a server: the import delays the start.
        from pansketch_collector.storage import postgresql
    except ImportError as error:
        raise CommandError(
            f"database {server}: psycopg is not installed ({error}): "
            "install pansketch with the extra `postgresql`"
        ) from error
    return postgresql.opened(server, serving, create)


def open_reading(path: Path | DatabaseServer) -> Database:
    """A reading connection, beside a writing one or alone. Raises CommandError."""
    return open_server(path) if isinstance(path, DatabaseServer) else open_file(path)


def open_file(path: Path) -> sqlite3.Connection:
    """A read-only connection to a file. Raises CommandError."""
    if not path.exists():
        raise CommandError(
            f"there is no database {path} yet: run `pansketch-collector serve`, "
            "or check collector.database in the configuration"
        )
    try:
        uri = f"{path.resolve().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    except sqlite3.Error as error:
        raise _failed(path, error) from error
    connection.text_factory = _text
    try:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
        found = _version(connection)
    except sqlite3.Error as error:
        connection.close()
        raise _failed(path, error) from error
    if found != schema.VERSION:
        connection.close()
        raise _foreign(path, found)
    return connection


@contextmanager
def changing(path: Path) -> Iterator[sqlite3.Connection]:
    """A writing connection of a command, beside a serving process or alone, for short transactions.

    Raises CommandError.
    """
    open_file(path).close()
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
    except sqlite3.Error as error:
        raise _failed(path, error) from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
    connection.execute("PRAGMA foreign_keys = ON")
    found = _version(connection)
    known = 0, *schema.UPGRADES, schema.VERSION
    if found not in known or (found == 0 and _has_tables(connection)):
        raise _foreign(path, found)
    if not found:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise CommandError(
            f"{path} is damaged ({damage}): restore a copy, or move it away to start an empty one"
        )
    if found != schema.VERSION:
        _upgrade(connection, path, found)


def _upgrade(connection: sqlite3.Connection, path: Path, found: int) -> None:
    """Creates all tables, or the ones that an earlier schema lacks, in one transaction.

    Computes the figures of stored releases too. After an error the caller closes the transaction.
    """
    tables = schema.TABLES
    if found:
        tables = "".join(schema.UPGRADES[each] for each in range(found, schema.VERSION))
    connection.executescript(f"BEGIN IMMEDIATE; {tables}")
    if found:
        log.warning("upgrading %s from schema %d to %d", path, found, schema.VERSION)
        _renew_triggers(connection)
    if 0 < found < schema.FIGURES_SINCE:
        connection.execute(holding_counts.MARK_LATE)
        rebuild(connection)
    connection.execute(f"PRAGMA user_version = {schema.VERSION}")
    connection.execute("COMMIT")


def _renew_triggers(connection: sqlite3.Connection) -> None:
    """Replaces all triggers by those of this version."""
    names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for (name,) in names:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in schema.TRIGGERS:
        connection.execute(statement)


def rebuild(connection: Database) -> None:
    """Recomputes all figures of the stored releases, within a transaction. Raises sqlite3.Error."""
    for (form,) in connection.execute("SELECT form FROM specs").fetchall():
        with suppress(KeyError, ValueError):  # a spec that this version does not know
            sums.note_layout(connection, spec_of(json.loads(form)))
    holding_counts.rebuild(connection)
    for done, (stream, start) in enumerate(sum_changes.rebuild(connection), 1):
        if done % LOGGED_HOURS == 0:
            log.warning("adding up releases: stream %s, %s", stream, utc_text(start))


def _text(content: bytes) -> str:
    """Decodes a stored text. A flipped byte in a name must not raise: the checks find the damaged
    row."""
    return content.decode("utf-8", "replace")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None


def _foreign(path: Path, found: int) -> CommandError:
    if found == 0:
        return CommandError(
            f"{path} is not a collector's database: name another file in collector.database, "
            "or start `pansketch-collector serve` if it is empty"
        )
    if found in schema.UPGRADES:
        return CommandError(
            f"{path} has schema {found}, and this program reads schema {schema.VERSION}: "
            "start `pansketch-collector serve`, which adds the missing tables"
        )
    return CommandError(
        f"{path} has schema {found}, and this program reads schema {schema.VERSION}: "
        "use the version that made it, or another collector.database"
    )


def _failed(path: Path, error: Exception) -> CommandError:
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
        return CommandError(f"{path} is not a collector's database: name another file")
    return CommandError(
        f"database {path}: {error}: check that collector.database names a collector's database "
        "in a folder this program may write to"
    )


@contextmanager
def serving_lock(path: Path) -> Iterator[int]:
    """Locks the file beside the database, which stores the last served state.

    Yields its descriptor. Raises CommandError if another process serves the database.
    """
    lock = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CommandError(f"{lock}: {error.strerror}: make its folder writable") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise CommandError(f"another collector is serving {path}: stop that one first") from error
    try:
        yield handle
    finally:
        os.close(handle)


def last_served(lock: int | None) -> tuple[str, int]:
    """Generation and highest row that were served last; "" if unknown."""
    words = [] if lock is None else os.pread(lock, 64, 0).decode("ascii", "replace").split()
    if len(words) != 2 or not words[1].isdecimal():
        return "", 0
    return words[0], int(words[1])


def note_served(lock: int, generation: str, highest: int) -> None:
    """Writes the state for `last_served`, without a sync: it is never ahead of the database."""
    os.pwrite(lock, f"{generation} {highest:020d}\n".encode(), 0)
