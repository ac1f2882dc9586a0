"""What a selection rests on, read from the table `sums`: whole days, then whole hours, and the
releases of what is left at its edges. A selection of devices is read from their releases."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from pansketch_collector.storage.tables.connection import Database
from pansketch_collector.storage.tables.records import Selection, where
from pansketch_collector.storage.tables.sums import DAY, HOUR, Sum, rows

ALWAYS = DAY << 40  # seconds before and after 1970 in which all windows lie
MOST_PERIODS = 32  # in one look for a device
SEEK = 4  # times as dear is the look for one device as the look at one release

Range = tuple[int, int, int]  # seconds of a bucket, 0 for single releases; from, until


def ranges(selection: Selection) -> Iterator[Range]:
    """The ranges of a selection, each by the longest buckets that fill it. They do not overlap."""
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
    """The sums of one spec, and the selections whose releases are to be read instead: at the edges,
    and where a sum has no counters or has changed on the disk."""
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
    """How many releases are selected, by fingerprint."""
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
    """In which spans of so many seconds, counted from 1970, selected releases start."""
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
    """What differs as soon as other releases are selected: the newest row of the days around, and
    how many rows there are."""
    since = -ALWAYS if selection.since is None else selection.since
    until = ALWAYS if selection.until is None else selection.until
    newest, count = db.execute(
        "SELECT coalesce(max(id), 0), count(*) FROM sums WHERE stream = ? AND seconds = ?"
        " AND bucket > ? AND bucket < ?",
        (selection.stream, DAY, since - DAY, until),
    ).fetchone()
    return int(newest), int(count)


def device_count(
    db: Database, periods: Sequence[Selection], releases: int, specs: Sequence[bytes] = ()
) -> int:
    """How many devices have some of the releases of a stream that are selected in periods, in order
    of time; of some specs alone, if they are named. There are so many releases."""
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
    if releases <= SEEK * known or len(joined) > MOST_PERIODS:
        found: set[str] = set()
        for text, values in conditions:
            query = f"SELECT DISTINCT device FROM releases WHERE {text}"
            found.update(row[0] for row in db.execute(query, values))
        return len(found)
    # One look at the index for each device, however many releases it has.
    looks = " OR ".join(
        f"EXISTS (SELECT 1 FROM releases WHERE device = held.name AND {text})"
        for text, _ in conditions
    )
    query = (
        "SELECT count(*) FROM (SELECT DISTINCT device AS name FROM holdings WHERE stream = ?)"
        f" AS held WHERE {looks}"
    )
    values = [stream, *(value for _, values in conditions for value in values)]
    return int(db.execute(query, values).fetchone()[0])


def excluded(db: Database, selection: Selection) -> int:
    """How many releases would be selected if the operator had not excluded them."""
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
