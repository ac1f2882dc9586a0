"""Delivery: in order, few at a time, the same bytes, and only the right ack counts."""

from dataclasses import dataclass, field

import pytest

from agent.delivery import IN_FLIGHT, Delivery
from agent.outbox import Key, Outbox
from fleet.messages import Ack, digest


def key(sequence):
    return Key(sequence, "air")


@dataclass
class Wire:
    """What was sent, with the numbers an MQTT client would give."""

    sent: list[bytes] = field(default_factory=list)

    def send(self, stream: str, payload: bytes) -> int:
        assert stream == "air"
        self.sent.append(payload)
        return len(self.sent)


@pytest.fixture
def payloads(device, release_of):
    config = device.configure()
    return [release_of(config, number) for number in range(1, 13)]


@pytest.fixture
def outbox(tmp_path, payloads):
    made = Outbox(tmp_path / "outbox", 10**6)
    for number, payload in enumerate(payloads, 1):
        made.put(key(number), payload)
    return made


def ack(payloads, number, status="stored"):
    return Ack("air", number, digest(payloads[number - 1]), status)


def test_a_few_at_a_time_in_order_until_acknowledged(outbox, payloads):
    wire = Wire()
    delivery = Delivery(outbox, wire.send)
    delivery.step(0.0)
    delivery.step(1.0)
    assert wire.sent == payloads[:IN_FLIGHT]
    delivery.acknowledged(ack(payloads, 3))
    delivery.acknowledged(ack(payloads, 1, "duplicate"))
    delivery.step(2.0)
    assert wire.sent == payloads[: IN_FLIGHT + 2]
    assert key(1) not in outbox
    assert key(3) not in outbox
    assert key(2) in outbox


def test_the_same_bytes_again_with_growing_pauses(outbox, payloads):
    wire = Wire()
    delivery = Delivery(outbox, wire.send, first_patience_seconds=10)
    for number in range(2, 13):
        outbox.forget(key(number))
    times = []
    for now in range(200):
        before = len(wire.sent)
        delivery.step(float(now))
        if len(wire.sent) > before:
            times.append(now)
            delivery.handed_over(len(wire.sent), "")
    assert times == [0, 10, 30, 70, 150]
    assert set(wire.sent) == {payloads[0]}
    delivery.connected(200.0)
    delivery.step(200.0)
    assert len(wire.sent) == 6
    delivery.handed_over(6, "")
    delivery.step(209.0)
    assert len(wire.sent) == 6
    delivery.step(210.0)
    assert len(wire.sent) == 7


def test_what_the_broker_does_not_have_is_left_to_the_client(outbox):
    wire = Wire()
    delivery = Delivery(outbox, wire.send)
    delivery.step(0.0)
    delivery.step(10_000.0)
    assert len(wire.sent) == IN_FLIGHT


@pytest.mark.parametrize(
    "change",
    [{"digest": "0" * 32}, {"sequence": 2}, {"sequence": 99}, {"stream": "water"}],
    ids=str,
)
@pytest.mark.parametrize("status", ["stored", "refused"])
def test_an_ack_for_anything_else_changes_nothing(outbox, payloads, change, status):
    delivery = Delivery(outbox, Wire().send)
    delivery.step(0.0)
    before = outbox.waiting()
    fields = {"stream": "air", "sequence": 1, "digest": ack(payloads, 1).digest, "status": status}
    delivery.acknowledged(Ack(**{**fields, **change}))
    assert outbox.waiting() == before
    assert not delivery.refused


def test_a_refused_release_is_kept_aside_and_the_rest_goes_on(outbox, payloads, caplog):
    wire = Wire()
    delivery = Delivery(outbox, wire.send)
    delivery.step(0.0)
    delivery.acknowledged(replace_reason(ack(payloads, 1, "refused"), "unknown stream"))
    delivery.step(1.0)
    assert wire.sent[-1] == payloads[IN_FLIGHT]
    assert delivery.refused
    assert (outbox.folder / "refused" / key(1).filename).read_bytes() == payloads[0]
    (line,) = [record.getMessage() for record in caplog.records]
    assert "refused by the collector (unknown stream)" in line


def replace_reason(refusal: Ack, reason: str) -> Ack:
    return Ack(refusal.stream, refusal.sequence, refusal.digest, refusal.status, reason)


def test_a_release_too_large_for_a_message_is_never_sent(outbox, payloads, monkeypatch):
    monkeypatch.setattr("agent.delivery.MOST_PAYLOAD_BYTES", len(payloads[0]) - 1)
    wire = Wire()
    Delivery(outbox, wire.send).step(0.0)
    assert payloads[0] not in wire.sent
    assert (outbox.folder / "refused" / key(1).filename).exists()


def test_a_broker_that_forbids_publishing_is_said_once(outbox, caplog):
    delivery = Delivery(outbox, Wire().send)
    delivery.step(0.0)
    for message in (1, 2, 3):
        delivery.handed_over(message, "Not authorized")
    assert [r.getMessage() for r in caplog.records] == [
        "the broker does not accept releases (Not authorized); check its access rules"
    ]
    assert len(outbox) == 12
