"""Delivery: in order, few at a time, the same bytes, and only the right ack counts."""

from dataclasses import dataclass, field

import pytest

from agent.delivery import IN_FLIGHT, NEW_SECONDS, Delivery
from agent.denials import Denials
from agent.outbox import Key, Outbox
from fleet.messages import Ack, digest


def key(sequence):
    return Key(sequence, "air")


def no_jitter():
    return 0.5


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
    delivery = Delivery(outbox, wire.send, no_jitter)
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


def times_sent(delivery, wire, seconds):
    """When a step a second, from 0 on, sends something; the broker takes it at once."""
    times = []
    for now in range(seconds):
        before = len(wire.sent)
        delivery.step(float(now))
        if len(wire.sent) > before:
            times.append(now)
            delivery.handed_over(len(wire.sent), "")
    return times


def test_the_same_bytes_again_with_growing_pauses(outbox, payloads):
    wire = Wire()
    delivery = Delivery(outbox, wire.send, no_jitter)
    for number in range(2, 13):
        outbox.forget(key(number))
    delivery.connected(-NEW_SECONDS)
    assert times_sent(delivery, wire, 200) == [0, 10, 30, 70, 150]
    assert set(wire.sent) == {payloads[0]}
    assert delivery.attempts() == {key(1): 5}


def test_on_a_new_connection_the_pauses_begin_shorter(outbox, payloads):
    wire = Wire()
    delivery = Delivery(outbox, wire.send, no_jitter)
    for number in range(2, 13):
        outbox.forget(key(number))
    delivery.connected(0.0)
    assert times_sent(delivery, wire, 100) == [0, 4, 12, 28, 60]
    delivery.connected(100.0)
    delivery.step(100.0)
    assert len(wire.sent) == 6
    delivery.handed_over(6, "")
    delivery.step(101.0)
    assert len(wire.sent) == 6
    delivery.step(104.0)
    assert len(wire.sent) == 7
    assert set(wire.sent) == {payloads[0]}


def test_pauses_end_at_ten_minutes_and_vary_by_a_quarter(outbox):
    first, last = [], []
    for chance in (0.0, 0.25, 1 - 2**-53):
        wire = Wire()
        delivery = Delivery(outbox, wire.send, lambda chance=chance: chance)
        for number in range(2, 13):
            outbox.forget(key(number))
        delivery.connected(-NEW_SECONDS)
        times = times_sent(delivery, wire, 5000)
        first.append(times[1])
        last.append(times[-1] - times[-2])
    assert first == [8, 9, 13]
    assert last == [450, 525, 750]


def test_when_the_collector_is_back_the_others_wait_no_longer(outbox, payloads):
    wire = Wire()
    delivery = Delivery(outbox, wire.send, no_jitter)
    delivery.connected(-NEW_SECONDS)
    for number in range(IN_FLIGHT + 1, 13):
        outbox.forget(key(number))
    for now in range(3000):
        before = len(wire.sent)
        delivery.step(float(now))
        for message in range(before, len(wire.sent)):
            delivery.handed_over(message + 1, "")
    before = len(wire.sent)
    outbox.put(key(IN_FLIGHT + 1), payloads[IN_FLIGHT])
    delivery.acknowledged(ack(payloads, 1))
    delivery.step(3001.0)
    assert wire.sent[before:] == [payloads[IN_FLIGHT]]
    delivery.step(3010.0)
    assert set(wire.sent[before:]) == set(payloads[1 : IN_FLIGHT + 1])


def test_live_releases_go_before_a_long_backlog_and_both_go_on(
    outbox, payloads, device, release_of
):
    """A queue that is short goes in order; in this one eight more are put while it is connected."""
    wire = Wire()
    delivery = Delivery(outbox, wire.send, no_jitter)
    config = device.configure()
    delivery.connected(0.0)
    more = [release_of(config, number) for number in range(13, 21)]
    for number, payload in enumerate(more, 13):
        outbox.put(key(number), payload)
    delivery.step(0.0)
    assert wire.sent == [*more[:3], payloads[0]]
    everything = {digest(payload): payload for payload in (*payloads, *more)}
    for now in range(1, 30):
        for number, payload in enumerate((*payloads, *more), 1):
            if payload in wire.sent and key(number) in outbox:
                delivery.acknowledged(Ack("air", number, digest(payload), "stored"))
        delivery.step(float(now))
    assert len(outbox) == 0
    assert len(wire.sent) == len(everything) == len(set(wire.sent))


def test_a_stream_that_is_never_acknowledged_holds_up_no_other(tmp_path):
    outbox = Outbox(tmp_path / "outbox", 10**6)
    for number in range(1, 40):
        outbox.put(Key(number, "forbidden"), b"forbidden %d" % number)
    outbox.put(Key(1, "air"), b"air")
    sent = []
    delivery = Delivery(outbox, lambda stream, _: sent.append(stream) or len(sent), no_jitter)
    delivery.step(0.0)
    assert sorted(sent) == ["air", *["forbidden"] * IN_FLIGHT]


def test_a_broker_that_answers_nothing_is_left_for_another_connection(outbox):
    wire = Wire()
    delivery = Delivery(outbox, wire.send, no_jitter)
    delivery.connected(0.0)
    assert not delivery.stalled(1e6)
    delivery.step(0.0)
    stalls = []
    for now in range(4000):
        if delivery.stalled(float(now)):
            stalls.append(now)
            delivery.connected(float(now))
            delivery.step(float(now))
    assert stalls == [60, 180, 420, 900, 1500, 2100, 2700, 3300, 3900]
    for message in range(len(wire.sent) - IN_FLIGHT, len(wire.sent)):
        delivery.handed_over(message + 1, "")
    assert not delivery.stalled(1e6)
    delivery.connected(1e6)
    delivery.step(1e6)
    assert not delivery.stalled(1e6 + 59)
    assert delivery.stalled(1e6 + 60)


def test_somebody_may_ask_for_another_try_at_once(outbox, payloads):
    wire = Wire()
    delivery = Delivery(outbox, wire.send, no_jitter)
    delivery.connected(-NEW_SECONDS)
    delivery.step(0.0)
    for message in range(1, IN_FLIGHT + 1):
        delivery.handed_over(message, "")
    delivery.step(1.0)
    assert len(wire.sent) == IN_FLIGHT
    delivery.retry()
    delivery.step(1.0)
    assert wire.sent == payloads[:IN_FLIGHT] * 2


def test_what_the_broker_does_not_have_is_left_to_the_client(outbox):
    wire = Wire()
    delivery = Delivery(outbox, wire.send, no_jitter)
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
    delivery = Delivery(outbox, Wire().send, no_jitter)
    delivery.step(0.0)
    before = outbox.waiting()
    fields = {"stream": "air", "sequence": 1, "digest": ack(payloads, 1).digest, "status": status}
    delivery.acknowledged(Ack(**{**fields, **change}))
    assert outbox.waiting() == before
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
    monkeypatch.setattr("agent.delivery.MOST_PAYLOAD_BYTES", len(payloads[0]) - 1)
    wire = Wire()
    Delivery(outbox, wire.send, no_jitter).step(0.0)
    assert payloads[0] not in wire.sent
    assert (outbox.folder / "refused" / key(1).filename).exists()


def test_what_the_broker_forbids_is_said_once_for_each_topic_until_it_is_allowed(caplog):
    denials = Denials("dev-1")
    for failure in ("Not authorized", "Not authorized", "", "Not authorized"):
        denials.answered("write", "here", failure)
    denials.answered("hear", "there", "Unspecified error")
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(";")[0] for line in lines] == [
        *["the broker does not let this device write to here (Not authorized)"] * 2,
        "the broker does not let this device hear there (Unspecified error)",
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
            delivery.handed_over(message + 1, "Not authorized")
        if len(wire.sent) > before:
            times.append(now)
    assert times == [0, 300, 600, 900, 1200, 1500, 1800]
