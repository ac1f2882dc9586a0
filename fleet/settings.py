"""The frozen values that a configuration becomes; the programs read nothing else of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleet.document import Document
from fleet.errors import ConfigError
from fleet.profiles import Profile, SketchSizes, every
from fleet.specs import SizeOverrides, variants
from pansketch import HierarchySpec


@dataclass(frozen=True)
class Mqtt:
    """How to reach the broker. `ca_file` only with `tls`; `password` is in no representation."""

    host: str
    port: int
    tls: bool
    ca_file: Path | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class AgentSettings:
    """One device: its name in topics, the folder of its ledger and outbox, its firmware profile."""

    device: str
    state: Path
    profile: Profile


@dataclass(frozen=True)
class ReplaySource:
    """A CSV file, plain or gzipped; `speed` times faster than it was recorded, None: at once."""

    path: Path
    speed: float | None = None


@dataclass(frozen=True)
class StdinSource:
    """Readings as JSON lines on standard input."""


@dataclass(frozen=True)
class SystemSource:
    """This host's load, memory and temperatures, polled on a public tick."""

    interval_seconds: float


Source = ReplaySource | StdinSource | SystemSource


@dataclass(frozen=True)
class Stream:
    """One named sequence of readings. `spec.domain` has the view's attributes in the view's order.

    `sizes`: what the configuration itself says of the sketch, before any profile.
    `daily_cap_micro`: the most micro-epsilon that the releases of one day may cost together, None:
    no cap.
    """

    name: str
    source: Source
    window_seconds: int
    spec: HierarchySpec
    sizes: SizeOverrides = field(default_factory=SizeOverrides)
    daily_cap_micro: int | None = None


@dataclass(frozen=True)
class CollectorSettings:
    database: Path


@dataclass(frozen=True)
class Config:
    """A whole configuration. `agent` is None for the collector; `profile` is the device's own, or
    the default one where the collector cannot know it.
    """

    fleet: str
    mqtt: Mqtt
    agent: AgentSettings | None
    streams: tuple[Stream, ...]
    collector: CollectorSettings
    profile: Profile
    document: Document = field(repr=False, compare=False)

    def specs(self, stream: Stream) -> Mapping[bytes, HierarchySpec]:
        """What devices of any profile may send for a stream, by fingerprint; its own first."""
        sizes: tuple[SketchSizes, ...] = tuple(profile.sketch for profile in every())
        return variants(stream.spec, stream.sizes, sizes)

    def at(self, where: str) -> tuple[str, int]:
        """File and line of a dotted path such as `streams.air.attributes.temp`."""
        return self.document.at(where)

    def error(self, where: str, problem: str) -> ConfigError:
        """The ConfigError of a fault that only a program sees; `problem` reads `problem; fix`."""
        return self.document.error(where, problem)
