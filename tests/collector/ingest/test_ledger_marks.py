"""Marks: they report a device's stored releases, and name the database."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from pansketch import WindowId
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.ingest.ledger_marks import Marks
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.verdicts import DeviceStatus
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Mark, Status, StreamMark
from pansketch_fleet.settings.device_spec import schedule_offset

DAY = 86_400
OFFSET = schedule_offset("one", DAY)
NOW = 1_000_001_000
FIRST, SECOND = b"the one.", b"another!"


class RetainedMessages:
    """The broker's retained messages."""

    def __init__(self):
        self.connected, self.retained, self.published = True, {}, []

    def announce(self, topic, payload, qos=1):
        self.retained[topic] = Mark.decode(payload)
        self.published.append(topic)


def window(sequence, day, incarnation=FIRST, device="one"):
    start = day * DAY + OFFSET
    return WindowId(device, "air", sequence, start, start + DAY, None, incarnation)


@pytest.fixture
def serving(small_fleet, arrive):
    """A collector's turn: messages are validated and stored, then marks are published."""
    broker = RetainedMessages()

    def turn(opened, marks, uptime, *messages):
        batch = [arrive(*each) for each in messages]
        for message, outcome in zip(
            batch, commit_batch(opened, batch, small_fleet.rules, NOW), strict=True
        ):
            marks.on_committed(message, outcome)
        marks.step(uptime)

    return broker, turn


def birth(small_fleet, device="one"):
    return topics.status(small_fleet.fleet, device), Status("online", "s1", {}).encode()


def released(small_fleet, *windows):
    return [(small_fleet.topic(each.device), small_fleet.release(window=each)) for each in windows]


def test_a_birth_message_publishes_an_empty_mark_without_releases(small_fleet, serving):
    broker, turn = serving
    with store.opened(small_fleet.database) as opened:
        turn(opened, Marks(small_fleet.fleet, opened, broker), 10.0, birth(small_fleet))
        assert broker.retained == {
            topics.mark(small_fleet.fleet, "one"): Mark(opened.generation, {})
        }


def test_a_mark_has_the_newest_ledgers_end_and_the_stored_count(small_fleet, serving):
    broker, turn = serving
    with store.opened(small_fleet.database) as opened:
        marks = Marks(small_fleet.fleet, opened, broker)
        old = [window(n, n) for n in range(1, 6)]
        turn(opened, marks, 10.0, birth(small_fleet), *released(small_fleet, *old))
        topic = topics.mark(small_fleet.fleet, "one")
        assert broker.retained[topic].streams == {
            "air": StreamMark(FIRST.hex(), 5, 6 * DAY + OFFSET, 5)
        }
        turn(opened, marks, 20.0, *released(small_fleet, window(1, 8, SECOND), window(2, 7)))
        assert len(broker.published) == 1, "once a minute"
        turn(opened, marks, 70.5)
        assert broker.retained[topic].streams == {
            "air": StreamMark(SECOND.hex(), 1, 9 * DAY + OFFSET, 7)
        }
        turn(opened, marks, 200.0)
        assert len(broker.published) == 2, "nothing has changed"
    with store.opened(small_fleet.database) as opened:  # and after a restart
        turn(opened, Marks(small_fleet.fleet, opened, broker), 10.0, birth(small_fleet))
        assert broker.retained[topic].streams == {
            "air": StreamMark(SECOND.hex(), 1, 9 * DAY + OFFSET, 7)
        }


def test_deleted_releases_stay_in_the_mark(small_fleet, serving):
    broker, turn = serving
    with store.opened(small_fleet.database) as opened:
        turn(
            opened,
            Marks(small_fleet.fleet, opened, broker),
            1.0,
            *released(small_fleet, window(3, 3)),
        )
    with closing(sqlite3.connect(small_fleet.database)) as database:
        database.execute("DELETE FROM releases")
        database.commit()
    with store.opened(small_fleet.database) as opened:
        turn(opened, Marks(small_fleet.fleet, opened, broker), 1.0, birth(small_fleet))
        (mark,) = broker.retained.values()
        assert mark.streams == {"air": StreamMark(FIRST.hex(), 3, 4 * DAY + OFFSET, 0)}


def test_changes_are_published_at_the_end_and_nothing_while_disconnected(small_fleet, serving):
    broker, turn = serving
    with store.opened(small_fleet.database) as opened:
        marks = Marks(small_fleet.fleet, opened, broker)
        broker.connected = False
        turn(opened, marks, 10.0, birth(small_fleet))
        assert broker.retained == {}
        broker.connected = True
        turn(opened, marks, 11.0)
        turn(opened, marks, 12.0, *released(small_fleet, window(1, 1)))
        marks.finish()
        (mark,) = broker.retained.values()
        assert mark.streams["air"].sequence == 1


def test_a_will_is_not_answered(small_fleet, serving):
    broker, _ = serving
    with store.opened(small_fleet.database) as opened:
        marks = Marks(small_fleet.fleet, opened, broker)
        marks.on_committed(None, DeviceStatus("one", Status("offline", "s1", {})))
        marks.step(10.0)
    assert broker.published == []


def generations(small_fleet, arrive, *payloads):
    with store.opened(small_fleet.database) as opened:
        commit_batch(
            opened, [arrive(small_fleet.topic(), each) for each in payloads], small_fleet.rules, NOW
        )
        return opened.generation


def test_a_restored_database_is_recognised_and_a_restarted_one_is_the_same(
    small_fleet, arrive, run, tmp_path
):
    first = generations(small_fleet, arrive, small_fleet.release(sequence=1))
    assert generations(small_fleet, arrive) == first
    shutil.copy(small_fleet.database, tmp_path / "copy")
    assert generations(small_fleet, arrive, small_fleet.release(sequence=2)) == first
    shutil.copy(tmp_path / "copy", small_fleet.database)  # the same file, with an earlier content
    second = generations(small_fleet, arrive)
    assert second != first
    assert generations(small_fleet, arrive) == second
    assert f"database generation: {second}" in run("devices")[1]
    small_fleet.database.unlink()
    assert generations(small_fleet, arrive) not in (first, second)


def test_deleting_the_newest_releases_is_no_restoring(small_fleet, arrive):
    first = generations(
        small_fleet, arrive, small_fleet.release(sequence=1), small_fleet.release(sequence=2)
    )
    with closing(sqlite3.connect(small_fleet.database)) as database:
        database.execute("DELETE FROM releases")
        database.commit()
    assert generations(small_fleet, arrive, small_fleet.release(sequence=3)) == first
    assert generations(small_fleet, arrive) == first


def test_a_batch_that_failed_is_no_restoring(small_fleet, arrive):
    release = small_fleet.release(sequence=1)
    with store.opened(small_fleet.database) as opened:
        generation = opened.generation
        accepted = commit_batch(
            opened, [arrive(small_fleet.topic(), release)], small_fleet.rules, NOW
        )[0]
        with pytest.raises(sqlite3.Error), opened.batch():  # noqa: PT012
            opened.add(type(accepted)(window(9, 9), *_rest(accepted)), 1)
            opened.add(accepted, 1)
        commit_batch(opened, [arrive("junk", b"x")], small_fleet.rules, NOW)
    assert generations(small_fleet, arrive) == generation


def _rest(accepted):
    return accepted.fingerprint, accepted.digest, accepted.payload
