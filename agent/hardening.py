"""What the process asks of the system before any sketch exists: no dumps, no readers, no swap.

Each is asked for, and its answer is a finding: none is silently missing.
"""

import ctypes
import os
import resource
from contextlib import suppress
from pathlib import Path

from agent.finding import Finding

PR_GET_DUMPABLE, PR_SET_DUMPABLE = 3, 4
# On fault: what is touched is locked. Without it every mapping would become resident at once.
MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT = 1, 2, 4
CAP_IPC_LOCK = 14
STATUS, SWAPS = Path("/proc/self/status"), Path("/proc/swaps")


def apply() -> list[Finding]:
    """Hardens this process for good. Never raises: see the findings."""
    libc = ctypes.CDLL(None, use_errno=True)
    return [_no_core_dump(), _not_dumpable(libc), _locked_memory(libc)]


def _no_core_dump() -> Finding:
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (OSError, ValueError) as error:
        return Finding("core dumps", "refused", f"{error}; set LimitCORE=0 for the service")
    return Finding("core dumps", "ok", "off")


def _not_dumpable(libc: ctypes.CDLL) -> Finding:
    try:
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        done = libc.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0
    except AttributeError:
        done = False
    if not done:
        why = "the system has no such switch; let no other program run as this user"
        return Finding("memory access", "refused", why)
    return Finding("memory access", "ok", "not dumpable: only root may read this process")


def _locked_memory(libc: ctypes.CDLL) -> Finding:
    # Where the limit may be lifted it is, so that no later allocation can fail on it.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
    if not _may_lock_all():
        return _unlocked("the limit on locked memory is too low; set LimitMEMLOCK=infinity")
    try:
        failed = libc.mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)
    except AttributeError:
        return _unlocked("the system has no mlockall")
    if failed:
        return _unlocked(os.strerror(ctypes.get_errno()))
    return Finding("memory lock", "ok", "never written to swap")


def _may_lock_all() -> bool:
    """Whether no limit stands above; a finite one would make allocations fail in mid-run."""
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY:
        return True
    try:
        lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        return bool(int(lines["CapEff"], 16) >> CAP_IPC_LOCK & 1)
    except (OSError, LookupError, ValueError):
        return False


def _unlocked(why: str) -> Finding:
    swap = {
        True: "swap is on: the state may be written to it",
        False: "no swap is on: there is nowhere to write the state to",
        None: "whether swap is on is unknown",
    }[_swap_is_on()]
    return Finding("memory lock", "refused", f"{why} ({swap})")


def _swap_is_on() -> bool | None:
    try:
        return len(SWAPS.read_text().splitlines()) > 1
    except OSError:
        return None
