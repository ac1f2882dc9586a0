"""A wire that notes what it is given, and the acks of a collector."""

from dataclasses import dataclass, field

from pansketch_agent.outbox.outbox import Key
from pansketch_fleet.protocol.messages import Ack, digest


def key(sequence):
    return Key(sequence, "air")


def no_jitter():
    return 0.5


@dataclass
class Wire:
    """The transmissions, with the packet identifiers of an MQTT client."""

    sent: list[bytes] = field(default_factory=list)

    def send(self, stream: str, payload: bytes) -> int:
        assert stream == "air"
        self.sent.append(payload)
        return len(self.sent)


def ack(payloads, number, status="stored"):
    return Ack("air", number, digest(payloads[number - 1]), status)
