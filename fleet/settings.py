"""The frozen values that a configuration becomes; the programs read nothing else of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fleet.document import Document
from fleet.errors import ConfigError
from fleet.profiles import DEFAULT_OUTBOX, OutboxRules, Profile, every
from fleet.specs import DeviceSpec, Plan, variants
from pansketch import Domain
from pansketch.plan_choice import Expected

Protocol = Literal["auto", "5", "3.1.1"]


@dataclass(frozen=True)
class Mqtt:
    """How to reach the broker. Files only with `tls`; `cert_file` and `key_file` both or neither.

    `password` is in no representation. `protocol`: the version of MQTT; auto is 5 where the broker
    speaks it and 3.1.1 otherwise.
    """

    host: str
    port: int
    tls: bool
    ca_file: Path | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    cert_file: Path | None = None
    key_file: Path | None = None
    protocol: Protocol = "auto"


@dataclass(frozen=True)
class AgentSettings:
    """One device: its name in topics, the folder of its ledger and outbox, its firmware profile."""

    device: str
    state: Path
    profile: Profile
    outbox: OutboxRules = DEFAULT_OUTBOX


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


SensorKind = Literal["iio", "hwmon", "w1"]


@dataclass(frozen=True)
class SensorSource:
    """Sensors of this host, polled on a public tick; `sensors`: the place of each attribute."""

    kind: SensorKind
    sensors: Mapping[str, str]
    interval_seconds: float


JsonPath = tuple[str, ...]


@dataclass(frozen=True)
class ExecSource:
    """JSON lines that a program prints. `paths`: where in an object a value is, if not by name."""

    command: tuple[str, ...]
    paths: Mapping[str, JsonPath]


@dataclass(frozen=True)
class MqttSource:
    """JSON messages of a topic, of a broker that need not be the fleet's. `paths`: as above."""

    topic: str
    broker: Mqtt
    paths: Mapping[str, JsonPath]


Source = ReplaySource | StdinSource | SystemSource | SensorSource | ExecSource | MqttSource


@dataclass(frozen=True)
class Stream:
    """One named sequence of readings, or of events that bear a key.

    `domain`: the view's attributes in the view's order, None for a stream of keys. `key`: what the
    source calls the key, None for a stream of readings; exactly one of the two is set. `spec` is
    that of every window or, for keys, the base of theirs (`Spec.for_window`). `plan`: what the
    configuration itself says of the sketch, before any profile; `sketch_at`: the dotted path where
    it says so. `daily_cap_micro`: the most micro-epsilon that the releases of one day may cost
    together, None: no cap. `expected`: what a query will read together, None for a stream of keys.
    """

    name: str
    source: Source
    window_seconds: int
    spec: DeviceSpec
    plan: Plan
    sketch_at: str
    domain: Domain | None = None
    key: str | None = None
    daily_cap_micro: int | None = None
    expected: Expected | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What a source must have for this stream: attributes, or the one key."""
        return self.domain.names if self.domain is not None else (str(self.key),)


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


@dataclass(frozen=True)
class CollectorSettings:
    """`http`: None where it answers on the command line alone; `home_assistant`: None where it
    announces nothing; `audit`: the file with the record of the last audit."""

    database: Path
    http: Http | None = None
    home_assistant: HomeAssistant | None = None
    audit: Path | None = None


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

    def specs(self, stream: Stream) -> Mapping[bytes, DeviceSpec]:
        """What devices of any profile may have for a stream, by fingerprint; its own first."""
        return variants(stream.spec, stream.plan, every())

    def at(self, where: str) -> tuple[str, int]:
        """File and line of a dotted path such as `streams.air.attributes.temp`."""
        return self.document.at(where)

    def error(self, where: str, problem: str) -> ConfigError:
        """The ConfigError of a fault that only a program sees; `problem` reads `problem; fix`."""
        return self.document.error(where, problem)
