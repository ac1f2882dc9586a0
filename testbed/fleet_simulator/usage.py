"""CPU time and memory of processes of this machine, from /proc."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
NAME, PARENT = 1, 3  # fields of /proc/PID/stat, see proc(5)
TIMES, ALL_TIMES = slice(13, 15), slice(13, 17)  # of the process; and of its ended children


@dataclass(frozen=True)
class Usage:
    """Of one process: CPU seconds, and the most MiB that it had in memory."""

    cpu_seconds: float
    peak_mib: float


def usage(pid: int) -> Usage:
    """Of a process that runs. Raises OSError."""
    times = _stat(pid)[TIMES]
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    peak = next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), 0)
    return Usage(sum(map(int, times)) / TICKS, peak / 1024)


def family_usage(pid: int) -> Usage:
    """Of a process and its children: their CPU seconds, and the most MiB of one of them. Raises
    OSError."""
    found = usage(pid)
    seconds, peak = sum(map(int, _stat(pid)[ALL_TIMES])) / TICKS, found.peak_mib
    for child in children(pid):
        with suppress(OSError):  # It has ended meanwhile.
            each = usage(child)
            seconds, peak = seconds + each.cpu_seconds, max(peak, each.peak_mib)
    return Usage(seconds, peak)


def resident(pid: int) -> float:
    """MiB of a process that are in memory."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


def name_of(pid: int) -> str:
    """The name of a process. Raises OSError."""
    return _stat(pid)[NAME]


def children(parent: int) -> list[int]:
    """The processes that this one has started, and that run."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # It has ended meanwhile.
                if int(_stat(int(folder.name))[PARENT]) == parent:
                    found.append(int(folder.name))
    return found


def _stat(pid: int) -> list[str]:
    """The fields of its stat file; the name may hold spaces and parentheses."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    number, _, rest = text.partition(" (")
    name, _, fields = rest.rpartition(") ")
    return [number, name, *fields.split()]
