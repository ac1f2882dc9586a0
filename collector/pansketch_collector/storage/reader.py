"""The reading side of the database, beside a process that serves."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pansketch_collector.errors import CommandError
from pansketch_collector.storage import config_epochs, deletions, disputes, exclusions, quarantine
from pansketch_collector.storage.database import open_reading
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
from pansketch_collector.storage.tables.connection import ERRORS, Database, streamed
from pansketch_collector.storage.tables.holdings import Holding
from pansketch_collector.storage.tables.records import (
    Place,
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
from pansketch_fleet.protocol.messages import Health
from pansketch_fleet.settings.settings import DatabaseServer


@dataclass(frozen=True)
class Device:
    """A device as it last reported itself; `streams` is JSON of what each stream guarantees."""

    device: str
    state: str
    session: str
    since: int
    streams: str


@dataclass(frozen=True)
class ReceivedHealth:
    """The newest health of a device, and when it was heard."""

    at: int
    health: Health


@dataclass(frozen=True)
class QuarantineCount:
    """How many messages of one device and stream lie in quarantine for one reason, in words too."""

    stream: str
    reason: str
    messages: int
    text: str


class Reader:
    """Answers from one read-only connection."""

    def __init__(self, connection: Database) -> None:
        self._db = connection

    def counts(self, selection: Selection) -> dict[bytes, int]:
        """How many of the selected releases have each fingerprint, in order."""
        return sum_reader.counts(self._db, selection)

    def fingerprints(self, selection: Selection) -> list[bytes]:
        """The different fingerprints among the selected releases, in order."""
        return list(self.counts(selection))

    def count(self, selection: Selection, fingerprint: bytes | None = None) -> int:
        """How many of the selected releases there are, or have this fingerprint."""
        found = self.counts(selection)
        return sum(found.values()) if fingerprint is None else found.get(fingerprint, 0)

    def parts(self, selection: Selection, fingerprint: bytes) -> Iterator[Sum | Selection]:
        """The selected releases of one spec: sums of many, and selections of those that are in no
        sum, at the edges or because it has changed on the disk."""
        return sum_reader.parts(self._db, selection, fingerprint)

    def device_count(
        self, periods: Sequence[Selection], releases: int, fingerprints: Sequence[bytes] = ()
    ) -> int:
        """How many devices have some of so many selected releases; `periods` are in order of time.
        Of some specs alone, if they are named."""
        return sum_reader.device_count(self._db, periods, releases, fingerprints)

    def releasing(self, selection: Selection) -> list[str]:
        """The devices of the selected releases, by name."""
        condition, values = where(selection)
        query = f"SELECT DISTINCT device FROM releases WHERE {condition} ORDER BY device"
        return [row[0] for row in self._db.execute(query, values)]

    def holds(self, stream: str, device: str) -> bool:
        """Whether a release of this stream of this device is stored."""
        query = "SELECT 1 FROM holdings WHERE device = ? AND stream = ? LIMIT 1"
        return self._db.execute(query, (device, stream)).fetchone() is not None

    def holders(self, stream: str, most: int) -> list[str]:
        """At most so many devices with a stored release of a stream, by name."""
        query = "SELECT DISTINCT device FROM holdings WHERE stream = ? ORDER BY device LIMIT ?"
        return [row[0] for row in self._db.execute(query, (stream, most))]

    def held_span(self, stream: str) -> tuple[int, int] | None:
        """From when to when windows of a stream are stored; None without any."""
        query = "SELECT min(first_start), max(last_end) FROM holdings WHERE stream = ?"
        first, last = self._db.execute(query, (stream,)).fetchone()
        return None if first is None else (first, last)

    def spans(self, selection: Selection, seconds: int) -> list[int]:
        """In which spans of so many seconds, counted from 1970, selected releases start."""
        return sum_reader.spans(self._db, selection, seconds)

    def releases(
        self, selection: Selection, fingerprint: bytes | None = None, excluded: bool | None = False
    ) -> Iterator[Stored]:
        """The selected releases, one at a time, by window, device and sequence. `excluded`: those
        that the operator excludes, and no others; None: both."""
        condition, values = where(selection, excluded)
        if fingerprint is not None:
            condition, values = f"{condition} AND fingerprint = ?", [*values, fingerprint]
        order = "window_start, device, sequence"
        query = f"SELECT {schema.RELEASE} FROM releases WHERE {condition} ORDER BY {order}"
        for row in streamed(self._db, query, values):
            yield stored(row)

    def portion(self, table: str, after: int, most: int) -> list[tuple[int, Stored]]:
        """At most so many rows of `releases` or `disputed` after one, with their numbers."""
        return portion(self._db, table, after, most)

    def excluded(self, selection: Selection) -> int:
        """How many releases would be selected if the operator had not excluded them."""
        return sum_reader.excluded(self._db, selection)

    def totals(self) -> list[tuple[str, str, int, float, float]]:
        """By device and stream: how many releases count, and what they say was counted together,
        with its variance. Excluded ones are left out."""
        query = "SELECT device, stream, releases, value, variance FROM tallies"
        return self._db.execute(f"{query} ORDER BY device, stream").fetchall()

    def mark(self, selection: Selection) -> tuple[int, int, int]:
        """What differs as soon as other releases are selected, or other ones are excluded or
        answered. It may differ for others of the same days."""
        rest = self._db.execute("SELECT device, since, until FROM excluded").fetchall()
        query = "SELECT '', id, settled_at FROM questions WHERE stream = ?"
        rest += self._db.execute(query, (selection.stream,)).fetchall()
        return *sum_reader.mark(self._db, selection), hash(tuple(rest))

    def listed(
        self, selection: Selection, after: Place | None, most: int, excluded: bool | None = False
    ) -> list[ReleaseSummary]:
        """At most so many of the selected releases, by window, device and sequence, after a place
        in that order (None: from the first), without their payloads. `excluded`: as above."""
        condition, values = where(selection, excluded)
        if after is not None:
            condition = f"{condition} AND (window_start, device, sequence) > (?, ?, ?)"
            values = [*values, *after]
        rows = self._db.execute(
            "SELECT device, stream, sequence, window_start, window_end, fingerprint, digest,"
            " received_at, clock_synchronised, incarnation, length(payload)"
            f" FROM releases WHERE {condition}"
            " ORDER BY window_start, device, sequence LIMIT ?",
            [*values, most],
        )
        return [_listed(*row) for row in rows]

    def holdings(self) -> list[Holding]:
        """What is stored, by device and stream."""
        return holdings.count(self._db)

    def exclusions(self) -> list[Exclusion]:
        """What the operator excludes, by device and time."""
        return exclusions.listed(self._db)

    def disputes(self) -> list[Dispute]:
        """Other releases of stored windows, by device, stream and window."""
        return disputes.found(self._db)

    def in_quarantine(self, device: str | None, stream: str | None) -> list[QuarantineRow]:
        """What was refused, by device, stream and number; of one of them, or of all."""
        return list(quarantine.rows(self._db, device, stream))

    def age_limit(self, stream: str, seconds: int, now: int) -> int | None:
        """See `deletions.age_limit`."""
        return deletions.age_limit(self._db, stream, seconds, now)

    def ended(self, stream: str, until: int) -> tuple[int, int]:
        """How many releases of a stream have windows that end until then, and how many it has."""
        query = (
            "SELECT count(*) FILTER (WHERE window_end <= ?), count(*) FROM releases"
            " WHERE stream = ?"
        )
        old, stored = self._db.execute(query, (until, stream)).fetchone()
        return old, stored

    def wrong_figures(self) -> Iterator[str]:
        """Names the sums and counts that are not those of the releases."""
        yield from (f"sums of {name}" for name in sum_changes.wrong(self._db))
        yield from (f"counts of {name}" for name in holding_counts.wrong(self._db))

    def file_faults(self) -> list[str]:
        """What SQLite says of its file, where that is damaged; a server looks after its own."""
        if not isinstance(self._db, sqlite3.Connection):
            return []
        said = self._db.execute("PRAGMA integrity_check(20)")
        return [str(row[0]) for row in said if row[0] != "ok"]

    def epochs(self, stream: str) -> list[Epoch]:
        """The settings of a stream that were ever served, those served last first."""
        return config_epochs.served(self._db, stream)

    def damaged(self, selection: Selection) -> list[tuple[str, str, int, int, int, str]]:
        """Of the selected releases those that were set aside because their bytes have changed:
        device, stream, start, end, sequence and what is wrong."""
        condition, values = where(selection)
        rows = self._db.execute(
            "SELECT device, stream, window_start, window_end, sequence, problem"
            f" FROM damaged WHERE {condition} ORDER BY window_start, device, sequence",
            values,
        )
        return rows.fetchall()

    def devices(self) -> list[Device]:
        """Every device that has reported itself, by name."""
        query = "SELECT device, state, session, since, streams FROM devices ORDER BY device"
        return [Device(*row) for row in self._db.execute(query)]

    def healths(self) -> dict[str, ReceivedHealth]:
        """The newest health of every device that has said it, by name."""
        rows = self._db.execute("SELECT device, heard_at, health FROM healths ORDER BY device")
        return {
            name: ReceivedHealth(at, Health.decode(health.encode())) for name, at, health in rows
        }

    def generation(self) -> str:
        """Names this database; a restored one has another name once it is served."""
        return str(self._db.execute("SELECT id FROM generation").fetchone()[0])

    def duplicates(self) -> dict[str, int]:
        """By device, how many releases came again after they had been stored."""
        rows = self._db.execute("SELECT device, total FROM duplicates ORDER BY device")
        return {str(device): int(total) for device, total in rows}

    def quarantined(self) -> dict[str, list[QuarantineCount]]:
        """By device, what lies in quarantine; under "" what no topic of a device brought."""
        found: dict[str, list[QuarantineCount]] = {}
        for device, *rest in self._db.execute(
            "SELECT device, stream, reason, count(*), max(text) FROM quarantine"
            " WHERE device != '' GROUP BY device, stream, reason ORDER BY device, stream, reason"
        ):
            found.setdefault(device, []).append(QuarantineCount(*rest))
        return found

    @property
    def connection(self) -> Database:
        """For what reads a table of its own; read-only."""
        return self._db

    def refusals(self) -> dict[str, int]:
        """How many messages were ever refused, by reason."""
        rows = self._db.execute("SELECT reason, total FROM refusals ORDER BY reason")
        return {str(reason): int(total) for reason, total in rows}


def portion(db: Database, table: str, after: int, most: int) -> list[tuple[int, Stored]]:
    """See `Reader.portion`."""
    rows = db.execute(
        f"SELECT id, {schema.RELEASE} FROM {table} WHERE id > ? ORDER BY id LIMIT ?", (after, most)
    )
    return [(row[0], stored(row[1:])) for row in rows]


def _listed(*row: Any) -> ReleaseSummary:
    clock = None if row[8] is None else bool(row[8])
    return ReleaseSummary(*[*row[:8], clock, *row[9:]])


@contextmanager
def reading(path: Path | DatabaseServer) -> Iterator[Reader]:
    """A reader of the database at `path`. Raises CommandError, one line with what to do."""
    with closing(open_reading(path)) as connection:
        try:
            connection.execute("BEGIN")  # every answer is of one moment, whatever arrives meanwhile
            yield Reader(connection)
        except ERRORS as error:
            raise CommandError(f"database {path}: {error}: check the disk and try again") from error
