"""A collector that is configured otherwise for a while costs no release."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
MANY = 24


@pytest.fixture
def patient_house(house):
    return house


def test_a_misconfigured_collector_costs_no_release(patient_house, hourly):
    house, rows = patient_house, hourly(MANY)
    house.configure("dev-1", rows, epsilon=2.0)
    house.start_broker()
    wrong = house.collector()
    house.configure("dev-1", rows, epsilon=1.0)
    agent = house.agent("dev-1")
    agent.says("the collector deferred release 1 (fingerprint: made with other settings")
    house.until(lambda: len(house.quarantine()) == MANY, "an answer to each release")
    wrong.says("quarantined: fingerprint")
    assert "(dev-1/air" in wrong.said
    assert wrong.stop() == 0
    assert len(house.outbox()) == MANY
    assert not any("refused" in name for name in house.outbox())

    house.collector()
    retry = [sys.executable, "-m", "pansketch_agent", "outbox", "retry", "--config", "dev-1.yaml"]
    subprocess.run(
        retry, cwd=house.folder, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, check=True
    )
    assert agent.ends() == 0, agent.said
    assert [sequence for sequence, _, _ in house.stored()] == list(range(1, MANY + 1))
    assert house.ledger() == house.stored()
    assert house.outbox() == []


def test_an_agent_that_is_stopped_meanwhile_begins_where_it_was(patient_house, hourly):
    house, rows = patient_house, hourly(MANY)
    house.configure("dev-1", rows, epsilon=2.0)
    house.start_broker()
    wrong = house.collector()
    house.configure("dev-1", rows, epsilon=1.0)
    agent = house.agent("dev-1")
    house.until(lambda: len(house.quarantine()) == MANY, "an answer to each release")
    assert agent.stop(signal.SIGTERM) == 0
    assert wrong.stop() == 0
    house.collector()
    agent = house.agent("dev-1")
    assert agent.ends() == 0, agent.said
    assert house.ledger() == house.stored()
    assert len(house.stored()) == MANY
