"""The keys of a configuration: the file, the device and the collector.

Those of the broker, streams, sources and sketches are in the other modules `*_schema`.
"""

from dataclasses import replace
from typing import Annotated, Any, Literal, get_args

from pansketch_fleet.settings.mqtt_schema import MqttSection
from pansketch_fleet.settings.privacy_schema import KeeperSection
from pansketch_fleet.settings.section import KeyDoc, Section
from pansketch_fleet.settings.source_schema import SOURCES
from pansketch_fleet.settings.stream_schema import OPTIONAL, StreamSection

Policy = Literal["reject_new", "drop_oldest"]
Persist = Literal["always", "when_unacknowledged"]


class OutboxSection(Section, frozen=True):
    """The device's outbox: releases on disk that the collector has not acknowledged.

    Its size is the profile's `outbox`.
    """

    policy: Annotated[
        str | None,
        KeyDoc(
            "The policy for a full outbox: drop the new release, or the oldest one.",
            "drop_oldest",
            values=get_args(Policy),
            default="the profile's `outbox_policy`",
        ),
    ] = None
    persist: Annotated[
        str,
        KeyDoc(
            "When a release is written to disk. With `when_unacknowledged` the agent waits some "
            "seconds for its ack first; a crash in that time loses the release.",
            "when_unacknowledged",
            values=get_args(Persist),
        ),
    ] = "always"
    keep: Annotated[
        str,
        KeyDoc(
            "How long acknowledged releases stay on disk, if the outbox has room for them.",
            "30d",
            form="duration",
            allowed="`0s` to `366d`",
        ),
    ] = "7d"


PROFILE = KeyDoc(
    "The firmware profile: the limits of memory, disk and reading rate.",
    "pi-zero-2w",
    allowed="a name of the table of [firmware profiles](#firmware-profiles)",
    default="`generic-linux`",
    reader="agent and collector",
)
STATE = KeyDoc(
    "The folder of the ledger and the outbox. Only one agent uses it.",
    "/var/lib/pansketch-agent",
    form="path",
    default="`var/agent/DEVICE`",
)
OUTBOX = KeyDoc(
    "The rules of the outbox.", "{keep: 30d}", default="all defaults", holds=OutboxSection
)
LOCKED = KeyDoc(
    "Refuse to run unless swap and hibernation cannot store the agent's memory.", "true"
)
CREDENTIALS = KeyDoc(
    "The file of `pansketch-collector enroll`. The agent signs its releases with the key in it. "
    "Without `mqtt.username` and `mqtt.cert_file` it connects with the password in it.",
    '"${CREDENTIALS_DIRECTORY}/device.json"',
    form="path",
    default="releases are not signed",
)
OF_AGENT = "that of `agent`"


class AgentSection(Section, frozen=True):
    """The device that the agent runs on. The collector reads `profile` only."""

    device: Annotated[
        str, KeyDoc("The name of the device in topics, unique in the fleet.", "dongsi", form="name")
    ]
    profile: Annotated[str | None, PROFILE] = None
    state: Annotated[str | None, STATE] = None
    outbox: Annotated[dict[str, Any] | None, OUTBOX] = None
    require_locked_memory: Annotated[bool, LOCKED] = False
    credentials: Annotated[str | None, CREDENTIALS] = None


class DeviceStreamSection(Section, frozen=True):
    """The settings of a stream on one device: the source of its readings.

    `expect.readings` follows from the stream's own source, so that all devices have one plan.
    `expect.max_readings` has room for the source of every device.
    """

    source: Annotated[
        dict[str, Any],
        KeyDoc(
            "The source on this device, instead of the stream's.",
            "{type: system, interval: 1m}",
            holds=SOURCES,
        ),
    ]


class DeviceSection(Section, frozen=True):
    """The settings of one device. A key overrides that of `agent`, key by key in `outbox`."""

    profile: Annotated[
        str | None, replace(PROFILE, default=OF_AGENT, example="pi-3b", reader=None)
    ] = None
    state: Annotated[str | None, replace(STATE, default=OF_AGENT)] = None
    outbox: Annotated[dict[str, Any] | None, replace(OUTBOX, default="those of `agent`")] = None
    require_locked_memory: Annotated[bool | None, replace(LOCKED, default=OF_AGENT)] = None
    streams: Annotated[
        dict[str, Any] | None,
        KeyDoc(
            "Streams that the device reads from another source.",
            "{board: {source: {type: system}}}",
            default=OPTIONAL,
            holds=DeviceStreamSection,
            named="STREAM",
        ),
    ] = None


class HomeAssistantSection(Section, frozen=True):
    """The announcement of devices to Home Assistant ([guide](../how-to/home-assistant.md))."""

    prefix: Annotated[
        str,
        KeyDoc(
            "The discovery prefix of Home Assistant's MQTT integration.",
            "homeassistant",
            allowed="up to five levels of letters, digits, `_` and `-`",
        ),
    ] = "homeassistant"
    remove: Annotated[bool, KeyDoc("Remove the announced devices.", "true")] = False


class CollectorSection(Section, frozen=True):
    """The collector: its database, its HTTP server and its announcements."""

    database: Annotated[
        str | None,
        KeyDoc(
            "The database of releases: a SQLite file, or a PostgreSQL server "
            "([guide](../how-to/scale.md#postgresql)).",
            "/var/lib/pansketch-collector/fleet.sqlite",
            form="path",
            allowed="a path, or `postgresql://USER@HOST:PORT/DATABASE` without a password",
            default="`var/collector.sqlite`",
        ),
    ] = None
    database_password: Annotated[
        str | None,
        KeyDoc(
            "The password at the PostgreSQL server. Keep it in a file of its own.",
            '"${file:/etc/pansketch/database-password}"',
            allowed="only with a server as `database`",
            default="no password",
        ),
    ] = None
    http: Annotated[
        str | None,
        KeyDoc(
            "The address of the dashboard and the HTTP API. Beyond this host it needs `token` or "
            "`public`.",
            "127.0.0.1:8080",
            allowed="an IP address or `localhost`, and a port",
            default="no HTTP server",
        ),
    ] = None
    token: Annotated[
        str | None,
        KeyDoc(
            "The bearer token of every request. Keep it in a file of its own.",
            '"${file:/etc/pansketch/token}"',
            allowed="16 to 512 printable characters without spaces; only with `http`",
            default="no token",
        ),
    ] = None
    public: Annotated[
        bool, KeyDoc("Answer requests without a token.", "true", allowed="only with `http`")
    ] = False
    hosts: Annotated[
        list[str] | None,
        KeyDoc(
            "Further host names that a request may name, such as that of a reverse proxy.",
            "[fleet.example.org]",
            allowed="host names; only with `http`",
            default="this host's own addresses",
        ),
    ] = None
    audit: Annotated[
        str | None,
        KeyDoc(
            "The record of the last `pansketch audit`, for the dashboard.",
            "/var/lib/pansketch-collector/audit.json",
            form="path",
            allowed="only with `http`",
            default="no record",
        ),
    ] = None
    require_signature: Annotated[
        bool,
        KeyDoc(
            "Refuse releases that are not signed by an "
            "[enrolled device](../how-to/enroll-a-device.md).",
            "true",
        ),
    ] = False
    home_assistant: Annotated[
        bool | dict[str, Any] | None,
        KeyDoc(
            "Announce devices to Home Assistant; `true` uses the defaults of the section.",
            "true",
            default="`false`",
            holds=HomeAssistantSection,
        ),
    ] = None

    def __repr__(self) -> str:
        return "CollectorSection(...)"


class FileSection(Section, frozen=True):
    """The whole file. Every device and the collector read the same one."""

    fleet: Annotated[
        str, KeyDoc("The name of the fleet, part of every topic.", "beijing-air", form="name")
    ]
    mqtt: Annotated[
        dict[str, Any],
        KeyDoc("The broker.", '{url: "mqtt://broker.example"}', holds=MqttSection),
    ]
    streams: Annotated[
        dict[str, Any],
        KeyDoc(
            "The streams by name, 1 to 64 characters of a-z, 0-9 and -.",
            holds=StreamSection,
            named="STREAM",
        ),
    ]
    keepers: Annotated[
        dict[str, Any] | None,
        KeyDoc(
            "The keepers by name, 1 to 64 characters of a-z, 0-9 and -.",
            default="none; a blinded stream needs two",
            holds=KeeperSection,
            named="KEEPER",
        ),
    ] = None
    agent: Annotated[
        dict[str, Any] | None,
        KeyDoc(
            "The device. Required on a device.",
            "{device: dongsi}",
            default="none, for a collector",
            holds=AgentSection,
            reader="agent",
        ),
    ] = None
    groups: Annotated[
        dict[str, list[str]] | None,
        KeyDoc(
            "Names for lists of devices, for `devices` of a stream: names, and patterns with `*` "
            "and `?`.",
            '{upstairs: [attic, "bed-*"]}',
            default="none",
        ),
    ] = None
    devices: Annotated[
        dict[str, Any] | None,
        KeyDoc(
            "What single devices have otherwise, by the name of the device.",
            "{attic: {profile: pi-3b}}",
            default="all devices are alike",
            holds=DeviceSection,
            named="DEVICE",
            reader="agent and collector",
        ),
    ] = None
    collector: Annotated[
        dict[str, Any] | None,
        KeyDoc(
            "The collector.",
            "{database: fleet.sqlite}",
            default="all defaults",
            holds=CollectorSection,
            reader="collector",
        ),
    ] = None
