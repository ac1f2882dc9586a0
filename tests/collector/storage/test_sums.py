"""Sums and counts are those of the stored releases, whatever was done to these."""

import os
import random
import signal
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from pansketch import decode
from pansketch_collector.commands import disputed
from pansketch_collector.commands.verification import verify
from pansketch_collector.ingest.ingest_loop import settle
from pansketch_collector.queries.fleet_sum import read_sum
from pansketch_collector.storage import exclusions
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.database import changing, transaction
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables import holding_counts, sum_changes
from pansketch_collector.storage.tables.records import Selection
from tests.collector.small_fleet import DAY, incoming, rows

DEVICES, WINDOWS, STEPS = ("one", "two", "three", "four"), range(1, 7), 40
NOW = 30 * DAY


def messages(small_fleet, devices=DEVICES, windows=WINDOWS):
    """Two releases of each window."""
    spec = small_fleet.specs("air")[0]
    return [
        incoming(small_fleet.topic(device), small_fleet.release(device, n, spec=spec))
        for device in devices
        for n in windows
        for _ in range(2)
    ]


def stored(path, selection):
    """(window, payload) of the selected releases, read without any figure of them."""
    ranges = rows(path, "SELECT device, since, until FROM excluded")
    since, until = selection.since or 0, selection.until or 2**62
    return [
        row
        for row in rows(path, "SELECT device, window_start, window_end, payload FROM releases")
        if since <= row[1] < until
        and (selection.devices is None or row[0] in selection.devices)
        and not any(row[0] == who and a <= row[1] < b for who, a, b in ranges)
    ]


def check(small_fleet, selection):
    """What is read from sums is what the releases say."""
    spec, found = small_fleet.specs("air")[0], stored(small_fleet.database, selection)
    with reading(small_fleet.database) as reader:
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


def faults(small_fleet):
    with reading(small_fleet.database) as reader:
        return verify(reader, small_fleet.rules).figures


def a_span(dice):
    first, last = sorted(dice.sample(range(8 * 24), 2))
    return first * 3600 + dice.choice([0, 0, 1800]), last * 3600


def change(small_fleet, pool, dice):
    """One thing that somebody may do."""
    path, device = small_fleet.database, dice.choice(DEVICES)
    what = dice.choice(["settle"] * 4 + ["exclude", "undo", "keep", "drop", "forget", "remove"])
    if what in ("settle", "remove"):
        with store.opened(path) as opened:
            if what == "settle":
                settle(opened, dice.sample(pool, dice.randrange(1, 12)), small_fleet.rules, NOW)
            else:
                opened.remove("air", dice.randrange(3, 7) * DAY, NOW, dice.choice([1, 100]))
        return
    other = [row[0] for row in rows(path, "SELECT id FROM disputed")]
    with changing(path) as db:
        if what in ("keep", "drop"):
            getattr(disputed, what)(db, dice.sample(other, min(2, len(other))))
            return
        with transaction(db):
            known = [each for each in exclusions.listed(db) if each.device == device]
            if what == "exclude":
                exclusions.exclude(db, device, *dice.choice([(None, None), a_span(dice)]), NOW)
            elif what == "undo" and known:
                one = dice.choice(known)
                span = dice.choice([(None, None), (one.since, one.until)])
                exclusions.undo(db, device, *span)
            elif what == "forget" and any(d == device for d, *_ in stored(path, Selection("air"))):
                exclusions.forget(db, device, releases=dice.random() < 0.5)


@pytest.mark.parametrize("seed", range(3))
def test_any_history_leaves_the_sums_of_the_stored_releases(small_fleet, seed):
    dice, pool = random.Random(seed), messages(small_fleet)
    with store.opened(small_fleet.database) as opened:
        settle(opened, pool[::2], small_fleet.rules, NOW)
    for _ in range(STEPS):
        change(small_fleet, pool, dice)
        assert not faults(small_fleet)
        check(small_fleet, Selection("air"))
        check(small_fleet, Selection("air", *a_span(dice)))
        check(small_fleet, Selection("air", a_span(dice)[0], None, frozenset({"one", "two"})))


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE sums SET counters = zeroblob(length(counters)) WHERE seconds = 3600",
        "UPDATE sums SET releases = releases + 1 WHERE seconds = 86400",
        "UPDATE sums SET bucket = bucket + 86400 WHERE id = (SELECT max(id) FROM sums)",
        "DELETE FROM sums WHERE id = 1",
        "UPDATE holdings SET windows = windows + 1",
    ],
)
def test_other_figures_are_named_and_rebuilt(small_fleet, run, harm):
    """A sum that has changed on the disk is read from its releases instead."""
    with store.opened(small_fleet.database) as opened:
        settle(opened, messages(small_fleet)[::2], small_fleet.rules, NOW)
    assert run("verify")[0] == 0
    with closing(sqlite3.connect(small_fleet.database)) as connection, connection:
        connection.execute(harm)
    if "SET" in harm and "bucket =" not in harm:
        spec = small_fleet.specs("air")[0]
        with reading(small_fleet.database) as reader:
            (found,) = read_sum(reader, Selection("air"), spec, [])
        assert found.release.count == len(DEVICES) * len(WINDOWS)
    code, out, _ = run("verify")
    assert code == 1
    assert "other than the releases" in out
    assert run("verify", "--rebuild")[0] == 0
    assert run("verify")[0] == 0


def dies_at(statement, database, work):
    """Does the work in a process that is killed before its statement of that number; whether it
    came so far."""
    if (child := os.fork()) == 0:
        count = iter(range(statement + 1))

        def traced(_: str) -> None:
            if next(count, None) == statement:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            work(traced)
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def test_a_death_between_any_two_statements_leaves_sums_of_what_is_stored(small_fleet):
    """Of a batch that stores, disputes and repeats releases, and of an exclusion."""
    pool, rules = messages(small_fleet, ("one",), (1, 2)), small_fleet.rules
    with store.opened(small_fleet.database) as opened:
        settle(opened, pool[:1], rules, NOW)
    with closing(sqlite3.connect(small_fleet.database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = small_fleet.database.read_bytes()

    def work(traced):
        with store.opened(small_fleet.database) as opened:
            opened.epochs.db.set_trace_callback(traced)
            settle(opened, [*pool, pool[0]], rules, NOW)
        with changing(small_fleet.database) as db:
            db.set_trace_callback(traced)
            with transaction(db):
                exclusions.exclude(db, "one", None, None, NOW)

    statement, found = 0, set()
    while dies_at(statement, small_fleet.database, work):
        with closing(sqlite3.connect(small_fleet.database)) as connection:
            assert not [*sum_changes.wrong(connection), *holding_counts.wrong(connection)]
            count = "SELECT (SELECT count(*) FROM releases), (SELECT count(*) FROM excluded)"
            found.add(connection.execute(count).fetchone())
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for rest in ("-wal", "-shm"):
            small_fleet.database.with_name(small_fleet.database.name + rest).unlink(missing_ok=True)
        small_fleet.database.write_bytes(before)
        statement += 1
    assert statement > 30
    assert found == {(1, 0), (2, 0)}
