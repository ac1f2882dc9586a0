"""Figures that have changed on the disk, and a process that died while it changed them."""

import os
import signal
import sqlite3
from contextlib import closing

import pytest

from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.queries.fleet_sum import read_sum
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables import holding_counts, sum_changes
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.storage.writer import changing
from tests.collector.storage.test_stores import DEVICES, NOW, WINDOWS, messages


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
        commit_batch(opened, messages(small_fleet)[::2], small_fleet.rules, NOW)
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
        commit_batch(opened, pool[:1], rules, NOW)
    with closing(sqlite3.connect(small_fleet.database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = small_fleet.database.read_bytes()

    def work(traced):
        with store.opened(small_fleet.database) as opened:
            opened.connection.set_trace_callback(traced)
            commit_batch(opened, [*pool, pool[0]], rules, NOW)
        with changing(small_fleet.database) as kept:
            kept.connection.set_trace_callback(traced)
            kept.exclude("one", None, None, NOW)

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
