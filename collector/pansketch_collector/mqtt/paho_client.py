"""paho's client over a buffered socket, driven by the collector's own loop.

paho reads a packet from its socket in three calls, and sends each of its packets with one. For
small messages these calls are most of the work of this program and of the broker. The collector
sends a PUBACK and an acknowledgement for every release (MQTT 5, 2.1, 3.3 and 3.4). Both have no
properties and need no client state, so this module encodes them as bytes.
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
CLOSE_SECONDS = 1.0
MAX_REMAINING = (1 << 28) - 1
MAX_TOPIC = (1 << 16) - 1  # bytes


class BufferedSocket:
    """The socket interface that paho needs, over a non-blocking socket.

    `fill` reads into a buffer, from which `recv` returns; `send` appends to a buffer, which `flush`
    sends. For one thread.
    """

    def __init__(self, inner: socket) -> None:
        self._inner = inner
        self._read, self._offset = b"", 0
        self._unsent = bytearray()
        self._error: OSError | None = None
        self._at_end = False

    def fileno(self) -> int:
        return self._inner.fileno()

    def setblocking(self, blocking: bool) -> None:
        self._inner.setblocking(blocking)

    def pending(self) -> int:
        """The number of buffered bytes, plus one for an end or error that `recv` has to report."""
        return len(self._read) - self._offset + (self._at_end or self._error is not None)

    @property
    def has_buffered(self) -> bool:
        """True if TLS has decrypted bytes that no poll reports."""
        return isinstance(self._inner, ssl.SSLSocket) and self._inner.pending() > 0

    def fill(self) -> None:
        """Reads the available bytes, up to about READ_BYTES."""
        pieces, total = [self._read[self._offset :]], 0
        try:
            # More than once: TLS returns one record at a time.
            while total < READ_BYTES and not self._at_end:
                pieces.append(self._inner.recv(READ_BYTES))
                total += len(pieces[-1])
                self._at_end = not pieces[-1]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            self._error = error
        self._read, self._offset = b"".join(pieces), 0

    def recv(self, max_bytes: int) -> bytes:
        """Returns buffered bytes. Raises BlockingIOError without any, OSError after a connection
        error."""
        found = self._read[self._offset : self._offset + max_bytes]
        if not found:
            if self._error is not None:
                raise self._error
            if not self._at_end:
                raise BlockingIOError
        self._offset += len(found)
        return found

    def send(self, data: bytes | bytearray) -> int:
        """Buffers all of it. Raises BlockingIOError while too much is unsent."""
        if len(self._unsent) >= MAX_UNSENT_BYTES:
            raise BlockingIOError
        self._unsent += data
        return len(data)

    def flush(self) -> bool:
        """Sends as much as the socket accepts; returns whether bytes remain. `recv` reports a
        failure."""
        try:
            while self._unsent:
                del self._unsent[: self._inner.send(self._unsent)]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        except OSError as error:
            self._error = error
            self._unsent.clear()
        return False

    def close(self) -> None:
        """Sends the remaining bytes within CLOSE_SECONDS and closes."""
        with suppress(OSError):
            self._inner.settimeout(CLOSE_SECONDS)
            self._inner.sendall(self._unsent)
        self._unsent.clear()
        self._inner.close()


PUBACK, PUBLISH, RETAIN = 0x40, 0x30, 0x01


def acknowledgement(message_id: int) -> bytes:
    """PUBACK of a QoS 1 message; without a reason code it means success, in either version."""
    return bytes((PUBACK, 2)) + message_id.to_bytes(2, "big")


def publication(topic: str, payload: bytes, retain: bool, version: Version) -> bytes:
    """PUBLISH at QoS 0. Raises ValueError for a topic or payload that no packet can hold."""
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
    """paho's client over a BufferedSocket, without a thread of its own."""

    wire: BufferedSocket

    def _create_socket(self) -> BufferedSocket:
        self.wire = BufferedSocket(super()._create_socket())  # type: ignore[arg-type]
        return self.wire


def paho_client(mqtt: Mqtt, client_id: str, terms: SessionOptions) -> PahoClient:
    """A client with a persistent session and manual acknowledgements. Raises TlsFilesError."""
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
    # Has paho leave the writing to our loop; otherwise it sends each packet with its own call.
    client.on_socket_register_write = lambda *_: None
    if mqtt.username is not None:
        client.username_pw_set(mqtt.username, mqtt.password)
    if mqtt.tls:
        client.tls_set_context(tls.context(mqtt))
    return client
