"""Hardware monitoring: chips first, and for a temperature the thermal zone of that name.

A sensor is CHIP or CHIP/INPUT. CHIP is the content of the chip's file `name`, or its folder
(`hwmon0`); INPUT defaults to temp1. The name of a zone is its `type`. Values are in whole units:
degC, V, A, W, J, %, and revolutions a minute.
"""

from collections.abc import Iterator
from math import nan
from pathlib import Path

from pansketch_agent.sources.sensors import sysfs

CHIPS, CHIP = "sys/class/hwmon", "hwmon"
ZONES, ZONE = "sys/class/thermal", "thermal_zone"
FIRST = "temp1"
# Documentation/hwmon/sysfs-interface of the Linux kernel: steps in a unit, and the unit.
KINDS = {
    "temp": (1000, "degC"),
    "in": (1000, "V"),
    "curr": (1000, "A"),
    "humidity": (1000, "%"),
    "power": (1_000_000, "W"),
    "energy": (1_000_000, "J"),
    "fan": (1, "rpm"),
    "freq": (1, "Hz"),
}


def measure(place: str, root: Path) -> float:
    """Return the input's current value; NaN if this host has none."""
    name, _, named = place.partition("/")
    sensor = named or FIRST
    steps, _ = KINDS[_kind(sensor)]
    found = [
        folder / f"{sensor}_input" for folder in sysfs.matching(root / CHIPS, CHIP, name, "name")
    ]
    if sensor == FIRST:
        found += [folder / "temp" for folder in sysfs.matching(root / ZONES, ZONE, name, "type")]
    for path in found:
        try:
            return sysfs.number(path) / steps
        except (OSError, ValueError):
            continue
    return nan


def inputs(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (chip, input, unit) of every input of this host; a zone is its own temp1."""
    seen = set()
    for folder in sysfs.folders(root / CHIPS, CHIP):
        chip = sysfs.label(folder / "name") or folder.name
        seen.add(chip.replace("-", "_"))
        for path in sorted(folder.glob("*_input")):
            sensor = path.name.removesuffix("_input")
            if _kind(sensor) in KINDS and _kind(sensor) != sensor:
                yield chip, sensor, KINDS[_kind(sensor)][1]
    for folder in sysfs.folders(root / ZONES, ZONE):
        zone = sysfs.label(folder / "type") or folder.name
        if zone.replace("-", "_") not in seen:
            yield zone, FIRST, KINDS["temp"][1]


def _kind(sensor: str) -> str:
    return sensor.rstrip("0123456789")
