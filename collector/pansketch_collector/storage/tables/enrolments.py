"""Enrolled devices: the public keys that sign their releases.

A key is current, retired by a newer one, or revoked. A retired key is valid for windows that had
ended when it was retired. A device whose keys are all revoked is revoked: the collector accepts
none of its releases, signed or not. Rows are never deleted, so a revoked key stays revoked when the
device is enrolled again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pansketch_collector.errors import wrong
from pansketch_collector.storage.tables.connection import Database
from pansketch_collector.validation.signatures import SigningKey
from pansketch_fleet.protocol.signed_release import key_id
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import utc_text

# Times are unix seconds; NULL: not retired, not revoked.
TABLES: Final = """
CREATE TABLE enrolled (
    device TEXT NOT NULL,
    key BLOB NOT NULL,
    enrolled_at INTEGER NOT NULL,
    retired_at INTEGER,
    revoked_at INTEGER,
    PRIMARY KEY (device, key)
) STRICT, WITHOUT ROWID;
"""
HEADER = ("device", "key", "state", "enrolled", "until")


@dataclass(frozen=True)
class EnrolledKey:
    """One public key of a device; times in unix seconds."""

    public: bytes
    enrolled_at: int
    retired_at: int | None
    revoked_at: int | None

    @property
    def state(self) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "current" if self.retired_at is None else "retired"


Enrolments = Mapping[str, Sequence[EnrolledKey]]


def keys_of(db: Database, devices: Iterable[str]) -> dict[str, list[EnrolledKey]]:
    """The keys of these devices, oldest first; without devices that have none."""
    found: dict[str, list[EnrolledKey]] = {}
    query = (
        "SELECT key, enrolled_at, retired_at, revoked_at FROM enrolled WHERE device = ?"
        " ORDER BY enrolled_at, retired_at IS NULL, key"
    )
    if db.execute("SELECT 1 FROM enrolled LIMIT 1").fetchone() is None:
        return found
    for device in set(devices):
        if rows := db.execute(query, (device,)).fetchall():
            found[device] = [EnrolledKey(*row) for row in rows]
    return found


def signing_keys(db: Database, devices: Iterable[str]) -> dict[str, list[SigningKey]]:
    """The valid keys of these devices; an enrolled device without one is revoked."""
    return {
        device: [SigningKey(k.public, k.retired_at) for k in keys if k.revoked_at is None]
        for device, keys in keys_of(db, devices).items()
    }


def current(keys: Sequence[EnrolledKey]) -> EnrolledKey | None:
    """The key that a device signs with, if it has one."""
    return next((key for key in keys if key.state == "current"), None)


def enroll(db: Database, device: str, public: bytes, at: int) -> bool:
    """Enrolls a device with its first key, within a transaction; False if this key is current
    already.

    Raises CommandError if the device has another one, or this key was retired or revoked.
    """
    keys = keys_of(db, [device]).get(device, [])
    current_key = current(keys)
    if current_key is not None and current_key.public == public:
        return False
    if current_key is not None:
        raise wrong(
            f"{device} is enrolled already, with key {key_id(current_key.public).hex()}: "
            "for another key use `pansketch-collector rotate`, or `revoke` first if the key is lost"
        )
    _reject_known(device, keys, public)
    db.execute("INSERT INTO enrolled VALUES (?, ?, ?, NULL, NULL)", (device, public, at))
    return True


def rotate(db: Database, device: str, public: bytes, at: int) -> bool:
    """Replaces the current key of an enrolled device, within a transaction; returns True.

    Retires the former key. Raises CommandError without a current key, and for a known one.
    """
    keys = keys_of(db, [device]).get(device, [])
    if current(keys) is None:
        raise wrong(f"{device} has no current key: use `pansketch-collector enroll {device}`")
    _reject_known(device, keys, public)
    db.execute(
        "UPDATE enrolled SET retired_at = ?"
        " WHERE device = ? AND retired_at IS NULL AND revoked_at IS NULL",
        (at, device),
    )
    db.execute("INSERT INTO enrolled VALUES (?, ?, ?, NULL, NULL)", (device, public, at))
    return True


def revoke(db: Database, device: str, at: int) -> bool:
    """Revokes all keys of a device, within a transaction; False if all are revoked already.

    Raises CommandError for a device that was never enrolled.
    """
    if device not in keys_of(db, [device]):
        raise wrong(f"{device} was never enrolled; see `pansketch-collector enroll --list`")
    done = "UPDATE enrolled SET revoked_at = ? WHERE device = ? AND revoked_at IS NULL"
    return db.execute(done, (at, device)).rowcount > 0


def _reject_known(device: str, keys: Sequence[EnrolledKey], public: bytes) -> None:
    for key in keys:
        if key.public == public:
            raise wrong(
                f"the key {key_id(public).hex()} of {device} is {key.state}: name a file that does "
                "not exist yet with --out"
            )


def listed(db: Database) -> Enrolments:
    """All keys, by device."""
    return keys_of(db, [row[0] for row in db.execute("SELECT DISTINCT device FROM enrolled")])


def as_table(found: Enrolments) -> str:
    """An aligned table; `-` for a key without an end."""
    if not found:
        return "no device is enrolled"
    rows = [(each["device"] or "", *map(_cell, list(each.values())[1:])) for each in _rows(found)]
    return "\n".join(aligned(HEADER, rows, frozenset()))


def as_json(found: Enrolments) -> str:
    """One object: `enrolled`, a list; null for a key without an end."""
    return json.dumps({"enrolled": _rows(found)})


def _cell(text: str | None) -> str:
    return "-" if text is None else text


def _rows(found: Enrolments) -> list[dict[str, str | None]]:
    return [
        {
            "device": device,
            "key": key_id(key.public).hex(),
            "state": key.state,
            "enrolled": utc_text(key.enrolled_at),
            "until": _until(key),
        }
        for device, keys in sorted(found.items())
        for key in keys
    ]


def _until(key: EnrolledKey) -> str | None:
    ends = [each for each in (key.retired_at, key.revoked_at) if each is not None]
    return utc_text(min(ends)) if ends else None
