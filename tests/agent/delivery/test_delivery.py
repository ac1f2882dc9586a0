"""Delivery: in order, few at a time, the same bytes, and only the right ack counts."""

from pansketch_agent.delivery.delivery import IN_FLIGHT, NEW_CONNECTION_SECONDS, Delivery
from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_fleet.protocol.messages import Ack, digest
from pansketch_fleet.settings.profiles import OutboxRules
from tests.agent.delivery.wire import Wire, ack, key, no_jitter


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
            delivery.publish_acknowledged(len(wire.sent), "")
    return times


def test_the_same_bytes_again_with_exponential_backoff(outbox, payloads):
    wire = Wire()
    delivery = Delivery(outbox, wire.send, no_jitter)
    for number in range(2, 13):
        outbox.forget(key(number))
    delivery.connected(-NEW_CONNECTION_SECONDS)
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
    delivery.publish_acknowledged(6, "")
    delivery.step(101.0)
    assert len(wire.sent) == 6
    delivery.step(104.0)
    assert len(wire.sent) == 7
    assert set(wire.sent) == {payloads[0]}


def test_pauses_end_at_ten_minutes_and_vary_by_a_quarter(outbox):
    first, last = [], []
    for uniform in (0.0, 0.25, 1 - 2**-53):
        wire = Wire()
        delivery = Delivery(outbox, wire.send, lambda uniform=uniform: uniform)
        for number in range(2, 13):
            outbox.forget(key(number))
        delivery.connected(-NEW_CONNECTION_SECONDS)
        times = times_sent(delivery, wire, 5000)
        first.append(times[1])
        last.append(times[-1] - times[-2])
    assert first == [8, 9, 13]
    assert last == [450, 525, 750]


def test_when_the_collector_is_back_the_others_wait_no_longer(outbox, payloads):
    wire = Wire()
    delivery = Delivery(outbox, wire.send, no_jitter)
    delivery.connected(-NEW_CONNECTION_SECONDS)
    for number in range(IN_FLIGHT + 1, 13):
        outbox.forget(key(number))
    for now in range(3000):
        before = len(wire.sent)
        delivery.step(float(now))
        for message in range(before, len(wire.sent)):
            delivery.publish_acknowledged(message + 1, "")
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
        delivery.publish_acknowledged(message + 1, "")
    assert not delivery.stalled(1e6)
    delivery.connected(1e6)
    delivery.step(1e6)
    assert not delivery.stalled(1e6 + 59)
    assert delivery.stalled(1e6 + 60)


def test_a_request_retransmits_at_once(outbox, payloads):
    wire = Wire()
    delivery = Delivery(outbox, wire.send, no_jitter)
    delivery.connected(-NEW_CONNECTION_SECONDS)
    delivery.step(0.0)
    for message in range(1, IN_FLIGHT + 1):
        delivery.publish_acknowledged(message, "")
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


def test_a_clock_that_is_behind_does_not_age_what_is_kept(tmp_path, payloads):
    """Release 12 is acknowledged before the clock is set; its window is of long after 1970."""
    made = Outbox(tmp_path / "kept", 10**6, OutboxRules(keep_seconds=3600))
    wall = [0.0]
    delivery = Delivery(made, Wire().send, no_jitter, wall_clock=lambda: wall[0])
    for number in (11, 12):
        made.put(key(number), payloads[number - 1])
    delivery.step(0.0)
    delivery.acknowledged(ack(payloads, 12))
    wall[0] = 13 * 3600 + 100.0
    delivery.acknowledged(ack(payloads, 11))
    assert made.kept() == {key(11), key(12)}
    made.put(key(1), payloads[0])
    wall[0] = 14 * 3600 + 101.0
    delivery.step(1.0)
    delivery.acknowledged(ack(payloads, 1))
    assert made.kept() == {key(1)}
