"""One MQTT 3.1.1 connection that speaks for all simulated devices, without threads.

A client library costs 240 microseconds of CPU for each publication. On a machine that also runs the
collector, that would be most of what is measured.
"""

import select
import socket
import ssl
import time
from collections.abc import Iterable
from contextlib import suppress

from pansketch_fleet.mqtt import tls
from pansketch_fleet.protocol import topics
from pansketch_fleet.settings.sources import (
    Mqtt,
)
from testbed import mqtt_packets as packets
from testbed.fleet_simulator.releases import Message

CONNECT_SECONDS = 20.0
KEEPALIVE_SECONDS = 30
PING_SECONDS = 10.0
READ_BYTES = 1 << 18
MAX_UNSENT_BYTES = 1 << 19
MAX_NUMBER = 65_535
REFUSALS = {4: "bad user name or password", 5: "not authorized"}
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class BrokerClient:
    """A connection from its CONNACK to its close. It receives the acknowledgements of the fleet."""

    def __init__(self, mqtt: Mqtt, fleet: str, client_id: str) -> None:
        """Raises OSError, also when the broker refuses the connection or the subscription."""
        self._unsent, self._reader, self._number = bytearray(), packets.PacketReader(), 1
        self._received: list[tuple[str, bytes]] = []
        self._answers: dict[int, bytes] = {}
        self._unconfirmed = 0  # by a PUBACK
        self._pinged_at = time.monotonic()
        plain = socket.create_connection((mqtt.host, mqtt.port), CONNECT_SECONDS)
        try:
            wrap = tls.context(mqtt).wrap_socket if mqtt.tls else None
            self._socket = wrap(plain, server_hostname=mqtt.host) if wrap else plain
            self._socket.setblocking(False)
            self._unsent += packets.connect(
                client_id, mqtt.username, mqtt.password, KEEPALIVE_SECONDS
            )
            self._expect(packets.CONNACK, "connection")
            self._unsent += packets.subscribe(topics.ack(fleet, "x").replace("/x/", "/+/"), 1)
            self._expect(packets.SUBACK, "subscription")
        except BaseException:
            plain.close()
            raise

    def __enter__(self) -> "BrokerClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @property
    def has_room(self) -> bool:
        """True while few published bytes are unsent and few messages lack their PUBACK."""
        return len(self._unsent) < MAX_UNSENT_BYTES and self._unconfirmed < MAX_NUMBER // 2

    @property
    def finished(self) -> bool:
        """True if the broker has sent a PUBACK for every message."""
        return not self._unsent and self._unconfirmed <= 0

    def publish(self, messages: Iterable[Message]) -> None:
        """Takes messages, to be sent by `exchange`: releases and births with QoS 1."""
        for message in messages:
            number = 0
            if not message.topic.endswith("/health"):
                number = self._number = self._number % MAX_NUMBER + 1
                self._unconfirmed += 1
            self._unsent += packets.publish(message.topic, message.payload, number=number)

    def exchange(self, max_seconds: float) -> list[tuple[str, bytes]]:
        """Sends and receives what can be now, and waits so long for something to do.

        Returns:
            Topics and payloads that were received.

        Raises:
            OSError: the connection is over.
        """
        if time.monotonic() - self._pinged_at > PING_SECONDS:
            self._pinged_at = time.monotonic()
            self._unsent += packets.ping()
        wanted = [self._socket] if self._unsent else []
        readable, writable, _ = select.select([self._socket], wanted, [], max_seconds)
        if writable:
            self._send()
        if readable:
            self._receive()
        received, self._received = self._received, []
        return received

    def _send(self) -> None:
        with suppress(*_NOT_NOW):
            del self._unsent[: self._socket.send(self._unsent[:READ_BYTES])]

    def _receive(self) -> None:
        with suppress(*_NOT_NOW):
            while True:
                content = self._socket.recv(READ_BYTES)
                if not content:
                    raise ConnectionResetError("the broker ended the connection")
                for kind, flags, body in self._reader.feed(content):
                    if kind == packets.PUBLISH:
                        self._received.append(packets.published(flags, body))
                    elif kind == packets.PUBACK:
                        self._unconfirmed -= 1
                    else:
                        self._answers[kind] = body

    def _expect(self, kind: int, what: str) -> None:
        """Returns when the broker has granted it. Raises OSError."""
        deadline = time.monotonic() + CONNECT_SECONDS
        while kind not in self._answers:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the broker does not answer the {what}")
            self._received = self.exchange(0.1)
        code = self._answers[kind][-1]
        if code:
            why = REFUSALS.get(code, f"code {code}")
            raise ConnectionRefusedError(f"the broker refuses the {what}: {why}")
