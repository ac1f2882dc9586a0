"""A stream's `expect:`: how many readings, devices and windows a query will read together.

Planners weigh noise against resolution with these numbers (view_plans.py, hierarchies.py). They are
public, and a wrong one costs accuracy and never privacy.
"""

from typing import Any

from fleet.document import Document
from fleet.schema import ExpectSection, join, section
from fleet.settings import SensorSource, Source, SystemSource
from pansketch import Privacy, Span
from pansketch.plan_choice import Expected

DEVICES = 10
QUERIED_SECONDS = 30 * 86400  # A query of a month reads all windows of it.
SECONDS_BETWEEN = 60  # readings of a source that does not poll
MOST = 10**12


def read_expected(
    document: Document,
    where: str,
    raw: dict[str, Any] | None,
    window_seconds: int,
    source: Source,
    privacy: Privacy,
) -> Expected:
    """What is stated, and what follows from the window and the source where nothing is. Raises
    ConfigError at the key at fault."""
    given = section(document, where, raw or {}, ExpectSection)
    readings = given.readings
    if readings is None:
        readings = _readings(window_seconds, source, privacy)
    windows = max(1, QUERIED_SECONDS // window_seconds) if given.windows is None else given.windows
    devices = DEVICES if given.devices is None else given.devices
    for name, number in (("readings", readings), ("devices", devices), ("windows", windows)):
        if not 1 <= number <= MOST:
            problem = f"must lie between 1 and {MOST}, not {number}; correct it or leave it out"
            raise document.error(join(where, name), problem)
    return Expected(readings, devices, windows)


def _readings(window_seconds: int, source: Source, privacy: Privacy) -> int:
    """In a window: as often as the source polls, and no more than its spans may hold."""
    between: float = SECONDS_BETWEEN
    if isinstance(source, SystemSource | SensorSource):
        between = source.interval_seconds
    found = int(window_seconds / between)
    if isinstance(privacy.unit, Span):
        most = -(-window_seconds * privacy.unit.max_readings // privacy.unit.seconds)
        found = min(found, int(most))
    return max(1, found)
