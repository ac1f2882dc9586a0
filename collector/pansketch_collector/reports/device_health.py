"""The health part of `devices`: the newest health of each device, and its time of receipt."""

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


def as_lines(received: Mapping[str, ReceivedHealth]) -> list[str]:
    """A table with each device that has ever sent a health message; none without one."""
    rows = [_row(name, each) for name, each in received.items()]
    notes = [
        f"{name}: another client has this name, and took its place at the broker "
        f"{each.health.name_conflicts} times; give each device its own agent.device"
        for name, each in received.items()
        if each.health.name_conflicts
    ]
    return ["", *aligned(HEADER, rows, NUMBERS), *notes, ""] if rows else []


def as_object(received: ReceivedHealth | None) -> dict[str, object] | None:
    """The health with the names of the message, and `heard_at`."""
    if received is None:
        return None
    # Present even if the message omits them.
    left_out = {
        "memory_protected": received.health.memory_protected,
        "name_conflicts": received.health.name_conflicts,
    }
    return {"heard_at": utc_text(received.at), **json.loads(received.health.encode()), **left_out}


def _row(name: str, received: ReceivedHealth) -> tuple[str, ...]:
    health = received.health
    oldest = health.oldest_waiting_seconds
    return (
        name,
        utc_text(received.at),
        str(health.waiting),
        "-" if oldest is None else rounded_duration_text(oldest),
        ", ".join(f"{reason} {n}" for reason, n in sorted(health.deferred.items())) or "-",
        str(health.dropped),
        str(health.set_aside),
        size_text(health.written_today_bytes),
        CLOCK[health.clock_synchronised],
        MEMORY[health.memory_protected],
        rounded_duration_text(health.uptime_seconds),
        health.version,
    )
