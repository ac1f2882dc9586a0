"""As much of MQTT's bytes as a bystander needs: to read what is published, and to say anything.

Protocol levels 4 (3.1.1) and 5.
"""

import struct

CONNECT, CONNACK, PUBLISH = 1, 2, 3
MAX_LENGTH_BYTES = 4
MAX_PACKET_BYTES = 2**23
CONNACK_BYTES = 4  # its header, its length of one byte, flags, and the reason code


class PublishReader:
    """Reads one direction of one connection: which messages a client publishes.

    What it cannot follow, it leaves alone from there on.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._level = 4
        self._lost = False

    def feed(self, content: bytes) -> list[tuple[str, bytes]]:
        """Topics and payloads of the messages that are complete by now."""
        found = []
        if not self._lost:
            self._held += content
        try:
            while (packet := self._next()) is not None:
                kind, flags, body = packet
                if kind == CONNECT:
                    self._level = body[6]
                elif kind == PUBLISH:
                    found.append(_published(flags, body, self._level))
        except (ValueError, IndexError, struct.error, UnicodeDecodeError):
            self._lost = True
            self._held.clear()
        return found

    def _next(self) -> tuple[int, int, bytes] | None:
        """Kind, flags and body of the next packet, taken out; None when it is not all here."""
        if len(self._held) < 2:
            return None
        length, begin = _length(self._held, 1)
        if begin == 0 or len(self._held) < begin + length:
            return None
        first, body = self._held[0], bytes(self._held[begin : begin + length])
        del self._held[: begin + length]
        return first >> 4, first & 15, body


class AnswerReader:
    """Reads what a broker sends first in one connection."""

    def __init__(self) -> None:
        self._begun = b""

    def feed(self, content: bytes) -> bool:
        """True once: the broker accepts the connection."""
        missing = CONNACK_BYTES - len(self._begun)
        self._begun += content[: max(0, missing)]
        if missing <= 0 or len(self._begun) < CONNACK_BYTES:
            return False
        return self._begun[0] >> 4 == CONNACK and self._begun[-1] == 0


def connect(client: str, user: str, password: str) -> bytes:
    """A client's first packet, 3.1.1, with a clean session."""
    text = b"".join(_text(word.encode()) for word in (client, user, password))
    return _packet(CONNECT << 4, _text(b"MQTT") + b"\x04\xc2\x00\x1e" + text)


def publish(topic: str, payload: bytes, retain: bool = False) -> bytes:
    """A message with QoS 0."""
    return _packet(PUBLISH << 4 | retain, _text(topic.encode()) + payload)


def _published(flags: int, body: bytes, level: int) -> tuple[str, bytes]:
    size = struct.unpack_from(">H", body)[0]
    topic, at = body[2 : 2 + size].decode(), 2 + size
    if flags & 6:
        at += 2  # the packet's number
    if level >= 5:
        properties, at = _length(body, at)
        at += properties
    return topic, body[at:]


def _length(content: bytes | bytearray, at: int) -> tuple[int, int]:
    """A length of variable size and where it ends; (0, 0) when it is not all here. Raises
    ValueError for none that we would follow."""
    length = 0
    for place in range(MAX_LENGTH_BYTES):
        if at + place >= len(content):
            return 0, 0
        length += (content[at + place] & 127) << (7 * place)
        if content[at + place] < 128:
            if length > MAX_PACKET_BYTES:
                raise ValueError("too long")
            return length, at + place + 1
    raise ValueError("no length")


def _text(content: bytes) -> bytes:
    return struct.pack(">H", len(content)) + content


def _packet(first: int, body: bytes) -> bytes:
    length, rest = bytearray(), len(body)
    while True:
        rest, low = divmod(rest, 128)
        length.append(low | 128 if rest else low)
        if not rest:
            return bytes([first]) + bytes(length) + body
