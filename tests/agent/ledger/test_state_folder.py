"""A state folder that others may have prepared: links, foreign owners, other processes' numbers."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from pansketch_agent.__main__ import main
from pansketch_agent.host.durable_files import UNFINISHED, replace_file
from pansketch_agent.ledger.ledger import Ledger, LedgerError
from pansketch_agent.ledger.state_folder import (
    ForeignStateError,
    check_own,
    lock_holder,
    signal_lock_holder,
)

COMMANDS = (["ledger"], ["rerandomise"], ["outbox", "list"], ["outbox", "retry"], ["check"])
# A process that holds the lock and names another one in it.
LIAR = """
import fcntl, sys, time
lock = open(sys.argv[1], "a+")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.truncate(0)
lock.write(sys.argv[2] + "\\n")
lock.flush()
print("held", flush=True)
time.sleep(600)
"""


@contextmanager
def lying(path, pid):
    with subprocess.Popen(
        [sys.executable, "-c", LIAR, str(path), str(pid)], stdout=subprocess.PIPE, text=True
    ) as liar:
        assert liar.stdout.readline() == "held\n"
        yield
        liar.kill()


@pytest.mark.parametrize("command", [*COMMANDS, ["run", "--drain", "0"], ["once"]])
def test_a_folder_that_others_may_write_to_is_refused_by_a_single_line(device, capfd, command):
    device.configure()
    device.state.mkdir(parents=True)
    device.state.chmod(0o777)
    assert main([*command, "--config", str(device.config)]) == 1
    said = "".join(capfd.readouterr())
    assert f"{device.state}: others may write there; chmod go-w {device.state}" in said
    assert list(device.state.iterdir()) == []


def test_a_link_to_a_folder_is_refused(device, tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    device.state.parent.mkdir(parents=True)
    device.state.symlink_to(tmp_path / "real")
    with pytest.raises(ForeignStateError, match="is a link, or no folder"):
        Ledger(device.state)
    assert list((tmp_path / "real").iterdir()) == []


def test_a_folder_of_another_user_is_refused(device, monkeypatch, capsys):
    """For root as for other users: the owner may have put anything there."""
    device.configure()
    device.state.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 4321)
    for command in COMMANDS[:-1]:
        assert main([*command, "--config", str(device.config)]) == 1
        err = capsys.readouterr().err
        assert "belongs to" in err
        assert "run it as its owner: runuser -u" in err
        assert err.count("\n") == 1
    with pytest.raises(ForeignStateError):
        Ledger(device.state)


def test_no_link_is_followed(tmp_path):
    """Neither one in the place of the lock, nor of the ledger, nor of any temporary name."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("lock", "ledger"):
        state = tmp_path / name
        with Ledger(state):
            pass
        (state / name).unlink()
        (state / name).symlink_to(victim)
        with pytest.raises(LedgerError):
            Ledger(state)
        assert victim.read_text() == "precious"
    state = tmp_path / "guessed"
    state.mkdir(mode=0o700)
    (state / f"ledger{UNFINISHED}").symlink_to(victim)
    with Ledger(state):
        assert victim.read_text() == "precious"
    assert (state / "ledger").stat().st_mode & 0o777 == 0o600


def test_an_unfinished_file_has_a_name_that_cannot_be_guessed(tmp_path, monkeypatch):
    names = []
    monkeypatch.setattr(os, "replace", lambda source, _: names.append(source))
    for _ in range(2):
        replace_file(tmp_path / "file", b"content")
    assert len(set(names)) == 2
    assert all(name.endswith(UNFINISHED) for name in names)


def test_what_a_power_cut_left_unfinished_is_removed(tmp_path):
    tmp_path.chmod(0o700)
    (tmp_path / f"ledger.x{UNFINISHED}").write_bytes(b"half")
    with Ledger(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {"ledger", "lock"}


def test_a_process_that_does_not_hold_the_lock_gets_no_signal(device, capsys):
    """The process with the lock may write anything into it."""
    device.configure()
    with Ledger(device.state):
        pass
    with subprocess.Popen(["sleep", "600"]) as bystander:
        with lying(device.state / "lock", bystander.pid):
            for command in COMMANDS[1:-1]:
                assert main([*command, "--config", str(device.config)]) == 1
                err = capsys.readouterr().err
                assert "the process that its lock names does not hold it" in err
                assert err.count("\n") == 1
        # One of the commands' signals would have ended it before this one.
        bystander.terminate()
        assert bystander.wait(60) == -signal.SIGTERM


def test_the_holder_gets_the_signal(tmp_path):
    state = tmp_path / "state"
    got = []
    before = signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
    try:
        assert signal_lock_holder(state, signal.SIGUSR1) is None
        with Ledger(state):
            assert lock_holder(state) == signal_lock_holder(state, signal.SIGUSR1) == os.getpid()
        assert signal_lock_holder(state, signal.SIGUSR1) is None
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert got == [1]
    check_own(state)
