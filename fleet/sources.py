"""A stream's `source:` section: which readings it is made of."""

from pathlib import Path
from typing import Any

from fleet.document import Document
from fleet.files import is_file
from fleet.quantities import seconds
from fleet.schema import ReplaySection, StdinSection, SystemSection, join, nearest, section
from fleet.settings import ReplaySource, Source, StdinSource, SystemSource

TYPES = ("replay", "stdin", "system")
SHORTEST_INTERVAL_SECONDS = 0.1


def read_source(
    document: Document, where: str, raw: dict[str, Any], folder: Path, local: bool
) -> Source:
    """Raises ConfigError; that a replayed file is missing matters only where `local` is true."""
    match raw.get("type"):
        case "replay":
            return _replay(
                document, where, section(document, where, raw, ReplaySection), folder, local
            )
        case "stdin":
            section(document, where, raw, StdinSection)
            return StdinSource()
        case "system":
            return _system(document, where, section(document, where, raw, SystemSection))
        case None:
            raise document.error(join(where, "type"), f"is missing; use one of {', '.join(TYPES)}")
        case other:
            problem = f"{str(other)[:40]!r} is no source; {nearest(str(other), TYPES)}"
            raise document.error(join(where, "type"), problem)


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


def _system(document: Document, where: str, raw: SystemSection) -> SystemSource:
    try:
        interval_seconds = seconds(raw.interval)
    except ValueError as error:
        raise document.error(join(where, "interval"), str(error)) from None
    if not SHORTEST_INTERVAL_SECONDS <= interval_seconds <= 86400:
        problem = f"{raw.interval} is impossible; write 100ms to 1d, such as 10s"
        raise document.error(join(where, "interval"), problem)
    return SystemSource(interval_seconds)
