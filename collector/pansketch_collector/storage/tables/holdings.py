"""Counts of stored releases, by device and stream: windows, gaps, late ones.

Also the last release of each ledger, including deleted ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from pansketch_collector.storage.tables.connection import Database


@dataclass(frozen=True)
class Holding:
    """Counts of the stored releases of one stream of one device.

    A device's ledger numbers its releases without a gap, from 1. A ledger that continues a copy of
    an earlier one starts after the copy's last number. `gaps`: missing numbers of each ledger, up
    to its last stored one. `late`: releases stored after one with a higher number. `disputed`:
    second releases of stored windows. `unsynchronised`: windows that closed while the device's
    clock was unsynchronised. `ledgers`: distinct ledgers of the releases. `rolled_back`: windows
    under a number that their ledger had used before, as after the restore of a copy.
    """

    device: str
    stream: str
    windows: int
    first_start: int
    last_end: int
    received_at: int
    gaps: int = 0
    late: int = 0
    disputed: int = 0
    unsynchronised: int = 0
    ledgers: int = 1
    rolled_back: int = 0


@dataclass(frozen=True)
class _Numbered:
    """Counts of the stored releases of one stream of one device under one ledger."""

    device: str
    stream: str
    windows: int
    numbers: int
    first: int
    last: int
    first_start: int
    last_end: int
    received_at: int
    late: int
    disputed: int
    unsynchronised: int
    rolled_back: int
    incarnation: bytes

    @property
    def ledger(self) -> tuple[str, str, bytes]:
        return self.device, self.stream, self.incarnation

    def with_absent(self, numbers: int, first: int, last: int) -> "_Numbered":
        """Adds numbers that were stored once, and were removed or damaged since."""
        return replace(
            self,
            numbers=self.numbers + numbers,
            first=min(self.first, first),
            last=max(self.last, last),
        )

    def gaps(self, others: Sequence["_Numbered"]) -> int:
        """The number of missing sequence numbers, given the other ledgers of this stream and
        device."""
        earlier = [other.last for other in others if other.first < self.first]
        if not earlier:
            first = min(self.first, 1)
        elif max(earlier) < self.first:
            first = max(earlier) + 1
        else:  # continues a copy that ended before the ledger did
            first = self.first
        return self.last - first + 1 - self.numbers


_NUMBERED = (
    "SELECT device, stream, windows, numbers, first, last, first_start, last_end, received_at,"
    " late, disputed, unsynchronised, windows - used, incarnation FROM holdings"
    " ORDER BY device, stream"
)
# Numbers of former releases: removed by retention, or damaged.
_ABSENT = (
    "SELECT device, stream, incarnation, sum(windows), min(first), max(last) FROM ("
    "SELECT device, stream, incarnation, windows, first_sequence AS first, last_sequence AS last"
    " FROM removed UNION ALL"
    " SELECT device, stream, incarnation, 1, sequence, sequence FROM damaged"
    ") AS absent GROUP BY device, stream, incarnation"
)


def count(db: Database) -> list[Holding]:
    """Counts of stored releases, by device and stream."""
    absent = {row[:3]: row[3:] for row in db.execute(_ABSENT)}
    rows = (_Numbered(*row) for row in db.execute(_NUMBERED))
    counted = (
        each.with_absent(*absent[each.ledger]) if each.ledger in absent else each for each in rows
    )
    return [_holding(list(found)) for _, found in groupby(counted, lambda r: (r.device, r.stream))]


def _holding(found: list[_Numbered]) -> Holding:
    """The counts of all ledgers of one stream of one device."""
    return Holding(
        found[0].device,
        found[0].stream,
        sum(each.windows for each in found),
        min(each.first_start for each in found),
        max(each.last_end for each in found),
        max(each.received_at for each in found),
        sum(each.gaps([other for other in found if other is not each]) for each in found),
        sum(each.late for each in found),
        sum(each.disputed for each in found),
        sum(each.unsynchronised for each in found),
        sum(each.windows > 0 for each in found),
        sum(each.rolled_back for each in found),
    )


@dataclass(frozen=True)
class HighWaterMark:
    """The last release of one ledger, and the number of its stored ones."""

    stream: str
    incarnation: bytes
    sequence: int
    window_end: int
    windows: int


def high_water(db: Database, device: str) -> list[HighWaterMark]:
    """The last release of each of a device's ledgers, including deleted ones."""
    rows = db.execute(
        "SELECT stream, incarnation, max(sequence), max(window_end), sum(windows) FROM ("
        " SELECT stream, incarnation, max(sequence) AS sequence,"
        " max(window_end) AS window_end, count(*) AS windows"
        " FROM releases WHERE device = :device GROUP BY stream, incarnation"
        " UNION ALL SELECT stream, incarnation, sequence, window_end, 0"
        " FROM high_water WHERE device = :device) AS ever GROUP BY stream, incarnation",
        {"device": device},
    )
    return [HighWaterMark(*row) for row in rows]


def stored_after(db: Database, number: int | None) -> tuple[int, list[str]]:
    """The highest number of a release, and the devices of those above `number`; None: no device."""
    if number is None:
        return int(db.execute("SELECT coalesce(max(id), 0) FROM releases").fetchone()[0]), []
    rows = db.execute(
        "SELECT device, max(id) FROM releases WHERE id > ? GROUP BY device", (number,)
    ).fetchall()
    return max((row[1] for row in rows), default=number), [row[0] for row in rows]
