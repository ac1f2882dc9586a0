"""Exclusions of releases from every answer, and the deletion of devices, by the operator.

An exclusion deletes nothing: the releases stay stored, acknowledged and counted, and count in
answers again after `undo`. `reader.py` applies exclusions where it selects releases.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pansketch_collector.errors import wrong
from pansketch_collector.storage.tables.connection import Database, of_devices
from pansketch_collector.storage.tables.sum_changes import SumChanges
from pansketch_collector.validation.verdicts import LATEST_SECOND
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import utc_text

HEADER = ("device", "from", "to", "releases", "excluded")
ALWAYS = LATEST_SECOND + 1  # no window starts so late


@dataclass(frozen=True)
class Exclusion:
    """Windows of a device that start in [since, until), of all its streams; unix seconds.

    `releases`: the number of them that are stored now.
    """

    device: str
    since: int
    until: int
    excluded_at: int
    releases: int


def exclude(db: Database, device: str, since: int | None, until: int | None, at: int) -> int:
    """Excludes windows of a device, including future ones; returns the number of stored
    releases."""
    span = (since or 0, ALWAYS if until is None else until)
    sums = SumChanges(db)
    sums.select(_OF_SPAN, (device, *span), -1)
    db.execute(
        "INSERT INTO excluded VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", (device, *span, at)
    )
    sums.flush()
    return _stored(db, device, *span)


def undo(db: Database, device: str, since: int | None, until: int | None) -> int:
    """Removes exclusions of a device, of exactly this range or all; returns their number.

    Raises CommandError if there is none.
    """
    where, values = "device = ?", [device]
    found = {(e.since, e.until) for e in listed(db, [device])}
    if since is not None or until is not None:
        span = (since or 0, ALWAYS if until is None else until)
        found &= {span}
        where, values = f"{where} AND (since, until) = (?, ?)", [device, *map(str, span)]
    if not found:
        raise wrong(f"no such exclusion of {device}; see `pansketch-collector exclude --list`")
    undone = db.execute(f"DELETE FROM excluded WHERE {where}", values).rowcount
    sums, reached = SumChanges(db), 0
    for start, end in sorted(found):
        if max(start, reached) < end:
            sums.select(_OF_SPAN, (device, max(start, reached), end), 1)
            reached = end
    sums.flush()
    return undone


_OF_SPAN = "device = ? AND window_start >= ? AND window_start < ?"


def listed(db: Database, devices: Sequence[str] | None = None) -> list[Exclusion]:
    """The exclusions, by device and time; of all devices or of these."""
    query = "SELECT device, since, until, excluded_at FROM excluded WHERE {of} ORDER BY 1, 2, 3"
    return [
        Exclusion(device, since, until, at, _stored(db, device, since, until))
        for device, since, until, at in list(of_devices(db, query, devices))
    ]


def excluded_devices(db: Database) -> list[str]:
    """The devices with an exclusion, by name."""
    rows = db.execute("SELECT DISTINCT device FROM excluded ORDER BY device")
    return [str(row[0]) for row in rows]


def _stored(db: Database, device: str, since: int, until: int) -> int:
    counted = (
        "SELECT count(*) FROM releases WHERE device = ? AND window_start >= ? AND window_start < ?"
    )
    return int(db.execute(counted, (device, since, until)).fetchone()[0])


def as_table(found: Sequence[Exclusion]) -> str:
    """An aligned table; `-` for an open end."""
    if not found:
        return "no release is excluded"
    rows = [
        (e.device, _since(e) or "-", _until(e) or "-", str(e.releases), utc_text(e.excluded_at))
        for e in found
    ]
    return "\n".join(aligned(HEADER, rows, frozenset({"releases"})))


def as_json(found: Sequence[Exclusion]) -> str:
    """One object: `excluded`, a list; null for an open end."""
    return json.dumps({"excluded": [{"device": e.device, **as_object(e)} for e in found]})


def as_object(found: Exclusion) -> dict[str, object]:
    """One exclusion of a device; null for an open end."""
    return {
        "from": _since(found),
        "to": _until(found),
        "releases": found.releases,
        "excluded_at": utc_text(found.excluded_at),
    }


def range_text(found: Exclusion) -> str:
    """The range behind a device's name; empty for all windows."""
    since, until = _since(found), _until(found)
    return (f" from {since}" if since else "") + (f" to {until}" if until else "")


def _since(found: Exclusion) -> str | None:
    return utc_text(found.since) if found.since else None


def _until(found: Exclusion) -> str | None:
    return None if found.until == ALWAYS else utc_text(found.until)


@dataclass(frozen=True)
class DeletionReport:
    """The deleted data of a device. `reported`: it had sent reports. `kept`: releases that stay
    stored."""

    reported: bool
    releases: int
    kept: int


def forget(db: Database, device: str, releases: bool) -> DeletionReport:
    """Deletes a device's status, health and duplicate count, which makes room for another device.

    `releases`: deletes all its stored data too. Raises CommandError for an unknown device.
    """
    counted = "SELECT count(*) FROM releases WHERE device = ?"
    stored = int(db.execute(counted, (device,)).fetchone()[0])
    tables = ["devices", "healths", "duplicates"]
    if releases:
        # The holdings first: triggers then have no row to count down.
        tables += ["holdings", "tallies"]
        tables += ["releases", "disputed", "damaged", "quarantine", "removed", "excluded"]
    sums = SumChanges(db)
    if releases:
        sums.select("device = ?", (device,), -1)
    rows = {
        table: db.execute(f"DELETE FROM {table} WHERE device = ?", (device,)).rowcount
        for table in tables
    }
    sums.flush()
    if not any(rows.values()) and not stored:
        raise wrong(f"nothing is known of a device {device!r}; see `pansketch-collector devices`")
    deleted = rows.get("releases", 0)
    return DeletionReport(bool(rows["devices"] or rows["healths"]), deleted, stored - deleted)
