"""CPU time and memory of processes of this machine, from /proc."""

import os
import time
from collections.abc import Mapping
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


def busy_seconds() -> float:
    """CPU seconds of all programs of this machine since its start, as proc(5) has them."""
    first = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0]
    user, nice, system, _idle, _waiting, *interrupts = map(int, first.split()[1:9])
    return (user + nice + system + sum(interrupts)) / TICKS


class Meter:
    """Time and CPU time from `start` to `stop`.

    Attributes:
        seconds: of the wall clock.
        spent: by name of the process: its CPU time meanwhile, and its peak of memory until then.
        other_cores: cores that all other programs of the machine kept busy meanwhile.
    """

    def __init__(self, processes: Mapping[str, int]) -> None:
        """`processes`: ids by name; one called "postgresql" counts with its children."""
        self._processes = processes
        self.seconds = self.other_cores = 0.0
        self.spent: dict[str, Usage] = {}
        self.start()

    def start(self) -> None:
        """Starts again from zero."""
        self._is_running, self._before, self._busy = True, self._used(), busy_seconds()
        self._started = time.monotonic()

    def stop(self) -> None:
        """Ends the measurement; a second call changes nothing."""
        if not self._is_running:
            return
        self._is_running, self.seconds = False, time.monotonic() - self._started
        for name, now in self._used().items():
            before = self._before.get(name, Usage(0.0, 0.0))
            self.spent[name] = Usage(now.cpu_seconds - before.cpu_seconds, now.peak_mib)
        own = sum(each.cpu_seconds for each in self.spent.values())
        self.other_cores = max(0.0, busy_seconds() - self._busy - own) / max(self.seconds, 1e-9)

    def _used(self) -> dict[str, Usage]:
        """Of the processes that run."""
        found = {}
        for name, pid in self._processes.items():
            with suppress(OSError):
                found[name] = family_usage(pid) if name == "postgresql" else usage(pid)
        return found


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
