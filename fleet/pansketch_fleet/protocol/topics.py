"""Ids of fleets, devices and streams, and the MQTT topics made of them.

Of a device: pansketch/v1/<fleet>/<device>/status | release/<stream> | health | ack | mark. Of all
devices: pansketch/v1/<fleet>/all.devices/scale/<stream>. Of a keeper of a blinded fleet:
pansketch/v1/<fleet>/keeper.<name>/ask | answer | status.
"""

import re
from dataclasses import dataclass
from typing import Literal

ID_RULE = "1 to 64 of a-z, 0-9 and -"
ID_PATTERN = r"[a-z0-9-]{1,64}"
_ID = re.compile(ID_PATTERN)
PATTERN_RULE = f"{ID_RULE}, with * and ? for the rest"
_PATTERN = re.compile(r"[a-z0-9*?-]{1,64}")


def is_id(text: str) -> bool:
    """Return whether a text may name a fleet, a device or a stream."""
    return _ID.fullmatch(text) is not None


def is_pattern(text: str) -> bool:
    """Return whether a text may stand for names of devices."""
    return _PATTERN.fullmatch(text) is not None


PREFIX = "pansketch/v1"

ALL_DEVICES = "all.devices"  # no device's name: that holds no dot

KEEPER = "keeper."  # before a keeper's name: again no device's

KeeperKind = Literal["ask", "answer", "keeper-status"]
Kind = Literal["status", "release", "health", "ack", "mark", "scale"] | KeeperKind


@dataclass(frozen=True)
class Topic:
    """A parsed topic. `stream` is set exactly when `kind` is "release" or "scale".

    A scale has no device. For a topic of a keeper `device` is the keeper's name.
    """

    fleet: str
    device: str
    kind: Kind
    stream: str | None = None


def status(fleet: str, device: str) -> str:
    """The topic of a device's retained status. Raises ValueError on a bad id."""
    return _topic(fleet, device, "status")


def release(fleet: str, device: str, stream: str) -> str:
    """The topic of the releases of one stream. Raises ValueError on a bad id."""
    return f"{_topic(fleet, device, 'release')}/{_id(stream)}"


def health(fleet: str, device: str) -> str:
    """The topic of a device's health, published every minute. Raises ValueError on a bad id."""
    return _topic(fleet, device, "health")


def ack(fleet: str, device: str) -> str:
    """The topic of the collector's acknowledgements. Raises ValueError on a bad id."""
    return _topic(fleet, device, "ack")


def mark(fleet: str, device: str) -> str:
    """The topic of the collector's retained mark of a device. Raises ValueError on a bad id."""
    return _topic(fleet, device, "mark")


def scale(fleet: str, stream: str) -> str:
    """The topic of the collector's retained scales of a stream. Raises ValueError on a bad id."""
    return f"{PREFIX}/{_id(fleet)}/{ALL_DEVICES}/scale/{_id(stream)}"


def is_scale(topic: str) -> bool:
    """Return whether a subscribed topic is that of a stream's scales."""
    return topic.split("/")[-2:-1] == ["scale"]


def is_mark(topic: str) -> bool:
    """Return whether a subscribed topic is that of the device's mark."""
    return topic.endswith("/mark")


def probe(fleet: str, device: str) -> str:
    """The topic on which a device tests its authorization. Raises ValueError on a bad id."""
    return _topic(fleet, device, "probe")


def fleet_filter(fleet: str) -> tuple[str, str, str]:
    """The collector's subscriptions: status, release, health. Raises ValueError on a bad id."""
    root = f"{PREFIX}/{_id(fleet)}/+"
    return f"{root}/status", f"{root}/release/+", f"{root}/health"


def shared_filter(group: str, wanted: str) -> str:
    """The shared subscription of several collectors: the broker sends each message to one of them.

    (MQTT 5, 4.8.2) `group`: a secret name, so that no device can join. Raises ValueError on a bad
    id.
    """
    return f"$share/pansketch-{_id(group)}/{wanted}"


def scale_filter(fleet: str) -> str:
    """The collector's subscription of scales. Raises ValueError on a bad id."""
    return f"{PREFIX}/{_id(fleet)}/{ALL_DEVICES}/scale/+"


def keeper_ask(fleet: str, keeper: str) -> str:
    """The topic of a collector's questions to a keeper. Raises ValueError on a bad id."""
    return f"{PREFIX}/{_id(fleet)}/{KEEPER}{_id(keeper)}/ask"


def keeper_answer(fleet: str, keeper: str) -> str:
    """The topic of a keeper's replies. Raises ValueError on a bad id."""
    return f"{PREFIX}/{_id(fleet)}/{KEEPER}{_id(keeper)}/answer"


def keeper_status(fleet: str, keeper: str) -> str:
    """The topic of a keeper's retained status. Raises ValueError on a bad id."""
    return f"{PREFIX}/{_id(fleet)}/{KEEPER}{_id(keeper)}/status"


def keeper_filter(fleet: str) -> tuple[str, ...]:
    """The collector's subscription of keepers' replies. Raises ValueError on a bad id.

    `fleet_filter` includes the keepers' statuses.
    """
    return (f"{PREFIX}/{_id(fleet)}/+/answer",)


def is_retained(topic: str) -> bool:
    """Return whether messages of a topic are retained."""
    return topic.endswith(("/status", "/mark")) or is_scale(topic)


_KEEPER_KINDS: dict[str, KeeperKind] = {
    "ask": "ask",
    "answer": "answer",
    "status": "keeper-status",
}


def parse(topic: str) -> Topic | None:
    """Parse a topic, or return None if it is none of this fleet."""
    match topic.removeprefix(f"{PREFIX}/").split("/"):
        case [fleet, device, "status"] if _all_ids(topic, fleet, device):
            return Topic(fleet, device, "status")
        case [fleet, device, "health"] if _all_ids(topic, fleet, device):
            return Topic(fleet, device, "health")
        case [fleet, device, "ack"] if _all_ids(topic, fleet, device):
            return Topic(fleet, device, "ack")
        case [fleet, device, "mark"] if _all_ids(topic, fleet, device):
            return Topic(fleet, device, "mark")
        case [fleet, device, "release", stream] if _all_ids(topic, fleet, device, stream):
            return Topic(fleet, device, "release", stream)
        case [fleet, "all.devices", "scale", stream] if _all_ids(topic, fleet, stream):
            return Topic(fleet, "", "scale", stream)
        case [fleet, party, kind] if kind in _KEEPER_KINDS and party.startswith(KEEPER):
            keeper = party.removeprefix(KEEPER)
            if _all_ids(topic, fleet, keeper):
                return Topic(fleet, keeper, _KEEPER_KINDS[kind])
    return None


def _all_ids(topic: str, *names: str) -> bool:
    return topic.startswith(f"{PREFIX}/") and all(map(is_id, names))


def _topic(fleet: str, device: str, kind: Kind | Literal["probe"]) -> str:
    return f"{PREFIX}/{_id(fleet)}/{_id(device)}/{kind}"


def _id(name: str) -> str:
    if not is_id(name):
        raise ValueError(f"{name[:64]!r} cannot stand in a topic; use {ID_RULE}")
    return name
