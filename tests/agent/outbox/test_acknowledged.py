"""Acknowledged releases are kept while there is room, and wait again for a restored collector."""

import errno
import os
from pathlib import Path

import pytest

from pansketch_agent.outbox.outbox import AGING_SECONDS, Key, Outbox
from pansketch_agent.outbox.segments import Segments
from pansketch_fleet.settings.profiles import OutboxRules

DAY = 86_400
RULES = OutboxRules(keep_seconds=7 * DAY)


def put(outbox, *numbers, size=100, at=None):
    for number in numbers:
        outbox.put(Key(number, "air"), bytes([number % 256]) * size)
        if at is not None:
            outbox.acknowledged(Key(number, "air"), at)


def test_what_is_acknowledged_does_not_wait_and_waits_again_when_asked(tmp_path):
    outbox = Outbox(tmp_path, 10**6, RULES)
    put(outbox, 1, 2, 3, at=DAY)
    put(outbox, 4)
    assert outbox.queued() == [Key(4, "air")]
    assert outbox.newest_kept_payloads() == {"air": bytes([3]) * 100}
    assert len(outbox.requeue(outbox.kept())) == 3
    assert sorted(outbox.queued()) == [Key(n, "air") for n in (1, 2, 3, 4)]
    assert outbox.read(Key(2, "air")) == bytes([2]) * 100
    assert len(outbox.requeue(outbox.kept())) == 0


def test_a_restart_knows_what_is_kept(tmp_path):
    outbox = Outbox(tmp_path, 10**6, RULES)
    put(outbox, 1, 2, at=DAY)
    put(outbox, 3)
    outbox.close()
    again = Outbox(tmp_path, 10**6, RULES)
    assert again.queued() == [Key(3, "air")]
    assert len(again.requeue(again.kept())) == 2
    assert again.read(Key(1, "air")) == bytes([1]) * 100


def test_a_requeued_release_stays_so_after_a_restart(tmp_path):
    """However the agent ends before the collector has acknowledged it once more."""
    outbox = Outbox(tmp_path, 10**6, RULES)
    put(outbox, 1, 2, at=DAY)
    put(outbox, 3)
    assert outbox.requeue([Key(1, "air")]) == [Key(1, "air")]
    assert Outbox(tmp_path, 10**6, RULES).queued() == [Key(3, "air")], "not noted yet"
    outbox.note_requeued()
    restarted = Outbox(tmp_path, 10**6, RULES)
    assert sorted(restarted.queued()) == [Key(1, "air"), Key(3, "air")]
    assert restarted.kept() == {Key(2, "air")}
    restarted.acknowledged(Key(1, "air"), 2 * DAY)
    last = Outbox(tmp_path, 10**6, RULES)
    assert last.queued() == [Key(3, "air")]
    assert last.kept() == {Key(1, "air"), Key(2, "air")}


@pytest.fixture
def acknowledged_on_a_full_disk(monkeypatch):
    """Acknowledge releases while the disk refuses the note."""

    def refuse(handle: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def acknowledge(outbox: Outbox, key: Key) -> None:
        with monkeypatch.context() as full:
            full.setattr("pansketch_agent.outbox.segment_files.os.write", refuse)
            outbox.acknowledged(key, DAY)

    return acknowledge


def test_it_also_does_where_a_full_disk_refused_the_note_of_the_acknowledgement(
    tmp_path, acknowledged_on_a_full_disk
):
    outbox = Outbox(tmp_path, 10**6, RULES)
    put(outbox, 1, 2)
    acknowledged_on_a_full_disk(outbox, Key(1, "air"))
    assert outbox.queued() == [Key(2, "air")]
    assert outbox.requeue(outbox.kept()) == [Key(1, "air")]
    outbox.note_requeued()
    restarted = Outbox(tmp_path, 10**6, RULES)
    assert sorted(restarted.queued()) == [Key(1, "air"), Key(2, "air")]
    restarted.acknowledged(Key(1, "air"), DAY)
    assert Outbox(tmp_path, 10**6, RULES).kept() == {Key(1, "air")}


def test_a_number_given_again_waits_again_with_its_new_bytes(tmp_path, acknowledged_on_a_full_disk):
    outbox = Outbox(tmp_path, 10**6, RULES)
    put(outbox, 1, at=DAY)
    outbox.forget_kept(lambda key: True)
    outbox.put(Key(1, "air"), b"new")
    acknowledged_on_a_full_disk(outbox, Key(1, "air"))
    outbox.requeue(outbox.kept())
    outbox.note_requeued()
    assert Outbox(tmp_path, 10**6, RULES).read(Key(1, "air")) == b"new"


def test_it_is_let_go_after_its_time(tmp_path):
    outbox = Outbox(tmp_path, 10**6, RULES)
    put(outbox, 1, at=DAY)
    put(outbox, 2, at=3 * DAY)
    put(outbox, 3, at=9 * DAY)
    assert len(outbox.requeue(outbox.kept())) == 2


def test_what_was_acknowledged_before_the_clock_was_set_ages_from_then_on(tmp_path):
    """A device that boots in 1970, labels its windows so, and is set 56 years forward."""
    outbox, now = Outbox(tmp_path, 10**6, RULES), 1_800_000_000
    put(outbox, 1, 2, at=100)
    put(outbox, 3, at=now)
    assert outbox.kept() == {Key(n, "air") for n in (1, 2, 3)}
    restarted = Outbox(tmp_path, 10**6, RULES)
    put(restarted, 4, at=now + 7 * DAY)
    assert restarted.kept() == {Key(n, "air") for n in (1, 2, 3, 4)}
    put(restarted, 5, at=now + 7 * DAY + AGING_SECONDS)
    assert restarted.kept() == {Key(n, "air") for n in (4, 5)}


def test_an_acknowledgement_does_not_read_the_times_of_all_kept_releases(tmp_path):
    """A backlog may be acknowledged at once, beside thousands of kept releases."""
    outbox, passes = Outbox(tmp_path, 10**6, RULES), []
    expire = outbox._segments.expire
    outbox._segments.expire = lambda before: (passes.append(before), expire(before))
    for number in range(1, 101):
        put(outbox, number, at=DAY + number / 10)
    assert len(passes) == 1
    put(outbox, 101, at=DAY + AGING_SECONDS + 1)
    put(outbox, 102, at=100)  # The clock was set back.
    assert len(passes) == 3


def test_none_is_kept_where_the_rules_forbid_it(tmp_path):
    outbox = Outbox(tmp_path, 10**6, OutboxRules(keep_seconds=0))
    put(outbox, 1, 2, at=DAY)
    assert len(outbox.requeue(outbox.kept())) == 0
    outbox.close()
    assert not list(tmp_path.glob("*.segment"))


@pytest.mark.parametrize("size", [100, 1500])
def test_what_is_kept_yields_to_the_backlog_and_is_no_loss(tmp_path, size):
    capacity = 40_000
    outbox, plain = Outbox(tmp_path / "a", capacity, RULES), Outbox(tmp_path / "b", capacity)
    put(outbox, *range(1, 400), size=size, at=DAY)
    assert outbox.dropped == 0
    number = 1000
    while plain.has_room(size):
        put(plain, number, size=size)
        assert outbox.has_room(size)
        put(outbox, number, size=size)
        number += 1
    assert outbox.dropped == 0
    assert len(outbox) == len(plain)
    used = sum(path.stat().st_size for path in (tmp_path / "a").glob("*.segment"))
    assert used <= capacity


def test_keeping_writes_no_segment_again(tmp_path, monkeypatch):
    """The card is written no more often than without."""
    outbox = Outbox(tmp_path, 40_000, RULES)
    rewritten = []
    monkeypatch.setattr(
        "pansketch_agent.outbox.segment_files.replace_file",
        lambda path, content: rewritten.append(path),
    )
    put(outbox, *range(1, 1000), at=DAY)
    assert rewritten == []
    assert len(outbox.requeue(outbox.kept())) > 10


def test_what_a_lost_ledger_had_numbered_gives_way_to_new_releases(tmp_path):
    """A sequence number that is given again must name the new release, also after a restart."""
    outbox = Outbox(tmp_path, 10**6, RULES)
    put(outbox, 1, 2, 3, at=DAY)
    outbox.forget_kept(lambda key: key.sequence > 1)
    assert outbox.kept() == {Key(1, "air")}
    outbox.put(Key(2, "air"), b"new")
    assert outbox.read(Key(2, "air")) == b"new"
    again = Outbox(tmp_path, 10**6, RULES)
    assert again.kept() == {Key(1, "air")}
    assert again.queued() == [Key(2, "air")]
    assert again.read(Key(2, "air")) == b"new"


def test_a_power_cut_brings_back_no_release_whose_number_names_another(tmp_path, monkeypatch):
    """Of each segment only what was synced survives. The control is what `forget` notes."""
    synced = {}

    def sync(handle):
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        synced[path] = path.stat().st_size

    monkeypatch.setattr("pansketch_agent.outbox.segment_files.os.fdatasync", sync)

    def power_cut():
        for path, size in synced.items():
            if path.exists():
                os.truncate(path, size)
        return Outbox(tmp_path, 10**6, RULES)

    outbox = Outbox(tmp_path, 10**6, RULES)
    put(outbox, 1, 2, 3, at=DAY)
    put(outbox, 4)  # It waits, so that the segment stays.
    outbox.forget_kept(lambda key: True)
    outbox.forget(Key(4, "air"))
    again = power_cut()
    assert again.kept() == set()
    assert again.queued() == [Key(4, "air")]


def test_what_the_disk_does_not_release_stays(tmp_path, monkeypatch):
    outbox = Outbox(tmp_path, 10**6, RULES)
    put(outbox, 1, at=DAY)

    def refuse(handle: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pansketch_agent.outbox.segment_files.os.write", refuse)
    with pytest.raises(OSError, match="No space left"):
        outbox.forget_kept(lambda key: True)
    assert outbox.kept() == {Key(1, "air")}


def test_a_segment_that_is_written_again_still_names_what_was_acknowledged(tmp_path):
    """At capacity, where what is forgotten gives way: also after a restart, twice."""
    outbox = Outbox(tmp_path, 40_000, RULES)
    put(outbox, 1, 2, size=300, at=DAY)
    assert outbox.requeue({Key(1, "air"), Key(2, "air")}) == [Key(1, "air"), Key(2, "air")]
    outbox.note_requeued()
    for number in range(3, 400):
        put(outbox, number, size=300)
        if number % 3:
            outbox.forget(Key(number, "air"))
        while not outbox.has_room(300):
            outbox.forget(outbox.queued()[2])
    assert b"\x02" * 300 in (tmp_path / "00000001.segment").read_bytes()
    for _ in range(2):
        outbox = Outbox(tmp_path, 40_000, RULES)
        assert outbox.requeued() == {Key(1, "air"), Key(2, "air")}
        assert outbox.read(Key(2, "air")) == bytes([2]) * 300
        for number in range(1000, 1010):
            while not outbox.has_room(300):
                outbox.forget(outbox.queued()[-1])
            put(outbox, number, size=300)
    outbox.acknowledged(Key(1, "air"), DAY)
    assert Outbox(tmp_path, 40_000, RULES).requeued() == {Key(2, "air")}


def test_writing_again_ends_where_notes_take_the_room(tmp_path):
    segments = Segments(tmp_path, 10**6)
    keys = [Key(number, "air") for number in range(1, 6)]
    for key in keys:
        segments.append(key, b"x" * 50)
        segments.keep(key, DAY)
    segments.requeue(keys)
    segments.note_requeued()
    segments.shrink(10)
    assert Segments(tmp_path, 10**6).requeued == segments.requeued == dict.fromkeys(keys, True)
    assert segments.disk_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.segment"))
    for key in keys:
        assert segments.read(key) == b"x" * 50
        segments.forget(key)
    segments.close()
    assert not list(tmp_path.glob("*.segment"))
