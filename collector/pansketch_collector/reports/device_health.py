"""The newest health of each device with its time of receipt, and the sums of all healths."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pansketch_collector.storage.device_reports import ReceivedHealth, health_texts
from pansketch_collector.storage.tables.connection import Database
from pansketch_fleet.protocol.messages import health_figures
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


@dataclass(frozen=True)
class FleetHealth:
    """The healths of all devices.

    `waiting`, `dropped`, `set_aside`, `name_conflicts`: sums; `oldest_waiting_seconds`: the
    maximum. `memory_protected`: the number of devices with each value. `problems`: names of
    devices, by the problem that their health reports.
    """

    waiting: int
    oldest_waiting_seconds: int
    dropped: int
    set_aside: int
    name_conflicts: int
    memory_protected: Mapping[bool | None, int]
    problems: Mapping[str, Sequence[str]]


def sum_up(db: Database) -> FleetHealth:
    """The sums of all healths."""
    waiting = oldest = dropped = set_aside = conflicts = 0
    memory: Counter[bool | None] = Counter()
    problems: dict[str, list[str]] = defaultdict(list)
    for rows in health_texts(db):
        found = health_figures(text for _, text in rows)
        waiting += sum([each.waiting for each in found])
        oldest = max(oldest, max([each.oldest_waiting_seconds or 0 for each in found]))
        dropped += sum([each.dropped for each in found])
        set_aside += sum([each.set_aside for each in found])
        conflicts += sum([each.name_conflicts for each in found])
        memory.update([each.memory_protected for each in found])
        for (name, _), each in zip(rows, found, strict=True):
            if each.name_conflicts:
                problems["name conflicts"].append(name)
            if each.set_aside:
                problems["set aside"].append(name)
            if each.dropped:
                problems["dropped"].append(name)
            if each.deferred:
                problems["deferred"].append(name)
            if each.clock_synchronised is False:
                problems["clock not synchronised"].append(name)
            if each.memory_protected is False:
                problems["memory may be swapped"].append(name)
    return FleetHealth(waiting, oldest, dropped, set_aside, conflicts, memory, problems)
