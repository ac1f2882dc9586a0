"""What `devices` shows of the healths of devices: as each said it last, and when that was heard."""

import json
from collections.abc import Mapping

from collector.reader import Heard
from collector.selection import iso
from collector.tables import aligned
from fleet.quantities import size_text

HEADER = (
    *("device", "heard", "waiting", "oldest", "dropped", "set aside"),
    *("written", "clock", "up", "version"),
)
NUMBERS = frozenset({"waiting", "oldest", "dropped", "set aside", "written", "up"})
CLOCK = {True: "synchronised", False: "NOT synchronised", None: "unknown"}


def as_lines(heard: Mapping[str, Heard]) -> list[str]:
    """A table of its own, with a line for each device that has ever said it; none without one."""
    rows = [_row(name, each) for name, each in heard.items()]
    return ["", *aligned(HEADER, rows, NUMBERS), ""] if rows else []


def as_object(heard: Heard | None) -> dict[str, object] | None:
    """What the device said, by the names of the message, and `heard_at`."""
    if heard is None:
        return None
    return {"heard_at": iso(heard.at), **json.loads(heard.health.encode())}


def _row(name: str, heard: Heard) -> tuple[str, ...]:
    said = heard.health
    oldest = said.oldest_waiting_seconds
    return (
        name,
        iso(heard.at),
        str(said.waiting),
        "-" if oldest is None else _roughly(oldest),
        str(said.dropped),
        str(said.set_aside),
        size_text(said.written_today_bytes),
        CLOCK[said.clock_synchronised],
        _roughly(said.uptime_seconds),
        said.version,
    )


def _roughly(seconds: int) -> str:
    """Rounded down, as people say it."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
