"""Events of a connection to the broker for the rest of the agent."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Connected:
    """The broker accepted the connection, in this MQTT version; there are no subscriptions yet."""

    version: str


@dataclass(frozen=True)
class Disconnected:
    """The broker is not connected; the client keeps trying.

    `refused`: it is available, but one side rejects the other; `reason` has the fix. `taken_over`:
    another client uses this device's name; `reason` has the fix. `renewed`: this client ended the
    connection, for another configuration.
    """

    reason: str
    refused: bool = False
    taken_over: bool = False
    renewed: bool = False


@dataclass(frozen=True)
class Publication:
    """A published message. `packet`: its packet identifier on its connection."""

    packet: int
    topic: str


@dataclass(frozen=True)
class Puback:
    """The broker acknowledged a packet of one connection; `failure` is empty if it accepted it.

    MQTT 3.1.1 has no failure: there a broker may drop a message after its PUBACK.
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
    """Bytes from the ack topic, not parsed yet."""

    payload: bytes


@dataclass(frozen=True)
class MarkArrived:
    """Bytes from the mark topic. `live`: published just now, not retained by the broker."""

    payload: bytes
    live: bool


@dataclass(frozen=True)
class ScalesArrived:
    """Bytes from the topic of a stream's scales, not parsed yet."""

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
