"""Counts of stored releases, by device and stream: windows, gaps, late ones.

Also the last release of each ledger, including deleted ones.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import NamedTuple

from pansketch_collector.storage.tables.connection import Database, of_devices


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


class _Numbered(NamedTuple):
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
        return self._replace(
            numbers=self.numbers + numbers,
            first=min(self.first, first),
            last=max(self.last, last),
        )

    def gaps(self, ledgers: Sequence["_Numbered"]) -> int:
        """The number of missing sequence numbers, given all ledgers of this stream and device."""
        earlier = [other.last for other in ledgers if other.first < self.first]
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
    " WHERE {of} ORDER BY device, stream"
)
# Numbers of former releases: removed by retention, or damaged.
_ABSENT = (
    "SELECT device, stream, incarnation, sum(windows), min(first), max(last) FROM ("
    "SELECT device, stream, incarnation, windows, first_sequence AS first, last_sequence AS last"
    " FROM removed UNION ALL"
    " SELECT device, stream, incarnation, 1, sequence, sequence FROM damaged"
    ") AS absent WHERE {of} GROUP BY device, stream, incarnation"
)


def count(db: Database, devices: Sequence[str] | None = None) -> list[Holding]:
    """Counts of stored releases, by device and stream; of all devices or of these."""
    absent = {row[:3]: row[3:] for row in of_devices(db, _ABSENT, devices)}
    rows = (_Numbered(*row) for row in of_devices(db, _NUMBERED, devices))
    counted = (
        each.with_absent(*absent[each.ledger]) if each.ledger in absent else each for each in rows
    )
    return [_holding(list(found)) for _, found in groupby(counted, lambda r: (r.device, r.stream))]


def _holding(found: list[_Numbered]) -> Holding:
    """The counts of all ledgers of one stream of one device."""
    devices, streams, windows, _, _, _, starts, ends, arrivals, *counts, _ = zip(
        *found, strict=True
    )
    late, disputed, unsynchronised, rolled_back = map(sum, counts)
    return Holding(
        devices[0],
        streams[0],
        sum(windows),
        min(starts),
        max(ends),
        max(arrivals),
        sum([each.gaps(found) for each in found]),
        late,
        disputed,
        unsynchronised,
        sum([count > 0 for count in windows]),
        rolled_back,
    )


class Irregular(NamedTuple):
    """A device and stream with one of these counts, as in `Holding`."""

    device: str
    stream: str
    gaps: int
    late: int
    disputed: int
    unsynchronised: int
    rolled_back: int


@dataclass(frozen=True)
class StreamCounts:
    """Counts of the stored releases of one stream, of all its devices; sums as in `Holding`.

    `newest`, `median`, `worst`: the end of the last window of the first device, of the median one,
    and of the one that lags most, `worst_device`. Times are unix seconds. `irregular`: the devices
    with gaps, or with another of the last counts.
    """

    devices: int
    windows: int
    ledgers: int
    first_start: int
    received_at: int
    newest: int
    median: float
    worst: int
    worst_device: str
    gaps: int
    late: int
    disputed: int
    unsynchronised: int
    rolled_back: int
    irregular: Sequence[Irregular]


# Devices whose last window of a stream ends in the same second: its end, the first name, devices,
# windows, ledgers, first start, last arrival.
_Group = tuple[int, str, int, int, int, int, int]
# The database counts a ledger alone if it is the only one and its absent numbers are one range.
_SPECIAL = (
    "SELECT device, stream FROM holdings GROUP BY device, stream HAVING count(*) > 1"
    " UNION SELECT device, stream FROM damaged"
)
_WITHOUT_SPECIAL = (
    f"LEFT JOIN ({_SPECIAL}) AS special ON special.device = h.device AND special.stream = h.stream"
    " WHERE special.device IS NULL"
)
_GROUPS = (
    "SELECT h.stream, last_end, min(h.device), count(*), sum(windows),"
    " sum(CASE WHEN windows > 0 THEN 1 ELSE 0 END), min(first_start), max(received_at)"
    " FROM holdings AS h {others} GROUP BY h.stream, last_end"
)
_IRREGULAR = (
    "SELECT * FROM (SELECT h.device, h.stream, max(last, coalesce(last_sequence, last))"
    " - min(min(first, coalesce(first_sequence, first)), 1) + 1"
    " - numbers - coalesce(r.windows, 0) AS gaps,"
    " late, disputed, unsynchronised, h.windows - used AS rolled_back"
    " FROM holdings AS h LEFT JOIN removed AS r ON r.device = h.device AND r.stream = h.stream"
    " AND r.incarnation = h.incarnation {others}) AS every"
    " WHERE gaps != 0 OR late != 0 OR disputed != 0 OR unsynchronised != 0 OR rolled_back != 0"
)


def by_stream(db: Database) -> dict[str, StreamCounts]:
    """The counts of all devices, by stream in the order of the names.

    The database adds up devices with one ledger. The others are counted one by one.
    """
    special = {(device, stream) for device, stream in db.execute(_SPECIAL)}
    others = _WITHOUT_SPECIAL if special else ""
    groups: dict[str, list[_Group]] = {}
    for stream, *row in db.execute(_GROUPS.format(others=others)):
        groups.setdefault(stream, []).append(tuple(row))
    irregular: dict[str, list[Irregular]] = {}
    for row in db.execute(_IRREGULAR.format(others=others)):
        irregular.setdefault(row[1], []).append(Irregular(*row))
    for each in count(db, sorted({device for device, _ in special})):
        if (each.device, each.stream) not in special:
            continue
        groups.setdefault(each.stream, []).append(
            (
                *(each.last_end, each.device, 1, each.windows),
                *(each.ledgers, each.first_start, each.received_at),
            )
        )
        counts = each.gaps, each.late, each.disputed, each.unsynchronised, each.rolled_back
        if any(counts):
            irregular.setdefault(each.stream, []).append(
                Irregular(each.device, each.stream, *counts)
            )
    return {
        stream: _sum(found, irregular.get(stream, ())) for stream, found in sorted(groups.items())
    }


def _sum(groups: list[_Group], irregular: Sequence[Irregular]) -> StreamCounts:
    groups.sort()
    ends, names, devices, windows, ledgers, starts, arrivals = zip(*groups, strict=True)
    total = sum(devices)
    return StreamCounts(
        total,
        sum(windows),
        sum(ledgers),
        min(starts),
        max(arrivals),
        ends[-1],
        _median(ends, devices),
        ends[0],
        names[0],
        sum([each.gaps for each in irregular]),
        sum([each.late for each in irregular]),
        sum([each.disputed for each in irregular]),
        sum([each.unsynchronised for each in irregular]),
        sum([each.rolled_back for each in irregular]),
        irregular,
    )


def _median(values: Sequence[int], times: Sequence[int]) -> float:
    """The median of ascending values that occur so many times."""
    reached = list(accumulate(times))
    low, high = (
        values[bisect_right(reached, rank)] for rank in ((reached[-1] - 1) // 2, reached[-1] // 2)
    )
    return low if low == high else (low + high) / 2


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
