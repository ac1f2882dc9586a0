"""A `source:` section of sensors: for each attribute its sensor on this host."""

import re
from typing import Any

from pansketch_fleet.settings.section import join, nearest, section
from pansketch_fleet.settings.source_schema import SensorsSection
from pansketch_fleet.settings.sources import (
    SensorKind,
    SensorSource,
)
from pansketch_fleet.units import seconds
from pansketch_fleet.yaml.document import Document
from pansketch_fleet.yaml.interpolation import has_reference

MIN_INTERVAL_SECONDS = 0.1
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.:@,+-]{0,79}"
# The pattern of a sensor's name, and an example.
PLACES: dict[SensorKind, tuple[str, str]] = {
    "iio": (rf"{_NAME}/{_NAME}", "DEVICE/CHANNEL, such as bme280/temp"),
    "hwmon": (
        rf"{_NAME}(/(temp|in|curr|power|energy|humidity|fan|freq)[0-9]{{1,3}})?",
        "CHIP or CHIP/INPUT, such as cpu_thermal/temp1",
    ),
    "w1": (r"[0-9a-f]{2}-[0-9a-f]{12}", "the id of a device, such as 28-0316a2798dff"),
}


def read_sensors(
    document: Document, where: str, raw: dict[str, Any], kind: SensorKind
) -> SensorSource:
    """Read the section. Raises ConfigError for an invalid sensor or interval."""
    given = section(document, where, raw, SensorsSection)
    pattern, example = PLACES[kind]
    for name, place in given.sensors.items():
        # Only the device resolves a reference that is left here.
        if not has_reference(place) and not re.fullmatch(pattern, place):
            problem = f"{place[:40]!r} is no sensor of {kind}; write {example}"
            raise document.error(join(join(where, "sensors"), name), problem)
    return SensorSource(kind, given.sensors, read_interval(document, where, given.interval))


def read_interval(document: Document, where: str, text: str) -> float:
    """Return the seconds between two public ticks. Raises ConfigError."""
    try:
        interval_seconds = seconds(text)
    except ValueError as error:
        raise document.error(join(where, "interval"), str(error)) from None
    if not MIN_INTERVAL_SECONDS <= interval_seconds <= 86400:
        problem = f"{text} is impossible; write 100ms to 1d, such as 10s"
        raise document.error(join(where, "interval"), problem)
    return interval_seconds


def check_places(
    document: Document, where: str, source: SensorSource, names: tuple[str, ...]
) -> None:
    """Raise ConfigError unless `sensors` has a sensor for each of the names, and no other."""
    place = join(where, "sensors")
    for name in source.sensors:
        if name not in names:
            problem = f"is no attribute of this stream; {nearest(name, names)}"
            raise document.error(join(place, name), problem)
    for name in names:
        if name not in source.sensors:
            fix = f"add {name}: {PLACES[source.kind][1]}"
            problem = f"has no sensor for the attribute {name}; {fix}"
            raise document.error(place, problem)
