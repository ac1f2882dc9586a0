"""A full disk: acknowledged releases give way to new ones, and queued ones stay."""

import errno
import os
from dataclasses import replace

import pytest

from pansketch_agent.outbox.outbox import Outbox
from pansketch_agent.outbox.records import Key
from pansketch_agent.outbox.segment_files import SegmentFiles
from pansketch_fleet.settings.profiles import DEFAULT_OUTBOX

PAYLOAD = bytes(1000)
CAPACITY_BYTES = 200_000  # far beyond the disk
DISK_BYTES = 40_000
NOW = 1_700_000_000.0


@pytest.fixture
def disk(monkeypatch, tmp_path):
    """Lets the disk refuse more than so many bytes, with this error number. `copies`: copies of
    segments always fit.
    """
    append, replace_segment = SegmentFiles.append, SegmentFiles.replace

    def refuses_with(number_of_error, disk_bytes=DISK_BYTES, copies=False):
        def claim(size):
            used = sum(path.stat().st_size for path in tmp_path.glob("*.segment"))
            if used + size > disk_bytes:
                raise OSError(number_of_error, os.strerror(number_of_error))

        def limited(self, number, record, *, durable):
            claim(len(record))
            return append(self, number, record, durable=durable)

        def limited_copy(self, number, content):
            claim(0 if copies else len(content))
            replace_segment(self, number, content)

        monkeypatch.setattr(SegmentFiles, "append", limited)
        monkeypatch.setattr(SegmentFiles, "replace", limited_copy)

    return refuses_with


def outbox_in(folder):
    return Outbox(folder, CAPACITY_BYTES, replace(DEFAULT_OUTBOX, keep_seconds=7 * 86400))


def put(outbox, sequence, *, acknowledged):
    """Put a release, and return whether the disk has taken it."""
    key = Key(sequence, "air")
    try:
        outbox.put(key, PAYLOAD)
    except OSError:
        return False
    if acknowledged:
        outbox.acknowledged(key, NOW)
    return True


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_acknowledged_releases_give_way_on_a_full_disk_and_queued_ones_stay(tmp_path, disk, error):
    disk(error, copies=True)
    outbox = outbox_in(tmp_path)
    assert all(put(outbox, number, acknowledged=number % 10 > 0) for number in range(1, 101))
    queued = [Key(number, "air") for number in range(10, 101, 10)]
    assert outbox.queued() == queued
    assert outbox.dropped == 0
    again = outbox_in(tmp_path)
    assert again.queued() == queued
    assert all(again.read(key) == PAYLOAD for key in queued)


@pytest.mark.parametrize(("error", "acknowledged"), [(errno.EIO, True), (errno.ENOSPC, False)])
def test_else_the_new_one_is_dropped_and_nothing_else(tmp_path, disk, error, acknowledged):
    """Acknowledged releases are no cure for a disk that fails, and queued ones never give way."""
    disk(error)
    outbox = outbox_in(tmp_path)
    taken = [n for n in range(1, 51) if put(outbox, n, acknowledged=acknowledged)]
    present = [*outbox.queued(), *sorted(outbox.kept())]
    assert present == [Key(number, "air") for number in taken]
    assert (30 < len(taken) < 50, outbox.dropped) == (True, 50 - len(taken))


@pytest.fixture
def lacked(tmp_path, disk):
    """Acknowledged releases as many as the disk takes, of which a restored collector lacks some.

    Returns a function of their share.
    """

    def requeue_share(share):
        outbox = outbox_in(tmp_path)
        assert all(put(outbox, number, acknowledged=True) for number in range(1, 36))
        disk(errno.ENOSPC, sum(path.stat().st_size for path in tmp_path.glob("*.segment")))
        keys = sorted(outbox.kept())
        return outbox, outbox.requeue(keys[: int(share * len(keys))])

    return requeue_share


def test_what_a_restored_collector_lacks_stays_on_a_full_disk(tmp_path, disk, lacked):
    """Not even the note that it is queued again fits, and nothing else can give way."""
    outbox, keys = lacked(1)
    assert len(keys) == 35
    with pytest.raises(OSError, match="No space left"):
        outbox.note_requeued()
    assert not any(put(outbox, number, acknowledged=False) for number in range(101, 111))
    assert outbox.queued() == keys
    assert all(outbox.read(key) == PAYLOAD for key in keys)
    assert outbox_in(tmp_path).kept() == set(keys), "the next mark asks for them again"
    disk(errno.ENOSPC)
    outbox.note_requeued()
    assert outbox_in(tmp_path).requeued() == set(outbox_in(tmp_path).queued()) == set(keys)


def test_what_it_has_gives_way_to_the_notes_of_what_it_lacks(tmp_path, lacked):
    outbox, keys = lacked(0.5)
    kept = outbox.kept()
    outbox.note_requeued()
    assert outbox.kept() < kept
    again = outbox_in(tmp_path)
    assert again.queued() == keys
    assert again.requeued() == set(keys)
    assert all(again.read(key) == PAYLOAD for key in keys)
