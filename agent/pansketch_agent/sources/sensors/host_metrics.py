"""The host's own sensors, read from /proc and /sys on a public tick.

A missing or unreadable sensor has no data: its reading is dropped. `root` is the folder with proc/
and sys/.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import nan
from pathlib import Path

from pansketch_agent.host.clock import Clock
from pansketch_agent.sources.polling import polled
from pansketch_agent.sources.readings import Readings, check_offered
from pansketch_agent.sources.sensors.registry import each_of
from pansketch_fleet.sections.time_slots import TimeSlots

CPU_CHIPS = ("cpu_thermal", "coretemp", "k10temp", "zenpower", "soc_thermal")


def check(names: Sequence[str]) -> None:
    """Raise NotOfferedError for an attribute that no host has."""
    check_offered(names, SENSORS, "the system source")


def readings(
    names: Sequence[str],
    interval_seconds: float,
    clock: Clock,
    stop: threading.Event,
    root: Path,
    slots: TimeSlots | None = None,
) -> Iterator[Readings]:
    """Yield one reading at every multiple of the interval on the wall clock, until `stop` is set.

    For a span: one reading a slot.
    """
    measures = [partial(measure, name, root) for name in names]
    return polled(each_of(measures), len(names), interval_seconds, clock, stop, slots)


def measure(name: str, root: Path) -> float:
    """Return the sensor's current value; NaN if this host has none."""
    try:
        return SENSORS[name](root)
    except (OSError, ValueError, LookupError, ZeroDivisionError):
        return nan


def _load(place: int) -> Callable[[Path], float]:
    return lambda root: float(_words(root / "proc/loadavg")[place])


def _used_percent(total: str, free: str) -> Callable[[Path], float]:
    def measured(root: Path) -> float:
        lines = (root / "proc/meminfo").read_text().splitlines()
        sizes = {words[0]: float(words[1]) for line in lines if len(words := line.split()) > 1}
        return 100 * (1 - sizes[free] / sizes[total])

    return measured


def _processes(root: Path) -> float:
    return float(_words(root / "proc/loadavg")[3].partition("/")[2])


def _uptime_hours(root: Path) -> float:
    return float(_words(root / "proc/uptime")[0]) / 3600


def _frequency_mhz(root: Path) -> float:
    return float(_words(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")[0]) / 1000


def _temperature(root: Path) -> float:
    """Return degrees Celsius: of a processor's chip first, then any chip, then a thermal zone."""
    chips = sorted((root / "sys/class/hwmon").glob("hwmon*"), key=_chip_order)
    inputs = [path for chip in chips for path in sorted(chip.glob("temp*_input"))]
    zones = sorted((root / "sys/class/thermal").glob("thermal_zone*/temp"))
    for path in (*inputs, *zones):
        try:
            return float(path.read_text()) / 1000
        except (OSError, ValueError):
            continue
    return nan


def _chip_order(chip: Path) -> tuple[bool, str]:
    try:
        return (chip / "name").read_text().strip() not in CPU_CHIPS, chip.name
    except (OSError, ValueError):
        return True, chip.name


def _words(path: Path) -> list[str]:
    return path.read_text().split()


SENSORS: dict[str, Callable[[Path], float]] = {
    "load1": _load(0),
    "load5": _load(1),
    "load15": _load(2),
    "memory_percent": _used_percent("MemTotal:", "MemAvailable:"),
    "swap_percent": _used_percent("SwapTotal:", "SwapFree:"),
    "temperature": _temperature,
    "uptime_hours": _uptime_hours,
    "processes": _processes,
    "frequency_mhz": _frequency_mhz,
}
UNITS = {
    "load1": "",
    "load5": "",
    "load15": "",
    "memory_percent": "%",
    "swap_percent": "%",
    "temperature": "degC",
    "uptime_hours": "h",
    "processes": "",
    "frequency_mhz": "MHz",
}
