"""A loopback peer that lets a device publish (MQTT 3.1.1) and keeps every byte it sends.

It is evidence, not a broker: it forwards nothing and remembers no session. It never acknowledges a
release on behalf of a collector, so a device keeps its outbox.
"""

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

CONNECT, PUBLISH, SUBSCRIBE, PINGREQ = 1, 3, 8, 12
CONNACK, UNKNOWN_VERSION, PINGRESP = b"\x20\x02\x00\x00", b"\x20\x02\x00\x01", b"\xd0\x00"
MQTT_5 = b"\x00\x04MQTT\x05"  # how a CONNECT of that version begins
POLL_SECONDS = 0.2
MAX_BYTES = 64 << 20  # of one recording; a device that sends more is cut off


@dataclass(frozen=True)
class Published:
    """One PUBLISH as it came."""

    topic: str
    payload: bytes


class Recorder:
    """Listens on 127.0.0.1 while it is entered. `raw`: all bytes received; `published`: in order.

    Several connections are served one after the other. A packet that is none ends its connection.
    """

    def __init__(self) -> None:
        self.raw = bytearray()
        self.published: list[Published] = []
        self._over = threading.Event()

    def __enter__(self) -> "Recorder":
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(POLL_SECONDS)
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._listener.close()

    def releases(self) -> list[bytes]:
        """The payloads of distinct releases, oldest first."""
        payloads = [p.payload for p in list(self.published) if "/release/" in p.topic]
        return list(dict.fromkeys(payloads))

    def _serve(self) -> None:
        while not self._over.is_set():
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                with connection, suppress(OSError, ValueError):
                    connection.settimeout(POLL_SECONDS)
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        pending = bytearray()
        while not self._over.is_set():
            try:
                received = connection.recv(65536)
            except TimeoutError:
                continue
            self.raw += received
            pending += received
            if not received or len(self.raw) > MAX_BYTES:
                return
            while (packet := _packet(pending)) is not None:
                first, body = packet
                connection.sendall(self._reply(first, body))

    def _reply(self, first: int, body: bytes) -> bytes:
        """The answer to a packet; empty if it needs none."""
        kind = first >> 4
        if kind == CONNECT:
            return UNKNOWN_VERSION if body.startswith(MQTT_5) else CONNACK
        if kind == PINGREQ:
            return PINGRESP
        if kind == SUBSCRIBE:
            granted = b"\x01" * _topics(body[2:])
            return bytes([0x90, 2 + len(granted)]) + body[:2] + granted
        if kind != PUBLISH:
            return b""
        length = int.from_bytes(body[:2], "big")
        topic, rest = body[2 : 2 + length].decode(), body[2 + length :]
        numbered = first >> 1 & 3
        self.published.append(Published(topic, rest[2:] if numbered else rest))
        return b"\x40\x02" + rest[:2] if numbered else b""


def _topics(filters: bytes) -> int:
    """Number of topics of a SUBSCRIBE: each has a length before it, and a byte after it."""
    count = 0
    while filters:
        filters = filters[3 + int.from_bytes(filters[:2], "big") :]
        count += 1
    return count


def _packet(pending: bytearray) -> tuple[int, bytes] | None:
    """Takes one whole packet, (first byte, body), off the front; None when there is none yet.

    Raises ValueError for a length of more than four bytes.
    """
    length = 0
    for place, byte in enumerate(pending[1:5]):
        length |= (byte & 127) << (7 * place)
        if byte < 128:
            begin = 2 + place
            if len(pending) < begin + length:
                return None
            first, body = pending[0], bytes(pending[begin : begin + length])
            del pending[: begin + length]
            return first, body
    if len(pending) >= 5:
        raise ValueError("no MQTT packet is so long")
    return None
