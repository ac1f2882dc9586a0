"""Faults in the middle: nothing is lost, nothing is stored or released twice."""

import random
import signal
import subprocess
import time
from itertools import pairwise

import pytest

HOURS = 18
SPEED = 3600 * 12  # twelve windows a second
# Kills come at random points of both its threads: the one that debits, the one that delivers.
KILLED_BY = [lambda fleet: fleet.ledger(), lambda fleet: fleet.stored()]
PACED = f"{{type: replay, path: dev-1.csv, speed: {SPEED}}}"


def everything_arrived(fleet, hours, devices=("dev-1",)):
    for device in devices:
        stored = fleet.stored(device)
        assert [sequence for sequence, _, _ in stored] == list(range(1, hours + 1))
        assert all(before[2] == after[1] for before, after in pairwise(stored))
        assert fleet.ledger(device) == stored
        assert fleet.outbox(device) == []
    # Another release of a window, or other bytes under a sequence number, would stand here.
    assert fleet.quarantine() == []


def test_a_broker_that_comes_late_gets_everything(fleet, hourly):
    for device in ("dev-1", "dev-2"):
        fleet.configure(device, hourly(HOURS))
    collector = fleet.collector(listens=False)
    agents = [fleet.agent("dev-1"), fleet.agent("dev-2")]
    collector.wait_for_output("is not there")
    for agent in agents:
        agent.wait_for_output("no broker at")
        agent.wait_for_output(
            f"waiting for the collector to acknowledge the outbox (releases: {HOURS})"
        )
    # An agent that starts before the collector would retransmit only after a timeout.
    with agents[0].frozen(), agents[1].frozen():
        fleet.start_broker()
        collector.wait_until_connected()
    assert [agent.wait() for agent in agents] == [0, 0]
    everything_arrived(fleet, HOURS, ("dev-1", "dev-2"))
    assert collector.output.count("is not there") == 1
    assert [agent.output.count("no broker at") for agent in agents] == [1, 1]
    assert collector.output.count("is connected") == 1
    assert [agent.output.count("connected to the broker") for agent in agents] == [1, 1]


def test_a_killed_broker_costs_nothing(fleet, hourly):
    fleet.configure("dev-1", hourly(HOURS), source=PACED)
    broker = fleet.start_broker()
    collector, agent = fleet.collector(), fleet.agent("dev-1")
    fleet.until(lambda: len(fleet.stored()) >= 4, "some releases")
    assert broker.stop(signal.SIGKILL) == -signal.SIGKILL
    agent.wait_for_output("no broker at")
    collector.wait_for_output("closed the connection")
    assert 0 < len(fleet.stored()) < HOURS
    # Both retry after one second, without success, and must not log that again.
    with pytest.raises(subprocess.TimeoutExpired):
        agent.process.wait(1.5)
    with agent.frozen():
        fleet.start_broker()
        collector.wait_until_connected(times=2)
    assert agent.wait() == 0
    everything_arrived(fleet, HOURS)
    assert collector.stop() == 0
    assert collector.output.count("is connected") == 2
    assert collector.output.count("retrying with exponential backoff") == 1
    assert agent.output.count("no broker at") == 1


def test_a_killed_collector_costs_nothing(fleet, hourly):
    fleet.configure("dev-1", hourly(HOURS), source=PACED)
    fleet.start_broker()
    collector, agent = fleet.collector(), fleet.agent("dev-1")
    fleet.until(lambda: len(fleet.stored()) >= 4, "some releases")
    assert collector.stop(signal.SIGKILL) == -signal.SIGKILL
    held = fleet.stored()
    assert 0 < len(held) < HOURS
    # Releases continue while no collector stores them.
    fleet.until(lambda: len(fleet.outbox()) >= 4, "a growing outbox")
    assert fleet.stored() == held
    fleet.collector()
    assert agent.wait() == 0
    everything_arrived(fleet, HOURS)


def test_a_killed_agent_loses_a_window_at_most_and_repeats_none(fleet, hourly):
    hours, draw = 320, random.Random(7)
    fleet.configure("dev-1", hourly(hours))
    fleet.start_broker()
    fleet.collector()
    for progress in KILLED_BY * 2:
        enough = len(progress(fleet)) + draw.randint(1, 20)
        agent = fleet.agent("dev-1")
        while len(progress(fleet)) < enough and not agent.ended():
            time.sleep(0.001)
        assert agent.stop(signal.SIGKILL) == -signal.SIGKILL, "ended before it was killed"
    assert len(fleet.ledger()) < hours
    last = fleet.agent("dev-1")
    assert last.wait() == 0
    assert "Traceback" not in last.output
    stored, ledger = fleet.stored(), fleet.ledger()
    assert fleet.quarantine() == []
    assert hours - 2 * len(KILLED_BY) <= len(stored) <= hours
    # One debit for each window, in order and without a gap; a crash may only spend it for nothing.
    assert [sequence for sequence, _, _ in ledger] == list(range(1, hours + 1))
    assert all(before[2] == after[1] for before, after in pairwise(ledger))
    assert set(stored) <= set(ledger)
    assert len({start for _, start, _ in stored}) == len(stored)
    assert fleet.outbox() == []
