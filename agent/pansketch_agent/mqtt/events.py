"""What a connection to the broker tells the rest of the agent."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Connected:
    """The broker is there, in this version of MQTT; nothing is subscribed yet."""

    version: str


@dataclass(frozen=True)
class Disconnected:
    """The broker is not there, or no longer; the link keeps trying.

    `refused`: it is there, but one of the two does not accept the other; `reason` has the fix.
    `taken`: another client with this device's name has its place; `reason` has the fix.
    """

    reason: str
    refused: bool = False
    taken: bool = False


@dataclass(frozen=True)
class Publication:
    """A message that was published. `packet`: its packet identifier on its connection."""

    packet: int
    topic: str


@dataclass(frozen=True)
class Puback:
    """The broker acknowledged a packet of one connection; `failure` is empty when it took it.

    MQTT 3.1.1 knows no failure: there a broker may drop what it seems to take.
    """

    packet: int
    failure: str


@dataclass(frozen=True)
class PublishAcknowledged:
    """The broker acknowledged a publication of QoS 1; `failure` as above."""

    publication: Publication
    failure: str


@dataclass(frozen=True)
class AckArrived:
    """Bytes from the ack topic, not looked at yet."""

    payload: bytes


@dataclass(frozen=True)
class MarkArrived:
    """Bytes from the mark topic. `live`: published just now, not kept by the broker."""

    payload: bytes
    live: bool


@dataclass(frozen=True)
class ScalesArrived:
    """Bytes from the topic of a stream's scales, not looked at yet."""

    stream: str
    payload: bytes


@dataclass(frozen=True)
class Subscribed:
    """The broker answered the subscription of `topic`; `failure` as above."""

    topic: str
    failure: str


Message = AckArrived | MarkArrived | ScalesArrived
Event = Connected | Disconnected | PublishAcknowledged | Subscribed | Message
ConnectionEvent = Puback | Subscribed | Message

NOT_AUTHORIZED = "Not authorized"
TOO_LARGE = "Packet too large"
