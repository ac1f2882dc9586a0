"""The outbox: in order, bounded, nothing lost that fits, every loss counted, and no card worn."""

import tracemalloc

import pytest

from pansketch_agent.commands.list_outbox import releases_in
from pansketch_agent.host.durable_files import UNFINISHED
from pansketch_agent.outbox.backlog import largest_release
from pansketch_agent.outbox.dead_letters import count_dead_letters, refused_dropped_in, refused_in
from pansketch_agent.outbox.outbox import Key, Outbox, OutboxFullError
from pansketch_agent.outbox.records import cost
from pansketch_agent.outbox.write_behind import BUFFER_SECONDS
from pansketch_fleet.settings.profiles import OutboxRules

DROPPING = OutboxRules(policy="drop_oldest")
PATIENT = OutboxRules(persist="when_unacknowledged")


def key(sequence, stream="air"):
    return Key(sequence, stream)


def disk_bytes(folder):
    return sum(path.stat().st_size for path in folder.glob("*.segment*"))


def room_for(count, size_bytes):
    """The least capacity, a segment of which is smaller than a release, for so many releases."""
    wanted = count * cost(size_bytes)
    return next(n for n in range(wanted, 2 * wanted) if n - n // 16 >= wanted)


@pytest.fixture
def config(device):
    return device.configure()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "outbox"


@pytest.mark.parametrize("capacity", [room_for(4, 3000), 10**6])
def test_what_was_put_is_there_after_a_restart_in_order(config, release_of, folder, capacity):
    outbox = Outbox(folder, capacity)
    payloads = {number: release_of(config, number) for number in (1, 2, 11)}
    for number, payload in payloads.items():
        outbox.put(key(number), payload)
    again = Outbox(folder, capacity)
    assert again.queued() == [key(1), key(2), key(11)]
    assert [again.read(key(number)) for number in payloads] == list(payloads.values())
    again.forget(key(2))
    assert Outbox(folder, capacity).queued() == [key(1), key(11)]
    assert Outbox(folder, capacity).read(key(11)) == payloads[11]


def test_it_takes_nothing_new_when_it_is_full(folder):
    outbox = Outbox(folder, room_for(2, 1000))
    outbox.put(key(1), bytes(1000))
    outbox.put(key(2), bytes(1000))
    assert not outbox.has_room(1000)
    with pytest.raises(OutboxFullError):
        outbox.put(key(3), bytes(1000))
    assert outbox.queued() == [key(1), key(2)]
    assert outbox.dropped == Outbox(folder, room_for(2, 1000)).dropped == 1
    outbox.forget(key(1))
    outbox.put(key(3), bytes(1000))
    assert outbox.queued() == [key(2), key(3)]


def test_it_drops_its_oldest_when_it_is_configured_to(folder, caplog):
    capacity = room_for(20, 1000)
    outbox = Outbox(folder, capacity, DROPPING)
    for number in range(1, 101):
        outbox.put(key(number, "air" if number % 2 else "water"), bytes([number]) * 1000)
        assert disk_bytes(folder) <= capacity
    assert outbox.dropped == Outbox(folder, capacity, DROPPING).dropped == 80
    assert [k.sequence for k in Outbox(folder, capacity).queued()] == list(range(81, 101))
    assert outbox.read(key(90, "water")) == bytes([90]) * 1000
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 80
    assert said[-1] == (
        "the outbox is full: release 80 of water, the oldest, is dropped (dropped so far: 80)"
    )


def test_a_release_that_never_fits_drops_nothing_for_good(folder):
    outbox = Outbox(folder, 10_000)
    assert not outbox.has_room(largest_release(10_000) + 1)
    outbox.put(key(1), bytes(largest_release(10_000)))
    with pytest.raises(OutboxFullError):
        outbox.put(key(2), b"")
    with pytest.raises(OutboxFullError):
        Outbox(folder, 10_000, DROPPING).put(key(2), bytes(10_000))


@pytest.mark.parametrize("policy", ["reject_new", "drop_oldest"])
def test_the_disk_use_is_bounded_and_shrinks_after_any_acknowledgements(folder, policy):
    """Every 29th release is never acknowledged, so it stays in the middle of its segment."""
    capacity = 400_000
    outbox = Outbox(folder, capacity, OutboxRules(policy=policy))
    waiting = []
    for number in range(1, 1201):
        outbox.put(key(number), bytes([number % 251]) * (100 + number % 1900))
        waiting.append(number)
        if len(waiting) > 60:
            gone = next(n for n in waiting if n % 29)
            waiting.remove(gone)
            outbox.forget(key(gone))
        assert disk_bytes(folder) <= capacity
    assert [k.sequence for k in Outbox(folder, capacity).queued()] == waiting
    assert outbox.dropped == 0
    for number in waiting:
        assert outbox.read(key(number)) == bytes([number % 251]) * (100 + number % 1900)
        outbox.forget(key(number))
    outbox.close()
    assert list(folder.iterdir()) == []


def test_one_write_a_window_and_few_files(config, release_of, folder, monkeypatch):
    """Writes of the card: one sync for a release, one more for each new segment's name."""
    synced = []
    monkeypatch.setattr(
        "pansketch_agent.outbox.segment_files.os.fdatasync", lambda handle: synced.append("data")
    )
    monkeypatch.setattr(
        "pansketch_agent.outbox.segment_files.sync_folder", lambda folder: synced.append("folder")
    )
    outbox, payload = Outbox(folder, 10**6), release_of(config, 1)
    for number in range(1, 201):
        outbox.put(key(number), payload)
        outbox.forget(key(number))
    assert synced.count("data") == 200
    segments = 200 * cost(len(payload)) // (10**6 // 16) + 1
    assert synced.count("folder") <= 2 * segments
    assert disk_bytes(folder) <= 10**6 // 16 + cost(len(payload))


def test_a_thousand_windows_offline_take_little_memory(folder):
    """Names and positions of queued releases, not their bytes: four times the limit."""
    outbox = Outbox(folder, 64 * 2**20)
    tracemalloc.start()
    for number in range(1, 1001):
        outbox.put(key(number), bytes([number % 251]) * 4000)
    ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/agent/*")])
    tracemalloc.stop()
    assert len(outbox) == 1000
    assert sum(found.size for found in ours.statistics("filename")) < 10**6


def test_unfinished_files_are_removed_and_strange_ones_left_alone(folder):
    folder.mkdir()
    (folder / f"00000001.segment{UNFINISHED}").write_bytes(b"half")
    (folder / "notes.txt").write_text("mine")
    outbox = Outbox(folder, 10**6)
    outbox.close()
    assert outbox.queued() == []
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_refused_releases_take_a_quarter_of_the_outbox_and_more_is_counted(folder, caplog):
    outbox, most = Outbox(folder, 100 * 4096), 25
    for number in range(1, most + 10):
        outbox.put(key(number), b"x%d" % number)
        outbox.refuse(key(number))
    kept = refused_in(folder)
    assert [path.name for path in kept] == [key(number).filename for number in range(10, most + 10)]
    assert kept[-1].read_bytes() == b"x%d" % (most + 9)
    assert len(outbox) == 0
    assert refused_dropped_in(folder) == 9
    assert sum("is removed: refused releases take" in line for line in caplog.messages) == 9


def test_a_refused_release_that_the_disk_does_not_take_stays_where_it_is(folder):
    outbox = Outbox(folder, 10**6)
    outbox.put(key(1), b"1")
    (folder / "refused").write_bytes(b"no folder")
    with pytest.raises(OSError, match="refused"):
        outbox.refuse(key(1))
    assert outbox.read(key(1)) == b"1"


def test_refused_releases_come_back_as_far_as_there_is_room(folder, config, release_of):
    payloads = {number: release_of(config, number) for number in range(1, 6)}
    outbox = Outbox(folder, 10**6)
    for number, payload in payloads.items():
        outbox.put(key(number), payload)
        outbox.refuse(key(number))
    outbox.close()
    small = Outbox(folder, 4 * cost(max(map(len, payloads.values()))))
    assert small.requeue_refused() == 3
    assert {k: small.read(k) for k in small.queued()} == {key(n): payloads[n] for n in (1, 2, 3)}
    assert [path.name for path in refused_in(folder)] == [key(4).filename, key(5).filename]
    again = Outbox(folder, 10**6)
    assert (again.requeue_refused(), again.requeue_refused()) == (2, 0)
    assert [again.read(key(number)) for number in payloads] == list(payloads.values())


def test_write_behind_writes_only_what_is_not_acknowledged_in_time(folder):
    outbox = Outbox(folder, 10**6, PATIENT)
    for number in (1, 2, 3):
        outbox.put(key(number), b"%d" % number)
    outbox.persist_overdue(100.0)
    outbox.forget(key(2))
    outbox.persist_overdue(100.0 + BUFFER_SECONDS / 2)
    outbox.put(key(4), b"4")
    assert list(releases_in(folder)) == []
    assert [outbox.read(k) for k in outbox.queued()] == [b"1", b"3", b"4"]
    outbox.persist_overdue(100.0 + BUFFER_SECONDS)
    assert list(releases_in(folder)) == [(key(1), b"1"), (key(3), b"3")]
    outbox.close()
    assert Outbox(folder, 10**6).queued() == [key(1), key(3), key(4)]


def test_write_behind_holds_no_more_than_it_may(folder, monkeypatch):
    monkeypatch.setattr("pansketch_agent.outbox.write_behind.MAX_BUFFERED_BYTES", 250)
    outbox = Outbox(folder, 10**6, PATIENT)
    for number in (1, 2, 3):
        outbox.put(key(number), bytes(100))
    assert [k for k, _ in releases_in(folder)] == [key(3)]
    assert outbox.queued() == [key(1), key(2), key(3)]


def test_what_is_held_when_the_disk_refuses_is_sent_and_at_the_end_it_is_counted(folder, caplog):
    """The folder is gone, as with a card that has failed."""
    outbox = Outbox(folder, 10**6, PATIENT)
    for number in (1, 2):
        outbox.put(key(number), b"%d" % number)
    folder.rmdir()
    for now in (100.0, 100.0 + BUFFER_SECONDS, 100.0 + 2 * BUFFER_SECONDS):
        outbox.persist_overdue(now)
    assert [outbox.read(k) for k in outbox.queued()] == [b"1", b"2"]
    assert (outbox.buffered, outbox.dropped) == (2, 0)
    outbox.forget(key(1))
    outbox.close()
    assert (outbox.queued(), outbox.buffered, outbox.dropped) == ([], 0, 1)
    early, last = [record.getMessage() for record in caplog.records]
    assert " cannot be written yet (" in early
    assert last.startswith("air: release 2 is dropped: the outbox cannot be written (")


def refused_before(folder, payloads):
    """Refused releases of an earlier run."""
    (folder / "refused").mkdir(parents=True)
    for number, payload in payloads.items():
        (folder / "refused" / key(number).filename).write_bytes(payload)


def test_of_refused_releases_the_damaged_ones_do_not_come_back(config, release_of, folder, caplog):
    payloads = {number: release_of(config, number) for number in range(1, 7)}
    wrong = {2: payloads[2][:-1], 4: b"", 5: payloads[6]}
    refused_before(folder, {**payloads, **wrong})
    outbox = Outbox(folder, 10**6)
    assert outbox.requeue_refused() == 3
    assert outbox.queued() == [key(1), key(3), key(6)]
    assert [outbox.read(key(n)) for n in (1, 3, 6)] == [payloads[n] for n in (1, 3, 6)]
    assert refused_in(folder) == []
    assert {path.name: path.read_bytes() for path in (folder / "refused/damaged").iterdir()} == {
        key(number).filename: content for number, content in wrong.items()
    }
    assert count_dead_letters(folder) == len(caplog.records) == 3
    assert Outbox(folder, 10**6).queued() == [key(1), key(3), key(6)]


def test_taking_back_that_was_cut_short_goes_on(config, release_of, folder, monkeypatch):
    payloads = {number: release_of(config, number) for number in (1, 2, 3)}
    refused_before(folder, payloads)
    monkeypatch.setattr("pansketch_agent.outbox.dead_letters.sync_folder", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Outbox(folder, 10**6).requeue_refused()
    # As if the removal of the first file had not reached the disk.
    (folder / "refused" / key(1).filename).write_bytes(payloads[1])
    monkeypatch.undo()
    outbox = Outbox(folder, 10**6)
    assert outbox.requeue_refused() == 2
    assert outbox.queued() == [key(1), key(2), key(3)]
    for number in (1, 2, 3):
        outbox.forget(key(number))
    outbox.close()
    assert Outbox(folder, 10**6).queued() == []


def test_the_order_of_two_streams_is_that_of_their_puts(folder):
    outbox = Outbox(folder, 10**6)
    for number, stream in ((7, "air"), (1, "water"), (8, "air"), (2, "water")):
        outbox.put(key(number, stream), b"x")
    expected = [(7, "air"), (1, "water"), (8, "air"), (2, "water")]
    assert [(k.sequence, k.stream) for k in outbox.queued()] == expected
    again = Outbox(folder, 10**6)
    assert again.queued() == outbox.queued()
    assert again.counts() == {"air": 2, "water": 2}
    assert again.oldest("air", 5, {key(7)}) == [key(8)]
    assert again.newer("water", 2, 5, ()) == [key(2, "water")]
    assert again.newer("water", 0, 1, ()) == [key(1, "water")]
    assert again.put_count == 4
