"""The state folder: its owner, the process that holds its lock, and signals to that process.

Root may run a command on the folder of another user. That user may have put anything there: links
to root's files, or the process id of one of root's programs. So such a folder is refused. The
process id in the lock file counts only if the kernel reports that this process holds the lock.
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
    """Another user owns or can write the state folder. One line: why, and the fix."""


def check_own(state: Path) -> None:
    """Raise ForeignStateError for a folder that is a link, of another user, or writable for others.

    A folder that does not exist yet is accepted. Raises OSError when it cannot be examined.
    """
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


def lock_folder(state: Path) -> int:
    """Lock the state folder for this process, and return a file descriptor that must stay open.

    Raises LedgerError when another process has the lock, and OSError.
    """
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


def lock_holder(state: Path) -> int | None:
    """Return the process id of the agent that runs with this state folder, or None.

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


def signal_lock_holder(state: Path, number: signal.Signals) -> int | None:
    """Send a signal to the agent that runs with this state folder, and to no other process.

    Returns its process id, or None if no agent runs. Raises OSError as `lock_holder` does.
    """
    agent = lock_holder(state)
    if agent is None:
        return None
    with suppress(ProcessLookupError):
        process = os.pidfd_open(agent)
        try:
            # It still has the lock, so no other process has received its number meanwhile.
            if lock_holder(state) == agent:
                signal.pidfd_send_signal(process, number)
                return agent
        finally:
            os.close(process)
    return None


def _locks(process: int, inode: int) -> bool:
    """Return whether the kernel lists the process as the holder of a lock on this inode.

    Device numbers are not compared: on some file systems (btrfs, overlayfs) the list has another
    one.
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
