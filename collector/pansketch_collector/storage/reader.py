"""The reading side of the database, usable beside a serving process."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pansketch_collector.errors import CommandError
from pansketch_collector.storage import (
    config_epochs,
    deletions,
    device_reports,
    disputes,
    exclusions,
    quarantine,
)
from pansketch_collector.storage.database import open_reading
from pansketch_collector.storage.device_reports import ReceivedHealth
from pansketch_collector.storage.disputes import Dispute
from pansketch_collector.storage.exclusions import Exclusion
from pansketch_collector.storage.quarantine import QuarantineRow
from pansketch_collector.storage.tables import (
    holding_counts,
    holdings,
    schema,
    sum_changes,
    sum_reader,
)
from pansketch_collector.storage.tables.connection import ERRORS, Database, of_devices, streamed
from pansketch_collector.storage.tables.holdings import Holding
from pansketch_collector.storage.tables.records import (
    Cursor,
    Device,
    ReleaseSummary,
    Stored,
    stored,
    where,
)
from pansketch_collector.storage.tables.records import (
    Selection as Selection,
)
from pansketch_collector.storage.tables.sums import Sum
from pansketch_collector.validation.accepted_specs import Epoch
from pansketch_fleet.settings.settings import DatabaseServer

Total = tuple[str, str, int, float, float]


@dataclass(frozen=True)
class QuarantineCount:
    """Counts quarantined messages of one device, stream and reason, with its text."""

    stream: str
    reason: str
    messages: int
    text: str


class Reader:
    """Answers from one read-only connection."""

    def __init__(self, connection: Database) -> None:
        self._db = connection

    def counts(self, selection: Selection) -> dict[bytes, int]:
        """The number of selected releases by fingerprint, in order."""
        return sum_reader.counts(self._db, selection)

    def fingerprints(self, selection: Selection) -> list[bytes]:
        """The distinct fingerprints of the selected releases, in order."""
        return list(self.counts(selection))

    def count(self, selection: Selection, fingerprint: bytes | None = None) -> int:
        """The number of selected releases, of one fingerprint or of all."""
        found = self.counts(selection)
        return sum(found.values()) if fingerprint is None else found.get(fingerprint, 0)

    def parts(self, selection: Selection, fingerprint: bytes) -> Iterator[Sum | Selection]:
        """The selected releases of one spec: sums of many releases, and selections without a usable
        sum. Selections cover the edges, and sums that have changed on the disk."""
        return sum_reader.parts(self._db, selection, fingerprint)

    def device_count(
        self, periods: Sequence[Selection], releases: int, fingerprints: Sequence[bytes] = ()
    ) -> int:
        """The number of devices with some of the `releases` selected releases. `periods`: in order
        of time. `fingerprints`: counts these specs only."""
        return sum_reader.device_count(self._db, periods, releases, fingerprints)

    def releasing_devices(self, selection: Selection) -> list[str]:
        """The devices of the selected releases, by name."""
        condition, values = where(selection)
        query = f"SELECT DISTINCT device FROM releases WHERE {condition} ORDER BY device"
        return [row[0] for row in self._db.execute(query, values)]

    def holds(self, stream: str, device: str) -> bool:
        """True if a release of this stream of this device is stored."""
        query = "SELECT 1 FROM holdings WHERE device = ? AND stream = ? LIMIT 1"
        return self._db.execute(query, (device, stream)).fetchone() is not None

    def holders(self, stream: str, limit: int) -> list[str]:
        """At most `limit` devices with a stored release of a stream, by name."""
        query = "SELECT DISTINCT device FROM holdings WHERE stream = ? ORDER BY device LIMIT ?"
        return [row[0] for row in self._db.execute(query, (stream, limit))]

    def stored_span(self, stream: str) -> tuple[int, int] | None:
        """Start and end of the stored windows of a stream; None without any."""
        query = "SELECT min(first_start), max(last_end) FROM holdings WHERE stream = ?"
        first, last = self._db.execute(query, (stream,)).fetchone()
        return None if first is None else (first, last)

    def spans(self, selection: Selection, seconds: int) -> list[int]:
        """The spans of `seconds`, counted from 1970, in which selected releases start."""
        return sum_reader.spans(self._db, selection, seconds)

    def releases(
        self, selection: Selection, fingerprint: bytes | None = None, excluded: bool | None = False
    ) -> Iterator[Stored]:
        """The selected releases, one at a time, by window, device and sequence. `excluded`: False
        leaves out the excluded ones, True selects only them, None selects both."""
        condition, values = where(selection, excluded)
        if fingerprint is not None:
            condition, values = f"{condition} AND fingerprint = ?", [*values, fingerprint]
        order = "window_start, device, sequence"
        query = f"SELECT {schema.RELEASE} FROM releases WHERE {condition} ORDER BY {order}"
        for row in streamed(self._db, query, values):
            yield stored(row)

    def portion(self, table: str, after: int, limit: int) -> list[tuple[int, Stored]]:
        """At most `limit` rows of a table of releases after number `after`, with their numbers."""
        return portion(self._db, table, after, limit)

    def excluded(self, selection: Selection) -> int:
        """The number of releases that are unselected only because the operator excluded them."""
        return sum_reader.excluded(self._db, selection)

    def totals(self, devices: Sequence[str] | None = None) -> list[Total]:
        """By device and stream: number of counted releases, and their estimated total with its
        variance; of all devices or of these. Excluded releases are left out."""
        query = "SELECT device, stream, releases, value, variance FROM tallies WHERE {of}"
        return list(of_devices(self._db, f"{query} ORDER BY device, stream", devices))

    def mark(self, selection: Selection) -> tuple[int, int, int]:
        """A value that changes with the selected releases, their exclusions and their answers. It
        may also change with other releases of the same days, of a day or less of its hours."""
        return *sum_reader.mark(self._db, selection), self._decided(selection)

    def exact_mark(self, selection: Selection) -> tuple[int, int] | None:
        """Like `mark`, and no other release changes it; None of an hour or more."""
        found = sum_reader.exact_mark(self._db, selection)
        return None if found is None else (found, self._decided(selection))

    def _decided(self, selection: Selection) -> int:
        rest = self._db.execute("SELECT device, since, until FROM excluded").fetchall()
        query = "SELECT '', id, settled_at FROM questions WHERE stream = ?"
        values: list[str | int] = [selection.stream]
        if selection.since is not None:
            query, values = f"{query} AND period_end > ?", [*values, selection.since]
        if selection.until is not None:
            query, values = f"{query} AND period_start < ?", [*values, selection.until]
        return hash((*rest, *self._db.execute(query, values).fetchall()))

    def listed(
        self, selection: Selection, after: Cursor | None, limit: int, excluded: bool | None = False
    ) -> list[ReleaseSummary]:
        """At most `limit` of the selected releases, without payloads, by window, device and
        sequence. `after`: a cursor in that order (None: from the first). `excluded`: as in
        `releases`."""
        condition, values = where(selection, excluded)
        if after is not None:
            condition = f"{condition} AND (window_start, device, sequence) > (?, ?, ?)"
            values = [*values, *after]
        rows = self._db.execute(
            "SELECT device, stream, sequence, window_start, window_end, fingerprint, digest,"
            " received_at, clock_synchronised, incarnation, length(payload)"
            f" FROM releases WHERE {condition}"
            " ORDER BY window_start, device, sequence LIMIT ?",
            [*values, limit],
        )
        return [_listed(*row) for row in rows]

    def holdings(self, devices: Sequence[str] | None = None) -> list[Holding]:
        """Counts of stored releases, by device and stream; of all devices or of these."""
        return holdings.count(self._db, devices)

    def exclusions(self, devices: Sequence[str] | None = None) -> list[Exclusion]:
        """The operator's exclusions, by device and time; of all devices or of these."""
        return exclusions.listed(self._db, devices)

    def disputes(self) -> list[Dispute]:
        """Disputed releases, by device, stream and window."""
        return disputes.found(self._db)

    def in_quarantine(self, device: str | None, stream: str | None) -> list[QuarantineRow]:
        """Quarantined messages by device, stream and number; optionally of one device or stream."""
        return list(quarantine.rows(self._db, device, stream))

    def age_limit(self, stream: str, seconds: int, now: int) -> int | None:
        """See `deletions.age_limit`."""
        return deletions.age_limit(self._db, stream, seconds, now)

    def ended(self, stream: str, until: int) -> tuple[int, int]:
        """The number of releases of a stream with windows that end by `until`, and of all."""
        query = (
            "SELECT count(*) FILTER (WHERE window_end <= ?), count(*) FROM releases"
            " WHERE stream = ?"
        )
        old, stored = self._db.execute(query, (until, stream)).fetchone()
        return old, stored

    def wrong_figures(self) -> Iterator[str]:
        """Names the sums and counts that differ from the stored releases."""
        yield from (f"sums of {name}" for name in sum_changes.wrong(self._db))
        yield from (f"counts of {name}" for name in holding_counts.wrong(self._db))

    def file_faults(self) -> list[str]:
        """The faults that SQLite reports in its file; a server checks its own data."""
        if not isinstance(self._db, sqlite3.Connection):
            return []
        rows = self._db.execute("PRAGMA integrity_check(20)")
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def epochs(self, stream: str) -> list[Epoch]:
        """The epochs of a stream, the last served first."""
        return config_epochs.served(self._db, stream)

    def damaged(self, selection: Selection) -> list[tuple[str, str, int, int, int, str]]:
        """The selected releases that were moved because their bytes have changed. Device, stream,
        start, end, sequence and problem of each."""
        condition, values = where(selection)
        rows = self._db.execute(
            "SELECT device, stream, window_start, window_end, sequence, problem"
            f" FROM damaged WHERE {condition} ORDER BY window_start, device, sequence",
            values,
        )
        return rows.fetchall()

    def devices(self, names: Sequence[str] | None = None) -> list[Device]:
        """See `device_reports.devices`."""
        return device_reports.devices(self._db, names)

    def healths(self, names: Sequence[str] | None = None) -> dict[str, ReceivedHealth]:
        """See `device_reports.healths`."""
        return device_reports.healths(self._db, names)

    def generation(self) -> str:
        """Names this database; a restored one has another name once it is served."""
        return str(self._db.execute("SELECT id FROM generation").fetchone()[0])

    def duplicates(self, names: Sequence[str] | None = None) -> dict[str, int]:
        """See `device_reports.duplicates`."""
        return device_reports.duplicates(self._db, names)

    def quarantined(self) -> dict[str, list[QuarantineCount]]:
        """Counts of quarantined messages, by device."""
        found: dict[str, list[QuarantineCount]] = {}
        for device, *rest in self._db.execute(
            "SELECT device, stream, reason, count(*), max(text) FROM quarantine"
            " WHERE device != '' GROUP BY device, stream, reason ORDER BY device, stream, reason"
        ):
            found.setdefault(device, []).append(QuarantineCount(*rest))
        return found

    @property
    def connection(self) -> Database:
        """The connection, for modules with their own tables; read-only."""
        return self._db

    def refusals(self) -> dict[str, int]:
        """The number of messages ever rejected, by reason."""
        rows = self._db.execute("SELECT reason, total FROM refusals ORDER BY reason")
        return {str(reason): int(total) for reason, total in rows}


def portion(db: Database, table: str, after: int, limit: int) -> list[tuple[int, Stored]]:
    """See `Reader.portion`."""
    rows = db.execute(
        f"SELECT id, {schema.RELEASE} FROM {table} WHERE id > ? ORDER BY id LIMIT ?", (after, limit)
    )
    return [(row[0], stored(row[1:])) for row in rows]


def _listed(*row: Any) -> ReleaseSummary:
    clock = None if row[8] is None else bool(row[8])
    return ReleaseSummary(*[*row[:8], clock, *row[9:]])


@contextmanager
def reading(path: Path | DatabaseServer) -> Iterator[Reader]:
    """A reader of the database at `path`, in one transaction. Raises CommandError."""
    with closing(open_reading(path)) as connection:
        try:
            connection.execute("BEGIN")  # one snapshot for all answers
            yield Reader(connection)
        except ERRORS as error:
            raise CommandError(f"database {path}: {error}: check the disk and try again") from error
