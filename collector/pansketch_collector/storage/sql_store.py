"""The statements of a writing store: they read the state for a decision and store its effect.

One process writes. A commit is on the disk when it returns; `reader.py` reads beside it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pansketch import WindowId
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage import (
    config_epochs,
    database,
    deletions,
    device_reports,
    disputes,
    exclusions,
    quarantine,
)
from pansketch_collector.storage.config_epochs import EpochStore
from pansketch_collector.storage.exclusions import DeletionReport
from pansketch_collector.storage.reader import portion
from pansketch_collector.storage.tables import holding_counts, holdings, schema
from pansketch_collector.storage.tables.connection import Database, transaction
from pansketch_collector.storage.tables.corruption import Damage
from pansketch_collector.storage.tables.holdings import HighWaterMark
from pansketch_collector.storage.tables.records import Stored, columns, stored
from pansketch_collector.storage.tables.sum_changes import add_up
from pansketch_collector.validation.accepted_specs import Epoch
from pansketch_collector.validation.decision import (
    Decision,
    DeviceState,
    LedgerStart,
    ReleaseState,
    decide,
)
from pansketch_collector.validation.verdicts import (
    Accepted,
    DeviceStatus,
    Duplicate,
    EstimatedTotal,
    HealthReport,
    Outcome,
    Rejected,
    StoredWindow,
    Validated,
)
from pansketch_fleet.config.loader import Config

MAX_COUNTED = 100_000  # cached counts of releases, by device and stream
MAX_DISPUTED = 1_000  # of one device
INSERT = f"INSERT INTO releases ({schema.RELEASE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class SqlStore:
    """Implements `Store` on a connection; pansketch_collector/storage/store.py documents it."""

    def __init__(self, connection: Database, quarantine_rows: int = quarantine.MAX_ROWS) -> None:
        self._db = connection
        self._quarantine_rows = quarantine_rows
        self._stored: dict[tuple[str, str], int] = {}  # counted once, then kept
        self._device_rows = device_reports.DeviceRows()
        # Of the open transaction, which excludes other writers:
        self._firsts: dict[tuple[str, str, bytes], LedgerStart | None] = {}
        self._removed: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._added: list[tuple[Accepted, Stored]] = []
        self._layouts: set[bytes] = set()
        self.generation = str(connection.execute("SELECT id FROM generation").fetchone()[0])

    @property
    def workers(self) -> str:
        return ""

    def high_water(self, device: str) -> list[HighWaterMark]:
        return holdings.high_water(self._db, device)

    def stored_after(self, number: int | None) -> tuple[int, list[str]]:
        return holdings.stored_after(self._db, number)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """One transaction: its whole effect is on the disk after the block, or none of it."""
        try:
            with transaction(self._db):
                yield
                self._follow_up()
        except BaseException:
            self._stored.clear()
            self._layouts.clear()
            raise
        finally:
            self._firsts.clear()
            self._removed.clear()
            self._added.clear()

    def serve_settings(self, config: Config, at: int) -> dict[str, list[Epoch]]:
        with self.batch():
            config_epochs.note(self._db, config, at)
        return {s.name: config_epochs.served(self._db, s.name) for s in config.streams}

    @property
    def epochs(self) -> EpochStore:
        return EpochStore(self._db)

    @property
    def connection(self) -> Database:
        return self._db

    def commit(self, batch: Sequence[tuple[Incoming, Validated]], at: int) -> list[Outcome]:
        with self.batch():
            return [self._record(message, validated, at) for message, validated in batch]

    def _record(self, message: Incoming, validated: Validated, at: int) -> Outcome:
        decision = decide(validated, self.state_of(validated), at)
        self.apply(decision, message, at)
        return decision.outcome

    def state_of(self, validated: Validated) -> ReleaseState | DeviceState | None:
        """The stored state that decides about a message, within a `batch`; None for a rejected
        one."""
        match validated:
            case Accepted(window):
                return ReleaseState(
                    self.stored_window(window),
                    self._was_removed(window),
                    self._first(window),
                    self._count(window.device, window.stream),
                )
            case DeviceStatus() | HealthReport():
                return DeviceState(
                    device_reports.session(self._db, validated.device),
                    self._device_rows.has_room(self._db, validated),
                )
        return None

    def apply(self, decision: Decision, message: Incoming, at: int) -> None:
        """Stores the effect of a decision about a message received at `at`, within a `batch`."""
        match decision.outcome:
            case Accepted() as release:
                self.add(release, at)
            case Duplicate(window):
                device_reports.count_duplicate(self._db, window.device)
            case DeviceStatus() as report if not decision.outdated:
                device_reports.store_status(self._db, report, at)
            case HealthReport() as report:
                device_reports.store_health(self._db, report, at)
            case Rejected() as rejected:
                self._follow_up()  # before `put`: it deletes quarantine rows of stored digests
                quarantine.put(self._db, message, rejected, at, self._quarantine_rows)
        if decision.disputed is not None:
            self._dispute(decision.disputed, at)

    def stored_window(self, window: WindowId) -> StoredWindow | None:
        row = self._db.execute(
            "SELECT digest, sequence, incarnation FROM releases"
            " WHERE (device, stream, window_start) = (?, ?, ?)",
            (window.device, window.stream, window.start),
        ).fetchone()
        return None if row is None else StoredWindow(*row)

    def add(self, release: Accepted, received_at: int) -> None:
        """Stores the first release of a window, within a `batch`."""
        row = columns(release, received_at)
        self._insert(row)
        self._note(release, stored(row))

    def _note(self, release: Accepted, one: Stored) -> None:
        window = release.window
        if (key := (window.device, window.stream)) in self._stored:
            self._stored[key] += 1
        ledger = window.device, window.stream, window.incarnation
        if ledger in self._firsts:
            first = self._firsts[ledger]
            if first is None or window.sequence < first.sequence:
                self._firsts[ledger] = LedgerStart(window.sequence, window.start)
        self._added.append((release, one))

    def _insert(self, row: tuple[Any, ...]) -> None:
        self._db.execute(INSERT, row)

    def _follow_up(self) -> None:
        """Stores sums and totals of the releases added since the last call.

        Deletes the quarantined and damaged rows of these releases, which are stored now.
        """
        if not self._added:
            return
        added = [(one.device, one.stream, one.start) for _, one in self._added]
        digests = [(one.digest,) for _, one in self._added]
        holding_counts.note_totals(self._db, added, [release.total for release, _ in self._added])
        add_up(self._db, self._added, self._layouts)
        others = "SELECT 1 FROM quarantine UNION ALL SELECT 1 FROM damaged LIMIT 1"
        if self._db.execute(others).fetchone() is not None:
            self._db.executemany("DELETE FROM quarantine WHERE digest = ?", digests)
            windows = [digest + window for digest, window in zip(digests, added, strict=True)]
            condition = "digest = ? OR (device, stream, window_start) = (?, ?, ?)"
            self._db.executemany(f"DELETE FROM damaged WHERE {condition}", windows)
        self._added.clear()

    def without_total(self, after: int, last: int) -> set[int]:
        return holding_counts.without_total(self._db, after, last)

    def add_totals(self, found: Sequence[tuple[Stored, EstimatedTotal]]) -> None:
        if found:
            with self.batch():
                windows = [(stored.device, stored.stream, stored.start) for stored, _ in found]
                holding_counts.note_totals(self._db, windows, [total for _, total in found])

    def _first(self, window: WindowId) -> LedgerStart | None:
        """The lowest stored sequence number of this window's ledger, and its window. Cached in a
        `batch`."""
        ledger = window.device, window.stream, window.incarnation
        if ledger not in self._firsts:
            row = self._db.execute(
                "SELECT sequence, window_start FROM releases"
                " WHERE (device, stream, incarnation) = (?, ?, ?) ORDER BY sequence LIMIT 1",
                ledger,
            ).fetchone()
            self._firsts[ledger] = None if row is None else LedgerStart(*row)
        return self._firsts[ledger]

    def _count(self, device: str, stream: str) -> int:
        """The number of stored releases of a stream of a device."""
        key = device, stream
        if key not in self._stored:
            if len(self._stored) >= MAX_COUNTED:
                self._stored.clear()
            counted = (
                "SELECT coalesce(sum(windows), 0) FROM holdings WHERE device = ? AND stream = ?"
            )
            self._stored[key] = int(self._db.execute(counted, key).fetchone()[0])
        return self._stored[key]

    def _dispute(self, release: Accepted, received_at: int) -> None:
        """Stores a second release of a window as disputed, once.

        A device has at most MAX_DISPUTED of them, so no device can fill the disk or displace
        others.
        """
        self._db.execute(
            f"INSERT INTO disputed ({schema.RELEASE})"
            " SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
            " WHERE (SELECT count(*) FROM disputed WHERE device = ?) < ? ON CONFLICT DO NOTHING",
            (*columns(release, received_at), release.window.device, MAX_DISPUTED),
        )

    def move_damaged(self, number: int, damage: Damage, at: int) -> None:
        with self.batch():
            deletions.move_damaged(self._db, number, damage, at)

    def rebuild(self) -> None:
        with self.batch():
            database.rebuild(self._db)

    def remove(self, stream: str, seconds: int, now: int, limit: int) -> int:
        with self.batch():
            return deletions.remove_old(self._db, stream, seconds, now, limit)

    def quarantined(self, after: int, limit: int) -> list[tuple[int, Incoming]]:
        return quarantine.waiting(self._db, after, limit)

    def leave_quarantine(self, numbers: Sequence[int]) -> None:
        with self.batch():
            quarantine.remove(self._db, numbers)

    def exclude(self, device: str, since: int | None, until: int | None, at: int) -> int:
        with self.batch():
            return exclusions.exclude(self._db, device, since, until, at)

    def undo(self, device: str, since: int | None, until: int | None) -> int:
        with self.batch():
            return exclusions.undo(self._db, device, since, until)

    def forget(self, device: str, releases: bool) -> DeletionReport:
        with self.batch():
            return exclusions.forget(self._db, device, releases)

    def keep(self, numbers: Iterable[int]) -> None:
        with self.batch():
            disputes.keep(self._db, numbers)

    def drop(self, numbers: Iterable[int]) -> None:
        with self.batch():
            disputes.drop(self._db, numbers)

    def portion(self, after: int, limit: int) -> list[tuple[int, Stored]]:
        return portion(self._db, "releases", after, limit)

    def _was_removed(self, window: WindowId) -> bool:
        """True if retention removed a release of this window or around it. Cached in a `batch`."""
        key = window.device, window.stream
        if key not in self._removed:
            self._removed[key] = self._db.execute(
                "SELECT first_start, last_end FROM removed WHERE (device, stream) = (?, ?)", key
            ).fetchall()
        return any(start <= window.start < end for start, end in self._removed[key])

    def close(self) -> None:
        self._db.close()
