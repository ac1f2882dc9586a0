"""Releases too large for the broker: found, put on hold with the reason, and logged once."""

from dataclasses import dataclass, field

import pytest

from pansketch_agent.delivery.delivery import ON_HOLD_SECONDS, Delivery
from pansketch_agent.delivery.oversize_detector import STRIKES
from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_fleet.mqtt.reconnect import max_payload_bytes
from pansketch_fleet.protocol.messages import Ack, digest

LIMIT = 1000


def key(sequence):
    return Key(sequence, "air")


@dataclass
class SmallBroker:
    """Ends the connection at a payload beyond its limit, in the order of arrival.

    `states_limit`: it states its limit beforehand, as MQTT 5 allows.
    """

    outbox: Outbox
    limit: int = LIMIT
    states_limit: bool = False
    ends: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self):
        max_payload_bytes = (
            (lambda stream: self.limit) if self.states_limit else (lambda stream: 2**28)
        )
        self.delivery = Delivery(self.outbox, self._send, lambda: 0.5, max_payload_bytes)
        self._pending = []

    def _send(self, stream, content):
        self._pending.append((len(self.sent), content))
        self.sent.append(len(content))
        return len(self.sent) - 1

    def run(self, seconds):
        self.delivery.connected(self.now)
        for _ in range(seconds):
            self.delivery.step(self.now)
            self._answer()
            self.now += 1.0

    def _answer(self):
        pending, self._pending = self._pending, []
        for message, content in pending:
            if len(content) > self.limit:
                self.ends.append(self.now)
                self.delivery.disconnected()
                self.delivery.connected(self.now)
                return
            self.delivery.publish_acknowledged(message, "")
            sequence = int(content.split()[0])
            self.delivery.acknowledged(Ack("air", sequence, digest(content), "stored"))

    def left(self):
        return [each.sequence for each in self.outbox.queued()]


@pytest.fixture
def outbox(tmp_path):
    return Outbox(tmp_path / "outbox", 10**7)


def fill(outbox, *sizes):
    for sequence, size in enumerate(sizes, 1):
        outbox.put(key(sequence), b"%d " % sequence + b"x" * (size - len(b"%d " % sequence)))


ORDERS = {
    "the first": (2000, 500, 600, 700, 800, 900),
    "one in the middle": (500, 600, 2000, 700, 800, 900),
    "the last": (500, 600, 700, 800, 900, 2000),
    "two of them": (500, 2000, 600, 2000, 700, 800),
    "all but one": (2000, 2000, 2000, 2000, 2000, 500),
}


@pytest.mark.parametrize("order", ORDERS)
def test_the_one_that_ends_the_connection_is_found_and_the_others_go_on(outbox, order, caplog):
    fill(outbox, *ORDERS[order])
    broker = SmallBroker(outbox)
    broker.run(300)
    large = [sequence for sequence, size in enumerate(ORDERS[order], 1) if size > LIMIT]
    assert broker.left() == large
    assert len(broker.ends) <= STRIKES * len(large) + 1
    assert set(broker.delivery.on_hold()) == set(map(key, large))
    (line,) = [record.getMessage() for record in caplog.records]
    assert "is on hold in the outbox: the broker ends the connection when it is sent" in line
    assert line.endswith("or lower the sketch's sizes")


def test_it_is_tried_again_after_an_hour_and_costs_one_connection(outbox):
    fill(outbox, 500, 2000, 600)
    broker = SmallBroker(outbox)
    broker.run(300)
    before = len(broker.ends)
    broker.run(int(ON_HOLD_SECONDS) + 60)
    assert len(broker.ends) == before + 1
    broker.limit = 3000
    broker.run(int(ON_HOLD_SECONDS) + 60)
    assert broker.left() == []
    assert broker.delivery.on_hold() == {}


def test_one_that_was_on_hold_goes_when_a_larger_one_has_passed(outbox):
    fill(outbox, 500, 2000)
    broker = SmallBroker(outbox)
    broker.run(60)
    assert broker.left() == [2]
    broker.limit = 4000
    outbox.put(key(3), b"3 " + b"x" * 2500)
    broker.run(60)
    assert broker.left() == []


def test_a_network_that_breaks_now_and_then_holds_nothing_back(outbox):
    """Releases in flight are never the same alone, or are accepted in between."""
    fill(outbox, *[500] * 60)
    broker = SmallBroker(outbox)
    for sequence in range(1, 40):
        broker.limit = 10 if sequence % 3 else LIMIT
        broker.run(1)
    broker.limit = LIMIT
    broker.run(60)
    assert broker.left() == []


def test_a_limit_that_the_broker_states_is_kept_and_reported_once(outbox, caplog):
    fill(outbox, 500, 2000, 600, 2000, 700)
    broker = SmallBroker(outbox, states_limit=True)
    broker.run(100)
    assert broker.ends == []
    assert max(broker.sent) < LIMIT
    assert broker.left() == [2, 4]
    assert set(broker.delivery.on_hold().values()) == {
        "larger than the broker takes (2000 bytes, it takes 1000)"
    }
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("air: release 2 is on hold in the outbox: larger than the broker")
    broker.limit = 5000
    broker.run(30)
    assert broker.left() == []


def test_an_answer_that_it_is_too_large_holds_it_back(outbox):
    fill(outbox, 2000)
    broker = SmallBroker(outbox, limit=10**6)
    broker.delivery.connected(0.0)
    broker.delivery.step(0.0)
    broker.delivery.publish_acknowledged(0, "Packet too large")
    assert "the broker reports that it is too large" in broker.delivery.on_hold()[key(1)]
    broker.delivery.step(60.0)
    assert len(broker.sent) == 1
    broker.delivery.retry()
    broker.delivery.step(61.0)
    assert len(broker.sent) == 2


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("most", [30, 127, 128, 131, 200, 16383, 16390, 2097151, 2097160, 4000000])
def test_the_room_in_a_packet_is_exact(version, most):
    """Against the form of the packet: what fits is as large as it can be."""
    topic = "pansketch/v1/testing/dev-1"

    def packet(payload):
        body = 2 + len(topic) + 2 + (version == "5") + payload
        return 1 + next(n for n in (1, 2, 3, 4) if body < 128**n) + body

    largest = max_payload_bytes(topic, most, version)
    assert largest < 0 or packet(largest) <= most
    assert packet(max(largest, 0) + 1) > most
