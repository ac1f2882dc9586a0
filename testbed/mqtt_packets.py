"""The part of the MQTT packet format that an observer needs: decode PUBLISH, encode any packet.

Protocol levels 4 (3.1.1) and 5.
"""

import struct
from collections.abc import Iterator

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, PINGREQ = 1, 2, 3, 4, 8, 9, 12
MAX_LENGTH_BYTES = 4
MAX_PACKET_BYTES = 2**23
CONNACK_BYTES = 4  # its header, its length of one byte, flags, and the reason code


class PacketReader:
    """Cuts what one side sends into packets."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, content: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Kind, flags and body of each packet that is complete by now. Raises ValueError for one
        that is too long."""
        self._held += content
        at = 0
        try:
            while len(self._held) - at >= 2:
                length, begin = _length(self._held, at + 1)
                if begin == 0 or len(self._held) < begin + length:
                    break
                first, at = self._held[at], begin + length
                yield first >> 4, first & 15, bytes(self._held[begin:at])
        finally:
            del self._held[:at]


class PublishReader:
    """Decodes the PUBLISH packets in one direction of one connection.

    After a packet that it cannot parse, it ignores the rest of the connection.
    """

    def __init__(self) -> None:
        self._packets = PacketReader()
        self._level = 4
        self._lost = False

    def feed(self, content: bytes) -> list[tuple[str, bytes]]:
        """Topics and payloads of the messages that are complete by now."""
        found: list[tuple[str, bytes]] = []
        if self._lost:
            return found
        try:
            for kind, flags, body in self._packets.feed(content):
                if kind == CONNECT:
                    self._level = body[6]
                elif kind == PUBLISH:
                    found.append(published(flags, body, self._level))
        except (ValueError, IndexError, struct.error, UnicodeDecodeError):
            self._lost = True
        return found


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


def connect(client: str, user: str | None, password: str | None, keepalive: int = 30) -> bytes:
    """A client's first packet, 3.1.1, with a clean session. `keepalive`: seconds."""
    flags = 2 | (user is not None) << 7 | (password is not None) << 6
    words = [client, *(word for word in (user, password) if word is not None)]
    text = b"".join(_text(word.encode()) for word in words)
    return _packet(CONNECT << 4, _text(b"MQTT") + struct.pack(">BBH", 4, flags, keepalive) + text)


def publish(topic: str, payload: bytes, retain: bool = False, number: int = 0) -> bytes:
    """A message: with QoS 1 where it has a number, else with QoS 0."""
    head = _text(topic.encode()) + (struct.pack(">H", number) if number else b"")
    return _packet(PUBLISH << 4 | bool(number) << 1 | retain, head + payload)


def subscribe(topic: str, number: int) -> bytes:
    """A subscription with QoS 0."""
    return _packet(SUBSCRIBE << 4 | 2, struct.pack(">H", number) + _text(topic.encode()) + b"\0")


def ping() -> bytes:
    """PINGREQ, the packet that keeps a connection alive."""
    return _packet(PINGREQ << 4, b"")


def published(flags: int, body: bytes, level: int = 4) -> tuple[str, bytes]:
    """Topic and payload of a PUBLISH. Raises ValueError, struct.error."""
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
