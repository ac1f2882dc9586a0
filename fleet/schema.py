"""The keys a configuration may have and the types of their values, section by section."""

import difflib
import re
from typing import Any, TypeVar

import msgspec

from fleet.document import Document
from fleet.errors import ConfigError

# Values that are taken as written, so that NO stays a wind direction and 007 a device.
CONFIG_TEXTS = (
    ("fleet",),
    ("mqtt", "url"),
    ("mqtt", "ca_file"),
    ("mqtt", "cert_file"),
    ("mqtt", "key_file"),
    ("mqtt", "username"),
    ("mqtt", "password"),
    ("mqtt", "protocol"),
    ("agent", "device"),
    ("agent", "profile"),
    ("agent", "state"),
    ("agent", "outbox", "policy"),
    ("agent", "outbox", "persist"),
    ("collector", "database"),
    ("collector", "http"),
    ("collector", "token"),
    ("collector", "hosts", "*"),
    ("collector", "audit"),
    ("collector", "home_assistant", "prefix"),
    ("streams", "*", "window"),
    ("streams", "*", "key"),
    ("streams", "*", "sketch", "memory"),
    ("streams", "*", "sketches", "*", "type"),
    ("streams", "*", "sketches", "*", "memory"),
    ("streams", "*", "sketches", "*", "variant"),
    ("streams", "*", "sketches", "*", "release"),
    ("streams", "*", "sketches", "*", "features"),
    ("streams", "*", "views"),
    ("streams", "*", "views", "*"),
    ("streams", "*", "views", "*", "*"),
    ("streams", "*", "source", "type"),
    ("streams", "*", "source", "path"),
    ("streams", "*", "source", "interval"),
    ("streams", "*", "source", "sensors", "*"),
    ("streams", "*", "source", "command", "*"),
    ("streams", "*", "source", "paths", "*"),
    ("streams", "*", "source", "topic"),
    ("streams", "*", "source", "url"),
    ("streams", "*", "source", "ca_file"),
    ("streams", "*", "source", "cert_file"),
    ("streams", "*", "source", "key_file"),
    ("streams", "*", "source", "username"),
    ("streams", "*", "source", "password"),
    ("streams", "*", "privacy", "unit"),
    ("streams", "*", "privacy", "unit", "span"),
    ("streams", "*", "privacy", "intrusion"),
    ("streams", "*", "attributes", "*", "unit"),
    ("streams", "*", "attributes", "*", "scale"),
    ("streams", "*", "attributes", "*", "categories", "*"),
)
PROFILE_TEXTS = (
    ("description",),
    ("process_memory",),
    ("sketch_memory",),
    ("outbox",),
    ("outbox_policy",),
)


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all sections share: they are frozen and refuse unknown keys."""


class FileSection(Section, frozen=True):
    fleet: str
    mqtt: dict[str, Any]
    streams: dict[str, Any]
    agent: dict[str, Any] | None = None
    collector: dict[str, Any] | None = None


class MqttSection(Section, frozen=True):
    url: str
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    username: str | None = None
    password: str | None = None
    protocol: str = "auto"

    def __repr__(self) -> str:
        return "MqttSection(...)"  # a password must not reach a log


class AgentSection(Section, frozen=True):
    device: str
    profile: str | None = None
    state: str | None = None
    outbox: dict[str, Any] | None = None


class OutboxSection(Section, frozen=True):
    """`policy` is the profile's where it is left out."""

    policy: str | None = None
    persist: str = "always"


class CollectorSection(Section, frozen=True):
    """`token`, `public`, `hosts` and `audit` are about `http`, and nothing without it."""

    database: str | None = None
    http: str | None = None
    token: str | None = None
    public: bool = False
    hosts: list[str] | None = None
    audit: str | None = None
    home_assistant: bool | dict[str, Any] | None = None

    def __repr__(self) -> str:
        return "CollectorSection(...)"


class HomeAssistantSection(Section, frozen=True):
    prefix: str = "homeassistant"
    remove: bool = False


class StreamSection(Section, frozen=True):
    source: dict[str, Any]
    window: str
    privacy: dict[str, Any]
    attributes: dict[str, Any] | None = None
    key: str | None = None
    sketch: dict[str, Any] | None = None
    sketches: list[dict[str, Any]] | None = None
    views: str | list[list[str]] | None = None
    expect: dict[str, Any] | None = None


class ExpectSection(Section, frozen=True):
    """What a query will read together: so many readings in a window, devices and windows."""

    readings: int | None = None
    devices: int | None = None
    windows: int | None = None


class PrivacySection(Section, frozen=True):
    epsilon: float
    unit: str | dict[str, Any] | None = None
    intrusion: str = "silent"
    daily_cap: float | None = None


class SpanSection(Section, frozen=True):
    """`unit:` as keys: up to `max_readings` readings in `span`."""

    span: str
    max_readings: int


class AttributeSection(Section, frozen=True):
    low: float | None = None
    high: float | None = None
    unit: str = ""
    scale: str | None = None
    categories: list[str] | None = None
    resolution: float | None = None
    step: float | None = None
    cyclic: bool | None = None
    constant: float | None = None


class ReplaySection(Section, frozen=True):
    type: str
    path: str
    speed: float | None = None


class StdinSection(Section, frozen=True):
    type: str


class SystemSection(Section, frozen=True):
    type: str
    interval: str = "10s"


class SensorsSection(Section, frozen=True):
    """`sensors`: the place of each attribute's value."""

    type: str
    sensors: dict[str, str]
    interval: str = "10s"


class ExecSection(Section, frozen=True):
    """`paths`: where in an object a value is, such as `sensor.temperature`."""

    type: str
    command: list[str]
    paths: dict[str, str] | None = None


class MqttSourceSection(Section, frozen=True):
    """A topic of a broker, which is this host's own where there is no `url`."""

    type: str
    topic: str
    paths: dict[str, str] | None = None
    url: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return "MqttSourceSection(...)"


class ProfileSketchSection(Section, frozen=True):
    """Sizes of hierarchies that are not planned for this profile."""

    depth: int | None = None
    fanout: int | None = None
    k: int | None = None
    width: int | None = None
    rows: int | None = None


class ProfileSection(Section, frozen=True):
    description: str
    process_memory: str
    sketch_memory: str
    readings_per_second: float
    outbox: str
    outbox_policy: str
    sketch: dict[str, Any] | None = None


SectionT = TypeVar("SectionT", bound=Section)

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_TYPE = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_PLACE = re.compile(r" - at `\$\.?(.*)`\Z", re.DOTALL)
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "keys with values",
    "array": "a list",
    "null": "nothing",
}


def section(document: Document, where: str, raw: Any, kind: type[SectionT]) -> SectionT:
    """One section of a document as a struct. Raises ConfigError that names the key at fault."""
    try:
        return msgspec.convert(raw, type=kind)
    except msgspec.ValidationError as error:
        raise _refusal(document, where, str(error), kind.__struct_fields__) from None


def _refusal(document: Document, where: str, message: str, known: tuple[str, ...]) -> ConfigError:
    place = _PLACE.search(message)
    here = join(where, place[1] if place else "")
    if unknown := _UNKNOWN.search(message):
        return document.error(join(here, unknown[1]), f"unknown key; {nearest(unknown[1], known)}")
    if missing := _MISSING.search(message):
        return document.error(
            join(here, missing[1]), f"is missing; add {missing[1]}: to {here or 'the file'}"
        )
    if wrong := _TYPE.search(message):
        wanted, got = _words(wrong[1].removesuffix(" | null")), _words(wrong[2])
        return document.error(here, f"is {got}; write {wanted}")
    return document.error(here, "is out of range; write a smaller number")


def _words(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))


def join(where: str, key: str) -> str:
    """A dotted path one step further in; an empty step stays where it is."""
    return f"{where}.{key}" if where and key else where or key


def nearest(word: str, known: tuple[str, ...]) -> str:
    """What a mistyped word probably was, or all there is to choose from."""
    close = difflib.get_close_matches(word, known, 1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"use one of {', '.join(known)}"
