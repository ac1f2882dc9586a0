"""Plans of a PostgreSQL server for the collector's statements."""

from contextlib import closing

import psycopg
import pytest

from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import postgresql as collector_postgresql
from pansketch_collector.storage import writer as store
from testbed.postgresql import postgresql
from tests import waiting
from tests.collector.storage.test_stores import NOW, messages


def rows_read(fleet, devices):
    """Counts the rows that are read without an index, and the entries of the index by windows.

    The server plans the statements for one device before releases of many arrive."""
    few, many = messages(fleet, ["first"], [1]), messages(fleet, devices, [1])
    with (
        closing(psycopg.connect(fleet.database.url, autocommit=True)) as admin,
        store.opened(fleet.database) as opened,
    ):
        commit_batch(opened, few, fleet.rules, NOW)
        admin.execute("ANALYZE")
        for n in range(0, len(many), 10):
            commit_batch(opened, many[n : n + 10], fleet.rules, NOW)
    # The server counts what a session did at its end.
    queries = (
        "SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables",
        "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'releases_by_window'",
    )
    busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pansketch-collector'"
    with closing(psycopg.connect(fleet.database.url, autocommit=True)) as admin:
        waiting.until(lambda: admin.execute(busy).fetchone() == (0,), "the end of the session")
        return [admin.execute(query).fetchone()[0] for query in queries]


@pytest.mark.needs("postgresql")
def test_a_plan_for_a_small_table_does_not_scan_a_large_one(make_small_fleet, monkeypatch):
    devices = [f"device-{n}" for n in range(100)]
    with postgresql() as server, postgresql() as other:
        scanned, by_window = rows_read(make_small_fleet(server=server.url), devices)
        assert scanned < 3 * len(devices)
        assert by_window < 20 * len(devices), "fewer than the stream has"
        monkeypatch.setattr(collector_postgresql, "PLANS", "SELECT 1")
        scanned, _ = rows_read(make_small_fleet(server=other.url), devices)
        assert scanned > 10 * len(devices)


@pytest.mark.needs("postgresql")
def test_the_triggers_of_insertions_run_once_for_a_batch(server_fleet):
    with store.opened(server_fleet.database) as opened:
        opened.connection.script("SET track_functions = 'pl'")
        commit_batch(opened, messages(server_fleet)[::2], server_fleet.rules, NOW)
    query = "SELECT funcname, calls FROM pg_stat_user_functions"
    with closing(psycopg.connect(server_fleet.database.url, autocommit=True)) as admin:
        waiting.until(lambda: admin.execute(query).fetchone(), "figures of the ended session")
        calls = dict(admin.execute(query).fetchall())
    assert (calls["releases_held"], calls["totals_added"]) == (1, 1)
