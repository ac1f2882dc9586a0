"""`devices`: who reports, what is stored of each, what is missing, how each says that it is, and
what was refused."""

import json
from dataclasses import dataclass

from collector import healths
from collector.reader import Device, Heard, Holding, Reader
from collector.selection import iso
from collector.tables import aligned

HEADER = (
    *("device", "state", "stream", "windows", "first", "last"),
    *("gaps", "late", "disputed", "unsynced", "again", "received"),
)
NUMBERS = frozenset({"windows", "gaps", "late", "disputed", "unsynced", "again"})


@dataclass(frozen=True)
class Overview:
    """Everything at one moment: by device name its latest state, if any was reported, and what is
    stored of it; by device how many releases came again after they had been stored; by reason how
    many messages were ever refused; by device the newest health."""

    devices: dict[str, Device | None]
    held: dict[str, list[Holding]]
    duplicates: dict[str, int]
    refusals: dict[str, int]
    healths: dict[str, Heard]


def overview(reader: Reader) -> Overview:
    """Devices that reported themselves or have releases stored, or both."""
    known = {device.device: device for device in reader.devices()}
    heard = reader.healths()
    held: dict[str, list[Holding]] = {}
    for holding in reader.holdings():
        held.setdefault(holding.device, []).append(holding)
    names = sorted({*known, *held, *heard})
    states = {name: known.get(name) for name in names}
    return Overview(states, held, reader.duplicates(), reader.refusals(), heard)


def as_table(found: Overview) -> str:
    """An aligned table, a line for each stream of each device; a line for each device's health; and
    the quarantine's totals."""
    rows = [row for name in found.devices for row in _rows(found, name)]
    lines = aligned(HEADER, rows, NUMBERS) if rows else ["no device has reported yet"]
    lines += healths.as_lines(found.healths)
    lines += [line for name in found.devices for line in _problems(name, found.devices[name])]
    total = sum(found.refusals.values())
    reasons = ", ".join(f"{reason} {n}" for reason, n in found.refusals.items())
    lines.append(f"refused: {total} ({reasons})" if total else "refused: none")
    lines.append(f"came again after they were stored: {sum(found.duplicates.values()) or 'none'}")
    return "\n".join(lines)


def as_json(found: Overview) -> str:
    """One object: `devices` and `quarantine`."""
    devices = [as_object(found, name) for name in found.devices]
    return json.dumps({"devices": devices, "quarantine": found.refusals})


def _problems(name: str, device: Device | None) -> list[str]:
    """A line for each stream of a device that has stopped by itself."""
    reported = {} if device is None else json.loads(device.streams)
    return [
        f"stopped: {name} {stream}: {birth['problem']}"
        for stream, birth in reported.items()
        if birth.get("problem")
    ]


def _rows(found: Overview, name: str) -> list[tuple[str, ...]]:
    device = found.devices[name]
    state = "unknown" if device is None else device.state
    held = found.held.get(name)
    if not held:
        return [(name, state, "-", "0", *"--------")]
    return [
        (
            name,
            state,
            h.stream,
            str(h.windows),
            iso(h.first_start),
            iso(h.last_end),
            str(h.gaps),
            str(h.late),
            str(h.disputed),
            str(h.unsynchronised),
            str(found.duplicates.get(name, 0)),
            iso(h.received_at),
        )
        for h in held
    ]


def as_object(found: Overview, name: str) -> dict[str, object]:
    """All that is known of one device."""
    device = found.devices[name]
    streams = {
        h.stream: {
            "windows": h.windows,
            "first_window": iso(h.first_start),
            "last_window": iso(h.last_end),
            "gaps": h.gaps,
            "late": h.late,
            "disputed": h.disputed,
            "clock_not_synchronised": h.unsynchronised,
            "received_at": iso(h.received_at),
        }
        for h in found.held.get(name, ())
    }
    return {
        "device": name,
        "state": "unknown" if device is None else device.state,
        "since": None if device is None else iso(device.since),
        "session": None if device is None else device.session,
        "reported": {} if device is None else json.loads(device.streams),
        "duplicates": found.duplicates.get(name, 0),
        "health": healths.as_object(found.healths.get(name)),
        "streams": streams,
    }
