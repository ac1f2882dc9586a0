"""The frozen values of a configuration; the programs read nothing else of it."""

import re
from dataclasses import dataclass, field
from fnmatch import translate
from fractions import Fraction
from functools import lru_cache

from pansketch import DistinctSpec, Domain
from pansketch.planning import Expected
from pansketch_fleet.settings.device_spec import DeviceSpec, SketchSettings
from pansketch_fleet.settings.sources import Source
from pansketch_fleet.units import duration_text


@dataclass(frozen=True)
class DatabaseServer:
    """A PostgreSQL server with the collector's database: `url` names both, without a password.

    `password` is in no representation.
    """

    url: str
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class PublishedScales:
    """Devices adopt the scales that the collector publishes, `every_seconds` apart or more.

    `learned`: False if it publishes the configured ones again.
    """

    every_seconds: int
    learned: bool = True


@dataclass(frozen=True)
class KeeperKeys:
    """The public keys of one keeper, 32 bytes each. `previous`: those before rotations."""

    key: bytes
    previous: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class AnswerLevel:
    """A level of answers: one every `every_seconds`, for this share of a window's epsilon."""

    every_seconds: int
    share: Fraction

    @property
    def name(self) -> str:
        """Its name in questions, such as "1d"."""
        return duration_text(self.every_seconds)


@dataclass(frozen=True)
class BlindedSettings:
    """The masks and answers of a stream. `keys`: of the keepers, in their order.

    `levels`: in the order of the file; `lateness_seconds`: the wait for releases after a level's
    period.
    """

    keepers: tuple[str, ...]
    keys: tuple[bytes, ...]
    epoch_seconds: int
    levels: tuple[AnswerLevel, ...]
    lateness_seconds: int


WILDCARDS = "*?"


def is_sent_by(patterns: tuple[str, ...] | None, device: str) -> bool:
    """Return whether the patterns match a device; None: they match all."""
    return patterns is None or _expression(patterns).match(device) is not None


@lru_cache(maxsize=256)  # A large fleet asks about each of its devices.
def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)) or r"(?!)")


def has_wildcard(patterns: tuple[str, ...]) -> bool:
    """Return whether one of the patterns matches more than one name."""
    return any(set(WILDCARDS) & set(each) for each in patterns)


@dataclass(frozen=True, kw_only=True)
class _Stream:
    """A named sequence of records. The spec is that of every window.

    `plan`: the settings of the sketch, before any profile; `sketch_at`: their dotted path.
    `daily_cap_micro`: the maximum micro-epsilon of the releases of one day together, None: no cap.
    `retention_seconds`: how long the collector keeps a release, None: for ever. `devices_per_key`:
    None if it is not stated, or there is no key. `most_readings`: the maximum of one window of a
    device; 0 for keys, which have no bound.

    A section with several sketches becomes as many streams. They have one source, one window and
    the cap together. The first one has the section's name, and `part_of` of the others names it.

    `devices`: patterns of the names of its senders, None: all.
    """

    name: str
    source: Source
    window_seconds: int
    spec: DeviceSpec
    plan: SketchSettings
    sketch_at: str
    daily_cap_micro: int | None = None
    retention_seconds: int | None = None
    devices_per_key: int | None = None
    most_readings: int = 0
    part_of: str = ""
    blinded: BlindedSettings | None = None
    devices: tuple[str, ...] | None = None

    @property
    def section(self) -> str:
        """The name in `streams:` of the configuration."""
        return self.part_of or self.name


@dataclass(frozen=True, kw_only=True)
class ReadingStream(_Stream):
    """A stream of readings. `domain`: the attributes, in the order of the view.

    `expected`: the expected load of a query. `open_seconds`: how long each slot of a span accepts
    readings, None: as long as possible. `scales`: None if none are published.
    """

    domain: Domain
    expected: Expected
    open_seconds: int | None = None
    scales: PublishedScales | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes, which a record of the source must have."""
        return self.domain.names


@dataclass(frozen=True, kw_only=True)
class KeyStream(_Stream):
    """A stream of events with a key. `key`: the source's name for it.

    The spec is the base of the specs of windows (`Spec.for_window`).
    """

    key: str
    spec: DistinctSpec

    @property
    def names(self) -> tuple[str, ...]:
        """The key, which a record of the source must have."""
        return (self.key,)


Stream = ReadingStream | KeyStream


@dataclass(frozen=True)
class Http:
    """The address of the collector's HTTP server.

    `token`: required of a request, None: not required; it is in no representation. `public`:
    requests need no token. `hosts`: host names for requests, beside this host's own addresses.
    """

    host: str
    port: int
    loopback: bool
    token: str | None = field(default=None, repr=False)
    public: bool = False
    hosts: tuple[str, ...] = ()

    @property
    def closed(self) -> bool:
        """True if a request must have the token."""
        return self.token is not None and not self.public


@dataclass(frozen=True)
class HomeAssistant:
    """Devices are announced to Home Assistant below `prefix`. `remove`: the announcements are
    removed.
    """

    prefix: str = "homeassistant"
    remove: bool = False
