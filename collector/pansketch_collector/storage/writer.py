"""The stores: which one a configuration names, opened by the process that serves, or beside it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pansketch_collector.errors import CommandError
from pansketch_collector.storage import database, quarantine
from pansketch_collector.storage.sql_store import INSERT, SqlStore
from pansketch_collector.storage.store import Store


class SqliteStore(SqlStore):
    """A store in a SQLite file, which one process serves."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        quarantine_rows: int = quarantine.MAX_ROWS,
        lock: int | None = None,
    ) -> None:
        super().__init__(connection, quarantine_rows)
        self._sqlite, self._lock = connection, lock
        self._highest = self._served = 0

    def recognise(self) -> None:
        """Gives the database another generation where it is not the one that was served here last,
        or holds less than it did: a restored copy lacks releases that were acknowledged."""
        (highest,) = self._db.execute(
            "SELECT max(deleted_id, (SELECT coalesce(max(id), 0) FROM releases)) FROM generation"
        ).fetchone()
        generation, served = database.last_served(self._lock)
        known = generation == self.generation and served <= highest
        if not known and (generation or highest):
            with self.batch():
                self._db.execute("UPDATE generation SET id = lower(hex(randomblob(8)))")
            (self.generation,) = self._db.execute("SELECT id FROM generation").fetchone()
        self._highest, self._served = highest, -1
        self._note_served()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """See `SqlStore.batch`."""
        try:
            with super().batch():
                yield
        except BaseException:
            self._highest = self._served
            raise
        self._note_served()

    def _insert(self, row: tuple[Any, ...]) -> None:
        inserted = self._sqlite.execute(INSERT, row)
        self._highest = max(self._highest, inserted.lastrowid or 0)

    def _note_served(self) -> None:
        if self._lock is not None and self._highest > self._served:
            database.note_served(self._lock, self.generation, self._highest)
            self._served = self._highest


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    """The store of one serving process. Raises CommandError, also when another one is serving, and
    where the database fails anything that is done inside, such as for a full disk."""
    with database.serving_lock(path) as lock:
        store = SqliteStore(database.open_writing(path), lock=lock)
        try:
            store.recognise()
            yield store
        except sqlite3.Error as error:
            raise CommandError(f"database {path}: {error}: check its disk") from error
        finally:
            store.close()


@contextmanager
def changing(path: Path) -> Iterator[Store]:
    """The store of a command that writes beside a serving process, or alone. Raises
    CommandError."""
    with database.changing(path) as connection, closing(SqliteStore(connection)) as store:
        yield store
