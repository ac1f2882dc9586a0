"""A backlog of the fleet simulator: queued while the collectors are paused, and measured after."""

import json
import os
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Ack, digest
from testbed.fleet_simulator.broker_client import BrokerClient
from testbed.fleet_simulator.delivery import drain_backlog
from testbed.fleet_simulator.options import CONFIG
from testbed.fleet_simulator.outbox import FleetOutbox
from testbed.fleet_simulator.releases import Message
from testbed.fleet_simulator.server import own_server
from testbed.fleet_simulator.usage import Meter
from testbed.mosquitto import mosquitto
from tests import waiting
from tests.testbed.fleet_simulator.test_program import simulate


@pytest.mark.needs("mosquitto", "postgresql")
def test_a_backlog_is_stored_once_after_the_pause(tmp_path):
    words = ["--workers", 1, "--backlog", "--devices", 100, "--windows", 4, "--outages", 0.2]
    done = simulate(*words, "--in-flight", 50, "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    # The outages of window 1, of which none or all are with a probability below 1e-9.
    assert 0 < found["before"] < 100
    assert found["before"] + found["releases"] == found["stored"] == 400
    assert found["acknowledged"] == {"stored": found["releases"]}
    assert (found["faults"], found["unacknowledged"], found["resent"]) == (0, 0, 0)
    assert found["seconds"] > 0
    assert {"simulator", "broker", "collector", "worker 1", "postgresql"} == set(found["processes"])
    assert "kills" not in found


@pytest.mark.needs("mosquitto")
def test_processes_that_ingest_are_paused_and_the_broker_is_not(tmp_path):
    def state(pid):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]

    with own_server(tmp_path, CONFIG) as server:
        pids = server.processes
        with server.ingest_paused():
            waiting.until(lambda: state(pids["collector"]) == "T", "a paused collector")
            assert state(pids["broker"]) != "T"
        waiting.until(lambda: state(pids["collector"]) != "T", "a running collector")


@pytest.mark.needs("mosquitto")
def test_a_backlog_is_queued_before_a_collector_goes_on(tmp_path):
    """And the measurement starts when the pause ends."""
    config = load_collector(CONFIG, {})
    sent = [
        Message(f"device-{n}", topics.release(config.fleet, f"device-{n}", "temp"), b"%d" % n, "")
        for n in range(3)
    ]
    sent = [each._replace(digest=digest(each.payload)) for each in sent]
    outbox, events = FleetOutbox(iter(sent), 4, 60.0), []
    with mosquitto(tmp_path) as port:
        mqtt = replace(config.mqtt, port=port)

        @contextmanager
        def paused():
            events.append("paused")
            yield
            events.append(f"resumed with {outbox.counts.releases} queued")
            with BrokerClient(mqtt, config.fleet, "collector") as collector:
                for each in sent:
                    ack = Ack("temp", 1, each.digest, "stored").encode()
                    topic = topics.ack(config.fleet, each.device)
                    collector.publish([Message(each.device, topic, ack, "")])
                while not collector.finished:
                    collector.exchange(0.1)

        meter = Meter({})
        meter.start = lambda: events.append("clock")
        drain_backlog(mqtt, config, outbox, paused(), meter, 60.0)
    assert events == ["paused", "clock", "resumed with 3 queued"]
    assert outbox.done
    assert outbox.counts.answers == {"stored": 3}
    assert meter.seconds > 0


def test_a_meter_keeps_what_it_has_measured():
    meter = Meter({"self": os.getpid(), "gone": 999_999_999})
    time.sleep(0.05)  # several ticks of the kernel's clock; a longer sleep changes nothing
    meter.stop()
    first = meter.seconds, dict(meter.spent)
    assert set(meter.spent) == {"self"}
    assert 0 <= meter.other_cores <= 2 * os.cpu_count()
    meter.stop()
    assert (meter.seconds, meter.spent) == first
    meter.start()
    meter.stop()
    assert meter.seconds != first[0]
