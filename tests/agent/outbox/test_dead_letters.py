"""Dead letters of a ledger that was lost: releases of the next one have the same names."""

import json

import pytest

from pansketch_agent.commands.list_outbox import as_jsonl
from pansketch_agent.outbox.dead_letters import refused_in
from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_fleet.protocol.messages import digest

KEY = Key(1, "air")
NOW = 1_700_000_000.0


@pytest.fixture
def dead_letter(device, release_of):
    """The folder of an outbox, and its one dead letter."""
    folder, payload = device.state / "outbox", release_of(device.configure(), 1)
    outbox = Outbox(folder, 10**6)
    outbox.put(KEY, payload)
    outbox.refuse(KEY)
    outbox.close()
    return folder, payload


@pytest.mark.parametrize("acknowledged", [False, True])
def test_it_stays_while_the_outbox_has_another_release_of_its_name(
    device, release_of, dead_letter, acknowledged, caplog
):
    folder, payload = dead_letter
    outbox, other = Outbox(folder, 10**6), release_of(device.configure(), 1)
    outbox.put(KEY, other)
    if acknowledged:
        outbox.acknowledged(KEY, NOW)
    before = outbox.queued()
    assert outbox.requeue_refused() == 0
    assert outbox.queued() == before
    assert [path.read_bytes() for path in refused_in(folder)] == [payload]
    assert "stays: the outbox has another release of this name" in caplog.text
    outbox.forget_kept(lambda key: True)
    outbox.forget(KEY)
    assert outbox.requeue_refused() == 1
    assert (outbox.read(KEY), refused_in(folder)) == (payload, [])


def test_a_file_whose_release_is_queued_already_goes_and_counts_once(dead_letter):
    """As after a crash between the two steps."""
    folder, payload = dead_letter
    outbox = Outbox(folder, 10**6)
    outbox.put(KEY, payload)
    cost = outbox._backlog.cost
    assert outbox.requeue_refused() == 0
    assert (outbox._backlog.cost, outbox.queued(), refused_in(folder)) == (cost, [KEY], [])


def test_an_older_dead_letter_of_its_name_is_not_overwritten(device, release_of, dead_letter):
    """Both are exported; requeued is one of them after the other."""
    folder, payload = dead_letter
    outbox, other = Outbox(folder, 10**6), release_of(device.configure(), 1)
    for _ in range(2):  # The second time is after a crash before the release left its segment.
        outbox.put(KEY, other)
        outbox.refuse(KEY)
    kept = refused_in(folder)
    assert sorted(path.read_bytes() for path in kept) == sorted([payload, other])
    lines = [json.loads(line) for line in as_jsonl("house", "attic", folder)]
    assert {line["digest"] for line in lines} == {digest(payload), digest(other)}
    assert all((line["sequence"], line["refused"]) == (1, True) for line in lines)
    for left in (1, 0):
        assert outbox.requeue_refused() == 1
        assert outbox.read(KEY) in (payload, other)
        assert len(refused_in(folder)) == left
        outbox.forget(KEY)
