"""`backup`: a copy of the database that is whole, made beside a process that serving.

`migrate`: all that a SQLite file holds, copied to the PostgreSQL server of the configuration. One
transaction of the server copies and verifies, so an interrupted command leaves an empty database.
The generation is copied as well: devices notice nothing.
"""

import argparse
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TypeVar

from pansketch_collector.commands import verification
from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.commands.verification import VerificationResult
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.database import open_file, open_server
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.connection import ERRORS, Database, transaction
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.settings import DatabaseServer

PAGES = 4_096  # copied at a time
ROWS = 1_000  # rows in memory
SAY_ROWS = 50_000  # between two lines of progress
MADE = ("generation", "quarantined")  # tables with one row from their start on
# Numbers that were given once are never given again: they tell devices and caches what is new.
HIGHEST = "greatest((SELECT coalesce(max(id), 0) FROM {table}), {before})"


Found = TypeVar("Found")


def backup(database: Path, target: Path, check: Callable[[Path], Found]) -> Found:
    """Copies the database with SQLite's backup interface, has `check` look at the copy, and gives
    it its name: what `check` found. Only its owner may read it.

    Raises CommandError: for a name that is taken, a folder that is not there, a full disk, and what
    `check` raises; then there is no file of that name.
    """
    if target.exists():
        raise wrong(f"{target} exists already: name another file")
    if not target.parent.is_dir():
        raise wrong(f"cannot write {target}: create its folder first")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise CommandError(f"cannot write {target}: {error.strerror}") from error
    os.close(handle)
    unfinished = Path(name)
    try:
        _copy(database, unfinished)
        found = check(unfinished)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        # A link, for it fails where a rename would overwrite what came there meanwhile.
        os.link(unfinished, target)
        return found
    except FileExistsError:
        raise wrong(f"{target} exists already: name another file") from None
    except OSError as error:
        raise CommandError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        for rest in ("", "-journal", "-wal", "-shm"):
            Path(name + rest).unlink(missing_ok=True)


def _copy(database: Path, unfinished: Path) -> None:
    try:
        with (
            closing(open_file(database)) as source,
            closing(sqlite3.connect(unfinished, isolation_level=None)) as copy,
        ):
            source.execute("BEGIN")  # Of one moment: what comes meanwhile is not in it.
            source.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
            source.backup(copy, pages=PAGES)
            # One file, that can be read without writing beside it.
            copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise CommandError(f"cannot copy {database}: {error}: free the disk and retry") from error


def run_backup(config: Config, options: argparse.Namespace) -> int:
    """Writes a verified copy of the database; 1 where a release in it is damaged."""

    def check(path: Path) -> VerificationResult:
        found = verification.verified(config, path)
        if found.file:
            raise CommandError(f"not written: the copy is damaged ({found.file[0]})")
        return found

    database = config.collector.database
    if isinstance(database, DatabaseServer):
        raise wrong(f"{database} is a server: copy its database with pg_dump")
    found = backup(database, options.file, check)
    with writing("-") as out:
        out.writelines(f"{line}\n" for line in verification.as_lines(found, options.file))
    return 0 if found.well else 1


def tables(source: Database) -> dict[str, list[str]]:
    """The columns of each table of a SQLite database, parents first."""
    names = source.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        " ORDER BY rowid"
    ).fetchall()
    return {
        name: [row[1] for row in source.execute(f"PRAGMA table_info({name})")] for (name,) in names
    }


def copy(source: Database, target: Database, say: Callable[[str], object]) -> None:
    """Copies all rows, within a transaction of each. `say` gets the progress.

    Raises CommandError where the target holds something, and one of ERRORS.
    """
    found = tables(source)
    for table in found:
        if table not in MADE and target.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():
            raise wrong("the server's database is not empty: name a new one, or drop this one")
    for table, columns in found.items():
        # Counts and sums are copied too, not counted again.
        target.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        target.execute(f"DELETE FROM {table}")
        _copy_table(source, target, table, columns, say)
        target.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        if "id" in columns and table != "generation":
            _number_on(source, target, table)


def _copy_table(
    source: Database, target: Database, table: str, columns: list[str], say: Callable[[str], object]
) -> None:
    (total,) = source.execute(f"SELECT count(*) FROM {table}").fetchone()
    rows: Iterator[tuple[object, ...]] = iter(
        source.execute(f"SELECT {', '.join(columns)} FROM {table}")
    )
    places = ", ".join("?" * len(columns))
    done = said = 0
    while portion := list(islice(rows, ROWS)):
        target.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", portion)
        done += len(portion)
        if done - said >= SAY_ROWS:
            said = done
            say(f"{table}: {done} of {total} rows")
    say(f"{table}: {done} rows")


def _number_on(source: Database, target: Database, table: str) -> None:
    """Has new rows of a table numbered after all that there ever were."""
    before = 0
    if table == "sums":
        row = source.execute("SELECT seq FROM sqlite_sequence WHERE name = 'sums'").fetchone()
        before = 0 if row is None else int(row[0])
    elif table == "releases":
        before = int(source.execute("SELECT deleted_id FROM generation").fetchone()[0])
    next_one = f"{HIGHEST.format(table=table, before=before)} + 1"
    target.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), {next_one}, false)")


def migrate(
    source: Database,
    target: Database,
    check: Callable[[Reader], VerificationResult],
    say: Callable[[str], object],
) -> VerificationResult:
    """Copies a SQLite database to an empty one of a server: what `check` found there.

    Raises CommandError: the server's database is not empty, or its sums are not those of its
    releases. It is empty then. Raises one of ERRORS.
    """
    source.execute("BEGIN")
    try:
        with transaction(target):
            copy(source, target, say)
            say("verifying the copy")
            found = check(Reader(target))
            if found.figures:
                raise CommandError(
                    f"nothing was copied: {found.figures[0]} are not those of its releases: "
                    "run verify --rebuild on the file first"
                )
            return found
    finally:
        source.execute("ROLLBACK")


def run_migrate(config: Config, options: argparse.Namespace) -> int:
    """Copies the file to the configured server, and verifies it; 1 where a release is damaged."""
    server = config.collector.database
    if not isinstance(server, DatabaseServer):
        raise wrong("migrate copies to a PostgreSQL server: name one in collector.database")
    if not options.file.is_file():
        raise wrong(f"there is no file {options.file}")

    def check(reader: Reader) -> VerificationResult:
        return verification.verify(reader, verification.served_rules(config, reader))

    # As `serve` opens it: locked, of this schema, and known to be no restored copy.
    with (
        store.opened(options.file) as source,
        closing(open_server(server, serving=True, create=True)) as target,
    ):
        try:
            found = migrate(source.connection, target, check, _say)
        except ERRORS as error:
            raise CommandError(f"nothing was copied to {server}: {error}") from error
    with writing("-") as out:
        out.writelines(f"{line}\n" for line in verification.as_lines(found, server))
    return 0 if found.well else 1


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
