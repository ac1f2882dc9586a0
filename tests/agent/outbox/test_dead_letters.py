"""Dead letters of a ledger that was lost: releases of the next one have the same names."""

import pytest

from pansketch_agent.outbox.dead_letters import refused_in
from pansketch_agent.outbox.outbox import Key, Outbox

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
