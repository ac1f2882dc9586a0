"""A collector that is configured otherwise for a while costs no release."""

import os
import signal
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
MANY = 24


def test_a_misconfigured_collector_costs_no_release(fleet, hourly):
    rows = hourly(MANY)
    fleet.configure("dev-1", rows, epsilon=2.0)
    fleet.start_broker()
    wrong = fleet.collector()
    fleet.configure("dev-1", rows, epsilon=1.0)
    agent = fleet.agent("dev-1")
    agent.wait_for_output("the collector deferred release 1 (fingerprint: made with other settings")
    fleet.until(lambda: len(fleet.quarantine()) == MANY, "an answer to each release")
    wrong.wait_for_output("quarantined: fingerprint")
    assert "(dev-1/air" in wrong.output
    assert wrong.stop() == 0
    assert len(fleet.outbox()) == MANY
    assert not any("refused" in name for name in fleet.outbox())

    fleet.collector()
    retry = [sys.executable, "-m", "pansketch_agent", "outbox", "retry", "--config", "dev-1.yaml"]
    subprocess.run(
        retry, cwd=fleet.folder, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, check=True
    )
    assert agent.wait() == 0, agent.output
    assert [sequence for sequence, _, _ in fleet.stored()] == list(range(1, MANY + 1))
    assert fleet.ledger() == fleet.stored()
    assert fleet.outbox() == []


def test_an_agent_that_is_stopped_meanwhile_begins_where_it_was(fleet, hourly):
    rows = hourly(MANY)
    fleet.configure("dev-1", rows, epsilon=2.0)
    fleet.start_broker()
    wrong = fleet.collector()
    fleet.configure("dev-1", rows, epsilon=1.0)
    agent = fleet.agent("dev-1")
    fleet.until(lambda: len(fleet.quarantine()) == MANY, "an answer to each release")
    assert agent.stop(signal.SIGTERM) == 0
    assert wrong.stop() == 0
    fleet.collector()
    agent = fleet.agent("dev-1")
    assert agent.wait() == 0, agent.output
    assert fleet.ledger() == fleet.stored()
    assert len(fleet.stored()) == MANY
