"""Stored reports of devices: the newest status and health of each, and counts of duplicates.

The functions run within a transaction of their caller and raise one of ERRORS.
"""

import json

from pansketch_collector.storage.tables.connection import Database
from pansketch_collector.validation.verdicts import DeviceStatus, HealthReport

MAX_DEVICES = 100_000


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
