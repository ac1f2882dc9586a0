"""The keys of `source:`, for each type of source."""

from typing import Annotated, Any

from pansketch_fleet.settings.mqtt_schema import CA_FILE, CERT_FILE, KEY_FILE, PASSWORD, USERNAME
from pansketch_fleet.settings.section import KeyDoc, Section

INTERVAL = KeyDoc(
    "The time between two polls of the sensors, on the wall clock.",
    "30s",
    form="duration",
    allowed="`100ms` to `1d`",
)
PATHS = KeyDoc(
    "The path of each value in the JSON object: `a.b` is member `b` of `a`, `a.0` the first "
    "element of a list `a`, `.` the whole message.",
    "{temp: sensor.temperature}",
    allowed="paths of up to 16 names, for attributes or the key of the stream",
    default="the member with the attribute's name",
)


def _type(*names: str) -> KeyDoc:
    return KeyDoc("The type of the source.", names[0], values=names)


class ReplaySection(Section, frozen=True):
    """The rows of a CSV file at their own times. The collector does not need the file."""

    type: Annotated[str, _type("replay")]
    path: Annotated[
        str,
        KeyDoc(
            "The CSV file, plain or compressed by gzip.",
            "data/beijing-air/dongsi.csv.gz",
            form="path",
        ),
    ]
    speed: Annotated[
        float | None,
        KeyDoc(
            "How many times faster than recorded the rows are absorbed.",
            "60",
            allowed="greater than 0",
            unit="times the recorded speed",
            default="as fast as possible",
        ),
    ] = None


class StdinSection(Section, frozen=True):
    """JSON objects on standard input, one a line. Only one stream can read it."""

    type: Annotated[str, _type("stdin")]


class SystemSection(Section, frozen=True):
    """Load, memory, processes and the processor's temperature of this host."""

    type: Annotated[str, _type("system")]
    interval: Annotated[str, INTERVAL] = "10s"


class SensorsSection(Section, frozen=True):
    """Sensors of this host: ADCs and environmental sensors, hardware monitors, 1-wire."""

    type: Annotated[str, _type("iio", "hwmon", "w1")]
    sensors: Annotated[
        dict[str, str],
        KeyDoc(
            "The sensor of each attribute. `pansketch-agent sources` lists them.",
            "{temp: bme280/temp}",
            allowed="`iio`: `DEVICE/CHANNEL`; `hwmon`: `CHIP` or `CHIP/INPUT`; `w1`: the device id",
        ),
    ]
    interval: Annotated[str, INTERVAL] = "10s"


class ExecSection(Section, frozen=True):
    """JSON objects printed by a program, one a line. The agent runs it and restarts it."""

    type: Annotated[str, _type("exec")]
    command: Annotated[
        list[str],
        KeyDoc(
            "The program and its arguments. No shell is involved.",
            "[rtl_433, -F, json]",
            allowed="at least one word, none of them empty",
        ),
    ]
    paths: Annotated[dict[str, str] | None, PATHS] = None


class MqttSourceSection(Section, frozen=True):
    """JSON messages of a topic, one reading each. The broker need not be the fleet's."""

    type: Annotated[str, _type("mqtt")]
    topic: Annotated[
        str,
        KeyDoc(
            "The topic filter to subscribe to.",
            "zigbee2mqtt/kitchen",
            allowed="an MQTT topic filter of up to 1,024 bytes",
        ),
    ]
    paths: Annotated[dict[str, str] | None, PATHS] = None
    url: Annotated[
        str | None,
        KeyDoc(
            "The address of the broker.",
            "mqtt://192.0.2.7:1883",
            form="address",
            allowed="as `mqtt.url`",
            default="`mqtt://localhost:1883`",
        ),
    ] = None
    ca_file: Annotated[str | None, CA_FILE] = None
    cert_file: Annotated[str | None, CERT_FILE] = None
    key_file: Annotated[str | None, KEY_FILE] = None
    username: Annotated[str | None, USERNAME] = None
    password: Annotated[str | None, PASSWORD] = None

    def __repr__(self) -> str:
        return "MqttSourceSection(...)"


class HttpSection(Section, frozen=True):
    """JSON that programs of this host send by HTTP POST, one object or a list of them."""

    type: Annotated[str, _type("http")]
    port: Annotated[
        int,
        KeyDoc(
            "The port of the loopback address that the agent listens to; one stream has it.",
            "8787",
            low=1024,
            high=65535,
        ),
    ] = 8787
    paths: Annotated[dict[str, str] | None, PATHS] = None


class MetricsSection(Section, frozen=True):
    """Series of a page of metrics (Prometheus, OpenMetrics), polled by HTTP GET."""

    type: Annotated[str, _type("prometheus")]
    url: Annotated[
        str,
        KeyDoc(
            "The address of the page.",
            "http://127.0.0.1:9100/metrics",
            allowed="`http://` on this host, `https://` elsewhere; without credentials",
        ),
    ]
    metrics: Annotated[
        dict[str, str],
        KeyDoc(
            "The series of each attribute. `pansketch-agent sources --page URL` lists them.",
            "{load: node_load1}",
            allowed='`name` or `name{label="value"}`, such that one series of the page fits',
        ),
    ]
    ca_file: Annotated[
        str | None,
        KeyDoc(
            "The CA certificate that signed the server's certificate, as a PEM file.",
            "/etc/pansketch/ca.pem",
            form="path",
            allowed="only with an `https://` address",
            default="the system's CA certificates",
        ),
    ] = None
    interval: Annotated[str, INTERVAL] = "10s"


BAUDS = (1200, 2400, 4800, 9600, 19200, 38400, 57600, 115200)
TABLES, PARITIES, WORDS = ("holding", "input"), ("N", "E", "O"), ("high-first", "low-first")
REGISTER_TYPES = ("int16", "uint16", "int32", "uint32", "float32")


class RegisterSection(Section, frozen=True):
    """One number at a Modbus device: one register, or two for 32 bits."""

    address: Annotated[
        int,
        KeyDoc("The address of the first register, as in the request.", "30", low=0, high=65535),
    ]
    table: Annotated[str, KeyDoc("The table.", "input", values=TABLES)] = "holding"
    unit: Annotated[int, KeyDoc("The unit (slave) identifier.", "1", low=0, high=247)] = 1
    type: Annotated[str, KeyDoc("The type of the number.", "int16", values=REGISTER_TYPES)] = (
        "int16"
    )
    scale: Annotated[
        float, KeyDoc("The factor from the raw number to the attribute's unit.", "0.1")
    ] = 1.0
    words: Annotated[
        str, KeyDoc("The order of the two words of a number of 32 bits.", "low-first", values=WORDS)
    ] = "high-first"


class ModbusSection(Section, frozen=True):
    """Registers of Modbus devices over TCP or a serial line."""

    type: Annotated[str, _type("modbus")]
    url: Annotated[
        str,
        KeyDoc(
            "The host of Modbus/TCP, or the serial port of Modbus/RTU.",
            "tcp://192.0.2.9:502",
            allowed="`tcp://HOST[:PORT]` or `rtu:/dev/...`",
        ),
    ]
    registers: Annotated[
        dict[str, Any],
        KeyDoc(
            "The register of each attribute.",
            "{temp: {address: 30, scale: 0.1}}",
            holds=RegisterSection,
            named="ATTRIBUTE",
        ),
    ]
    baud: Annotated[
        int,
        KeyDoc(
            "The speed of the serial line, in baud.",
            "9600",
            allowed=", ".join(f"`{baud}`" for baud in BAUDS),
        ),
    ] = 9600
    parity: Annotated[str, KeyDoc("The parity of the serial line.", "E", values=PARITIES)] = "N"
    interval: Annotated[str, INTERVAL] = "10s"


SOURCES: tuple[type[Section], ...] = (
    ReplaySection,
    StdinSection,
    ExecSection,
    MqttSourceSection,
    HttpSection,
    MetricsSection,
    ModbusSection,
    SystemSection,
    SensorsSection,
)
