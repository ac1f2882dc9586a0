"""The broker, and the sources of readings, of a configuration: frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pansketch_fleet.settings.mqtt_schema import Protocol


@dataclass(frozen=True)
class Mqtt:
    """The address of the broker. Files only with `tls`; `cert_file` and `key_file` both or neither.

    `password` is in no representation. `protocol`: the version of MQTT; auto is 5 if the broker
    supports it and 3.1.1 otherwise. `enrolled`: user and password are those of `agent.credentials`.
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
    enrolled: bool = False


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
    """Sensors of this host, polled on a public tick; `sensors`: the sensor of each attribute."""

    kind: SensorKind
    sensors: Mapping[str, str]
    interval_seconds: float


JsonPath = tuple[str, ...]


@dataclass(frozen=True)
class ExecSource:
    """JSON lines that a program prints. `paths`: of a value in an object, if not its name."""

    command: tuple[str, ...]
    paths: Mapping[str, JsonPath]


@dataclass(frozen=True)
class MqttSource:
    """JSON messages of a topic, of a broker that need not be the fleet's. `paths`: as above."""

    topic: str
    broker: Mqtt
    paths: Mapping[str, JsonPath]


@dataclass(frozen=True)
class HttpSource:
    """JSON that programs of this host send to a port of the loopback address. `paths`: as above."""

    port: int
    paths: Mapping[str, JsonPath]


@dataclass(frozen=True)
class PageAddress:
    """The address of a page. `target`: its path, with the query."""

    tls: bool
    host: str
    port: int
    target: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.tls else ''}://{host}:{self.port}{self.target}"


@dataclass(frozen=True)
class MetricSeries:
    """The series of a metric that has these labels; it may have others."""

    metric: str
    labels: Mapping[str, str]

    def __str__(self) -> str:
        inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in self.labels.items())
        return f"{self.metric}{{{inner}}}" if inner else self.metric


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@dataclass(frozen=True)
class MetricsSource:
    """A page of metrics, polled on a public tick; `metrics`: the series of each attribute."""

    address: PageAddress
    metrics: Mapping[str, MetricSeries]
    interval_seconds: float
    ca_file: Path | None = None


@dataclass(frozen=True)
class Register:
    """A number at a Modbus device. `low_first`: its lower word has the lower address."""

    address: int
    table: str
    unit: int
    kind: str
    scale: float
    low_first: bool

    def __str__(self) -> str:
        return f"{self.table} {self.address} of unit {self.unit}"


@dataclass(frozen=True)
class ModbusSource:
    """Registers of Modbus devices, polled on a public tick.

    `port`: of TCP at the host `place`; None: RTU at the serial port `place`, with `baud` and
    `parity`.
    """

    place: str
    port: int | None
    baud: int
    parity: str
    registers: Mapping[str, Register]
    interval_seconds: float

    @property
    def url(self) -> str:
        host = f"[{self.place}]" if ":" in self.place else self.place
        return f"rtu:{self.place}" if self.port is None else f"tcp://{host}:{self.port}"


# The agent polls these on a public tick.
PolledSource = SystemSource | SensorSource | MetricsSource | ModbusSource
Source = ReplaySource | StdinSource | ExecSource | MqttSource | HttpSource | PolledSource


def kind_of(source: Source) -> str:
    """Return its `type`, as it is written."""
    match source:
        case SensorSource(kind=kind):
            return kind
        case MetricsSource():
            return "prometheus"
    return type(source).__name__.removesuffix("Source").lower()
