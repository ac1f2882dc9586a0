"""What a connection to the broker tells the rest of the agent."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Connected:
    """The broker is there, in this version of MQTT; nothing is subscribed yet."""

    version: str


@dataclass(frozen=True)
class Absent:
    """The broker is not there, or no longer; the link keeps trying.

    `refused`: it is there, but one of the two does not accept the other; `reason` has the fix.
    """

    reason: str
    refused: bool = False


@dataclass(frozen=True)
class HandedOver:
    """The broker answered a publication on `topic`; `failure` is empty when it took it.

    MQTT 3.1.1 knows no failure: there a broker may drop what it seems to take.
    """

    message: int
    failure: str
    topic: str = ""


@dataclass(frozen=True)
class AckArrived:
    """Bytes from the ack topic, not looked at yet."""

    payload: bytes


@dataclass(frozen=True)
class Subscribed:
    """The broker answered the subscription of `topic`; `failure` as above."""

    topic: str
    failure: str


Event = Connected | Absent | HandedOver | AckArrived | Subscribed

NOT_AUTHORIZED = "Not authorized"
TOO_LARGE = "Packet too large"
