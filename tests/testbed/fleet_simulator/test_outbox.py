"""A simulated release is published until its acknowledgement, as an agent's outbox does."""

from pansketch_fleet.protocol.messages import Ack, digest
from testbed.fleet_simulator.outbox import FleetOutbox
from testbed.fleet_simulator.releases import Message


def message(number):
    payload = b"%d" % number
    return Message(f"device-{number}", f"topic-{number}", payload, digest(payload))


def ack(sent, status="stored", reason=""):
    return Ack("temp", 1, sent.digest, status, reason)


def outbox(many, in_flight=100, loses=lambda: False):
    made = [message(number) for number in range(many)]
    return made, FleetOutbox(iter(made), in_flight, 60.0, loses)


def test_no_more_than_the_limit_are_in_flight():
    made, box = outbox(5, in_flight=2)
    assert box.due(10, 0.0) == made[:2]
    assert box.due(10, 1.0) == []
    box.acknowledged("device-1", ack(made[1]))
    assert box.due(10, 2.0) == [made[2]]
    assert (box.waiting, box.done) == (2, False)


def test_what_is_not_acknowledged_is_published_again_when_it_is_due():
    made, box = outbox(3)
    assert box.due(2, 0.0) == made[:2]
    assert box.due(2, 1.0) == made[2:]
    box.acknowledged("device-0", ack(made[0]))
    assert box.due(10, 59.0) == []
    assert box.due(10, 60.0) == [made[1]]
    assert box.due(10, 61.0) == [made[2]]
    assert box.counts.resent == 2
    assert box.due(10, 119.0) == []
    for each in made[1:]:
        box.acknowledged(each.device, ack(each))
    assert box.done
    assert box.counts.answers == {"stored": 3}


def test_a_new_connection_publishes_all_that_waits():
    made, box = outbox(3)
    box.due(10, 0.0)
    box.acknowledged("device-1", ack(made[1]))
    box.reconnected()
    assert box.due(10, 1.0) == [made[0], made[2]]
    assert (box.counts.resent, box.counts.releases, box.counts.messages) == (2, 3, 5)


def test_a_lost_acknowledgement_makes_a_duplicate():
    made, box = outbox(1, loses=lambda: True)
    box.due(10, 0.0)
    box.acknowledged("device-0", ack(made[0]))
    assert not box.done
    assert box.due(10, 1.0) == made
    box.acknowledged("device-0", ack(made[0], "duplicate"))
    assert box.done
    assert (box.counts.repeated, box.counts.resent) == (1, 0)
    assert box.counts.answers == {"stored": 1, "duplicate": 1}


def test_acknowledgements_of_others_count_for_none():
    made, box = outbox(2)
    box.due(10, 0.0)
    box.acknowledged("device-1", ack(made[0]))
    box.acknowledged("device-0", ack(message(7)))
    assert (box.waiting, box.counts.unknown) == (2, 2)


def test_a_refusal_ends_a_release_and_is_counted_by_its_reason():
    made, box = outbox(2)
    box.due(10, 0.0)
    box.acknowledged("device-0", ack(made[0], "later", "fingerprint: other settings"))
    box.acknowledged("device-1", ack(made[1], "refused", "bounds: counters"))
    assert box.done
    assert box.counts.answers == {"later fingerprint": 1, "refused bounds": 1}
