"""MQTT topic names: pansketch/v1/<fleet>/<device>/status | release/<stream> | health | ack."""

from dataclasses import dataclass
from typing import Literal

from fleet.ids import ID_RULE, is_id

PREFIX = "pansketch/v1"

Kind = Literal["status", "release", "health", "ack"]


@dataclass(frozen=True)
class Topic:
    """A topic taken apart. `stream` is set exactly when `kind` is "release"."""

    fleet: str
    device: str
    kind: Kind
    stream: str | None = None


def status(fleet: str, device: str) -> str:
    """Where a device's retained birth, will and farewell stand. Raises ValueError on a bad id."""
    return _topic(fleet, device, "status")


def release(fleet: str, device: str, stream: str) -> str:
    """Where a device publishes the releases of one stream. Raises ValueError on a bad id."""
    return f"{_topic(fleet, device, 'release')}/{_id(stream)}"


def health(fleet: str, device: str) -> str:
    """Where a device says every minute how it is. Raises ValueError on a bad id."""
    return _topic(fleet, device, "health")


def ack(fleet: str, device: str) -> str:
    """Where the collector says what became of releases. Raises ValueError on a bad id."""
    return _topic(fleet, device, "ack")


def probe(fleet: str, device: str) -> str:
    """Where a device tries out whether it may speak and listen. Raises ValueError on a bad id."""
    return _topic(fleet, device, "probe")


def fleet_filter(fleet: str) -> tuple[str, str, str]:
    """What a collector subscribes to: status, release, health. Raises ValueError on a bad id."""
    root = f"{PREFIX}/{_id(fleet)}/+"
    return f"{root}/status", f"{root}/release/+", f"{root}/health"


def parse(topic: str) -> Topic | None:
    """A topic taken apart, or None when it is none of this fleet's language."""
    match topic.removeprefix(f"{PREFIX}/").split("/"):
        case [fleet, device, "status"] if _all_ids(topic, fleet, device):
            return Topic(fleet, device, "status")
        case [fleet, device, "health"] if _all_ids(topic, fleet, device):
            return Topic(fleet, device, "health")
        case [fleet, device, "ack"] if _all_ids(topic, fleet, device):
            return Topic(fleet, device, "ack")
        case [fleet, device, "release", stream] if _all_ids(topic, fleet, device, stream):
            return Topic(fleet, device, "release", stream)
    return None


def _all_ids(topic: str, *names: str) -> bool:
    return topic.startswith(f"{PREFIX}/") and all(map(is_id, names))


def _topic(fleet: str, device: str, kind: Kind | Literal["probe"]) -> str:
    return f"{PREFIX}/{_id(fleet)}/{_id(device)}/{kind}"


def _id(name: str) -> str:
    if not is_id(name):
        raise ValueError(f"{name[:64]!r} cannot stand in a topic; use {ID_RULE}")
    return name
