"""One suite for all stores: what they hold, and that sums and counts are those of the releases."""

import random
import re
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest

from pansketch import WindowId, decode
from pansketch_collector.commands.verification import verify
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.queries.fleet_sum import read_sum
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.database import open_reading
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables import schema
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.storage.writer import changing
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status
from pansketch_fleet.settings.device_spec import schedule_offset
from tests.collector.small_fleet import DAY, SmallFleet, incoming

DEVICES, WINDOWS, STEPS = ("one", "two", "three", "four"), range(1, 7), 40
NOW = 30 * DAY


def messages(any_fleet, devices=DEVICES, windows=WINDOWS):
    """Two releases of each window."""
    spec = any_fleet.specs("air")[0]
    return [
        incoming(any_fleet.topic(device), any_fleet.release(device, n, spec=spec))
        for device in devices
        for n in windows
        for _ in range(2)
    ]


def stored(path, selection):
    """(window, payload) of the selected releases, read without any figure of them."""
    with reading(path) as reader:
        ranges = [(each.device, each.since, each.until) for each in reader.exclusions()]
        every = [one for _, one in reader.portion("releases", 0, 10**6)]
    since, until = selection.since or 0, selection.until or 2**62
    return [
        row
        for row in ((each.device, each.start, each.end, each.payload) for each in every)
        if since <= row[1] < until
        and (selection.devices is None or row[0] in selection.devices)
        and not any(row[0] == who and a <= row[1] < b for who, a, b in ranges)
    ]


def check(any_fleet, selection):
    """Sums agree with the releases."""
    spec, found = any_fleet.specs("air")[0], stored(any_fleet.database, selection)
    with reading(any_fleet.database) as reader:
        summed = list(read_sum(reader, selection, spec, []))
        assert reader.count(selection) == len(found)
        assert reader.spans(selection, DAY) == sorted({row[1] // DAY for row in found})
        assert reader.device_count([selection], len(found)) == len({row[0] for row in found})
        assert reader.device_count([selection], 10**9) == len({row[0] for row in found})
    assert len(summed) == bool(found)
    for each in summed:
        releases = [decode(row[3], spec) for row in found]
        assert np.array_equal(each.release.counters, sum(one.counters for one in releases))
        assert each.release.draws == sum(one.draws for one in releases)
        assert each.release.count == len(found)
        assert (each.first, each.last) == (min(r[1] for r in found), max(r[2] for r in found))


def faults(any_fleet):
    with reading(any_fleet.database) as reader:
        return verify(reader, any_fleet.rules).figures


def a_span(dice):
    first, last = sorted(dice.sample(range(8 * 24), 2))
    return first * 3600 + dice.choice([0, 0, 1800]), last * 3600


def change(any_fleet, pool, dice):
    """One random change by an operator or a device."""
    path, device = any_fleet.database, dice.choice(DEVICES)
    what = dice.choice(["commit"] * 4 + ["exclude", "undo", "keep", "drop", "forget", "remove"])
    if what in ("commit", "remove"):
        with store.opened(path) as opened:
            if what == "commit":
                commit_batch(opened, dice.sample(pool, dice.randrange(1, 12)), any_fleet.rules, NOW)
            else:
                opened.remove("air", dice.randrange(3, 7) * DAY, NOW, dice.choice([1, 100]))
        return
    with reading(path) as reader:
        other = [each.number for each in reader.disputes()]
        known = [each for each in reader.exclusions() if each.device == device]
    with changing(path) as kept:
        if what in ("keep", "drop"):
            getattr(kept, what)(dice.sample(other, min(2, len(other))))
        elif what == "exclude":
            kept.exclude(device, *dice.choice([(None, None), a_span(dice)]), NOW)
        elif what == "undo" and known:
            one = dice.choice(known)
            kept.undo(device, *dice.choice([(None, None), (one.since, one.until)]))
        elif what == "forget" and any(d == device for d, *_ in stored(path, Selection("air"))):
            kept.forget(device, releases=dice.random() < 0.5)


@pytest.mark.parametrize("seed", range(3))
def test_any_history_leaves_the_sums_of_the_stored_releases(any_fleet, seed):
    dice, pool = random.Random(seed), messages(any_fleet)
    with store.opened(any_fleet.database) as opened:
        commit_batch(opened, pool[::2], any_fleet.rules, NOW)
    for _ in range(STEPS):
        change(any_fleet, pool, dice)
        assert not faults(any_fleet)
        check(any_fleet, Selection("air"))
        check(any_fleet, Selection("air", *a_span(dice)))
        check(any_fleet, Selection("air", a_span(dice)[0], None, frozenset({"one", "two"})))


FIRST, OTHER = b"", b"incarna2"  # ledgers of a device
EARLIER = 3 * DAY  # Windows of later days are in the future then.
KEPT = 11 * DAY  # seconds that retention keeps releases
OUTSIDE = {"generation", "epochs", "specs", "layouts"}  # not changed by messages
TABLES = re.findall(r"CREATE TABLE (\w+)", schema.TABLES)
HEALTH = Health("s1", "0.1.0", 60, True, 3, 120, 2, 1, 4096)


def of_one_window(any_fleet):
    """Messages in which windows, sequence numbers and ledgers of devices meet."""
    spec = any_fleet.specs("air")[0]

    def release(device, day, number=None, ledger=FIRST):
        start = day * DAY + schedule_offset(device, DAY)
        window = WindowId(device, "air", number or day, start, start + DAY, None, ledger)
        return incoming(
            any_fleet.topic(device), any_fleet.release(device, window=window, spec=spec)
        )

    found = []
    for device in ("one", "two"):
        found += [release(device, day) for day in range(1, 13)]
        found += [release(device, day) for day in (2, 9, 9)]  # second releases of windows
        found += [release(device, day, day - 8, OTHER) for day in (9, 10, 13, 14)]
        found += [release(device, 15, 12), release(device, 16, 12), release(device, 17, 3)]
        found += [release(device, 3, 90), release(device, 60)]  # rejected
        for text in (Status("online", "s1", {}), Status("offline", "s2", {})):
            found.append(incoming(topics.status("testing", device), text.encode()))
        found.append(incoming(topics.health("testing", device), HEALTH.encode()))
    return found


def before(any_fleet, pool):
    """Stores, quarantines, removes and excludes releases before a batch."""
    with store.opened(any_fleet.database) as opened:
        commit_batch(opened, pool[:8:2], any_fleet.rules, EARLIER)
        commit_batch(opened, pool[10:12], any_fleet.rules, NOW - 60)
        assert opened.remove("air", KEPT, NOW, 100) == 1
        opened.exclude("two", 5 * DAY, 7 * DAY, NOW)


def contents(path):
    """All rows of all tables without their numbers; totals are rounded, as sums of floats are."""
    with closing(open_reading(path)) as db:
        found = {}
        for table in sorted(set(TABLES) - OUTSIDE):
            cursor = db.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in cursor.description]
            found[table] = sorted(
                repr([round(v, 6) if isinstance(v, float) else v for n, v in row if n != "id"])
                for row in (list(zip(names, each, strict=True)) for each in cursor.fetchall())
            )
        return found


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_stores_the_same_as_batches_of_one_message(any_fleet, tmp_path, seed):
    (tmp_path / "alone").mkdir()
    alone, pool = SmallFleet(tmp_path / "alone"), of_one_window(any_fleet)
    dice = random.Random(seed)
    batch = dice.sample(pool, len(pool)) + dice.sample(pool, 20)
    for fleet in (any_fleet, alone):
        before(fleet, pool)
    with store.opened(any_fleet.database) as opened:
        outcomes = commit_batch(opened, batch, any_fleet.rules, NOW)
    with store.opened(alone.database) as opened:
        singles = [commit_batch(opened, [each], alone.rules, NOW)[0] for each in batch]
    assert outcomes == singles
    assert {type(each).__name__ for each in outcomes} >= {"Accepted", "Duplicate", "Rejected"}
    assert contents(any_fleet.database) == contents(alone.database)
    assert not faults(any_fleet)


def test_the_exact_mark_of_less_than_an_hour_changes_with_its_own_releases_alone(any_fleet):
    hour = Selection("air", since=DAY, until=DAY + 3599)
    seen = []

    def mark(device, window):
        with store.opened(any_fleet.database) as opened:
            given = messages(any_fleet, (device,), (window,))[:1]
            commit_batch(opened, given, any_fleet.rules, NOW)
        with reading(any_fleet.database) as reader:
            seen.append(reader.exact_mark(hour))
            assert reader.exact_mark(Selection("air", since=DAY, until=DAY + 3600)) is None
            assert reader.exact_mark(Selection("air")) is None

    for device, window in (("one", 1), ("one", 2), ("two", 2), ("two", 1), ("one", 3)):
        mark(device, window)
    assert None not in seen
    assert [a == b for a, b in pairwise(seen)] == [True, True, False, True]
