"""A stream's `expect:`: the readings, devices and windows of a query, and the maximum of a window.

Planners weigh noise against resolution with the former; a wrong one costs accuracy. The collector
refuses a release whose counters exceed the latter plus noise. Both follow from the configuration
alone: they reveal nothing about a reading.
"""

from collections.abc import Sequence
from math import ceil
from typing import Any

from pansketch import Domain, Privacy, Span
from pansketch.planning import Expected
from pansketch_fleet.settings.profiles import every
from pansketch_fleet.settings.section import join, nearest, section
from pansketch_fleet.settings.sources import (
    PolledSource,
    ReplaySource,
    Source,
)
from pansketch_fleet.settings.stream_schema import (
    MAX_EXPECTED,
    ExpectSection,
    KeyExpectSection,
)
from pansketch_fleet.yaml.document import Document

# A clock that is set back keeps a live window open. A whole window may have passed before, and
# it is set back by a window or a minute at most (agent/pansketch_agent/windows/window.py).
MAX_SET_BACK_SECONDS = 60


def readings_bound(window_seconds: int, source: Source, privacy: Privacy) -> int:
    """Return the maximum readings of a window if `expect.max_readings` is not stated.

    It follows from a polled source, else from the highest rate of any firmware profile. Spans limit
    it further.
    """
    seconds = window_seconds
    if not isinstance(source, ReplaySource):
        seconds += window_seconds + max(window_seconds, MAX_SET_BACK_SECONDS)
    if isinstance(source, PolledSource):
        found = ceil(seconds / source.interval_seconds) + 1
    else:
        found = ceil(seconds * max(profile.readings_per_second for profile in every()))
    if isinstance(privacy.unit, Span):
        # One reading a slot, and at most so many slots begin in this time.
        slots = ceil(seconds * privacy.unit.max_readings / privacy.unit.seconds) + 2
        found = min(found, slots)
    return found


DEVICES = 10
DAY_SECONDS = 86400
QUERIED_SECONDS = 30 * DAY_SECONDS  # A query of a month reads all windows of it.
SECONDS_BETWEEN = 60  # readings of a source that does not poll


def read_expected(
    document: Document,
    where: str,
    raw: dict[str, Any] | None,
    window_seconds: int,
    sources: Sequence[Source],
    privacy: Privacy,
    known_devices: int | None,
    domain: Domain | None,
) -> tuple[Expected, int]:
    """Return the expected load, stated or derived from window and source, and the maximum of a
    window.

    Raises ConfigError at the key at fault. `sources`: the stream's own, which determines the plan,
    and those of single devices. `domain`: None for a stream with a key.
    """
    source = sources[0]
    given = section(document, where, raw or {}, ExpectSection)
    bound = given.max_readings
    if bound is None:
        bounds = (readings_bound(window_seconds, each, privacy) for each in sources)
        bound = max(*bounds, given.readings or 0)
        bound = min(bound, MAX_EXPECTED)
    readings = given.readings
    if readings is None:
        readings = max(1, min(_readings(window_seconds, source, privacy), bound))
    windows = max(1, QUERIED_SECONDS // window_seconds) if given.windows is None else given.windows
    devices = known_devices or DEVICES if given.devices is None else given.devices
    for name, number in (
        ("readings", readings),
        ("max_readings", bound),
        ("devices", devices),
        ("windows", windows),
    ):
        if not 1 <= number <= MAX_EXPECTED:
            problem = (
                f"must lie between 1 and {MAX_EXPECTED}, not {number}; correct it or leave it out"
            )
            raise document.error(join(where, name), problem)
    if readings > bound:
        problem = f"{bound} is less than the {readings} readings expected; correct one of the two"
        raise document.error(join(where, "max_readings"), problem)
    # A stated number of windows determines the plan alone.
    earlier = (
        (1, min(windows, max(1, DAY_SECONDS // window_seconds))) if given.windows is None else ()
    )
    means = _means(document, join(where, "ask"), given.ask, domain)
    return Expected(readings, devices, windows, earlier, means=means), bound


def _means(
    document: Document, where: str, names: Sequence[str] | None, domain: Domain | None
) -> tuple[str, ...]:
    """Return the attributes whose means are asked of few windows. Raises ConfigError."""
    if names is None or domain is None:
        return ()
    if not names:
        raise document.error(where, "is empty; name an attribute, or remove it")
    numbers = (each for each in domain.attributes if each.categories is None)
    usable = tuple(each.name for each in numbers if each.max_bits)
    for place, name in enumerate(names):
        at = f"{where}[{place}]"
        if name in names[:place]:
            raise document.error(at, f"names {name} twice; remove one")
        if name not in domain.names:
            raise document.error(at, f"{name!r} is no attribute; {nearest(name, usable)}")
        if name not in usable:
            raise document.error(at, f"{name} has no mean: it is not a number; remove it")
    return tuple(names)


def read_devices_per_key(document: Document, where: str, raw: dict[str, Any] | None) -> int | None:
    """Return how many devices may see one key, if stated; the epsilon of a key is summed over them.

    Nothing enforces it. Raises ConfigError at the key at fault.
    """
    given = section(document, where, raw or {}, KeyExpectSection).devices_per_key
    if given is not None and not 1 <= given <= MAX_EXPECTED:
        problem = f"must lie between 1 and {MAX_EXPECTED}, not {given}; correct it or leave it out"
        raise document.error(join(where, "devices_per_key"), problem)
    return given


def _readings(window_seconds: int, source: Source, privacy: Privacy) -> int:
    """Return the expected readings of a window: one for each poll, limited by spans."""
    between: float = SECONDS_BETWEEN
    if isinstance(source, PolledSource):
        between = source.interval_seconds
    found = int(window_seconds / between)
    if isinstance(privacy.unit, Span):
        most = -(-window_seconds * privacy.unit.max_readings // privacy.unit.seconds)
        found = min(found, int(most))
    return max(1, found)
