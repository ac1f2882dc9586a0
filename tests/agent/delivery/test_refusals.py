"""Delivery of what is refused, forbidden, too large or answered wrongly."""

import pytest

from pansketch_agent.delivery.delivery import IN_FLIGHT, Delivery
from pansketch_agent.mqtt.problem_log import AclErrors
from pansketch_fleet.protocol.messages import Ack
from tests.agent.delivery.wire import Wire, ack, key, no_jitter


@pytest.mark.parametrize(
    "change",
    [{"digest": "0" * 32}, {"sequence": 2}, {"sequence": 99}, {"stream": "water"}],
    ids=str,
)
@pytest.mark.parametrize("status", ["stored", "refused"])
def test_an_ack_for_anything_else_changes_nothing(outbox, payloads, change, status):
    delivery = Delivery(outbox, Wire().send, no_jitter)
    delivery.step(0.0)
    before = outbox.queued()
    fields = {"stream": "air", "sequence": 1, "digest": ack(payloads, 1).digest, "status": status}
    delivery.acknowledged(Ack(**{**fields, **change}))
    assert outbox.queued() == before
    assert not delivery.refused


def test_a_refused_release_is_kept_aside_and_the_rest_goes_on(outbox, payloads, caplog):
    wire = Wire()
    delivery = Delivery(outbox, wire.send, no_jitter)
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
    monkeypatch.setattr("pansketch_agent.delivery.delivery.MAX_PAYLOAD_BYTES", len(payloads[0]) - 1)
    wire = Wire()
    Delivery(outbox, wire.send, no_jitter).step(0.0)
    assert payloads[0] not in wire.sent
    assert (outbox.folder / "refused" / key(1).filename).exists()


def test_what_the_broker_forbids_is_logged_once_for_each_topic_until_it_is_allowed(caplog):
    denials = AclErrors("dev-1")
    for failure in ("Not authorized", "Not authorized", "", "Not authorized"):
        denials.set_result("write", "here", failure)
    denials.set_result("hear", "there", "Unspecified error")
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(";")[0] for line in lines] == [
        *["the broker does not authorize this device to write to here (Not authorized)"] * 2,
        "the broker does not authorize this device to read there (Unspecified error)",
    ]
    assert all(line.endswith("who is to be named dev-1") for line in lines)


def test_a_broker_that_forbids_publishing_is_asked_again_slowly(outbox):
    wire = Wire()
    delivery = Delivery(outbox, wire.send, no_jitter)
    delivery.connected(0.0)
    times = []
    for now in range(2000):
        before = len(wire.sent)
        delivery.step(float(now))
        for message in range(before, len(wire.sent)):
            delivery.publish_acknowledged(message + 1, "Not authorized")
        if len(wire.sent) > before:
            times.append(now)
    assert times == [0, 300, 600, 900, 1200, 1500, 1800]
