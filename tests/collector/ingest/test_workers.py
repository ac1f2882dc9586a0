"""`ingest` beside `serve`: processes that share a fleet's releases, on a real server and broker."""

import signal
import sys
import threading
from contextlib import ExitStack, closing

import paho.mqtt.client as paho
import psycopg
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from pansketch_collector.commands.serve import RENEW_SECONDS, RuleRenewal
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.ingest.ledger_marks import CHANGED_SECONDS, Marks
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import Selection, reading
from pansketch_collector.storage.tables.connection import ERRORS, transaction
from pansketch_collector.storage.tables.sum_changes import SumChanges
from pansketch_collector.storage.writer import changing
from pansketch_collector.validation.validation import Rules, validate
from pansketch_collector.validation.verdicts import Accepted
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Ack, Mark, digest
from testbed.mosquitto import mosquitto
from testbed.postgresql import postgresql
from testbed.program import Program
from tests import waiting
from tests.collector.small_fleet import incoming
from tests.collector.storage.test_stores import NOW, faults, messages

DEVICES, WINDOWS = [f"device-{n}" for n in range(10)], 60
RESEND_SECONDS = 2.0
QUEUES = "max_queued_messages 0\nmax_inflight_messages 0"


class Outboxes:
    """All devices: each release is published until a collector acknowledges it."""

    def __init__(self, port, fleet):
        self.acks, self.marks, self._changed = {}, {}, threading.Condition()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._receive
        self._client.connect("127.0.0.1", port)
        self._client.subscribe(f"{topics.PREFIX}/{fleet}/+/ack", 1)
        self._client.loop_start()
        self._fleet = fleet

    def _receive(self, client, userdata, message):
        with self._changed:
            if topics.is_mark(message.topic):
                self.marks[topics.parse(message.topic).device] = Mark.decode(message.payload)
            else:
                ack = Ack.decode(message.payload)
                self.acks[ack.digest] = ack.status
            self._changed.notify()

    def publish(self, pool, meanwhile=lambda: None):
        """Returns when all are acknowledged; `meanwhile` is done after the first transmission."""
        for number in range(int(waiting.SECONDS / RESEND_SECONDS)):
            lacking = [(topic, p) for topic, p in pool if digest(p) not in self.acks]
            if not lacking:
                return
            for topic, payload in lacking:
                self._client.publish(topic, payload, qos=1)
            if number == 0:
                meanwhile()
            self.until(lambda: all(digest(p) in self.acks for _, p in pool), RESEND_SECONDS)
        raise AssertionError(f"{len(lacking)} are not acknowledged")

    def until(self, happened, seconds=waiting.SECONDS):
        with self._changed:
            return self._changed.wait_for(happened, seconds)

    def listen_to_marks(self):
        self._client.subscribe(f"{topics.PREFIX}/{self._fleet}/+/mark", 1)

    def close(self):
        self._client.disconnect()
        self._client.loop_stop()


def collector(fleet, log, *words):
    command = [sys.executable, "-m", "pansketch_collector", *words, "--config", str(fleet.path)]
    return Program(command, log)


@pytest.mark.needs("postgresql", "mosquitto")
def test_a_killed_worker_and_a_killed_server_lose_nothing_and_store_nothing_twice(
    tmp_path, make_small_fleet
):
    with ExitStack() as stack:
        server = stack.enter_context(postgresql())
        port = stack.enter_context(mosquitto(tmp_path, settings=QUEUES))
        fleet = make_small_fleet(server=server.url, url=f"mqtt://127.0.0.1:{port}")
        spec = fleet.specs("air")[0]
        pool = [
            (fleet.topic(device), fleet.release(device, n, spec=spec))
            for n in range(1, WINDOWS + 1)
            for device in DEVICES
        ]
        leader = stack.enter_context(collector(fleet, tmp_path / "leader", "serve"))
        leader.wait_until_connected()
        workers = [
            stack.enter_context(collector(fleet, tmp_path / f"worker-{n}", "ingest"))
            for n in range(2)
        ]
        for each in workers:
            each.wait_until_connected()
        outboxes = stack.enter_context(closing(Outboxes(port, fleet.fleet)))
        third = len(pool) // 3
        outboxes.publish(pool[:third])

        def kill_a_worker():
            so_many = third + third // 8
            outboxes.until(lambda: len(outboxes.acks) > so_many)
            workers[0].process.send_signal(signal.SIGKILL)

        outboxes.publish(pool[third : 2 * third], kill_a_worker)
        assert workers[0].wait() == -signal.SIGKILL

        def kill_the_server():
            so_many = 2 * third + third // 8
            outboxes.until(lambda: len(outboxes.acks) > so_many)
            server.kill()
            server.start()

        outboxes.publish(pool, kill_the_server)
        assert set(outboxes.acks.values()) <= {"stored", "duplicate"}
        assert sorted(fleet.stored()) == sorted(payload for _, payload in pool)
        assert not faults(fleet)
        assert workers[1].stop() == leader.stop() == 0
        assert " took 0 messages" not in workers[1].output
        assert "quarantined" not in workers[1].output + leader.output
        # The leader publishes what others stored.
        outboxes.listen_to_marks()
        assert outboxes.until(lambda: len(outboxes.marks) == len(DEVICES)), leader.output
        assert {mark.streams["air"].windows for mark in outboxes.marks.values()} == {WINDOWS}


@pytest.mark.parametrize("fault", ["added twice", "lost"])
def test_verify_finds_a_worker_that_adds_twice_or_loses_a_release(server_fleet, fault):
    """The negative control of the test above."""
    with store.opened(server_fleet.database) as opened:
        commit_batch(opened, messages(server_fleet)[::2], server_fleet.rules, NOW)
    assert not faults(server_fleet)
    with changing(server_fleet.database) as worker, transaction(worker.connection):
        if fault == "added twice":
            changes = SumChanges(worker.connection)
            changes.select("device = ? AND window_start < ?", ("one", 172_800), 1)
            changes.flush()
        else:
            worker.connection.execute("ALTER TABLE releases DISABLE TRIGGER USER")
            worker.connection.execute("DELETE FROM releases WHERE device = 'one' AND sequence = 3")
            worker.connection.execute("ALTER TABLE releases ENABLE TRIGGER USER")
    assert faults(server_fleet)


def waits_for_a_lock(admin):
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    return admin.execute(query).fetchone()[0]


def test_numbers_are_given_in_the_order_of_commits(server_fleet):
    """Else a cache that is keyed by the highest number would miss a commit that came late."""
    place, rules = server_fleet.database, server_fleet.rules
    first, second = messages(server_fleet, ("one",))[::2], messages(server_fleet, ("two",))[::2]
    found = []

    def late():
        with changing(place) as worker:
            found.extend(commit_batch(worker, second, rules, NOW))

    with store.opened(place) as leader, changing(place) as other:
        thread = threading.Thread(target=late)
        with closing(psycopg.connect(place.url, autocommit=True)) as admin:
            with leader.batch():
                for each in validate(first, rules):
                    leader.add(each, NOW)
                thread.start()
                waiting.until(lambda: waits_for_a_lock(admin))
                with reading(place) as reader:
                    assert reader.mark(Selection("air"))[:2] == (0, 0)
            with reading(place) as reader:
                seen = reader.mark(Selection("air"))
            thread.join(waiting.SECONDS)
        assert [isinstance(each, Accepted) for each in found] == [True] * len(second)
        ids = {
            device: [n for n, each in other.portion(0, 100) if each.device == device]
            for device in ("one", "two")
        }
    assert max(ids["one"]) < min(ids["two"])
    with reading(place) as reader:
        assert reader.mark(Selection("air")) >= seen
        assert reader.count(Selection("air")) == len(first) + len(second)
    assert not faults(server_fleet)


@pytest.mark.parametrize("cause", ["pg_terminate_backend", "lock_timeout"])
def test_who_fails_to_wait_for_another_writer_writes_later(server_fleet, cause):
    """The transaction is begun before the wait: it must not stay so."""
    place, rules, failed = server_fleet.database, server_fleet.rules, []
    pool = messages(server_fleet, ("one",))[::2]

    def fail(worker):
        try:
            commit_batch(worker, pool, rules, NOW)
        except ERRORS as error:
            failed.append(error)

    with store.opened(place) as leader, changing(place) as worker:
        if cause == "lock_timeout":
            worker.connection.execute("SET lock_timeout = 100")
        thread = threading.Thread(target=fail, args=(worker,))
        with closing(psycopg.connect(place.url, autocommit=True)) as admin, leader.batch():
            thread.start()
            if cause != "lock_timeout":
                waiting.until(lambda: waits_for_a_lock(admin))
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks"
                    " WHERE locktype = 'advisory' AND NOT granted"
                )
            thread.join(waiting.SECONDS)
        assert len(failed) == 1
        assert not worker.connection.in_transaction
        assert [type(each) for each in commit_batch(worker, pool, rules, NOW)] == [Accepted] * len(
            pool
        )
    assert not faults(server_fleet)


class RetainedMarks:
    """The broker's retained marks."""

    def __init__(self):
        self.connected, self.retained = True, {}

    def announce(self, topic, payload, qos=1):
        self.retained[topics.parse(topic).device] = Mark.decode(payload)


def test_marks_of_what_others_stored_are_published_once_a_minute(any_fleet):
    pool, broker, rules = messages(any_fleet)[::2], RetainedMarks(), any_fleet.rules
    with store.opened(any_fleet.database) as leader:
        commit_batch(leader, pool[:1], rules, NOW)
        marks = Marks(any_fleet.fleet, leader, broker, shares=True)
        marks.step(100.0)
        assert broker.retained == {}  # of what was stored before, births ask
        for stored, at in ((4, 200.0), (6, 200.0 + CHANGED_SECONDS)):
            with changing(any_fleet.database) as worker:
                commit_batch(worker, pool[:stored], rules, NOW)
            marks.step(at)
            assert {name: m.streams["air"].windows for name, m in broker.retained.items()} == {
                "one": stored
            }
        with changing(any_fleet.database) as worker:
            commit_batch(worker, pool, rules, NOW)
        marks.step(210.0 + CHANGED_SECONDS)
        assert set(broker.retained) == {"one", "two", "three", "four"}
        broker.retained.clear()
        marks.finish()
        assert broker.retained == {}


def test_a_worker_takes_releases_under_settings_that_serve_has_since_its_start(any_fleet, tmp_path):
    """As of new scales: they are another epoch of the stream."""
    (tmp_path / "new").mkdir()
    other = type(any_fleet)(tmp_path / "new", epsilon=2.0)
    spec = other.specs("air")[0]
    message = incoming(any_fleet.topic("one"), other.release("one", 1, spec=spec))
    with store.opened(any_fleet.database) as leader, changing(any_fleet.database) as worker:
        rules = Rules.of(any_fleet.config, worker.serve_settings(any_fleet.config, NOW))
        renewal = RuleRenewal(any_fleet.config, worker.epochs, rules)
        renewal.step(0.0)
        (outcome,) = commit_batch(worker, [message], rules, NOW)
        assert not isinstance(outcome, Accepted)
        leader.serve_settings(other.config, NOW)
        renewal.step(RENEW_SECONDS)
        (outcome,) = commit_batch(worker, [message], rules, NOW)
        assert isinstance(outcome, Accepted)


def test_a_sqlite_file_has_one_writer(run):
    code, _, err = run("ingest")
    assert code == 2
    assert "one process writes a SQLite database" in err


def test_workers_need_mqtt_5(server_fleet, run):
    text = server_fleet.path.read_text(encoding="utf-8")
    server_fleet.path.write_text(
        text.replace('url: "mqtt://127.0.0.1:1"', 'url: "mqtt://127.0.0.1:1", protocol: "3.1.1"'),
        encoding="utf-8",
    )
    code, _, err = run("ingest", config=server_fleet.path)
    assert code == 2
    assert "set mqtt.protocol to auto" in err
