"""A database of an earlier schema gets the tables that it lacks, and keeps all that it holds."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pansketch_collector.errors import CommandError
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.database import open_reading, open_writing
from pansketch_collector.storage.tables import schema
from pansketch_collector.storage.writer import changing
from tests.collector.small_fleet import rows
from tests.collector.storage.test_stores import NOW, faults, messages

VECTORS = Path(__file__).parents[2] / "vectors"
HELD = (
    f"SELECT id, {schema.RELEASE} FROM releases",
    "SELECT * FROM specs",
    "SELECT * FROM excluded",
)
MADE = (
    f"INSERT INTO releases (id, {schema.RELEASE})"
    " VALUES (7, 'one', 'air', 1, 0, 60, x'01', 'd', 99, x'02', 1, x'03');"
    "INSERT INTO epochs VALUES (1, 'air', 's', 60, 1, 2);"
    "INSERT INTO specs VALUES (1, x'01', '{}');"
    "INSERT INTO excluded VALUES ('one', 0, 9, 1);"
)


@pytest.fixture(params=sorted(schema.UPGRADES))
def earlier(small_fleet, request):
    """A database that a collector of this schema made."""
    small_fleet.database.parent.mkdir(parents=True)
    with closing(sqlite3.connect(small_fleet.database)) as connection:
        made = (VECTORS / f"collector-schema-{request.param}.sql").read_text()
        connection.executescript(made + MADE)
    return small_fleet.database


def tables(path):
    return set(rows(path, "SELECT type, name, tbl_name, sql FROM sqlite_schema"))


def test_it_is_upgraded_by_what_serves_and_holds_what_it_held(earlier, tmp_path):
    held = [rows(earlier, query) for query in HELD]
    generation = rows(earlier, "SELECT id FROM generation")
    open_writing(earlier).close()
    assert [rows(earlier, query) for query in HELD] == held
    assert rows(earlier, "SELECT id FROM generation") == generation
    assert rows(earlier, "PRAGMA user_version") == [(schema.VERSION,)]
    new = tmp_path / "new.sqlite"
    open_writing(new).close()
    assert tables(earlier) == tables(new)
    open_reading(earlier).close()


def test_a_reading_command_names_the_upgrade(earlier):
    with pytest.raises(CommandError, match="start `pansketch-collector serve`, which adds"):
        open_reading(earlier)


def test_an_upgrade_that_is_interrupted_leaves_the_earlier_schema(earlier, monkeypatch):
    before = tables(earlier)
    broken = schema.UPGRADES | {7: schema.UPGRADES[7] + "CREATE TABLE enrolled (x);"}
    monkeypatch.setattr(schema, "UPGRADES", broken)
    with pytest.raises(CommandError):
        open_writing(earlier)
    assert tables(earlier) == before
    assert rows(earlier, "PRAGMA user_version") != [(schema.VERSION,)]


ROW_TRIGGER = """
DROP TRIGGER releases_held ON releases;
CREATE OR REPLACE FUNCTION releases_held() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN RAISE ''an earlier trigger''; END';
CREATE TRIGGER releases_held AFTER INSERT ON releases
    FOR EACH ROW EXECUTE FUNCTION releases_held();
"""


@pytest.mark.needs("postgresql")
def test_serve_renews_triggers_of_an_earlier_version_and_others_name_it(server_fleet):
    pool = messages(server_fleet, ["one"])
    with store.opened(server_fleet.database) as opened:
        commit_batch(opened, pool[:2], server_fleet.rules, NOW)
        opened.connection.script(ROW_TRIGGER)
    for opening in (open_reading, lambda place: changing(place).__enter__()):
        with pytest.raises(CommandError, match="start `pansketch-collector serve`, which renews"):
            opening(server_fleet.database)
    with store.opened(server_fleet.database) as opened:
        commit_batch(opened, pool, server_fleet.rules, NOW)
    assert not faults(server_fleet)
