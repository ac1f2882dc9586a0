"""The store: what is kept, what is refused, and that the disk cannot be filled or half written."""

import os
import sqlite3
from contextlib import closing

import pytest

from pansketch import WindowId
from pansketch_collector.errors import CommandError
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import device_reports, quarantine
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.database import changing, open_reading, open_writing
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.corruption import Damage
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.validation.decision import Decision
from pansketch_collector.validation.verdicts import Accepted, DeviceStatus, Duplicate, Rejected
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Status
from pansketch_fleet.settings.device_spec import schedule_offset
from tests.collector.messages import validate_one
from tests.collector.small_fleet import rows

DAY = 86_400
OFFSET = schedule_offset("one", DAY)
AIR = Selection("air")


def test_bytes_are_kept_as_received(small_fleet, commit):
    payload = small_fleet.release()
    assert isinstance(commit((small_fleet.topic(), payload), at=1_000_000_077)[0], Accepted)
    with reading(small_fleet.database) as reader:
        (stored,) = reader.releases(AIR)
    assert (stored.payload, stored.received_at, stored.sequence) == (payload, 1_000_000_077, 1)


def test_a_duplicate_is_reported_and_not_stored_even_within_a_batch(small_fleet, commit):
    message = (small_fleet.topic(), small_fleet.release())
    assert [type(v) for v in commit(message, message)] == [Accepted, Duplicate]
    assert [type(v) for v in commit(message)] == [Duplicate]
    assert rows(small_fleet.database, "SELECT count(*) FROM releases") == [(1,)]
    assert rows(small_fleet.database, "SELECT count(*) FROM quarantine") == [(0,)]


def test_a_second_release_of_a_window_is_quarantined_with_any_number(small_fleet, commit):
    first, other = small_fleet.release(sequence=1), small_fleet.release(sequence=1)
    window = WindowId("one", "air", 2, DAY + OFFSET, 2 * DAY + OFFSET)
    renumbered = small_fleet.release(window=window)
    commit((small_fleet.topic(), first))
    outcomes = commit((small_fleet.topic(), other), (small_fleet.topic(), renumbered))
    assert [v.reason for v in outcomes] == ["equivocation"] * 2
    assert rows(small_fleet.database, "SELECT reason FROM quarantine") == [("equivocation",)] * 2
    assert small_fleet.stored() == [first]
    assert rows(small_fleet.database, "SELECT payload FROM disputed") == [(other,), (renumbered,)]


def test_other_devices_and_streams_do_not_collide(small_fleet, commit):
    messages = [
        (small_fleet.topic("one"), small_fleet.release("one")),
        (small_fleet.topic("two"), small_fleet.release("two")),
        (
            small_fleet.topic("one", "fine"),
            small_fleet.release("one", stream="fine", readings=((1, 1),)),
        ),
    ]
    assert all(isinstance(v, Accepted) for v in commit(*messages))


def test_refused_bytes_are_counted_when_they_come_again(small_fleet, commit):
    commit(("elsewhere", b"x"), at=5)
    commit(("elsewhere", b"x"), ("elsewhere", b"x"), ("elsewhere", b"y"), at=9)
    query = "SELECT payload, times, first_received_at, received_at FROM quarantine ORDER BY id"
    assert rows(small_fleet.database, query) == [(b"x", 3, 5, 9), (b"y", 1, 9, 9)]
    with reading(small_fleet.database) as reader:
        assert reader.refusals() == {"topic": 4}


def test_the_quarantine_is_bounded_in_rows_and_bytes(small_fleet, arrive):
    connection = open_writing(small_fleet.database)
    small = store.SqliteStore(connection, quarantine_rows=5)
    junk = [arrive("t" * 5000, b"%d" % n + b"z" * 9000) for n in range(12)]
    commit_batch(small, junk, small_fleet.rules, 1_000_000_001)
    small.close()
    found = rows(
        small_fleet.database, "SELECT payload, size, length(topic) FROM quarantine ORDER BY id"
    )
    assert [row[0][:2] for row in found] == [b"7z", b"8z", b"9z", b"10", b"11"]
    assert {(len(row[0]), row[2]) for row in found} == {
        (quarantine.MAX_BYTES, quarantine.MAX_TOPIC)
    }
    assert found[0][1] == 9001


def test_a_topic_of_control_characters_is_kept_as_one_printable_line(small_fleet, commit):
    commit(("a\nb\x00c\u2028d", b"x"))
    assert rows(small_fleet.database, "SELECT topic FROM quarantine") == [("a b c d",)]


def test_what_fails_in_the_middle_of_a_batch_leaves_nothing_of_it(
    small_fleet, kept, commit, arrive
):
    release = commit((small_fleet.topic(), small_fleet.release()))[0]

    def fail_halfway():
        with kept.batch():
            kept.apply(Decision(Rejected("topic", "x")), arrive("t", b""), 1)
            kept.add(release, 2)

    with pytest.raises(sqlite3.IntegrityError):
        fail_halfway()
    assert rows(small_fleet.database, "SELECT count(*) FROM quarantine") == [(0,)]
    assert isinstance(commit((small_fleet.topic(), small_fleet.release(sequence=5)))[0], Accepted)


def test_a_stored_release_leaves_quarantine_with_any_successor_in_its_batch(small_fleet, commit):
    """Its removal waits for the end of the batch, or for the next refusal. The bytes of `first`
    were refused before, those of `second` come to a wrong topic only after they were stored."""
    first, second = small_fleet.release(sequence=1), small_fleet.release(sequence=2)
    commit((small_fleet.topic("two"), first))
    query = "SELECT payload, times FROM quarantine"
    assert rows(small_fleet.database, query) == [(first, 1)]
    outcomes = commit(
        (small_fleet.topic(), first),
        (small_fleet.topic(), second),
        (small_fleet.topic("two"), second),
    )
    assert [type(v) for v in outcomes] == [Accepted, Accepted, Rejected]
    assert rows(small_fleet.database, query) == [(second, 1)]
    assert rows(small_fleet.database, "SELECT count(*) FROM totals") == [(2,)]


@pytest.mark.parametrize("known_by", ["digest", "window"])
def test_a_stored_release_is_damaged_no_more(small_fleet, kept, commit, known_by):
    """It was moved with a changed label, or with changed bytes."""
    payload, other = small_fleet.release(sequence=1), small_fleet.release(sequence=2)
    commit((small_fleet.topic(), payload), (small_fleet.topic(), other))
    for number in (1, 2):
        kept.move_damaged(number, Damage("one", "air", 0, 1, number, "changed"), 7)
    changed = "window_start = 5" if known_by == "digest" else "digest = 'another'"
    with closing(sqlite3.connect(small_fleet.database)) as connection, connection:
        connection.execute(f"UPDATE damaged SET {changed} WHERE sequence = 1")
    commit((small_fleet.topic(), payload))
    assert rows(small_fleet.database, "SELECT sequence FROM damaged") == [(2,)]


def test_a_batch_that_fails_leaves_no_removal_to_the_next_one(small_fleet, kept, commit):
    payload = small_fleet.release()
    commit((small_fleet.topic("two"), payload))
    release = validate_one(small_fleet.topic(), payload, small_fleet.rules)
    assert isinstance(release, Accepted)

    def fail() -> None:
        with kept.batch():
            kept.add(release, 1)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    commit((small_fleet.topic(), small_fleet.release(sequence=2)))
    assert rows(small_fleet.database, "SELECT payload FROM quarantine") == [(payload,)]
    assert rows(small_fleet.database, "SELECT count(*) FROM totals") == [(1,)]


def test_a_stale_will_does_not_take_a_device_offline(small_fleet, commit):
    topic = topics.status(small_fleet.fleet, "one")

    def state():
        return rows(small_fleet.database, "SELECT state, session, since FROM devices")

    commit((topic, Status("online", "s1", {}).encode()), at=1)
    commit((topic, Status("online", "s2", {}).encode()), at=2)
    commit((topic, Status("offline", "s1", {}).encode()), at=3)
    assert state() == [("online", "s2", 2)]
    commit((topic, Status("online", "s2", {}).encode()), at=4)
    assert state() == [("online", "s2", 2)]
    commit((topic, Status("offline", "s2", {}).encode()), at=5)
    assert state() == [("offline", "s2", 5)]


def test_the_table_of_devices_is_bounded(small_fleet, commit, monkeypatch):
    monkeypatch.setattr(device_reports, "MAX_DEVICES", 2)
    birth = Status("online", "s1", {}).encode()
    names = ["one", "two", "three", "one"]
    outcomes = commit(*((topics.status(small_fleet.fleet, name), birth) for name in names))
    assert [type(v) for v in outcomes] == [DeviceStatus, DeviceStatus, Rejected, DeviceStatus]
    with changing(small_fleet.database) as other:
        other.execute("DELETE FROM devices WHERE device = 'one'")
    (outcome,) = commit((topics.status(small_fleet.fleet, "three"), birth))
    assert type(outcome) is DeviceStatus, "another process made room"


def test_a_second_server_of_one_database_is_refused(small_fleet, kept):
    with (
        pytest.raises(CommandError, match="another collector is serving"),
        store.opened(small_fleet.database),
    ):
        pytest.fail("two servers")


def test_a_reader_sees_only_what_is_committed_and_cannot_write(small_fleet, kept, commit):
    release = commit((small_fleet.topic(), small_fleet.release()))[0]
    two = Accepted(
        WindowId("two", "air", 1, 0, 1), release.fingerprint, release.digest, release.payload
    )
    with kept.batch():
        kept.add(two, 1)
        with reading(small_fleet.database) as reader:
            assert [r.device for r in reader.releases(AIR)] == ["one"]
    with reading(small_fleet.database) as reader:
        before = len(reader.holdings())
        commit((small_fleet.topic("three"), small_fleet.release("three")))
        assert len(reader.holdings()) == before == 2
    with closing(open_reading(small_fleet.database)) as connection, pytest.raises(sqlite3.Error):
        connection.execute("DELETE FROM releases")


def test_a_database_survives_being_closed_and_opened(small_fleet, arrive):
    for sequence in (1, 2):
        with store.opened(small_fleet.database) as opened:
            message = arrive(small_fleet.topic(), small_fleet.release(sequence=sequence))
            commit_batch(opened, [message], small_fleet.rules, 1_000_000_001)
    with reading(small_fleet.database) as reader:
        assert [r.sequence for r in reader.releases(AIR)] == [1, 2]


def changed(path):
    with changing(path):
        raise AssertionError


@pytest.mark.parametrize("opening", [open_writing, open_reading, changed])
@pytest.mark.parametrize("kind", ["text", "foreign", "folder"])
def test_what_is_no_collector_database_is_refused_and_left_alone(tmp_path, opening, kind):
    path = tmp_path / "x.sqlite"
    if kind == "text":
        path.write_text("not a database, but a text that is long enough " * 50)
    elif kind == "folder":
        path.mkdir()
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE mine (x)")
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(CommandError) as caught:
        opening(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize("opening", [open_writing, open_reading, changed])
@pytest.mark.parametrize("found", [-1, 1, 2, 3, 9, 10])
def test_a_database_of_another_schema_is_rejected_with_a_single_line(small_fleet, opening, found):
    open_writing(small_fleet.database).close()
    with closing(sqlite3.connect(small_fleet.database)) as connection:
        connection.execute(f"PRAGMA user_version = {found}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = small_fleet.database.read_bytes()
    with pytest.raises(CommandError) as caught:
        opening(small_fleet.database)
    problem = f"has schema {found}, and this program reads schema 8: use the version"
    assert str(caught.value).startswith(f"{small_fleet.database} {problem}")
    assert "\n" not in str(caught.value)
    assert small_fleet.database.read_bytes() == before


def test_a_damaged_database_is_refused_at_the_start(small_fleet, arrive):
    with store.opened(small_fleet.database) as opened:
        messages = [
            arrive(small_fleet.topic(), small_fleet.release(sequence=n)) for n in range(1, 80)
        ]
        commit_batch(opened, messages, small_fleet.rules, 1_000_000_001)
    data = bytearray(small_fleet.database.read_bytes())
    assert len(data) > 4 * 4096
    for page in range(1, len(data) // 4096):
        data[page * 4096 : page * 4096 + 100] = b"\xa5" * 100
    small_fleet.database.write_bytes(data)
    opening = store.opened(small_fleet.database)
    with pytest.raises(CommandError, match=r"damaged|malformed"):
        opening.__enter__()


def test_a_new_database_and_what_is_beside_it_are_private(small_fleet):
    """With any umask; also the files of the write-ahead log."""
    before = os.umask(0)
    try:
        with store.opened(small_fleet.database):
            made = sorted(small_fleet.database.parent.glob(f"{small_fleet.database.name}*"))
            assert len(made) == 4
            assert {path.stat().st_mode & 0o777 for path in made} == {0o600}
    finally:
        os.umask(before)
