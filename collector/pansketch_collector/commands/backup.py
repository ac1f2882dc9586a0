"""`backup`: a complete copy of the database, made while `serve` may run.

`migrate`: copies the content of a SQLite file to the configured PostgreSQL server. One transaction
of the server copies and verifies, so an interrupted command leaves an empty database. The
generation is copied as well, so devices notice nothing.
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
PROGRESS_ROWS = 50_000  # between two progress lines
PREFILLED = ("generation", "quarantined")  # tables that are created with one row
# A number is never reused: devices and caches detect new rows by it.
HIGHEST = "greatest((SELECT coalesce(max(id), 0) FROM {table}), {before})"


Found = TypeVar("Found")


def backup(database: Path, target: Path, check: Callable[[Path], Found]) -> Found:
    """Copies the database with SQLite's backup interface and returns the result of `check` on the
    copy.

    The copy gets its name after the check, and only its owner may read it. Raises CommandError: the
    name exists, its folder does not exist, the disk is full; also the errors of `check`. Then no
    file of that name exists.
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
        # A link fails if the name exists by now; a rename would overwrite that file.
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
            source.execute("BEGIN")  # one snapshot
            source.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
            source.backup(copy, pages=PAGES)
            # A single file, which SQLite can read without writing others.
            copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise CommandError(f"cannot copy {database}: {error}: free the disk and retry") from error


def run_backup(config: Config, options: argparse.Namespace) -> int:
    """Writes a verified copy of the database; returns 1 if a release in it is damaged."""

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
    return 0 if found.ok else 1


def tables(source: Database) -> dict[str, list[str]]:
    """The columns of each table of a SQLite database, parents first."""
    names = source.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        " ORDER BY rowid"
    ).fetchall()
    return {
        name: [row[1] for row in source.execute(f"PRAGMA table_info({name})")] for (name,) in names
    }


def copy(source: Database, target: Database, progress: Callable[[str], object]) -> None:
    """Copies all rows within the caller's transactions; reports the progress to `progress`.

    Raises CommandError if the target is not empty, and one of ERRORS.
    """
    found = tables(source)
    for table in found:
        if table not in PREFILLED and target.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():
            raise wrong("the server's database is not empty: name a new one, or drop this one")
    for table, columns in found.items():
        # The triggers' counts and sums are copied too.
        target.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        target.execute(f"DELETE FROM {table}")
        _copy_table(source, target, table, columns, progress)
        target.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        if "id" in columns and table != "generation":
            _continue_numbers(source, target, table)


def _copy_table(
    source: Database,
    target: Database,
    table: str,
    columns: list[str],
    progress: Callable[[str], object],
) -> None:
    (total,) = source.execute(f"SELECT count(*) FROM {table}").fetchone()
    rows: Iterator[tuple[object, ...]] = iter(
        source.execute(f"SELECT {', '.join(columns)} FROM {table}")
    )
    placeholders = ", ".join("?" * len(columns))
    done = reported = 0
    while portion := list(islice(rows, ROWS)):
        target.executemany(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({placeholders})", portion
        )
        done += len(portion)
        if done - reported >= PROGRESS_ROWS:
            reported = done
            progress(f"{table}: {done} of {total} rows")
    progress(f"{table}: {done} rows")


def _continue_numbers(source: Database, target: Database, table: str) -> None:
    """Continues the row numbers of a table after all numbers that were ever used."""
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
    progress: Callable[[str], object],
) -> VerificationResult:
    """Copies a SQLite database to an empty one of a server; returns the result of `check` there.

    Raises CommandError: the server's database is not empty, or its sums differ from its releases.
    Then the server's database is empty. Raises one of ERRORS.
    """
    source.execute("BEGIN")
    try:
        with transaction(target):
            copy(source, target, progress)
            progress("verifying the copy")
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
    """Copies the file to the configured server and verifies it; returns 1 if a release is
    damaged."""
    server = config.collector.database
    if not isinstance(server, DatabaseServer):
        raise wrong("migrate copies to a PostgreSQL server: name one in collector.database")
    if not options.file.is_file():
        raise wrong(f"there is no file {options.file}")

    def check(reader: Reader) -> VerificationResult:
        return verification.verify(reader, verification.served_rules(config, reader))

    # Opened as by `serve`: locked, upgraded, with its generation renewed if it is a restored copy.
    with (
        store.opened(options.file) as source,
        closing(open_server(server, serving=True, create=True)) as target,
    ):
        try:
            found = migrate(source.connection, target, check, _print_progress)
        except ERRORS as error:
            raise CommandError(f"nothing was copied to {server}: {error}") from error
    with writing("-") as out:
        out.writelines(f"{line}\n" for line in verification.as_lines(found, server))
    return 0 if found.ok else 1


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
