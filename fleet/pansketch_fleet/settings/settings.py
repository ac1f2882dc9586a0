"""The frozen values that a configuration becomes; the programs read nothing else of it."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction

from pansketch import DistinctSpec, Domain
from pansketch.planning import Expected
from pansketch_fleet.settings.device_spec import DeviceSpec, SketchSettings
from pansketch_fleet.settings.sources import Source
from pansketch_fleet.units import duration_text


@dataclass(frozen=True)
class DatabaseServer:
    """A PostgreSQL server that keeps the collector's database: `url` names both, without a
    password. `password` is in no representation."""

    url: str
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class PublishedScales:
    """Devices adopt the scales that the collector publishes, `every_seconds` apart or more.
    `learned`: False where it publishes the configured ones again."""

    every_seconds: int
    learned: bool = True


@dataclass(frozen=True)
class KeeperKeys:
    """The public keys of one keeper, 32 bytes each. `previous`: those before rotations."""

    key: bytes
    previous: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class AnswerLevel:
    """One answer every so many seconds costs a window this share of epsilon."""

    every_seconds: int
    share: Fraction

    @property
    def name(self) -> str:
        """What questions call it, such as "1d"."""
        return duration_text(self.every_seconds)


@dataclass(frozen=True)
class BlindedSettings:
    """How a stream is masked and asked for. `keys`: of the keepers, in their order. `levels`: in
    the order of the file; `lateness_seconds`: the wait for releases after a level's period."""

    keepers: tuple[str, ...]
    keys: tuple[bytes, ...]
    epoch_seconds: int
    levels: tuple[AnswerLevel, ...]
    lateness_seconds: int


WILDCARDS = "*?"


def is_sent_by(patterns: tuple[str, ...] | None, device: str) -> bool:
    """Whether a device is one of those that the patterns name; None: all are."""
    return patterns is None or any(fnmatchcase(device, each) for each in patterns)


def has_wildcard(patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns stands for more than one name."""
    return any(set(WILDCARDS) & set(each) for each in patterns)


@dataclass(frozen=True, kw_only=True)
class _Stream:
    """A named sequence of records. The spec is that of every window.

    `plan`: what the configuration itself says of the sketch, before any profile; `sketch_at`: the
    dotted path where it says so. `daily_cap_micro`: the most micro-epsilon that the releases of one
    day may cost together, None: no cap. `retention_seconds`: how long the collector keeps a
    release, None: for ever. `devices_per_key`: None where it is not stated, or there is no key.
    `most_readings`: the most that one window of a device can have; 0 for keys, which it bounds not.

    A section with several sketches becomes as many streams. They have one source, one window and
    the cap together. The first one bears the section's name, and the others say it in `part_of`.

    `devices`: patterns of the names of those that send it, None: all.
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

    `expected`: what a query reads together. `open_seconds`: how long each slot of a span takes
    readings, None: as long as it can. `scales`: None where none are published.
    """

    domain: Domain
    expected: Expected
    open_seconds: int | None = None
    scales: PublishedScales | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What a record of the source must have: the attributes."""
        return self.domain.names


@dataclass(frozen=True, kw_only=True)
class KeyStream(_Stream):
    """A stream of events that bear a key. `key`: the source's name for it.

    The spec is the base of those of the windows (`Spec.for_window`).
    """

    key: str
    spec: DistinctSpec

    @property
    def names(self) -> tuple[str, ...]:
        """What a record of the source must have: the key."""
        return (self.key,)


Stream = ReadingStream | KeyStream


@dataclass(frozen=True)
class Http:
    """Where the collector answers over HTTP. `token`: what a request must bear, None: nothing; it
    is in no representation. `public`: requests need none of it. `hosts`: the names, beside those of
    this host's own addresses, that a request may be for.
    """

    host: str
    port: int
    loopback: bool
    token: str | None = field(default=None, repr=False)
    public: bool = False
    hosts: tuple[str, ...] = ()

    @property
    def closed(self) -> bool:
        """Whether a request must bear the token."""
        return self.token is not None and not self.public


@dataclass(frozen=True)
class HomeAssistant:
    """Devices are announced to Home Assistant below `prefix`. `remove`: what was is taken back."""

    prefix: str = "homeassistant"
    remove: bool = False
