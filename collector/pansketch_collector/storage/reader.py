"""The reading side of the database, beside a process that serves."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pansketch_collector.errors import CommandError
from pansketch_collector.storage import config_epochs, holdings, schema
from pansketch_collector.storage.database import open_reading
from pansketch_collector.storage.holdings import Holding
from pansketch_collector.validation.accepted_specs import Epoch
from pansketch_fleet.protocol.messages import Health


@dataclass(frozen=True)
class Selection:
    """Which releases: of one stream, whose windows start in [since, until), of these devices.

    None stands for no limit. Neighbouring ranges never share a window.
    """

    stream: str
    since: int | None = None
    until: int | None = None
    devices: frozenset[str] | None = None


@dataclass(frozen=True)
class Stored:
    """One release as received; times are unix seconds."""

    device: str
    stream: str
    sequence: int
    start: int
    end: int
    fingerprint: bytes
    digest: str
    received_at: int
    payload: bytes
    clock_synchronised: bool | None = None
    incarnation: bytes = b""


Place = tuple[int, str, int]  # of a release among those of its stream: start, device, sequence


@dataclass(frozen=True)
class ReleaseSummary:
    """One release without its payload, which has so many bytes; times are unix seconds."""

    device: str
    stream: str
    sequence: int
    start: int
    end: int
    fingerprint: bytes
    digest: str
    received_at: int
    clock_synchronised: bool | None
    incarnation: bytes
    payload_bytes: int

    @property
    def place(self) -> Place:
        return self.start, self.device, self.sequence


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

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def fingerprints(self, selection: Selection) -> list[bytes]:
        """The different fingerprints among the selected releases, in order."""
        where, values = _where(selection)
        rows = self._db.execute(
            f"SELECT DISTINCT fingerprint FROM releases WHERE {where} ORDER BY fingerprint", values
        )
        return [bytes(row[0]) for row in rows]

    def count(self, selection: Selection, fingerprint: bytes | None = None) -> int:
        """How many of the selected releases there are, or have this fingerprint."""
        where, values = _where(selection)
        if fingerprint is not None:
            where, values = f"{where} AND fingerprint = ?", [*values, fingerprint]
        rows = self._db.execute(f"SELECT count(*) FROM releases WHERE {where}", values)
        return int(rows.fetchone()[0])

    def releasing(self, selection: Selection) -> list[str]:
        """The devices of the selected releases, by name."""
        where, values = _where(selection)
        query = f"SELECT DISTINCT device FROM releases WHERE {where} ORDER BY device"
        return [row[0] for row in self._db.execute(query, values)]

    def spans(self, selection: Selection, seconds: int) -> list[int]:
        """In which spans of so many seconds, counted from 1970, selected releases start."""
        where, values = _where(selection)
        query = f"SELECT DISTINCT window_start / {seconds:d} FROM releases WHERE {where} ORDER BY 1"
        return [int(row[0]) for row in self._db.execute(query, values)]

    def releases(self, selection: Selection, fingerprint: bytes | None = None) -> Iterator[Stored]:
        """The selected releases, one at a time, by window, device and sequence."""
        where, values = _where(selection)
        if fingerprint is not None:
            where, values = f"{where} AND fingerprint = ?", [*values, fingerprint]
        order = "window_start, device, sequence"
        for row in self._db.execute(
            f"SELECT {schema.RELEASE} FROM releases WHERE {where} ORDER BY {order}", values
        ):
            yield _stored(row)

    def portion(self, table: str, after: int, most: int) -> list[tuple[int, Stored]]:
        """At most so many rows of `releases` or `disputed` after one, with their numbers."""
        return portion(self._db, table, after, most)

    def excluded(self, selection: Selection) -> int:
        """How many releases would be selected if the operator had not excluded them."""
        where, values = _where(selection, excluded=True)
        query = f"SELECT count(*) FROM releases WHERE {where}"
        return int(self._db.execute(query, values).fetchone()[0])

    def totals(self) -> list[tuple[str, str, int, float, float]]:
        """By device and stream: how many releases count, and what they say was counted together,
        with its variance. Excluded ones are left out."""
        return self._db.execute(
            "SELECT device, stream, count(*), sum(value), sum(variance) FROM totals"
            f" WHERE NOT {EXCLUDED} GROUP BY device, stream"
        ).fetchall()

    def mark(self, selection: Selection) -> tuple[int, int, int, int]:
        """What differs as soon as other releases are selected: the newest row, how many there are,
        how many others there are of their windows, and what is excluded or answered."""
        where, values = _where(selection)
        rows = f"SELECT coalesce(max(id), 0), count(*) FROM releases WHERE {where}"
        newest, count = self._db.execute(rows, values).fetchone()
        others = self._db.execute(f"SELECT count(*) FROM disputed WHERE {where}", values).fetchone()
        rest = self._db.execute("SELECT device, since, until FROM excluded").fetchall()
        rest += self._db.execute("SELECT '', id, settled_at FROM questions").fetchall()
        return int(newest), int(count), int(others[0]), hash(tuple(rest))

    def listed(self, selection: Selection, after: Place | None, most: int) -> list[ReleaseSummary]:
        """At most so many of the selected releases, by window, device and sequence, after a place
        in that order (None: from the first), without their payloads."""
        where, values = _where(selection)
        if after is not None:
            where = f"{where} AND (window_start, device, sequence) > (?, ?, ?)"
            values = [*values, *after]
        rows = self._db.execute(
            "SELECT device, stream, sequence, window_start, window_end, fingerprint, digest,"
            " received_at, clock_synchronised, incarnation, length(payload)"
            f" FROM releases WHERE {where}"
            " ORDER BY window_start, device, sequence LIMIT ?",
            [*values, most],
        )
        return [_listed(*row) for row in rows]

    def holdings(self) -> list[Holding]:
        """What is stored, by device and stream."""
        return holdings.count(self._db)

    def epochs(self, stream: str) -> list[Epoch]:
        """The settings of a stream that were ever served, those served last first."""
        return config_epochs.served(self._db, stream)

    def damaged(self, selection: Selection) -> list[tuple[str, str, int, int, int, str]]:
        """Of the selected releases those that were set aside because their bytes have changed:
        device, stream, start, end, sequence and what is wrong."""
        where, values = _where(selection)
        rows = self._db.execute(
            "SELECT device, stream, window_start, window_end, sequence, problem"
            f" FROM damaged WHERE {where} ORDER BY window_start, device, sequence",
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
    def connection(self) -> sqlite3.Connection:
        """For what reads a table of its own; read-only."""
        return self._db

    def refusals(self) -> dict[str, int]:
        """How many messages were ever refused, by reason."""
        rows = self._db.execute("SELECT reason, total FROM refusals ORDER BY reason")
        return {str(reason): int(total) for reason, total in rows}


def portion(db: sqlite3.Connection, table: str, after: int, most: int) -> list[tuple[int, Stored]]:
    """See `Reader.portion`."""
    rows = db.execute(
        f"SELECT id, {schema.RELEASE} FROM {table} WHERE id > ? ORDER BY id LIMIT ?", (after, most)
    )
    return [(row[0], _stored(row[1:])) for row in rows]


def _stored(row: Sequence[Any]) -> Stored:
    clock = None if row[9] is None else bool(row[9])
    return Stored(*[*row[:9], clock, row[10]])


def _listed(*row: Any) -> ReleaseSummary:
    clock = None if row[8] is None else bool(row[8])
    return ReleaseSummary(*[*row[:8], clock, *row[9:]])


@contextmanager
def reading(path: Path) -> Iterator[Reader]:
    """A reader of the database at `path`. Raises CommandError, one line with what to do."""
    with closing(open_reading(path)) as connection:
        try:
            connection.execute("BEGIN")  # every answer is of one moment, whatever arrives meanwhile
            yield Reader(connection)
        except sqlite3.Error as error:
            raise CommandError(f"database {path}: {error}: check the disk and try again") from error


# The names of the row's own table, whichever it is, must not be those of this one.
EXCLUDED = (
    "EXISTS (SELECT 1 FROM (SELECT device AS whose, since, until FROM excluded)"
    " WHERE whose = device AND since <= window_start AND window_start < until)"
)


def _where(selection: Selection, excluded: bool = False) -> tuple[str, list[str | int | bytes]]:
    """The condition of a selection with its values, without what is excluded or of that alone."""
    parts: list[tuple[str, list[str | int | bytes]]] = [("stream = ?", [selection.stream])]
    if selection.since is not None:
        parts.append(("window_start >= ?", [selection.since]))
    if selection.until is not None:
        parts.append(("window_start < ?", [selection.until]))
    if selection.devices is not None:
        places = ", ".join("?" * len(selection.devices))
        parts.append((f"device IN ({places})", [*sorted(selection.devices)]))
    parts.append((EXCLUDED if excluded else f"NOT {EXCLUDED}", []))
    return " AND ".join(part for part, _ in parts), [v for _, values in parts for v in values]
