"""Turns: a release that is never answered holds up no other, and comes round again."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from pansketch_agent.delivery.delivery import IN_FLIGHT, TRIES_BEFORE_YIELD, Delivery
from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_fleet.protocol.messages import Ack, digest

STREAM = "air"


def key(sequence):
    return Key(sequence, STREAM)


def payload(sequence):
    return b"release %d" % sequence


@dataclass
class Fleet:
    """A broker that takes everything at once, and a collector that never answers some releases."""

    outbox: Outbox
    deaf_to: set[int]
    sent: list[tuple[float, int]] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self):
        self.delivery = Delivery(self.outbox, self._send, lambda: 0.5)
        self._messages = {}
        self.delivery.connected(-1e6)

    def _send(self, stream, content):
        sequence = int(content.split()[1])
        assert content == payload(sequence)
        self.sent.append((self.now, sequence))
        self._messages[len(self.sent)] = sequence
        return len(self.sent)

    def run(self, seconds, pace=1):
        for _ in range(seconds // pace):
            self.delivery.step(self.now)
            for message, sequence in self._messages.items():
                self.delivery.publish_acknowledged(message, "")
                if sequence not in self.deaf_to:
                    answer = Ack(STREAM, sequence, digest(payload(sequence)), "stored")
                    self.delivery.acknowledged(answer)
            self._messages.clear()
            self.now += pace

    def left(self):
        return [each.sequence for each in self.outbox.queued()]


@pytest.fixture
def outbox(tmp_path):
    return Outbox(tmp_path / "outbox", 10**7)


def fill(outbox, count):
    for sequence in range(1, count + 1):
        outbox.put(key(sequence), payload(sequence))


@pytest.mark.parametrize("count", [10, 60], ids=["a short queue", "a long one"])
def test_four_that_are_never_answered_block_no_other(outbox, count):
    """More than fill all slots of the stream, and the oldest."""
    fill(outbox, count)
    deaf = set(range(1, IN_FLIGHT + 1))
    fleet = Fleet(outbox, deaf)
    fleet.run(10 + 20 + 40)
    assert len(fleet.left()) == count, "before they have given up their places"
    fleet.run(10 + count)
    assert fleet.left() == sorted(deaf)
    assert Counter(sequence for _, sequence in fleet.sent if sequence not in deaf) == Counter(
        range(IN_FLIGHT + 1, count + 1)
    ), "each of the others once"


def test_they_come_round_again_and_are_taken_when_the_collector_answers(outbox):
    fill(outbox, 30)
    fleet = Fleet(outbox, set(range(1, 11)))
    fleet.run(4 * 3600)
    assert fleet.left() == list(range(1, 11))
    before = Counter(sequence for _, sequence in fleet.sent)
    fleet.run(4 * 3600)
    again = Counter(sequence for _, sequence in fleet.sent) - before
    assert set(again) == set(range(1, 11)), "each has its turn"
    assert max(again.values()) - min(again.values()) <= 1, again
    fleet.deaf_to.clear()
    fleet.run(1200)
    assert fleet.left() == []


def test_the_window_stays_small_and_a_silent_collector_gets_few(outbox):
    """In all streams together: there is no acknowledgement for a day."""
    fill(outbox, 100)
    fleet = Fleet(outbox, set(range(1, 101)))
    fleet.run(86400, pace=10)
    times = [at for at, _ in fleet.sent]
    assert max(Counter(times).values()) <= IN_FLIGHT
    last_hour = [at for at in times if at >= fleet.now - 3600]
    assert len(last_hour) <= IN_FLIGHT * 3600 / 600
    assert len({sequence for _, sequence in fleet.sent}) > 4 * IN_FLIGHT, "they take turns"


def test_a_live_release_goes_before_those_that_rest_and_before_the_backlog(outbox):
    fill(outbox, 40)
    deaf = set(range(1, IN_FLIGHT + 1))
    fleet = Fleet(outbox, deaf | set(range(20, 41)))
    fleet.run(200)
    fleet.outbox.put(key(100), payload(100))
    before = {sequence for _, sequence in fleet.sent}
    fleet.run(3000)
    newcomers = [sequence for _, sequence in fleet.sent if sequence not in before]
    assert newcomers[0] == 100
    assert set(newcomers[1:]) & set(range(20, 41)), "the backlog goes on after it"
    assert key(100) not in outbox


def test_alone_it_keeps_its_place(outbox):
    """No other release needs its slot: it is retransmitted with exponential backoff, as ever."""
    fill(outbox, IN_FLIGHT)
    fleet = Fleet(outbox, set(range(1, IN_FLIGHT + 1)))
    fleet.run(200)
    times = sorted({at for at, _ in fleet.sent})
    assert times == [0, 10, 30, 70, 150]
    assert fleet.delivery.attempts() == {key(n): 5 for n in range(1, IN_FLIGHT + 1)}


def test_a_slot_is_yielded_after_several_transmissions_and_not_before(outbox):
    fill(outbox, IN_FLIGHT + 1)
    fleet = Fleet(outbox, set(range(1, IN_FLIGHT + 2)))
    fleet.run(69)
    assert Counter(s for _, s in fleet.sent) == dict.fromkeys(
        range(1, IN_FLIGHT + 1), TRIES_BEFORE_YIELD
    )
    fleet.run(2)
    assert fleet.sent[-IN_FLIGHT][1] == IN_FLIGHT + 1


def test_a_new_connection_begins_with_those_that_have_their_slots(outbox):
    fill(outbox, 12)
    fleet = Fleet(outbox, set(range(1, 13)))
    fleet.run(100)
    held = {sequence for at, sequence in fleet.sent if at >= 70}
    fleet.delivery.connected(fleet.now)
    before = len(fleet.sent)
    fleet.run(1)
    assert {sequence for _, sequence in fleet.sent[before:]} == held
