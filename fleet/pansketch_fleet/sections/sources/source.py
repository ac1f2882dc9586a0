"""A stream's `source:` section: the origin of its readings."""

from pathlib import Path
from typing import Any

from pansketch_fleet.sections.sources.json_paths import check_paths, read_exec, read_http
from pansketch_fleet.sections.sources.metrics import check_metrics, read_metrics
from pansketch_fleet.sections.sources.modbus import check_registers, read_modbus
from pansketch_fleet.sections.sources.mqtt_topic import read_topic
from pansketch_fleet.sections.sources.sensors import check_places, read_interval, read_sensors
from pansketch_fleet.settings.section import described, join, nearest, section
from pansketch_fleet.settings.source_schema import (
    SOURCES,
    ReplaySection,
    StdinSection,
    SystemSection,
)
from pansketch_fleet.settings.sources import (
    ExecSource,
    HttpSource,
    MetricsSource,
    ModbusSource,
    MqttSource,
    ReplaySource,
    SensorSource,
    Source,
    StdinSource,
    SystemSource,
)
from pansketch_fleet.yaml.document import Document, is_file

TYPES = tuple(name for kind in SOURCES for name in described(kind)[0].key.values)


def read_source(
    document: Document, where: str, raw: dict[str, Any], folder: Path, local: bool
) -> Source:
    """Read the section. Raises ConfigError; a replayed file must exist only if `local` is true."""
    match raw.get("type"):
        case "replay":
            return _replay(
                document, where, section(document, where, raw, ReplaySection), folder, local
            )
        case "stdin":
            section(document, where, raw, StdinSection)
            return StdinSource()
        case "system":
            interval = section(document, where, raw, SystemSection).interval
            return SystemSource(read_interval(document, where, interval))
        case "exec":
            return read_exec(document, where, raw, folder)
        case "mqtt":
            return read_topic(document, where, raw, folder, local)
        case "http":
            return read_http(document, where, raw)
        case "prometheus":
            return read_metrics(document, where, raw, folder, local)
        case "modbus":
            return read_modbus(document, where, raw)
        case "iio" | "hwmon" | "w1" as kind:
            return read_sensors(document, where, raw, kind)
        case None:
            raise document.error(join(where, "type"), f"is missing; use one of {', '.join(TYPES)}")
        case other:
            problem = f"{str(other)[:40]!r} is no source; {nearest(str(other), TYPES)}"
            raise document.error(join(where, "type"), problem)


def check_names(document: Document, where: str, source: Source, names: tuple[str, ...]) -> None:
    """Raise ConfigError for names in a source's section that its stream does not have.

    `names`: the stream's attributes, or its key.
    """
    if isinstance(source, SensorSource):
        check_places(document, where, source, names)
    if isinstance(source, MetricsSource):
        check_metrics(document, where, source, names)
    if isinstance(source, ModbusSource):
        check_registers(document, where, source, names)
    if isinstance(source, ExecSource | MqttSource | HttpSource):
        check_paths(document, where, source.paths, names)


def _replay(
    document: Document, where: str, raw: ReplaySection, folder: Path, local: bool
) -> ReplaySource:
    if raw.speed is not None and raw.speed <= 0:
        problem = (
            f"{raw.speed:g} is impossible; write a positive number, or leave it out for full speed"
        )
        raise document.error(join(where, "speed"), problem)
    path = folder / raw.path
    if local and not is_file(path):
        problem = (
            f"there is no file {path}; correct the path (it starts at the configuration's folder)"
        )
        raise document.error(join(where, "path"), problem)
    return ReplaySource(path, raw.speed)
