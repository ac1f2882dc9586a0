"""The stores, and functions that open the store of a configuration."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pansketch import WindowId
from pansketch_collector.errors import CommandError
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage import database, quarantine
from pansketch_collector.storage.sql_store import INSERT, SqlStore
from pansketch_collector.storage.store import Store
from pansketch_collector.storage.tables import schema
from pansketch_collector.storage.tables.connection import ERRORS
from pansketch_collector.storage.tables.records import (
    CopiedRow,
    Stored,
    columns,
    copied_row,
    stored,
)
from pansketch_collector.validation.decision import LedgerStart
from pansketch_collector.validation.verdicts import Accepted, Outcome, StoredWindow, Validated
from pansketch_fleet.settings.settings import DatabaseServer

if TYPE_CHECKING:
    from pansketch_collector.storage.postgresql import Postgresql

PAYLOAD: Final = schema.RELEASE.split(", ").index("payload")  # its place among the columns


class SqliteStore(SqlStore):
    """A store in a SQLite file, with one serving process."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        quarantine_rows: int = quarantine.MAX_ROWS,
        lock: int | None = None,
    ) -> None:
        super().__init__(connection, quarantine_rows)
        self._sqlite, self._lock = connection, lock
        self._highest = self._served = 0

    def update_generation(self) -> None:
        """Renews the generation if the file was replaced or holds less than when it was last
        served.

        A restored copy lacks acknowledged releases, and the new generation reports this to the
        devices.
        """
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


# For each window: its stored release, the first one of its ledger, the count of its stream and
# device, and whether retention removed it. With LIMIT the server reads each by an index.
_STATES: Final = """
SELECT r.digest, r.sequence, r.incarnation, f.sequence, f.window_start, (
    SELECT sum(windows) FROM holdings WHERE (device, stream) = (k.device, k.stream)
), (
    SELECT 1 FROM removed WHERE (device, stream) = (k.device, k.stream)
    AND first_start <= k.start AND k.start < last_end LIMIT 1
)
FROM unnest(CAST(? AS text[]), CAST(? AS text[]), CAST(? AS bigint[]), CAST(? AS bytea[]))
    WITH ORDINALITY AS k (device, stream, start, incarnation, place)
LEFT JOIN LATERAL (
    SELECT digest, sequence, incarnation FROM releases
    WHERE (device, stream, window_start) = (k.device, k.stream, k.start) LIMIT 1
) AS r ON TRUE
LEFT JOIN LATERAL (
    SELECT sequence, window_start FROM releases
    WHERE (device, stream, incarnation) = (k.device, k.stream, k.incarnation)
    ORDER BY sequence LIMIT 1
) AS f ON TRUE
ORDER BY place
"""


class ServerStore(SqlStore):
    """A store on a PostgreSQL server, whose database one process serves.

    A statement is a round trip. So this store reads the state for a whole batch with one statement
    for each table.
    """

    def __init__(
        self, connection: "Postgresql", quarantine_rows: int = quarantine.MAX_ROWS
    ) -> None:
        super().__init__(connection, quarantine_rows)
        self._server = connection
        # Caches of the open transaction:
        self._windows: dict[tuple[str, str, int], StoredWindow | None] = {}
        self._rows: list[CopiedRow] = []
        # Of the releases of a batch, by the id of each object:
        self._prepared: dict[int, tuple[Stored, CopiedRow]] = {}

    @property
    def workers(self) -> str:
        (name,) = self._db.execute("SELECT workers FROM pansketch_schema").fetchone()
        return str(name)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """See `SqlStore.batch`."""
        try:
            with super().batch():
                yield
        finally:
            self._windows.clear()
            self._rows.clear()
            self._prepared.clear()
            self._stored.clear()  # Others store as well.

    def commit(self, batch: Sequence[tuple[Incoming, Validated]], at: int) -> list[Outcome]:
        # Other writers wait for the lock of a transaction: what does not need it comes before.
        releases = [one for _, one in batch if isinstance(one, Accepted)]
        self._prepared = {id(one): _prepared(one, at) for one in releases}
        with self.batch():
            self._fetch([one.window for one in releases])
            return [self._record(message, validated, at) for message, validated in batch]

    def stored_window(self, window: WindowId) -> StoredWindow | None:
        key = window.device, window.stream, window.start
        return self._windows[key] if key in self._windows else super().stored_window(window)

    def _fetch(self, windows: Sequence[WindowId]) -> None:
        """Reads the rows that `state_of` needs for these windows."""
        if not windows:
            return
        keys = [(each.device, each.stream, each.start, each.incarnation) for each in windows]
        states = self._db.execute(_STATES, [list(column) for column in zip(*keys, strict=True)])
        for (device, stream, start, incarnation), state in zip(keys, states, strict=True):
            digest, sequence, its_incarnation, first, first_start, count, removed = state
            found = None if digest is None else StoredWindow(digest, sequence, its_incarnation)
            self._windows[device, stream, start] = found
            self._firsts[device, stream, incarnation] = (
                None if first is None else LedgerStart(first, first_start)
            )
            self._stored[device, stream] = count or 0
            ranges = self._removed.setdefault((device, stream), [])
            if removed:
                ranges.append((start, start + 1))

    def add(self, release: Accepted, received_at: int) -> None:
        one, row = self._prepared.get(id(release)) or _prepared(release, received_at)
        key = one.device, one.stream, one.start
        self._windows[key] = StoredWindow(one.digest, one.sequence, one.incarnation)
        self._rows.append(row)
        self._note(release, one)

    def _follow_up(self) -> None:
        if self._rows:
            self._server.copy(f"releases ({schema.RELEASE})", self._rows)
            self._rows.clear()
        super()._follow_up()

    def update_generation(self, identity: str) -> None:
        """Renews the generation if the database was served before under another server identity.

        A restored copy lacks acknowledged releases. `identity`: `Postgresql.server_identity`, now.
        """
        (before,) = self._db.execute("SELECT place FROM pansketch_schema").fetchone()
        if identity == before:
            return
        with self.batch():
            self._db.execute("UPDATE pansketch_schema SET place = ?", (identity,))
            if before:
                random = "substr(md5(clock_timestamp()::text || random()), 1, 16)"
                self._db.execute(f"UPDATE generation SET id = {random}")
        (self.generation,) = self._db.execute("SELECT id FROM generation").fetchone()


def _prepared(release: Accepted, received_at: int) -> tuple[Stored, CopiedRow]:
    row = columns(release, received_at)
    return stored(row), copied_row(row, PAYLOAD)


@contextmanager
def opened(path: Path | DatabaseServer) -> Iterator[Store]:
    """The store of the serving process. Raises CommandError.

    It raises also if another process serves, and if the database fails inside the block, for
    example with a full disk.
    """
    if isinstance(path, DatabaseServer):
        with _serving(path) as store:
            yield store
        return
    with database.serving_lock(path) as lock:
        store = SqliteStore(database.open_writing(path), lock=lock)
        try:
            store.update_generation()
            yield store
        except sqlite3.Error as error:
            raise CommandError(f"database {path}: {error}: check its disk") from error
        finally:
            store.close()


@contextmanager
def _serving(server: DatabaseServer) -> Iterator[Store]:
    connection = database.open_server(server, serving=True, create=True)
    with closing(ServerStore(connection)) as store:
        try:
            store.update_generation(connection.server_identity())
            yield store
        except ERRORS as error:
            raise CommandError(f"database {server}: {error}: check the server") from error


@contextmanager
def changing(path: Path | DatabaseServer) -> Iterator[Store]:
    """The store of a command that writes, beside a serving process or without one. Raises
    CommandError."""
    if isinstance(path, DatabaseServer):
        with closing(ServerStore(database.open_server(path))) as store:
            try:
                yield store
            except ERRORS as error:
                raise CommandError(f"database {path}: {error}: check the server") from error
        return
    with database.changing(path) as connection, closing(SqliteStore(connection)) as store:
        yield store
