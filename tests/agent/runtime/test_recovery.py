"""An agent after a kill or damage to its files."""

import signal

from pansketch_agent.windows.window import schedule_for
from tests.agent.peer import starts

HOUR = 3600
NEW_YEAR = 1704067200


def test_a_damaged_segment_is_renamed_and_the_rest_arrives(device, broker, peer):
    device.configure(broker.url)
    assert device.start("run", "--drain", "0").wait() == 1
    (segment,) = (device.state / "outbox").glob("*.segment")
    payload, content = list(device.releases().values())[1], segment.read_bytes()
    segment.write_bytes(content.replace(payload, payload[:-1] + bytes([payload[-1] ^ 1])))
    with peer(broker.url) as collector:
        agent = device.start("run")
        assert agent.wait() == 0, agent.output
    assert collector.sequences() == [1, 3, 4, 5]
    assert agent.output.count("is damaged; renamed") == 1


KILL_AFTER_DEBIT = """
import os, signal, sys
from pansketch_agent.outbox import outbox
from pansketch_agent.__main__ import main

put = outbox.Outbox.put

def killed(self, key, payload):
    if key.sequence == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    put(self, key, payload)

outbox.Outbox.put = killed
main(sys.argv[1:])
"""


def test_killed_between_debit_and_persist_the_window_is_lost_and_never_repeated(
    device, broker, peer
):
    device.configure(broker.url)
    agent = device.start("run", program=("-c", KILL_AFTER_DEBIT))
    assert agent.wait() == -signal.SIGKILL
    assert [int(debit[0]) for debit in device.ledger()] == [1, 2, 3]
    with peer(broker.url) as collector:
        agent = device.start("run")
        assert agent.wait() == 0, agent.output
    assert sorted(set(collector.sequences())) == [1, 2, 4, 5]
    offset = schedule_for("dev-1", HOUR).offset
    expected = [NEW_YEAR + HOUR * n + offset for n in (0, 1, 3, 4)]
    assert sorted(set(starts(collector))) == expected
    assert len(set(collector.releases)) == 4


def test_a_torn_ledger_goes_on_one_window_later(device, broker, peer):
    device.configure(broker.url)
    with peer(broker.url) as collector:
        assert device.start("once").wait() == 0
        assert device.start("once").wait() == 0
        path = device.state / "ledger"
        path.write_bytes(path.read_bytes()[:-5])
        assert device.start("run").wait() == 0
    assert collector.sequences() == [1, 2, 3, 4, 5]
    assert len(set(starts(collector))) == 5
