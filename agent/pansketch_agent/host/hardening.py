"""Protection of this process's memory: no swap, no core dump, no reader, no idle freed blocks.

Swap: a page that was swapped out earlier in a window, beside memory now, is two snapshots of one
window. The difference is exact, and no guarantee covers it. Compressed memory (zram) is swap too.

Allocator: glibc raises the size from which it maps blocks one by one, up to 32 MiB, whenever a
large block is freed. A sketch's scratch then becomes resident as a whole, once for each stream.
Each thread has a heap of its own. The next texts of a source must overwrite the texts that it freed
in that heap, and other threads must not come first.
"""

import ctypes
import logging
import os
import resource
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pansketch_agent.host.check_result import CheckResult

# On fault: only touched pages are locked. Otherwise every mapping would become resident at once.
MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT = 1, 2, 4
CAP_IPC_LOCK = 14
PROCESS_STATUS = Path("/proc/self/status")
log = logging.getLogger(__name__)

SWAP_FIX = "set LimitMEMLOCK=infinity, forbid swap (MemorySwapMax=0), or turn it off"


class ExposedMemoryError(Exception):
    """The system may swap out memory although agent.require_locked_memory forbids it; one line."""


@dataclass(frozen=True)
class MemoryProtection:
    """The protection of this process's memory from swap.

    `refusal`: why memory is not locked, "" if it is. `root`: the folder with proc/ and sys/. Swap
    may be turned on and off, so each call reads its state.
    """

    refusal: str
    root: Path

    @property
    def protected(self) -> bool | None:
        """True if no swap can contain this memory; None if that is unknown."""
        if not self.refusal or _swap_is_forbidden(self.root):
            return True
        on = _swap_is_on(self.root)
        return None if on is None else not on

    def __str__(self) -> str:
        if not self.refusal:
            return "locked: never written to swap"
        if _swap_is_forbidden(self.root):
            return f"not locked ({self.refusal}), and its control group may use no swap"
        match _swap_is_on(self.root):
            case False:
                return f"not locked ({self.refusal}), and no swap is on"
            case True:
                swap = "swap is on"
            case None:
                swap = "whether swap is on is unknown"
        return (
            f"NOT locked ({self.refusal}) and {swap}: a copy of a sketch may stay in it, which no "
            f"guarantee covers; {SWAP_FIX}"
        )

    def finding(self, required: bool) -> CheckResult:
        """Return the result for `check`. `required`: agent.require_locked_memory."""
        if not self.refusal:
            return CheckResult("memory lock", "ok", str(self))
        wrong = required and not self.protected
        return CheckResult("memory lock", "wrong" if wrong else "refused", str(self))

    def demand(self) -> None:
        """Raise ExposedMemoryError unless no swap can contain this process's memory."""
        if not self.protected:
            raise ExposedMemoryError(
                f"agent.require_locked_memory is true and memory is {self}; nothing is released"
            )


def lock_memory(root: Path) -> MemoryProtection:
    """Lock all memory of this process, now and from now on. Never raises."""
    # Lift the limit where that is allowed, so that no later allocation can fail on it.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
    if not _may_lock_all():
        return MemoryProtection("the limit on locked memory is too low", root)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        failed = libc.mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)
    except AttributeError:
        return MemoryProtection("the system has no mlockall", root)
    return MemoryProtection(os.strerror(ctypes.get_errno()) if failed else "", root)


def _may_lock_all() -> bool:
    """Return whether there is no limit; with a finite one, allocations would fail during a run."""
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY:
        return True
    try:
        lines = dict(line.split(":", 1) for line in PROCESS_STATUS.read_text().splitlines())
        return bool(int(lines["CapEff"], 16) >> CAP_IPC_LOCK & 1)
    except (OSError, LookupError, ValueError):
        return False


def _swap_is_on(root: Path) -> bool | None:
    """Read the list of swap areas, or their size if a container hides the list."""
    with suppress(OSError, UnicodeDecodeError):
        return len((root / "proc/swaps").read_text().splitlines()) > 1
    with suppress(OSError, ValueError, LookupError):
        lines = dict(
            line.split(":", 1) for line in (root / "proc/meminfo").read_text().splitlines()
        )
        return int(lines["SwapTotal"].split()[0]) > 0
    return None


def _swap_is_forbidden(root: Path) -> bool:
    """Return whether a control group (version 2) of this process, or above it, allows no swap."""
    groups = root / "sys/fs/cgroup"
    with suppress(OSError, UnicodeDecodeError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            path = line.removeprefix("0::/")
            if path == line or ".." in path.split("/"):
                continue
            own = groups / path
            for group in (own, *own.parents):
                if not group.is_relative_to(groups):
                    break
                with suppress(OSError, UnicodeDecodeError):
                    if (group / "memory.swap.max").read_text().strip() == "0":
                        return True
    return False


PR_GET_DUMPABLE, PR_SET_DUMPABLE = 3, 4


def forbid_dumps() -> list[CheckResult]:
    """Forbid core dumps and readers of this process permanently. Never raises: see the results."""
    libc = ctypes.CDLL(None, use_errno=True)
    return [_no_core_dump(), _not_dumpable(libc)]


def _no_core_dump() -> CheckResult:
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (OSError, ValueError) as error:
        return CheckResult("core dumps", "refused", f"{error}; set LimitCORE=0 for the service")
    return CheckResult("core dumps", "ok", "off")


def _not_dumpable(libc: ctypes.CDLL) -> CheckResult:
    try:
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        done = libc.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0
    except AttributeError:
        done = False
    if not done:
        why = "the system has no such switch; let no other program run as this user"
        return CheckResult("memory access", "refused", why)
    return CheckResult("memory access", "ok", "not dumpable: only root may read this process")


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # <malloc.h>
LARGE_BLOCK_BYTES = 32 * 1024
SPARE_HEAP_BYTES = 128 * 1024  # A heap may keep so much at its end for later.


def warn_of(found: Sequence[CheckResult]) -> None:
    """Log once which protections the system refuses."""
    refused = [each for each in found if each.state != "ok"]
    if refused:
        what = "; ".join(f"{each.subject}: {each.text}" for each in refused)
        log.warning("running without protection of %s", what)


def tune_allocator() -> None:
    """Set the thresholds of glibc; call it before threads start. Other C libraries ignore it."""
    libc = ctypes.CDLL(None)
    with suppress(AttributeError):
        libc.mallopt(_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, SPARE_HEAP_BYTES)
