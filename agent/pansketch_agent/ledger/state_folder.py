"""The state folder: whose it is, which process holds it, and signals to that process alone.

A command may be run by root on the folder of another user, who may have put anything there: links
to root's files, or the process id of a program of root's. So such a folder is refused, and the
process id in the lock file counts only where the kernel says that this process holds the lock.
"""

import errno
import fcntl
import os
import pwd
import signal
import stat
from contextlib import suppress
from pathlib import Path

from pansketch_agent.host.durable_files import sync_folder
from pansketch_agent.ledger.accounts import LedgerError

LOCKS = Path("/proc/locks")


class ForeignStateError(LedgerError):
    """The state folder is not this user's alone, one line: why, and what to do."""


def check_own(state: Path) -> None:
    """Raises ForeignStateError for a folder that is a link, of another user, or writable for
    others; OSError when it cannot be looked at. One that is not there yet is fine."""
    try:
        found = os.lstat(state)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        raise ForeignStateError(f"{state}: is a link, or no folder; name the folder in agent.state")
    if found.st_uid != os.geteuid():
        owner = _name(found.st_uid)
        raise ForeignStateError(
            f"{state}: belongs to {owner}, and this runs as {_name(os.geteuid())}; "
            f"run it as its owner: runuser -u {owner} -- pansketch-agent ..."
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ForeignStateError(f"{state}: others may write there; chmod go-w {state}")


def hold(state: Path) -> int:
    """Locks the state folder for this process; a file descriptor, to be kept open. Raises
    LedgerError when another one has it, OSError."""
    path = state / "lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, b"%d\n" % os.getpid(), 0)
    except BlockingIOError:
        os.close(lock)
        raise LedgerError(
            f"{path}: another agent is running with this state; stop it, or give this one its own "
            "agent.state"
        ) from None
    except OSError:
        os.close(lock)
        raise
    sync_folder(state)
    return lock


def holder(state: Path) -> int | None:
    """The process id of the agent that runs with this state folder, None when none does.

    Raises OSError when the folder cannot be read, or the kernel names another process.
    """
    try:
        lock = os.open(state / "lock", os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with suppress(ValueError):
            named = int(os.pread(lock, 32, 0))
            if _locks(named, os.fstat(lock).st_ino):
                return named
        raise OSError(errno.ESRCH, "the process that its lock names does not hold it") from None
    finally:
        os.close(lock)
    return None


def signal_holder(state: Path, number: signal.Signals) -> int | None:
    """Sends a signal to the agent that runs with this state folder, and to no other process: its
    process id, None when none runs. Raises OSError as `holder` does."""
    agent = holder(state)
    if agent is None:
        return None
    with suppress(ProcessLookupError):
        process = os.pidfd_open(agent)
        try:
            # Still the holder: so the number was not given to another process meanwhile.
            if holder(state) == agent:
                signal.pidfd_send_signal(process, number)
                return agent
        finally:
            os.close(process)
    return None


def _locks(process: int, inode: int) -> bool:
    """Whether the kernel lists the process as the one that locks a file of this number.

    Devices are not compared: on some file systems (btrfs, overlayfs) the list has another one.
    """
    wanted = ["FLOCK", "ADVISORY", "WRITE", str(process), str(inode)]
    for line in LOCKS.read_text(encoding="ascii").splitlines():
        words = line.replace(":", " ").split()
        if [*words[1:5], *words[7:8]] == wanted:
            return True
    return False


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"#{user}"
