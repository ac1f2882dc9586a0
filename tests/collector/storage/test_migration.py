"""`migrate`: from a SQLite file to a PostgreSQL server, all of it or nothing."""

import random
import sqlite3
from contextlib import closing

import pytest

from pansketch_collector.__main__ import main
from pansketch_collector.commands import backup
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import Selection, reading
from pansketch_collector.storage.tables import schema
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Status
from tests.collector.small_fleet import SmallFleet, incoming
from tests.collector.storage.test_postgresql import dies_at
from tests.collector.storage.test_stores import NOW, change, check, faults, messages

pytestmark = pytest.mark.needs("postgresql")
TABLES = 20  # or more


@pytest.fixture
def old(tmp_path):
    """A fleet with a history in a file: releases, disputes, exclusions, removals, refusals."""
    (tmp_path / "old").mkdir()
    fleet = SmallFleet(tmp_path / "old")
    dice, pool = random.Random(7), messages(fleet)
    birth = incoming(topics.status(fleet.fleet, "one"), Status("online", "s1", {}).encode())
    with store.opened(fleet.database) as opened:
        opened.serve_settings(fleet.config, NOW)
        commit_batch(opened, [*pool[::2], incoming("x\0y", b"1")], fleet.rules, NOW)
    for _ in range(12):
        change(fleet, pool, dice)
    with store.opened(fleet.database) as opened:
        commit_batch(opened, [birth], fleet.rules, NOW)
        opened.exclude("two", None, None, NOW)
    return fleet


def content(database):
    """Every row of every table, in order."""
    with reading(database) as reader:
        db = reader.connection
        names = sorted(name for name in ALL if name != "sqlite_sequence")
        return {name: sorted(map(repr, db.execute(f"SELECT * FROM {name}"))) for name in names}


def made():
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript(schema.TABLES)
        return list(backup.tables(memory))


ALL = made()


def generation(fleet):
    with reading(fleet.database) as reader:
        return reader.generation()


def migrated(fleet, file):
    return main(["migrate", str(file), "--config", str(fleet.path)])


def test_everything_is_copied_and_goes_on_there(old, server_fleet, capsys):
    before = content(old.database)
    assert len(ALL) > TABLES
    assert sum(map(bool, before.values())) > TABLES / 2
    assert migrated(server_fleet, old.database) == 0
    said = capsys.readouterr()
    assert "verifying the copy" in said.err
    assert f"releases: {len(before['releases'])} rows" in said.err
    after = content(server_fleet.database)
    # PostgreSQL knows no NUL in a text.
    after["quarantine"] = [
        row.replace("x\N{REPLACEMENT CHARACTER}y", "x\\x00y") for row in after["quarantine"]
    ]
    assert after == before
    with reading(old.database) as source:
        newest = max(number for number, _ in source.portion("releases", 0, 10**6))
    check(server_fleet, Selection("air"))
    pool = messages(server_fleet, windows=range(20, 23))[::2]
    with store.opened(server_fleet.database) as opened:
        assert opened.generation == generation(old)
        commit_batch(opened, pool, server_fleet.rules, NOW)
        found = opened.portion(newest, 100)
    assert len(found) == len(pool)
    assert not faults(server_fleet)


def test_a_database_that_holds_something_is_refused_and_unchanged(old, server_fleet, capsys):
    with store.opened(server_fleet.database) as opened:
        commit_batch(opened, messages(server_fleet)[:1], server_fleet.rules, NOW)
    before = content(server_fleet.database)
    assert migrated(server_fleet, old.database) == 2
    assert "not empty" in capsys.readouterr().err
    assert content(server_fleet.database) == before


def test_a_death_at_any_statement_leaves_an_empty_database(old, server_fleet):
    with store.opened(server_fleet.database):
        pass

    def work():
        migrated(server_fleet, old.database)

    statement = 0
    while dies_at(statement, work):
        with reading(server_fleet.database) as reader:
            assert not reader.portion("releases", 0, 1)
            assert not reader.exclusions()
        statement += 9
    assert statement > 5 * TABLES
    assert content(server_fleet.database)["releases"] == content(old.database)["releases"]


def test_a_copy_that_lacks_a_release_is_undone(old, server_fleet, monkeypatch, capsys):
    """The negative control of the verification."""
    copied = backup._copy_table

    def lossy(source, target, table, *rest):
        copied(source, target, table, *rest)
        if table == "releases":
            target.execute("DELETE FROM releases WHERE id = (SELECT max(id) FROM releases)")

    monkeypatch.setattr(backup, "_copy_table", lossy)
    assert migrated(server_fleet, old.database) == 1
    assert "nothing was copied" in capsys.readouterr().err
    with reading(server_fleet.database) as reader:
        assert not reader.portion("releases", 0, 1)


def test_what_cannot_be_copied_is_refused(old, server_fleet, tmp_path, capsys):
    assert migrated(server_fleet, tmp_path / "none.sqlite") == 2
    assert "there is no file" in capsys.readouterr().err
    assert migrated(old, old.database) == 2
    assert "name one in collector.database" in capsys.readouterr().err
    with store.opened(old.database):
        assert migrated(server_fleet, old.database) == 1
        assert "another collector is serving" in capsys.readouterr().err
    with store.opened(server_fleet.database):
        assert migrated(server_fleet, old.database) == 1
        assert "another collector is serving" in capsys.readouterr().err


def test_a_file_that_is_not_the_one_served_last_gets_another_generation(
    old, server_fleet, tmp_path
):
    """It may lack releases that were acknowledged."""
    copy = tmp_path / "backup.sqlite"
    assert main(["backup", str(copy), "--config", str(old.path)]) == 0
    assert migrated(server_fleet, copy) == 0
    assert generation(server_fleet) != generation(old)
