"""`backup`: a copy of the database that is whole, made beside a process that serves."""

import argparse
import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from pansketch_collector.commands import verification
from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.storage.database import open_reading
from pansketch_fleet.config.loader import Config

PAGES = 4_096  # copied at a time

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
            closing(open_reading(database)) as source,
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

    def check(path: Path) -> verification.VerificationResult:
        found = verification.verified(config, path)
        if found.file:
            raise CommandError(f"not written: the copy is damaged ({found.file[0]})")
        return found

    found = backup(config.collector.database, options.file, check)
    with writing("-") as out:
        out.writelines(f"{line}\n" for line in verification.as_lines(found, options.file))
    return 0 if found.well else 1
