"""Reading what the collector keeps, beside a process that serves."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector import schema
from collector.failure import CommandError
from fleet.messages import Health


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


Place = tuple[int, str, int]  # of a release among those of its stream: start, device, sequence


@dataclass(frozen=True)
class Listed:
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
    payload_bytes: int

    @property
    def place(self) -> Place:
        return self.start, self.device, self.sequence


@dataclass(frozen=True)
class Holding:
    """What is stored of one stream of one device."""

    device: str
    stream: str
    windows: int
    first_sequence: int
    last_sequence: int
    first_start: int
    last_end: int
    received_at: int
    late: int = 0  # came after one with a higher sequence number
    disputed: int = 0  # set aside, because different releases came under their sequence number
    unsynchronised: int = 0  # whose device's clock followed no better one when they closed

    @property
    def gaps(self) -> int:
        """Sequence numbers up to the last one stored that are missing; they begin at 1."""
        first = min(self.first_sequence, 1)
        return self.last_sequence - first + 1 - self.windows - self.disputed


@dataclass(frozen=True)
class Device:
    """A device as it last reported itself; `streams` is JSON of what each stream guarantees."""

    device: str
    state: str
    session: str
    since: int
    streams: str


@dataclass(frozen=True)
class Heard:
    """The newest health of a device, and when it was heard."""

    at: int
    health: Health


# Every release and what was set aside, and whether an earlier one came later.
_COLUMNS = (
    "device, stream, sequence, window_start, window_end, received_at,"
    " clock_synchronised IS 0 AS unsynchronised"
)
_ORDERED = (
    f"SELECT {_COLUMNS}, 0 AS disputed, received_at > coalesce(min(received_at) OVER"
    " (PARTITION BY device, stream ORDER BY sequence"
    " ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), received_at) AS late"
    f" FROM releases UNION ALL SELECT {_COLUMNS}, 1, 0 FROM disputed"
)


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

    def count(self, selection: Selection, fingerprint: bytes) -> int:
        """How many of the selected releases have this fingerprint."""
        where, values = _where(selection)
        query = f"SELECT count(*) FROM releases WHERE {where} AND fingerprint = ?"
        return int(self._db.execute(query, [*values, fingerprint]).fetchone()[0])

    def releases(self, selection: Selection, fingerprint: bytes | None = None) -> Iterator[Stored]:
        """The selected releases, one at a time, by window, device and sequence."""
        where, values = _where(selection)
        if fingerprint is not None:
            where, values = f"{where} AND fingerprint = ?", [*values, fingerprint]
        order = "window_start, device, sequence"
        for row in self._db.execute(
            f"SELECT {schema.RELEASE} FROM releases WHERE {where} ORDER BY {order}", values
        ):
            clock = None if row[9] is None else bool(row[9])
            yield Stored(*[*row[:9], clock])

    def mark(self, selection: Selection) -> tuple[int, int, int]:
        """What differs as soon as other releases are selected: the newest row, how many there are,
        and how many were set aside."""
        where, values = _where(selection)
        rows = f"SELECT coalesce(max(rowid), 0), count(*) FROM releases WHERE {where}"
        newest, count = self._db.execute(rows, values).fetchone()
        aside = f"SELECT count(*) FROM disputed WHERE {where}"
        return int(newest), int(count), int(self._db.execute(aside, values).fetchone()[0])

    def listed(self, selection: Selection, after: Place | None, most: int) -> list[Listed]:
        """At most so many of the selected releases, by window, device and sequence, after a place
        in that order (None: from the first), without their payloads."""
        where, values = _where(selection)
        if after is not None:
            where = f"{where} AND (window_start, device, sequence) > (?, ?, ?)"
            values = [*values, *after]
        rows = self._db.execute(
            "SELECT device, stream, sequence, window_start, window_end, fingerprint, digest,"
            f" received_at, clock_synchronised, length(payload) FROM releases WHERE {where}"
            " ORDER BY window_start, device, sequence LIMIT ?",
            [*values, most],
        )
        return [_listed(*row) for row in rows]

    def holdings(self) -> list[Holding]:
        """What is stored, by device and stream."""
        rows = self._db.execute(
            "SELECT device, stream, sum(NOT disputed), min(sequence), max(sequence),"
            " min(window_start), max(window_end), max(received_at), sum(late), sum(disputed),"
            " sum(unsynchronised AND NOT disputed)"
            f" FROM ({_ORDERED}) GROUP BY device, stream ORDER BY device, stream"
        )
        return [Holding(*row) for row in rows]

    def devices(self) -> list[Device]:
        """Every device that has reported itself, by name."""
        rows = self._db.execute(
            "SELECT device, state, session, since, streams FROM devices ORDER BY device"
        )
        return [Device(*row) for row in rows]

    def healths(self) -> dict[str, Heard]:
        """The newest health of every device that has said it, by name."""
        rows = self._db.execute("SELECT device, heard_at, health FROM healths ORDER BY device")
        return {name: Heard(at, Health.decode(health.encode())) for name, at, health in rows}

    def duplicates(self) -> dict[str, int]:
        """By device, how many releases came again after they had been stored."""
        rows = self._db.execute("SELECT device, total FROM duplicates ORDER BY device")
        return {str(device): int(total) for device, total in rows}

    def refusals(self) -> dict[str, int]:
        """How many messages were ever refused, by reason."""
        rows = self._db.execute("SELECT reason, total FROM refusals ORDER BY reason")
        return {str(reason): int(total) for reason, total in rows}


def _listed(*row: Any) -> Listed:
    clock = None if row[8] is None else bool(row[8])
    return Listed(*[*row[:8], clock, row[9]])


@contextmanager
def reading(path: Path) -> Iterator[Reader]:
    """A reader of the database at `path`. Raises CommandError, one line with what to do."""
    with closing(schema.open_reading(path)) as connection:
        try:
            connection.execute("BEGIN")  # every answer is of one moment, whatever arrives meanwhile
            yield Reader(connection)
        except sqlite3.Error as error:
            raise CommandError(f"database {path}: {error}: check the disk and try again") from error


def _where(selection: Selection) -> tuple[str, list[str | int | bytes]]:
    """The condition of a selection, with its values in order."""
    parts: list[tuple[str, list[str | int | bytes]]] = [("stream = ?", [selection.stream])]
    if selection.since is not None:
        parts.append(("window_start >= ?", [selection.since]))
    if selection.until is not None:
        parts.append(("window_start < ?", [selection.until]))
    if selection.devices is not None:
        places = ", ".join("?" * len(selection.devices))
        parts.append((f"device IN ({places})", [*sorted(selection.devices)]))
    return " AND ".join(part for part, _ in parts), [v for _, values in parts for v in values]
