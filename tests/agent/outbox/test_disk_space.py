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
    """Lets the disk refuse more than DISK_BYTES, with this error number."""
    append = SegmentFiles.append

    def refuses_with(number_of_error):
        def limited(self, number, record, *, durable):
            used = sum(path.stat().st_size for path in tmp_path.glob("*.segment"))
            if used + len(record) > DISK_BYTES:
                raise OSError(number_of_error, os.strerror(number_of_error))
            return append(self, number, record, durable=durable)

        monkeypatch.setattr(SegmentFiles, "append", limited)

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
    disk(error)
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
