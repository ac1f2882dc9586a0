"""Generated events of doors and lockers, with public parameters.

    python -m demo.make_door_events    # writes data/doors again

A week at twelve doors of one site. Each person has one badge for all doors, so devices share
badges. Each device also has its own lockers, whose cards no other device sees. The uses of a badge
or a card follow Zipf's law. SEED determines all of it.
"""

import csv
import gzip
import io
import sys
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from random import Random

from testbed.local_fleet import DOORS, stations

SEED = 20170220
FIRST_DAY = datetime(2017, 2, 20, tzinfo=UTC)  # a Monday
DAYS = 7
WEEKEND, WEEKEND_SHARE = 5, 0.3
OPENS, SHUTS = 7 * 3600, 20 * 3600  # seconds of a day, far from midnight: windows are days
BADGES, VISITS_A_DAY, BADGE_EXPONENT, DOOR_EXPONENT = 3000, 6000, 0.8, 1.0
CARDS, USES_A_DAY, CARD_EXPONENT = 400, 300, 0.8
COLUMNS = ("time", "badge_id", "card_id")


@dataclass(frozen=True, order=True)
class Event:
    """One event at a device: at a door with a badge, or at a locker with a card."""

    time: str
    badge_id: str = ""
    card_id: str = ""


class Zipf:
    """Ranks 0 to count - 1, where rank r has a weight of (r + 1)**-exponent."""

    def __init__(self, count: int, exponent: float) -> None:
        self._sums = list(accumulate((rank + 1) ** -exponent for rank in range(count)))

    def draw(self, random: Random) -> int:
        # Only random() itself is the same in every version of Python.
        return bisect(self._sums[:-1], random.random() * self._sums[-1])


def events(devices: Sequence[str], seed: int = SEED) -> dict[str, list[Event]]:
    """All events of the week, by device and in order of time."""
    random = Random(seed)
    found: dict[str, list[Event]] = {device: [] for device in devices}
    for day in range(DAYS):
        share = WEEKEND_SHARE if day >= WEEKEND else 1.0
        for device, event in _visits(devices, day, round(share * VISITS_A_DAY), random):
            found[device].append(event)
        for device in devices:
            found[device] += _uses(device, day, round(share * USES_A_DAY), random)
    return {device: sorted(listed) for device, listed in found.items()}


def _visits(
    devices: Sequence[str], day: int, count: int, random: Random
) -> Iterator[tuple[str, Event]]:
    badges, doors = Zipf(BADGES, BADGE_EXPONENT), Zipf(len(devices), DOOR_EXPONENT)
    for _ in range(count):
        badge = f"badge-{badges.draw(random) + 1:04d}"
        yield devices[doors.draw(random)], Event(_time(day, random), badge_id=badge)


def _uses(device: str, day: int, count: int, random: Random) -> Iterator[Event]:
    cards = Zipf(CARDS, CARD_EXPONENT)
    for _ in range(count):
        card = f"{device}-{cards.draw(random) + 1:03d}"
        yield Event(_time(day, random), card_id=card)


def _time(day: int, random: Random) -> str:
    second = OPENS + int(random.random() * (SHUTS - OPENS))
    return f"{FIRST_DAY + timedelta(days=day, seconds=second):%Y-%m-%dT%H:%M:%SZ}"


def as_csv(listed: Sequence[Event]) -> str:
    """The text of one device's file."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((event.time, event.badge_id, event.card_id) for event in listed)
    return out.getvalue()


def write(folder: Path) -> None:
    """Writes a file for each device: the same bytes on every run."""
    folder.mkdir(parents=True, exist_ok=True)
    for device, listed in events(stations()).items():
        data = gzip.compress(as_csv(listed).encode(), mtime=0)
        (folder / f"{device}.csv.gz").write_bytes(data)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else DOORS)
