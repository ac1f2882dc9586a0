"""`pansketch-agent sources`: the sensors of this host, and the configuration line of each.

The list states whether a sensor is readable, never its value. Addresses that other programs of this
host can send to follow the sensors.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from math import isnan
from pathlib import Path

from pansketch_agent.host.clock import system_clock
from pansketch_agent.sources import http_push, metrics_page
from pansketch_agent.sources.sensors import host_metrics, hwmon, iio, onewire
from pansketch_agent.sources.sensors.registry import MEASURES
from pansketch_fleet.errors import one_line
from pansketch_fleet.sections.sources.metrics import page_address
from pansketch_fleet.settings.sources import (
    MetricSeries,
    PageAddress,
    SensorKind,
)

MAX_SERIES = 10_000
NOTHING = "this host has no sensor that can be listed"


@dataclass(frozen=True)
class Sensor:
    """A sensor. `kind`: the type of its source. `unit`: of its values, empty if unknown."""

    kind: str
    place: str
    unit: str
    readable: bool
    yaml: str


def sensors(root: Path) -> list[Sensor]:
    """Return all sensors, by kind and place. `root`: the folder with proc/ and sys/."""
    return [
        *(_sensor("iio", f"{dev}/{name}", name, unit, root) for dev, name, unit in _iio(root)),
        *(
            _sensor("hwmon", f"{chip}/{name}", name, unit, root)
            for chip, name, unit in _chips(root)
        ),
        *(_sensor("w1", place, "temp", onewire.UNIT, root) for place in onewire.devices(root)),
        *_lines(root),
        *_system(root),
    ]


def senders() -> list[Sensor]:
    """Return addresses for programs of this host; readable if no other program has the port."""
    place = f"{http_push.HOST}:{http_push.PORT}"
    free = http_push.listener_of(http_push.PORT) != "another"
    return [Sensor("http", place, "", free, f"source: {{type: http, port: {http_push.PORT}}}")]


def page(text: str) -> list[Sensor]:
    """Return the series of a page of metrics, each once. Raises ValueError, one line.

    A series that the page has twice is not readable: the agent takes neither.
    """
    address = page_address(text)
    try:
        found = [*islice(metrics_page.list_series(address, system_clock()), MAX_SERIES)]
    except metrics_page.PageError as error:
        raise ValueError(f"cannot be read ({error}); check the address") from None
    if not found:
        raise ValueError("has no series; name a page of metrics")
    times = Counter(str(each) for each, _ in found)
    listed = {str(each): (each, readable) for each, readable in found}
    return [
        _series(address, each, readable and times[text] == 1)
        for text, (each, readable) in listed.items()
    ]


def _series(address: PageAddress, series: MetricSeries, readable: bool) -> Sensor:
    place = one_line(str(series))
    quoted = place.replace("'", "''")
    line = f"url: \"{address}\", metrics: {{value: '{quoted}'}}"
    return Sensor("prometheus", place, "", readable, f"source: {{type: prometheus, {line}}}")


def as_rows(found: Sequence[Sensor]) -> list[tuple[str, str, str, str]]:
    return [
        (sensor.place, sensor.unit or "-", "ok" if sensor.readable else "no data", sensor.yaml)
        for sensor in found
    ] or [(NOTHING, "", "", "")]


def as_json(found: Sequence[Sensor]) -> str:
    return json.dumps([asdict(sensor) for sensor in found], ensure_ascii=False)


def _iio(root: Path) -> Iterator[tuple[str, str, str]]:
    yield from dict.fromkeys(iio.channels(root))


def _chips(root: Path) -> Iterator[tuple[str, str, str]]:
    yield from dict.fromkeys(hwmon.inputs(root))


def _sensor(kind: SensorKind, place: str, name: str, unit: str, root: Path) -> Sensor:
    attribute = re.sub(r"\W", "_", name)
    line = f"source: {{type: {kind}, interval: 10s, sensors: {{{attribute}: {place}}}}}"
    return Sensor(kind, place, unit, not isnan(MEASURES[kind](place, root)), line)


def _lines(root: Path) -> Iterator[Sensor]:
    """Yield the serial ports, which may connect Modbus devices."""
    for port in sorted((root / "dev/serial/by-id").glob("*")):
        place = one_line(f"/dev/serial/by-id/{port.name}")
        line = f"type: modbus, url: 'rtu:{place}', registers: {{value: {{address: 0}}}}"
        yield Sensor("modbus", place, "", os.access(port, os.R_OK | os.W_OK), f"source: {{{line}}}")


def _system(root: Path) -> Iterator[Sensor]:
    for name in host_metrics.SENSORS:
        if not isnan(host_metrics.measure(name, root)):
            line = f"source: {{type: system, interval: 10s}}  # attribute {name}"
            yield Sensor("system", name, host_metrics.UNITS[name], True, line)
