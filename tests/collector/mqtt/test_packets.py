"""The collector's own packets, byte by byte as MQTT 5 and 3.1.1 state them."""

import pytest

from pansketch_collector.mqtt.paho_client import acknowledgement, publication

TOPIC = "pansketch/v1/fleet/device/ack"


def taken_apart(packet: bytes) -> tuple[int, bytes, bytes]:
    """Its first byte, its length in bytes, and what follows; the length is that of the rest."""
    end = next(place for place in range(1, 5) if packet[place] < 128) + 1
    digits = [byte & 127 for byte in packet[1:end]]
    assert sum(digit << 7 * place for place, digit in enumerate(digits)) == len(packet) - end
    return packet[0], packet[1:end], packet[end:]


@pytest.mark.parametrize("number", [1, 255, 256, 65_535])
def test_an_acknowledgement_is_a_puback_of_success(number: int) -> None:
    assert acknowledgement(number) == b"\x40\x02" + number.to_bytes(2, "big")


@pytest.mark.parametrize("size", [0, 1, 95, 96, 127, 128, 16_000, 16_383, 16_384, 2_097_152])
@pytest.mark.parametrize("retain", [False, True])
def test_a_publication_has_its_topic_its_payload_and_no_message_id(size: int, retain: bool) -> None:
    head = len(TOPIC).to_bytes(2, "big") + TOPIC.encode()
    for version, properties in (("5", b"\x00"), ("3.1.1", b"")):
        packet = publication(TOPIC, bytes(size), retain, version)  # type: ignore[arg-type]
        first, length, rest = taken_apart(packet)
        assert first == (0x31 if retain else 0x30)
        assert len(length) == 1 or length[-1] != 0
        assert rest == head + properties + bytes(size)


@pytest.mark.parametrize("topic", ["", "a/+/b", "a/#", "x" * 65_536])
def test_what_is_no_topic_is_refused(topic: str) -> None:
    with pytest.raises(ValueError, match="topic"):
        publication(topic, b"", False, "5")


def test_what_no_packet_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="longer"):
        publication(TOPIC, bytes(1 << 28), False, "5")
