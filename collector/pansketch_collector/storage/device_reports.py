"""Reports of devices, stored: the newest status and health of each, and counts of duplicates.

The functions run within a transaction of their caller and raise one of ERRORS.
"""

import json

from pansketch_collector.storage.tables.connection import Database
from pansketch_collector.validation.verdicts import HealthReport, Presence

MAX_DEVICES = 100_000


def session(db: Database, device: str) -> str | None:
    """The session of a device's newest birth, or None for a device not heard of yet."""
    row = db.execute("SELECT session FROM devices WHERE device = ?", (device,)).fetchone()
    return None if row is None else str(row[0])


def has_room_for(db: Database, said: Presence | HealthReport) -> bool:
    """Whether its table takes this device: known already, or not beyond the bound."""
    table = "devices" if isinstance(said, Presence) else "healths"
    known = db.execute(f"SELECT 1 FROM {table} WHERE device = ?", (said.device,))
    if known.fetchone() is not None:
        return True
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) < MAX_DEVICES


def note_presence(db: Database, presence: Presence, at: int) -> None:
    """Stores a device's latest state; `since` stays where neither state nor session changes."""
    status = presence.status
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
            "device": presence.device,
            "state": status.state,
            "session": status.session,
            "at": at,
            "streams": json.dumps(streams),
        },
    )


def note_health(db: Database, checkup: HealthReport, at: int) -> None:
    """Stores the newest health of a device, and no other one of it."""
    db.execute(
        "INSERT INTO healths VALUES (:device, :at, :health)"
        " ON CONFLICT (device) DO UPDATE SET heard_at = :at, health = :health",
        {"device": checkup.device, "at": at, "health": checkup.health.encode().decode()},
    )


def count_duplicate(db: Database, device: str) -> None:
    """A release that is stored already came again: a retry whose acknowledgement was lost."""
    db.execute(
        "INSERT INTO duplicates VALUES (?, 1) ON CONFLICT (device)"
        " DO UPDATE SET total = duplicates.total + 1",
        (device,),
    )
