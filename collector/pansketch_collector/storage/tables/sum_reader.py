"""Reads a selection from the table `sums`: whole days, then whole hours, then releases at its
edges.

A selection of devices is read from their releases.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from pansketch_collector.storage.tables.connection import Database
from pansketch_collector.storage.tables.records import Selection, where
from pansketch_collector.storage.tables.sums import DAY, HOUR, Sum, rows

ALWAYS = DAY << 40  # seconds before and after 1970 that contain all windows
MAX_PERIODS = 32  # in one lookup of a device
SEEK_COST = 4  # cost of an index lookup, relative to reading one release

Range = tuple[int, int, int]  # seconds of a bucket, 0 for single releases; from, until


def ranges(selection: Selection) -> Iterator[Range]:
    """Splits a selection into disjoint ranges of the longest buckets that fill them."""
    since = -ALWAYS if selection.since is None else selection.since
    until = ALWAYS if selection.until is None else selection.until
    if selection.devices is not None:
        yield 0, since, until
        return
    first_hour, last_hour = -(-since // HOUR) * HOUR, until // HOUR * HOUR
    if first_hour >= last_hour:
        yield 0, since, until
        return
    first_day, last_day = -(-first_hour // DAY) * DAY, last_hour // DAY * DAY
    if first_day >= last_day:
        first_day = last_day = first_hour
    found = (
        (0, since, first_hour),
        (HOUR, first_hour, first_day),
        (DAY, first_day, last_day),
        (HOUR, last_day, last_hour),
        (0, last_hour, until),
    )
    yield from (each for each in found if each[1] < each[2])


def parts(db: Database, selection: Selection, spec: bytes) -> Iterator[Sum | Selection]:
    """The sums of one spec, and selections whose releases have to be read instead.

    Selections cover the edges, and sums without counters or changed on the disk.
    """
    for seconds, since, until in ranges(selection):
        if not seconds:
            yield replace(selection, since=since, until=until)
            continue
        for bucket, found in rows(db, selection.stream, seconds, since, until, spec):
            if found is None or found.counters is None:
                end = bucket.start + seconds
                yield replace(selection, since=bucket.start, until=end)
            else:
                yield found


def counts(db: Database, selection: Selection) -> dict[bytes, int]:
    """The number of selected releases, by fingerprint."""
    found: Counter[bytes] = Counter()
    for seconds, since, until in ranges(selection):
        if seconds:
            read = db.execute(
                "SELECT fingerprint, sum(releases) FROM sums WHERE stream = ? AND seconds = ?"
                " AND bucket >= ? AND bucket < ? GROUP BY fingerprint",
                (selection.stream, seconds, since, until),
            )
        else:
            condition, values = where(replace(selection, since=since, until=until))
            query = f"SELECT fingerprint, count(*) FROM releases WHERE {condition}"
            read = db.execute(f"{query} GROUP BY fingerprint", values)
        found.update({bytes(fingerprint): releases for fingerprint, releases in read})
    return dict(sorted(found.items()))


def spans(db: Database, selection: Selection, seconds: int) -> list[int]:
    """The spans of `seconds`, counted from 1970, in which selected releases start."""
    found: set[int] = set()
    for length, since, until in [(0, None, None)] if seconds % HOUR else ranges(selection):
        if length:
            read = db.execute(
                "SELECT DISTINCT bucket / ? FROM sums WHERE stream = ? AND seconds = ?"
                " AND bucket >= ? AND bucket < ?",
                (seconds, selection.stream, HOUR, since, until),
            )
        else:
            part = selection if since is None else replace(selection, since=since, until=until)
            condition, values = where(part)
            query = f"SELECT DISTINCT window_start / {seconds:d} FROM releases WHERE {condition}"
            read = db.execute(query, values)
        found.update(int(row[0]) for row in read)
    return sorted(found)


def mark(db: Database, selection: Selection) -> tuple[int, int]:
    """A value that changes with the selected releases: newest row and number of rows of their
    days, of a day or less of their hours."""
    since = -ALWAYS if selection.since is None else selection.since
    until = ALWAYS if selection.until is None else selection.until
    seconds = HOUR if until - since <= DAY else DAY
    newest, count = db.execute(
        "SELECT coalesce(max(id), 0), count(*) FROM sums WHERE stream = ? AND seconds = ?"
        " AND bucket > ? AND bucket < ?",
        (selection.stream, seconds, since - seconds, until),
    ).fetchone()
    return int(newest), int(count)


def exact_mark(db: Database, selection: Selection) -> int | None:
    """A value that changes with the selected releases alone; None of an hour or more, whose `mark`
    costs less and serves as well."""
    if selection.since is None or selection.until is None:
        return None
    if selection.until - selection.since >= HOUR:
        return None
    condition, values = where(selection, None)
    query = f"SELECT device, window_start, digest FROM releases WHERE {condition}"
    return hash(tuple(sorted(map(tuple, db.execute(query, values)))))


def device_count(
    db: Database, periods: Sequence[Selection], releases: int, specs: Sequence[bytes] = ()
) -> int:
    """The number of devices with some of the `releases` selected releases of a stream.

    `periods`: in order of time. `specs`: counts these only.
    """
    joined: list[Selection] = []
    for each in periods:
        if joined and joined[-1].until == each.since is not None:
            each = replace(joined.pop(), until=each.until)
        joined.append(each)
    named = f" AND fingerprint IN ({', '.join('?' * len(specs))})" if specs else ""
    conditions = [(f"{text}{named}", [*values, *specs]) for text, values in map(where, joined)]
    stream = periods[0].stream
    (known,) = db.execute(
        "SELECT count(DISTINCT device) FROM holdings WHERE stream = ?", (stream,)
    ).fetchone()
    if releases <= SEEK_COST * known or len(joined) > MAX_PERIODS:
        found: set[str] = set()
        for text, values in conditions:
            query = f"SELECT DISTINCT device FROM releases WHERE {text}"
            found.update(row[0] for row in db.execute(query, values))
        return len(found)
    # One index lookup for each device, for any number of releases.
    seeks = " OR ".join(
        f"EXISTS (SELECT 1 FROM releases WHERE device = held.name AND {text})"
        for text, _ in conditions
    )
    query = (
        "SELECT count(*) FROM (SELECT DISTINCT device AS name FROM holdings WHERE stream = ?)"
        f" AS held WHERE {seeks}"
    )
    values = [stream, *(value for _, values in conditions for value in values)]
    return int(db.execute(query, values).fetchone()[0])


def excluded(db: Database, selection: Selection) -> int:
    """The number of releases that are unselected only because the operator excluded them."""
    total = 0
    rows_ = db.execute(
        "SELECT device, since, until FROM excluded ORDER BY device, since"
    ).fetchall()
    for device, found in groupby(rows_, lambda row: row[0]):
        if selection.devices is not None and device not in selection.devices:
            continue
        reached = -ALWAYS if selection.since is None else selection.since
        for _, since, until in found:
            start, end = max(since, reached), until
            if selection.until is not None:
                end = min(end, selection.until)
            if start < end:
                query = (
                    "SELECT count(*) FROM releases WHERE device = ? AND stream = ?"
                    " AND window_start >= ? AND window_start < ?"
                )
                values = device, selection.stream, start, end
                total += db.execute(query, values).fetchone()[0]
            reached = max(reached, end)
    return total
