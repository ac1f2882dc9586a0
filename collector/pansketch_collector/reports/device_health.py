"""What `devices` shows of the healths of devices: as each said it last, and when that was heard."""

import json
from collections.abc import Mapping

from pansketch_collector.storage.reader import ReceivedHealth
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import rounded_duration_text, size_text, utc_text

HEADER = (
    *("device", "heard", "waiting", "oldest", "deferred", "dropped", "set aside"),
    *("written", "clock", "memory", "up", "version"),
)
NUMBERS = frozenset({"waiting", "oldest", "dropped", "set aside", "written", "up"})
CLOCK = {True: "synchronised", False: "NOT synchronised", None: "unknown"}
MEMORY = {True: "protected", False: "MAY BE SWAPPED", None: "unknown"}


def as_lines(heard: Mapping[str, ReceivedHealth]) -> list[str]:
    """A table of its own, with a line for each device that has ever said it; none without one."""
    rows = [_row(name, each) for name, each in heard.items()]
    notes = [
        f"{name}: another client has this name, and took its place at the broker "
        f"{each.health.name_conflicts} times; give each device its own agent.device"
        for name, each in heard.items()
        if each.health.name_conflicts
    ]
    return ["", *aligned(HEADER, rows, NUMBERS), *notes, ""] if rows else []


def as_object(heard: ReceivedHealth | None) -> dict[str, object] | None:
    """What the device said, by the names of the message, and `heard_at`."""
    if heard is None:
        return None
    # Also where the message leaves them out.
    left_out = {
        "memory_protected": heard.health.memory_protected,
        "name_conflicts": heard.health.name_conflicts,
    }
    return {"heard_at": utc_text(heard.at), **json.loads(heard.health.encode()), **left_out}


def _row(name: str, heard: ReceivedHealth) -> tuple[str, ...]:
    said = heard.health
    oldest = said.oldest_waiting_seconds
    return (
        name,
        utc_text(heard.at),
        str(said.waiting),
        "-" if oldest is None else rounded_duration_text(oldest),
        ", ".join(f"{reason} {n}" for reason, n in sorted(said.deferred.items())) or "-",
        str(said.dropped),
        str(said.set_aside),
        size_text(said.written_today_bytes),
        CLOCK[said.clock_synchronised],
        MEMORY[said.memory_protected],
        rounded_duration_text(said.uptime_seconds),
        said.version,
    )
