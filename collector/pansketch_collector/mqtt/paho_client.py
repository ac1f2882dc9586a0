"""paho's client over a socket that reads and writes in large pieces, by our own loop.

paho takes a packet from its socket in three reads, and sends each of its own by itself: for small
messages these calls are most of the work, of this program and of the broker. An acknowledgement and
an answer are sent for every release (MQTT 5, 2.1, 3.3 and 3.4). Both have no properties and need no
state of a client, so they are written to the socket as bytes.
"""

import ssl
from contextlib import suppress
from socket import socket

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from pansketch_fleet.config.loader import Mqtt
from pansketch_fleet.mqtt import tls
from pansketch_fleet.mqtt.reconnect import SessionOptions, Version

READ_BYTES = 262_144
MAX_UNSENT_BYTES = 262_144
DISCONNECT_SECONDS = 1.0
MAX_REMAINING = (1 << 28) - 1
MAX_TOPIC = (1 << 16) - 1  # bytes


class BufferedSocket:
    """What paho wants of a socket, over one that does not block.

    `recv` gives what `fill` has read and asks for nothing; `send` keeps what `flush` will send.
    For one thread.
    """

    def __init__(self, inner: socket) -> None:
        self._inner = inner
        self._read, self._place = b"", 0
        self._unsent = bytearray()
        self._end: OSError | None = None
        self._over = False

    def fileno(self) -> int:
        return self._inner.fileno()

    def setblocking(self, blocking: bool) -> None:
        self._inner.setblocking(blocking)

    def pending(self) -> int:
        """How many bytes `recv` has, and one for an end that it has to tell of."""
        return len(self._read) - self._place + (self._over or self._end is not None)

    @property
    def holds_more(self) -> bool:
        """Whether `fill` would find something that no poll tells of: TLS reads ahead."""
        return isinstance(self._inner, ssl.SSLSocket) and self._inner.pending() > 0

    def fill(self) -> None:
        """Reads what is there, up to about READ_BYTES."""
        pieces, total = [self._read[self._place :]], 0
        try:
            # More than once: TLS gives one record at a time.
            while total < READ_BYTES and not self._over:
                pieces.append(self._inner.recv(READ_BYTES))
                total += len(pieces[-1])
                self._over = not pieces[-1]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            self._end = error
        self._read, self._place = b"".join(pieces), 0

    def recv(self, most: int) -> bytes:
        """Raises BlockingIOError when there is nothing, OSError when the connection has failed."""
        found = self._read[self._place : self._place + most]
        if not found:
            if self._end is not None:
                raise self._end
            if not self._over:
                raise BlockingIOError
        self._place += len(found)
        return found

    def send(self, data: bytes | bytearray) -> int:
        """Keeps all of it. Raises BlockingIOError when too much waits already."""
        if len(self._unsent) >= MAX_UNSENT_BYTES:
            raise BlockingIOError
        self._unsent += data
        return len(data)

    def flush(self) -> bool:
        """Sends what it can; whether something is left. A failure is told by `recv`."""
        try:
            while self._unsent:
                del self._unsent[: self._inner.send(self._unsent)]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        except OSError as error:
            self._end = error
            self._unsent.clear()
        return False

    def close(self) -> None:
        """Sends what is left, as far as it goes in a moment."""
        with suppress(OSError):
            self._inner.settimeout(DISCONNECT_SECONDS)
            self._inner.sendall(self._unsent)
        self._unsent.clear()
        self._inner.close()


PUBACK, PUBLISH, RETAIN = 0x40, 0x30, 0x01


def acknowledgement(message_id: int) -> bytes:
    """PUBACK of a message of QoS 1; without a reason code it means success, in either version."""
    return bytes((PUBACK, 2)) + message_id.to_bytes(2, "big")


def publication(topic: str, payload: bytes, retain: bool, version: Version) -> bytes:
    """PUBLISH at QoS 0. Raises ValueError for a topic or payload that no packet holds."""
    name = topic.encode()
    if not 0 < len(name) <= MAX_TOPIC or "+" in topic or "#" in topic:
        raise ValueError("no topic to publish to")
    properties = b"\x00" if version == "5" else b""
    rest = len(name).to_bytes(2, "big") + name + properties + payload
    return bytes((PUBLISH | RETAIN * retain,)) + _length(len(rest)) + rest


def _length(number: int) -> bytes:
    """A variable byte integer: seven bits in each byte, the lowest first."""
    if number > MAX_REMAINING:
        raise ValueError("longer than a packet can be")
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


class PahoClient(paho.Client):
    """paho's client over a socket that collects, and with no thread of its own."""

    wire: BufferedSocket

    def _create_socket(self) -> BufferedSocket:
        self.wire = BufferedSocket(super()._create_socket())  # type: ignore[arg-type]
        return self.wire


def paho_client(mqtt: Mqtt, client_id: str, terms: SessionOptions) -> PahoClient:
    """A client with a persistent session and acknowledgements by hand. Raises TlsFilesError."""
    five = terms.version == "5"
    client = PahoClient(
        CallbackAPIVersion.VERSION2,
        client_id=client_id,
        clean_session=None if five else False,
        protocol=MQTTProtocolVersion.MQTTv5 if five else MQTTProtocolVersion.MQTTv311,
        manual_ack=True,
        reconnect_on_failure=False,
    )
    client.max_inflight_messages = terms.max_unanswered
    # Says that packets are written by our own loop; without it each would be sent by itself.
    client.on_socket_register_write = lambda *_: None
    if mqtt.username is not None:
        client.username_pw_set(mqtt.username, mqtt.password)
    if mqtt.tls:
        client.tls_set_context(tls.context(mqtt))
    return client
