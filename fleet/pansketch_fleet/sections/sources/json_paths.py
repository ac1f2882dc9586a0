"""`source:` sections of JSON senders: the program, and the paths of the values in its JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pansketch_fleet.settings.section import join, nearest, section
from pansketch_fleet.settings.source_schema import ExecSection, HttpSection
from pansketch_fleet.settings.sources import (
    ExecSource,
    HttpSource,
    JsonPath,
)
from pansketch_fleet.yaml.document import Document

WHOLE = "."
MAX_STEPS = 16
MIN_PORT, MAX_PORT = 1024, 65535


def read_exec(document: Document, where: str, raw: dict[str, Any], folder: Path) -> ExecSource:
    """Read the section. Raises ConfigError for an invalid command or path."""
    given = section(document, where, raw, ExecSection)
    if not given.command or not all(given.command):
        problem = "is no command; write a list, such as [/usr/bin/rtl_433, -F, json]"
        raise document.error(join(where, "command"), problem)
    program, *rest = given.command
    # A name is searched on PATH; a path starts, like all others, at the configuration's folder.
    named = str(folder.absolute() / program) if "/" in program else program
    return ExecSource((named, *rest), read_paths(document, where, given.paths))


def read_http(document: Document, where: str, raw: dict[str, Any]) -> HttpSource:
    """Read the section. Raises ConfigError for an invalid port or path."""
    given = section(document, where, raw, HttpSection)
    if not MIN_PORT <= given.port <= MAX_PORT:
        problem = f"{given.port} is impossible; write {MIN_PORT} to {MAX_PORT}, such as 8787"
        raise document.error(join(where, "port"), problem)
    return HttpSource(given.port, read_paths(document, where, given.paths))


def read_paths(
    document: Document, where: str, raw: dict[str, str] | None
) -> Mapping[str, JsonPath]:
    """Split `sensor.temperature` into its steps; `.` is the whole message. Raises ConfigError."""
    found = {}
    for name, text in (raw or {}).items():
        steps = () if text == WHOLE else tuple(text.split("."))
        if not all(steps) or len(steps) > MAX_STEPS:
            problem = "is no path; write names with dots between, such as sensor.temperature"
            raise document.error(join(join(where, "paths"), name), problem)
        found[name] = steps
    return found


def check_paths(
    document: Document, where: str, paths: Mapping[str, JsonPath], names: tuple[str, ...]
) -> None:
    """Raise ConfigError for a path of something that is not in the names."""
    for name in paths:
        if name not in names:
            problem = f"is not what this stream is about; {nearest(name, names)}"
            raise document.error(join(join(where, "paths"), name), problem)


def path_text(steps: JsonPath) -> str:
    """Return a path as it is written."""
    return ".".join(steps) or WHOLE
