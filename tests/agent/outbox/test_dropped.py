"""An outbox counts what it drops, even with a crash or a full disk in between."""

import errno
import resource
import subprocess
import sys

import pytest

from pansketch_agent.host.durable_files import replace_file
from pansketch_agent.outbox.dead_letters import dropped_in
from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_fleet.settings.profiles import OutboxRules
from tests.waiting import SECONDS

SMALL, CRASH = 4096, 9
OLDEST_GOES = OutboxRules(policy="drop_oldest")

# The process ends in the middle of a drop, once the given function is called for the second time.
CRASHING = """
import os, sys
from pathlib import Path
from pansketch_agent.outbox import outbox
from pansketch_fleet.settings.profiles import OutboxRules
name = sys.argv[2]
owner = outbox.DropCounter if name == "add" else outbox.Outbox
whole, calls = getattr(owner, name), []
def crashing(*arguments):
    calls.append(arguments)
    if len(calls) == 2:
        os._exit(9)
    return whole(*arguments)
setattr(owner, name, crashing)
box = outbox.Outbox(Path(sys.argv[1]), 4096, OutboxRules(policy="drop_oldest"))
for sequence in range(1, 100):
    box.put(outbox.Key(sequence, "air"), bytes([sequence]) * 400)
    print(sequence, flush=True)
"""


@pytest.fixture
def small_files():
    """Files of this process cannot grow beyond a limit, as on a disk that is full there."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda max_bytes: resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("where", ["add", "_remove"])
def test_a_crash_in_the_middle_of_a_drop_loses_nothing_uncounted(tmp_path, where):
    """Every release is in the outbox after the crash, or is counted as dropped."""
    done = subprocess.run(
        [sys.executable, "-c", CRASHING, str(tmp_path), where],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == CRASH, done.stderr
    put = {int(word) for word in done.stdout.split()}
    waiting = {key.sequence for key in Outbox(tmp_path, SMALL, OLDEST_GOES).queued()}
    assert len(put) > 3
    assert len(put - waiting) <= dropped_in(tmp_path) <= len(put - waiting) + 1
    assert put - waiting == {1}, "the second one to go is there still"


def test_drops_on_a_full_disk_are_counted_when_there_is_space(tmp_path, small_files):
    box = Outbox(tmp_path, 2**20)
    box.put(Key(1, "air"), bytes(400))
    small_files(0)
    for sequence in (2, 3):
        with pytest.raises(OSError, match=r"."):
            box.put(Key(sequence, "air"), bytes(400))
    assert (box.dropped, dropped_in(tmp_path)) == (2, 0)
    small_files(resource.RLIM_INFINITY)
    box.put(Key(4, "air"), bytes(400))
    assert dropped_in(tmp_path) == 2
    assert [key.sequence for key in Outbox(tmp_path, 2**20).queued()] == [1, 4]


def test_drops_on_a_full_disk_are_counted_at_the_end_at_the_latest(tmp_path, small_files):
    box = Outbox(tmp_path, 2**20)
    small_files(0)
    with pytest.raises(OSError, match=r"."):
        box.put(Key(1, "air"), bytes(400))
    small_files(resource.RLIM_INFINITY)
    box.close()
    assert Outbox(tmp_path, 2**20).dropped == 1


def test_a_file_that_cannot_be_written_is_named(tmp_path, small_files):
    small_files(0)
    with pytest.raises(OSError, match=r".") as refused:
        replace_file(tmp_path / "file", b"content")
    small_files(resource.RLIM_INFINITY)
    assert (refused.value.errno, refused.value.filename) == (errno.EFBIG, str(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []
