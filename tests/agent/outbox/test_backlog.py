"""The queued releases in memory."""

from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_fleet.protocol.messages import digest


def test_an_ack_of_a_release_that_was_read_needs_no_disk(tmp_path):
    outbox, key, payload = Outbox(tmp_path, 10**6), Key(1, "air"), b"x" * 100
    outbox.put(key, payload)
    assert outbox.read(key) == payload
    for path in tmp_path.glob("*.segment"):
        path.unlink()
    facts = outbox.facts(key)
    assert facts is not None
    assert (facts.digest, facts.size) == (digest(payload), len(payload))


def test_facts_of_a_release_that_was_not_read_come_from_disk(tmp_path):
    Outbox(tmp_path, 10**6).put(Key(1, "air"), b"y" * 100)
    outbox = Outbox(tmp_path, 10**6)
    facts = outbox.facts(Key(1, "air"))
    assert facts is not None
    assert facts.digest == digest(b"y" * 100)
    assert outbox.facts(Key(2, "air")) is None
    outbox.forget(Key(1, "air"))
    assert outbox.facts(Key(1, "air")) is None
