"""The tables of the collector's database, and how a connection is opened on them."""

import sqlite3
from pathlib import Path
from typing import Final

from collector.failure import CommandError

VERSION: Final = 3
# The columns that a release has wherever it is stored, in the order of `Store.add`.
RELEASE: Final = (
    "device, stream, sequence, window_start, window_end,"
    " fingerprint, digest, received_at, payload, clock_synchronised"
)
BUSY_MILLISECONDS: Final = 3_000

TABLES: Final = """
CREATE TABLE releases (
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    window_start INTEGER NOT NULL,
    window_end INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    digest TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (device, stream, sequence),
    UNIQUE (device, stream, window_start),
    CHECK (window_start < window_end)
) STRICT;
CREATE INDEX releases_by_window ON releases (stream, window_start, device, sequence);
CREATE TABLE devices (
    device TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    session TEXT NOT NULL,
    since INTEGER NOT NULL,
    streams TEXT NOT NULL
) STRICT;
CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY,
    first_received_at INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    times INTEGER NOT NULL,
    topic TEXT NOT NULL,
    reason TEXT NOT NULL,
    text TEXT NOT NULL,
    size INTEGER NOT NULL,
    digest TEXT NOT NULL,
    payload BLOB NOT NULL,
    UNIQUE (digest, topic)
) STRICT;
CREATE TABLE duplicates (device TEXT PRIMARY KEY, total INTEGER NOT NULL) STRICT;
CREATE TABLE refusals (reason TEXT PRIMARY KEY, total INTEGER NOT NULL) STRICT;
"""
# A release that was stored before another one came under its sequence number: which of the two the
# device made cannot be told, so neither is in `releases`, and nothing comes there in their place.
DISPUTED: Final = """
CREATE TABLE disputed (
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    window_start INTEGER NOT NULL,
    window_end INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    digest TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    payload BLOB NOT NULL,
    disputed_at INTEGER NOT NULL,
    PRIMARY KEY (device, stream, sequence),
    UNIQUE (device, stream, window_start)
) STRICT;
CREATE TRIGGER disputed_stays_out BEFORE INSERT ON releases
WHEN EXISTS (
    SELECT 1 FROM disputed WHERE (device, stream) = (NEW.device, NEW.stream)
    AND (sequence = NEW.sequence OR window_start = NEW.window_start)
) BEGIN SELECT RAISE(ABORT, 'disputed'); END;
"""
# The newest health of each device, as its JSON; and of each release whether the device's clock was
# synchronised when the window closed: 1, 0, or NULL where nobody knows.
HEALTH: Final = """
CREATE TABLE healths (
    device TEXT PRIMARY KEY,
    heard_at INTEGER NOT NULL,
    health TEXT NOT NULL
) STRICT;
ALTER TABLE releases ADD COLUMN clock_synchronised INTEGER;
ALTER TABLE disputed ADD COLUMN clock_synchronised INTEGER;
"""
# What each schema lacks of the newest one.
STEPS: Final = {0: TABLES + DISPUTED + HEALTH, 1: DISPUTED + HEALTH, 2: HEALTH}


def open_writing(path: Path) -> sqlite3.Connection:
    """The one writing connection; makes the database where there is none.

    Every commit is on the disk when it returns. Raises CommandError for a file that is no collector
    database, is of another schema, or is damaged.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise _failed(path, error) from error
    try:
        _settle(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise _failed(path, error) from error
    except CommandError:
        connection.close()
        raise
    return connection


def open_reading(path: Path) -> sqlite3.Connection:
    """A read-only connection, beside a writing one or alone. Raises CommandError."""
    if not path.exists():
        raise CommandError(
            f"there is no database {path} yet: run `pansketch-collector serve`, "
            "or check collector.database in the configuration"
        )
    try:
        uri = f"{path.resolve().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
        found = _version(connection)
    except sqlite3.Error as error:
        raise _failed(path, error) from error
    if found != VERSION:
        connection.close()
        raise _foreign(path, found)
    return connection


def _settle(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
    connection.execute("PRAGMA foreign_keys = ON")
    found = _version(connection)
    if found not in (*STEPS, VERSION) or (found == 0 and _has_tables(connection)):
        raise _foreign(path, found)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise CommandError(
            f"{path} is damaged ({damage}): restore a copy, or move it away to start anew"
        )
    if found in STEPS:
        connection.executescript(
            f"BEGIN IMMEDIATE; {STEPS[found]} PRAGMA user_version = {VERSION}; COMMIT;"
        )


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
    if found in STEPS:
        return CommandError(
            f"{path} is of an earlier version: start `pansketch-collector serve` once, "
            "which brings it up to date"
        )
    return CommandError(
        f"{path} has schema {found}, and this program reads schema {VERSION}: "
        "use the version that made it, or another collector.database"
    )


def _failed(path: Path, error: Exception) -> CommandError:
    return CommandError(
        f"database {path}: {error}: check that collector.database names a collector's database "
        "in a folder this program may write to"
    )
