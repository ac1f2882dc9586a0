"""A PostgreSQL server as the collector's database: a real one, killed, away, foreign or locked."""

import json
import os
import signal
import sys
import threading
from contextlib import closing

import psycopg
import pytest

from pansketch_collector import storage
from pansketch_collector.commands.verification import verify
from pansketch_collector.errors import CommandError
from pansketch_collector.ingest import ingest_loop
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.database import open_reading
from pansketch_collector.storage.postgresql import SERVING, Postgresql
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.connection import ERRORS
from pansketch_collector.storage.tables.postgresql_dialect import translated
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.storage.writer import changing
from pansketch_collector.validation.verdicts import Accepted, Duplicate
from pansketch_fleet.settings.settings import DatabaseServer
from testbed.postgresql import postgresql
from tests import waiting
from tests.collector.small_fleet import incoming
from tests.collector.storage.test_crash import OneBatchTransport
from tests.collector.storage.test_stores import NOW, faults, messages

pytestmark = pytest.mark.needs("postgresql")


def dies_at(statement, work):
    """Does the work in a process that is killed before its statement of that number; whether it
    came so far."""
    if (child := os.fork()) == 0:
        numbers = iter(range(10**6))

        def counted(call):
            def acknowledged(*words):
                if next(numbers) == statement:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*words)

            return acknowledged

        for name in ("_run", "executemany", "copy"):
            setattr(Postgresql, name, counted(getattr(Postgresql, name)))
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def test_a_death_between_any_two_statements_leaves_sums_of_what_is_stored(server_fleet):
    """Of a batch that stores, disputes and repeats releases, and of an exclusion."""
    pool, rules = messages(server_fleet, ("one",), (1, 2)), server_fleet.rules
    place = server_fleet.database
    with store.opened(place) as opened:
        commit_batch(opened, pool[:1], rules, NOW)

    def work():
        with store.opened(place) as opened:
            commit_batch(opened, [*pool, pool[0]], rules, NOW)
        with changing(place) as kept:
            kept.exclude("one", None, None, NOW)

    statement, found = 0, set()
    while dies_at(statement, work):
        assert not faults(server_fleet)
        with reading(place) as reader:
            found.add((len(reader.portion("releases", 0, 9)), len(reader.exclusions())))
        with changing(place) as kept:
            if kept.connection.execute("SELECT 1 FROM excluded").fetchone():
                kept.undo("one", None, None)
            kept.forget("one", releases=True)
        with store.opened(place) as opened:
            commit_batch(opened, pool[:1], rules, NOW)
        statement += 1
    assert statement > 30
    assert {(1, 0), (2, 0)} <= found <= {(1, 0), (2, 0), (2, 1)}


def test_a_killed_server_is_waited_for_and_nothing_is_acknowledged_before(
    tmp_path, make_small_fleet, monkeypatch, caplog
):
    monkeypatch.setattr(ingest_loop, "RETRY_SECONDS", 0.01)
    with postgresql() as server:
        fleet = make_small_fleet(server=server.url)
        pool = messages(fleet)[::2]
        stop = threading.Event()
        transport, turns = OneBatchTransport(pool, stop), []

        def alive():
            turns.append(len(transport.acknowledged))
            if len(turns) == 5:
                server.start()

        with store.opened(fleet.database) as opened:
            server.kill()
            clock = ingest_loop.IngestClock(lambda: NOW, lambda: 0.0)
            ingest_loop.serve(transport, opened, fleet.rules, clock, stop, alive)
        assert turns[:5] == [0] * 5
        assert {ack.status for ack in transport.acks} == {"stored"}
        assert transport.acknowledged == pool
        assert not faults(fleet)
        with reading(fleet.database) as reader:
            assert reader.count(Selection("air")) == len(pool)
    assert "cannot write the database" in caplog.text
    assert "start the database server" in caplog.text


def test_one_process_serves_and_others_may_change(server_fleet):
    place = server_fleet.database
    with (
        store.opened(place) as opened,
        pytest.raises(CommandError, match="another collector is serving it"),
        store.opened(place),
    ):
        raise AssertionError
    with store.opened(place) as opened:
        commit_batch(opened, messages(server_fleet)[::2], server_fleet.rules, NOW)
        with changing(place) as kept:
            assert kept.exclude("one", None, None, NOW) == 6
        outcomes = commit_batch(opened, messages(server_fleet)[::2], server_fleet.rules, NOW)
    assert not any(isinstance(each, Accepted | Duplicate) for each in outcomes)
    assert not faults(server_fleet)


def test_the_lock_of_a_session_that_is_about_to_end_is_waited_for(server_fleet):
    """The server frees it a moment after the connection has ended."""
    place, generations = server_fleet.database, []

    def serve():
        with store.opened(place) as opened:
            generations.append(opened.generation)

    serve()
    thread = threading.Thread(target=serve)
    with closing(psycopg.connect(place.url, autocommit=True)) as earlier:
        earlier.execute("SELECT pg_advisory_lock(%s, %s)", SERVING)
        thread.start()
        query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        waiting.until(lambda: earlier.execute(query).fetchone()[0], "a process that waits")
        assert len(generations) == 1
    thread.join(waiting.SECONDS)
    assert len(set(generations)) == 1
    assert len(generations) == 2


def test_a_database_served_elsewhere_before_has_another_generation(server_fleet):
    with store.opened(server_fleet.database) as opened:
        first = opened.generation
    with store.opened(server_fleet.database) as opened:
        assert opened.generation == first
    with changing(server_fleet.database) as kept:
        kept.connection.execute("UPDATE pansketch_schema SET place = 'elsewhere'")
    with store.opened(server_fleet.database) as opened:
        assert opened.generation != first
    with reading(server_fleet.database) as reader:
        assert reader.generation() != first


@pytest.mark.parametrize("opening", [open_reading, lambda place: store.opened(place).__enter__()])
def test_an_unusable_database_is_rejected_with_a_single_line(server_fleet, opening):
    place = server_fleet.database
    with closing(psycopg.connect(place.url, autocommit=True)) as other:
        other.execute("CREATE TABLE releases (n integer)")
        with pytest.raises(CommandError, match="tables of another program"):
            opening(place)
        other.execute("DROP TABLE releases")
        with store.opened(place):
            pass
        other.execute("UPDATE pansketch_schema SET version = 99")
        with pytest.raises(CommandError, match="has schema 99, and this program reads"):
            opening(place)
    away = DatabaseServer("postgresql://one@127.0.0.1:1/fleet", "a secret")
    with pytest.raises(CommandError, match="refused") as caught:
        opening(away)
    assert "\n" not in str(caught.value)
    assert "a secret" not in f"{caught.value!r} {away!r} {away}"


def test_an_empty_database_has_no_answers_yet(server_fleet, run):
    code, _, err = run("devices", config=server_fleet.path)
    assert code == 1
    assert "run `pansketch-collector serve`" in err


def test_an_ordinary_role_serves_and_its_wrong_password_is_reported_and_not_shown(tmp_path):
    with postgresql() as server:
        with closing(psycopg.connect(server.url, autocommit=True)) as admin:
            admin.execute("CREATE ROLE one LOGIN PASSWORD 'right'")
            (file,) = admin.execute("SHOW hba_file").fetchone()
            with open(file, "w", encoding="utf-8") as rules:
                rules.write("local all pansketch trust\nlocal all all scram-sha-256\n")
            admin.execute("SELECT pg_reload_conf()")
            admin.execute("GRANT ALL ON SCHEMA public TO one")
        url = server.url.replace("pansketch@", "one@")
        for password in ("wrong words", None):
            with pytest.raises(CommandError, match="password") as caught:
                open_reading(DatabaseServer(url, password))
            assert "wrong words" not in str(caught.value)
        right = DatabaseServer(url, "right")
        with store.opened(right) as opened:
            assert opened.generation
        with closing(psycopg.connect(server.url, autocommit=True)) as admin:
            admin.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
            with pytest.raises(
                CommandError, match="permission denied for function pg_control_system"
            ):
                store.opened(right).__enter__()
            admin.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO one")
        with store.opened(right) as opened:
            assert opened.generation


def test_without_psycopg_a_single_line_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "pansketch_collector.storage.postgresql")
    monkeypatch.delattr(storage, "postgresql")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(CommandError, match="extra `postgresql`"):
        open_reading(DatabaseServer("postgresql://one@host/fleet"))


def test_statements_name_their_values_as_psycopg_wants_them():
    assert (
        translated("a = ? AND b LIKE 'x?%' AND c = ?2") == "a = %s AND b LIKE 'x?%%' AND c = %(v2)s"
    )
    assert translated("a % :name") == "a %% %(name)s"


def test_a_statement_that_fails_is_one_of_errors_and_undoes_its_transaction(server_fleet):
    with store.opened(server_fleet.database) as opened:
        with pytest.raises(ERRORS), opened.batch():  # noqa: PT012
            opened.connection.execute("DELETE FROM generation")
            opened.connection.execute("SELECT nothing")
        commit_batch(opened, messages(server_fleet)[:1], server_fleet.rules, NOW)
    with reading(server_fleet.database) as reader:
        assert not verify(reader, server_fleet.rules).figures
        assert reader.generation()


def test_every_command_answers_from_it(server_fleet, run):
    spec = server_fleet.specs("fine")[0]
    rows = [[20.0, 0.0], [25.0, 1.0], [10.0, 2.0]] * 200
    pool = [
        incoming(server_fleet.topic(d, "fine"), server_fleet.release(d, n, "fine", rows, spec=spec))
        for d in (f"device-{n}" for n in range(12))
        for n in (1, 2, 3)
    ]
    with store.opened(server_fleet.database) as opened:
        commit_batch(opened, [*pool, incoming("x", b"1")], server_fleet.rules, 1_000_000_000)
    place = server_fleet.path.parent / "out"
    assert run("export", "--stream", "fine", "--out", str(place), config=server_fleet.path)[0] == 0
    assert len(place.read_text(encoding="utf-8").splitlines()) == len(pool)
    assert run("replay", str(place), config=server_fleet.path)[1].endswith(
        f"0 stored, {len(pool)} duplicates, none refused\n"
    )
    sample = ("sample", "--stream", "fine", "--rows", "9", "--seed", "1", "--out", "-")
    code, out, err = run(*sample, config=server_fleet.path)
    assert (code, err, len(out.splitlines())) == (0, "", 10)
    for words in (
        ("devices", "--json"),
        ("settings", "--json"),
        ("keepers", "--json"),
        ("retention", "--json"),
        ("query", "--stream", "fine", "--json", "mean", "temp", "--devices", "device-1"),
        ("query", "--stream", "fine", "--json", "--by", "day", "mean", "temp"),
        ("query", "--stream", "fine", "--json", "--robust", "mean", "temp"),
        ("quarantine", "list", "--json"),
        ("query", "--stream", "fine", "--json", "mean", "temp"),
        ("query", "--stream", "fine", "--json", "quantile", "temp", "0.5"),
        ("disputed", "list", "--json"),
        ("exclude", "--list", "--json"),
        ("verify", "--json"),
    ):
        code, out, err = run(*words, config=server_fleet.path)
        assert (code, err) == (0, ""), words
        assert json.loads(out), words
