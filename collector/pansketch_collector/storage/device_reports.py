"""Stored reports of devices: the newest status and health of each, and counts of duplicates.

The functions run within a transaction of their caller and raise one of ERRORS.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pansketch_collector.storage.tables.connection import PORTION, Database, of_devices
from pansketch_collector.storage.tables.records import Device
from pansketch_collector.validation.verdicts import DeviceStatus, HealthReport
from pansketch_fleet.protocol.messages import Health

MAX_DEVICES = 100_000
ROWS = 2_000  # in memory


def session(db: Database, device: str) -> str | None:
    """The session of a device's newest birth message; None for an unknown device."""
    row = db.execute("SELECT session FROM devices WHERE device = ?", (device,)).fetchone()
    return None if row is None else str(row[0])


class DeviceRows:
    """Bounds the devices that the tables of reports hold. Only one process adds some.

    It counts a table once: to count all rows for each new device takes the square of their number.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def has_room(self, db: Database, report: DeviceStatus | HealthReport) -> bool:
        """True if the table has a row for this device, or room for one."""
        table = "devices" if isinstance(report, DeviceStatus) else "healths"
        known = db.execute(f"SELECT 1 FROM {table} WHERE device = ?", (report.device,))
        if known.fetchone() is not None:
            return True
        # At least as many as there are: some of those that were counted may be gone.
        if self._counts.get(table, MAX_DEVICES) >= MAX_DEVICES:
            self._counts[table] = int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        if self._counts[table] >= MAX_DEVICES:
            return False
        self._counts[table] += 1
        return True


def store_status(db: Database, report: DeviceStatus, at: int) -> None:
    """Stores a device's latest state; `since` changes only with the state or the session."""
    status = report.status
    streams = {
        name: {
            "fingerprint": birth.fingerprint,
            "guarantee": birth.guarantee,
            "window_seconds": birth.window_seconds,
            "problem": birth.problem,
            **({"scale_problem": birth.scale_problem} if birth.scale_problem else {}),
        }
        for name, birth in status.streams.items()
    }
    db.execute(
        "INSERT INTO devices VALUES (:device, :state, :session, :at, :streams)"
        " ON CONFLICT (device) DO UPDATE SET"
        " since = CASE WHEN devices.state = :state AND devices.session = :session"
        " THEN devices.since ELSE :at END, state = :state, session = :session,"
        " streams = CASE WHEN :streams = '{}' THEN devices.streams ELSE :streams END",
        {
            "device": report.device,
            "state": status.state,
            "session": status.session,
            "at": at,
            "streams": json.dumps(streams),
        },
    )


def store_health(db: Database, report: HealthReport, at: int) -> None:
    """Replaces the stored health of a device."""
    db.execute(
        "INSERT INTO healths VALUES (:device, :at, :health)"
        " ON CONFLICT (device) DO UPDATE SET heard_at = :at, health = :health",
        {"device": report.device, "at": at, "health": report.health.encode().decode()},
    )


def count_duplicate(db: Database, device: str) -> None:
    """Counts a duplicate: a device retransmitted a stored release because its acknowledgement was
    lost."""
    db.execute(
        "INSERT INTO duplicates VALUES (?, 1) ON CONFLICT (device)"
        " DO UPDATE SET total = duplicates.total + 1",
        (device,),
    )


@dataclass(frozen=True)
class ReceivedHealth:
    """The newest health of a device, and when it was received (unix seconds)."""

    at: int
    health: Health


def devices(db: Database, names: Sequence[str] | None = None) -> list[Device]:
    """The devices that have sent a status, by name; of all or of these."""
    query = "SELECT device, state, session, since, streams FROM devices WHERE {of} ORDER BY device"
    return [Device(*row) for row in of_devices(db, query, names)]


def healths(db: Database, names: Sequence[str] | None = None) -> dict[str, ReceivedHealth]:
    """The newest health of every device that has sent one, by name; of all or of these."""
    query = "SELECT device, heard_at, health FROM healths WHERE {of} ORDER BY device"
    return {
        name: ReceivedHealth(at, Health.decode(health.encode()))
        for name, at, health in of_devices(db, query, names)
    }


def duplicates(db: Database, names: Sequence[str] | None = None) -> dict[str, int]:
    """The number of duplicate releases, by device; of all or of these."""
    query = "SELECT device, total FROM duplicates WHERE {of} ORDER BY device"
    return {str(device): int(total) for device, total in of_devices(db, query, names)}


def duplicate_count(db: Database) -> int:
    """The number of duplicate releases of all devices."""
    return int(db.execute("SELECT coalesce(sum(total), 0) FROM duplicates").fetchone()[0])


def status_texts(db: Database) -> list[tuple[str, str, int]]:
    """States, texts of the streams, and the number of devices that report both."""
    first = db.execute("SELECT state, streams FROM devices LIMIT 1").fetchone()
    if first is None:
        return []
    # Most devices report the same: to sort such a text for each of them takes longest.
    rows = db.execute(
        "SELECT ?1, ?2, count(*) FROM devices WHERE state = ?1 AND streams = ?2 UNION ALL"
        " SELECT state, streams, count(*) FROM devices WHERE NOT (state = ?1 AND streams = ?2)"
        " GROUP BY state, streams",
        first,
    )
    return [(state, text, count) for state, text, count in rows]


def reporting(db: Database, texts: Collection[str], after: str) -> list[tuple[str, str]]:
    """At most ROWS devices after a name that report one of these texts of streams, and the text.

    If there are many texts, all devices after the name are meant.
    """
    values = [*texts] if len(texts) <= PORTION else []
    condition = f" AND streams IN ({', '.join('?' * len(values))})" if values else ""
    return db.execute(
        f"SELECT device, streams FROM devices WHERE device > ?{condition} ORDER BY device LIMIT ?",
        [after, *values, ROWS],
    ).fetchall()


def health_texts(db: Database) -> Iterator[list[tuple[str, str]]]:
    """Device and JSON text of every health, by name, ROWS at a time."""
    query = "SELECT device, health FROM healths WHERE device > ? ORDER BY device LIMIT ?"
    after = ""
    while rows := db.execute(query, (after, ROWS)).fetchall():
        yield rows
        after = rows[-1][0]


_WITHOUT_STATUS = "NOT EXISTS (SELECT 1 FROM devices WHERE devices.device = reporting.device)"


def unknown(db: Database) -> int:
    """The number of devices with a stored release or a health, and without a status."""
    query = (
        "SELECT count(*) FROM (SELECT DISTINCT device FROM holdings AS reporting"
        f" WHERE {_WITHOUT_STATUS} UNION SELECT device FROM healths AS reporting"
        f" WHERE {_WITHOUT_STATUS}) AS every"
    )
    return int(db.execute(query).fetchone()[0])


def states(db: Database) -> dict[str, int]:
    """The number of devices in each state."""
    rows = db.execute("SELECT state, count(*) FROM devices GROUP BY state")
    return {"unknown": unknown(db), **{str(state): int(count) for state, count in rows}}


def names(db: Database, after: str = "", limit: int = 2**62) -> list[str]:
    """At most `limit` devices with a status, a health or a stored release, by name.

    `after`: the names begin after this one.
    """
    parts = (
        f"SELECT device FROM (SELECT DISTINCT device FROM {table} WHERE device > ?1"
        " ORDER BY device LIMIT ?2) AS of_one"
        for table in ("devices", "holdings", "healths")
    )
    query = f"{' UNION '.join(parts)} ORDER BY device LIMIT ?2"
    return [str(row[0]) for row in db.execute(query, (after, limit))]
