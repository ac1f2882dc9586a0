"""Changes to the table `sums`, in the transaction that stores, removes or excludes releases.

Also recomputes the sums from the releases, and compares both.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from pansketch_collector.storage.tables import schema
from pansketch_collector.storage.tables.connection import Database, streamed
from pansketch_collector.storage.tables.corruption import UNREADABLE, StoredLayout, intact_counters
from pansketch_collector.storage.tables.records import EXCLUDED, Stored, portions, stored
from pansketch_collector.storage.tables.sums import (
    DAY,
    HOUR,
    Bucket,
    Counters,
    Sum,
    layout,
    note_layout,
    rows,
    write,
)
from pansketch_collector.validation.verdicts import Accepted
from pansketch_fleet.errors import one_line
from pansketch_fleet.units import utc_text


class Addend(NamedTuple):
    """One release to add or to subtract. `counters`: if decoded already."""

    stored: Stored
    draws: int = 0
    counters: Counters | None = None


@dataclass
class _Change:
    """The change of one hour. `first`, `last`: of added releases, or of subtracted ones if
    `shrinks`."""

    releases: int = 0
    draws: int = 0
    first: int = 2**62
    last: int = -(2**62)
    counters: Counters | None = None
    shrinks: bool = False


@dataclass
class SumChanges:
    """Changes to the sums within one transaction; `flush` writes them, after the releases changed.

    Methods raise one of ERRORS.
    """

    db: Database
    _hours: dict[Bucket, _Change] = field(default_factory=lambda: defaultdict(_Change))
    _stale: set[tuple[str, int]] = field(default_factory=set)

    def select(
        self, condition: str, values: Sequence[object] | Mapping[str, object], sign: int
    ) -> None:
        """Adds the stored releases that are not excluded now, or subtracts them with sign -1."""
        query = f"SELECT {schema.RELEASE} FROM releases WHERE {condition} AND NOT {EXCLUDED}"
        found = streamed(self.db, query, values)
        for portion in portions(map(stored, found)):
            self.change([Addend(each) for each in portion], sign)

    def change(self, addends: Iterable[Addend], sign: int) -> None:
        """Adds releases, or subtracts them with sign -1."""
        by_spec = attrgetter("stored.fingerprint")
        for fingerprint, found in groupby(sorted(addends, key=by_spec), by_spec):
            known = layout(self.db, fingerprint)
            for each in found if known is None else self._decoded(list(found), known):
                self._add(each, sign)

    def stale(self, stream: str, start: int) -> None:
        """Marks the hour of a window, to be recomputed from its releases."""
        self._stale.add((stream, start - start % HOUR))

    def _decoded(self, found: list[Addend], known: StoredLayout) -> Iterator[Addend]:
        """Yields the addends with their counters.

        A release that has changed on the disk was added while intact, so its hour is recomputed.
        """
        yield from (each for each in found if each.counters is not None)
        lacking = [each.stored for each in found if each.counters is None]
        try:
            opened = intact_counters(lacking, known)
        except UNREADABLE:
            opened = []
            for one in lacking:
                try:
                    opened += intact_counters([one], known)
                except UNREADABLE:
                    self.stale(one.stream, one.start)
                    self._hours.setdefault(_hour(one), _Change())
        yield from (Addend(*each) for each in opened)

    def _add(self, each: Addend, sign: int) -> None:
        one, change = each.stored, self._hours[_hour(each.stored)]
        change.releases += sign
        change.draws += sign * each.draws
        change.first, change.last = min(change.first, one.start), max(change.last, one.end)
        change.shrinks |= sign < 0
        if each.counters is not None:
            if change.counters is None:
                change.counters = np.zeros_like(each.counters)
            change.counters += sign * each.counters

    def flush(self) -> None:
        """Writes the changes."""
        days = {Bucket(b.stream, DAY, b.start - b.start % DAY, b.fingerprint) for b in self._hours}
        for bucket, change in sorted(self._hours.items()):
            if (bucket.stream, bucket.start) not in self._stale and not self._apply(bucket, change):
                self._stale.add((bucket.stream, bucket.start))
        for stream, start in sorted(self._stale):
            days |= set(_renew_hour(self.db, stream, start))
        for day in sorted(days):
            _renew_day(self.db, day)
        self._hours.clear()
        self._stale.clear()

    def _apply(self, bucket: Bucket, change: _Change) -> bool:
        """Changes the row of a bucket; False if its content cannot be trusted."""
        found = list(rows(self.db, *_range(bucket), bucket.fingerprint))
        before = found[0][1] if found else Sum(0, 0, 2**62, -(2**62), change.counters)
        if before is None or before.releases + change.releases < 0:
            return False
        counters = before.counters
        if counters is not None and found:
            if change.counters is None or counters.shape != change.counters.shape:
                return False
            counters = counters + change.counters
        first, last = min(before.first, change.first), max(before.last, change.last)
        if change.shrinks and not (change.first > before.first and change.last < before.last):
            first, last = _ends(self.db, bucket)
        after = Sum(
            before.releases + change.releases, before.draws + change.draws, first, last, counters
        )
        write(self.db, bucket, after)
        return True


def add_up(db: Database, added: Sequence[tuple[Accepted, Stored]], layouts: set[bytes]) -> None:
    """Adds releases that were just stored, except excluded windows.

    `layouts`: fingerprints of the specs with a stored layout.
    """
    excluded = db.execute("SELECT device, since, until FROM excluded").fetchall()
    addends = []
    for release, one in added:
        window = release.window
        if release.spec is not None and release.fingerprint not in layouts:
            note_layout(db, release.spec)
            layouts.add(release.fingerprint)
        if not any(d == window.device and a <= window.start < b for d, a, b in excluded):
            addends.append(Addend(one, release.draws, release.counters))
    changes = SumChanges(db)
    changes.change(addends, 1)
    changes.flush()


def _hour(one: Stored) -> Bucket:
    return Bucket(one.stream, HOUR, one.start - one.start % HOUR, one.fingerprint)


def _range(bucket: Bucket) -> tuple[str, int, int, int]:
    return bucket.stream, bucket.seconds, bucket.start, bucket.start + bucket.seconds


def _ends(db: Database, bucket: Bucket) -> tuple[int, int]:
    """The first start and the last end of a bucket's releases."""
    first, last = db.execute(
        "SELECT min(window_start), max(window_end) FROM releases WHERE stream = ?"
        f" AND window_start >= ? AND window_start < ? AND fingerprint = ? AND NOT {EXCLUDED}",
        (bucket.stream, bucket.start, bucket.start + bucket.seconds, bucket.fingerprint),
    ).fetchone()
    return (0, 0) if first is None else (first, last)


def _renew_hour(db: Database, stream: str, start: int) -> Iterator[Bucket]:
    """Recomputes an hour; yields the days of all specs that were or are in it."""
    for bucket, _ in list(rows(db, stream, HOUR, start, start + HOUR, None)):
        write(db, bucket, None)
        yield Bucket(stream, DAY, start - start % DAY, bucket.fingerprint)
    for fingerprint, total in added_up(db, stream, start).sums.items():
        write(db, Bucket(stream, HOUR, start, fingerprint), total)
        yield Bucket(stream, DAY, start - start % DAY, fingerprint)


def _renew_day(db: Database, day: Bucket) -> None:
    write(db, day, of_hours(db, day))


def of_hours(db: Database, day: Bucket) -> Sum | None:
    """The sum of the hours of a day; None without any."""
    total: Sum | None = None
    for hour, found in list(
        rows(db, day.stream, HOUR, day.start, day.start + DAY, day.fingerprint)
    ):
        if found is None:
            list(_renew_hour(db, hour.stream, hour.start))
            found = next(rows(db, *_range(hour), hour.fingerprint), (hour, None))[1]
        if found is not None:
            total = found if total is None else total + found
    return total


@dataclass
class AddedUp:
    """The sums of an hour's releases by spec, and the number of damaged ones."""

    sums: dict[bytes, Sum] = field(default_factory=dict)
    damaged: int = 0


def added_up(db: Database, stream: str, start: int) -> AddedUp:
    """Adds up the releases of an hour."""
    changes = SumChanges(db)
    changes.select(
        "stream = ? AND window_start >= ? AND window_start < ?", (stream, start, start + HOUR), 1
    )
    found = AddedUp(damaged=len(changes._stale))
    for bucket, each in changes._hours.items():
        if each.releases:
            found.sums[bucket.fingerprint] = Sum(
                each.releases, each.draws, each.first, each.last, each.counters
            )
    return found


def hours(db: Database) -> Iterator[tuple[str, int]]:
    """Streams and hours in which windows of stored releases start."""
    stream, start = "", -(2**62)
    while True:
        row = db.execute(
            "SELECT stream, window_start FROM releases WHERE (stream, window_start) >= (?, ?)"
            " ORDER BY stream, window_start LIMIT 1",
            (stream, start),
        ).fetchone()
        if row is None:
            return
        stream, start = row[0], row[1] - row[1] % HOUR
        yield stream, start
        start += HOUR


def rebuild(db: Database) -> Iterator[tuple[str, int]]:
    """Recomputes all sums; yields the finished streams and hours."""
    db.execute("DELETE FROM sums")
    days: set[Bucket] = set()
    for stream, start in hours(db):
        days |= set(_renew_hour(db, stream, start))
        yield stream, start
    for day in sorted(days):
        _renew_day(db, day)


def wrong(db: Database) -> Iterator[str]:
    """Names the rows that differ from the sums of the releases: `air, hour of 2016-01-31T12:00Z`.

    It skips hours with a damaged release: their sums were made while it was intact.
    """
    stored_hours = dict.fromkeys(
        db.execute("SELECT DISTINCT stream, bucket FROM sums WHERE seconds = ?", (HOUR,)).fetchall()
    )
    for stream, start in dict.fromkeys([*stored_hours, *hours(db)]):
        truth = added_up(db, stream, start)
        found = {
            b.fingerprint: each for b, each in rows(db, stream, HOUR, start, start + HOUR, None)
        }
        if not (truth.damaged or _same(found, truth.sums)) or None in found.values():
            yield f"{one_line(stream)}, hour of {utc_text(start)}"
    days = dict.fromkeys((stream, start - start % DAY) for stream, start in stored_hours)
    for row in db.execute("SELECT DISTINCT stream, bucket FROM sums WHERE seconds = ?", (DAY,)):
        days[row] = None
    for stream, start in days:
        truth_of_day: dict[bytes, Sum] = {}
        for bucket, each in rows(db, stream, HOUR, start, start + DAY, None):
            if each is not None:
                before = truth_of_day.get(bucket.fingerprint)
                truth_of_day[bucket.fingerprint] = each if before is None else before + each
        found = {b.fingerprint: each for b, each in rows(db, stream, DAY, start, start + DAY, None)}
        if not _same(found, truth_of_day):
            yield f"{one_line(stream)}, day of {utc_text(start)}"


def _same(found: dict[bytes, Sum | None], truth: dict[bytes, Sum]) -> bool:
    return found.keys() == truth.keys() and all(
        each is not None and each.agrees(truth[name]) for name, each in found.items()
    )
