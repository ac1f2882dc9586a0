"""Messages of a local topic: what becomes a reading, what is passed over, and brokers that go."""

import json
import threading
from pathlib import Path

import pytest

from pansketch_agent.host.clock import Clock, system_clock
from pansketch_agent.runtime.stream_builder import open_source
from pansketch_agent.sources import mqtt_topic
from testbed.embedded_broker import free_port
from testbed.mosquitto import mosquitto
from tests.agent.sources.listening import listening, listens, publisher
from tests.agent.sources.local_topic import source
from tests.packages import needs

GOOD = '{"temp": 1.5, "wind": "N"}'


@pytest.fixture(autouse=True)
def info_log(caplog):
    caplog.set_level("INFO")


def test_a_message_is_a_reading_and_a_retained_one_is_not(device, broker, until, caplog):
    stream = device.configure(source=source(broker.url)).streams[0]
    with publisher(broker.url) as publish:
        publish('{"temp": 55, "wind": "NO"}', retain=True)
        with listening(stream) as rows:
            until(lambda: listens(caplog), "the subscription")
            for text in ("", "on", "[1]", b"\xff", GOOD[:-1], " " * mqtt_topic.MAX_BYTES + GOOD):
                publish(text)
            publish('{"temp": 9, "wind": "N"}', topic="home/other")
            publish(GOOD)
            publish('{"temp": -2, "wind": "calm"}')
            until(lambda: len(rows) >= 2, "the readings")
        publish("", retain=True)
    assert rows == [[1.5, 1.0], [-2.0, 0.0]]


def test_many_messages_at_once_all_become_readings(device, broker, until, caplog):
    stream = device.configure(source=source(broker.url)).streams[0]
    with publisher(broker.url) as publish, listening(stream) as rows:
        until(lambda: listens(caplog), "the subscription")
        for number in range(200):
            publish(json.dumps({"temp": number % 50, "wind": "N"}))
        until(lambda: len(rows) == 200, "all of them")
    assert [row[0] for row in rows] == [number % 50 for number in range(200)]


def test_a_broker_that_comes_back_is_listened_to_again(device, broker_at, until, caplog):
    port = free_port()
    stream = device.configure(source=source(f"mqtt://127.0.0.1:{port}")).streams[0]
    real = system_clock()
    quick = Clock(real.now, real.monotonic, lambda stop, seconds: stop.wait(seconds / 10))
    with listening(stream, quick) as rows:
        for times in (1, 2):
            with broker_at(port) as broker:
                until(lambda times=times: listens(caplog, times), "the subscription")
                with publisher(broker.url) as publish:
                    publish(GOOD)
                    until(lambda times=times: len(rows) >= times, "the reading")
            until(lambda times=times: lost(caplog) >= times, "the loss is said")
    assert len(rows) == 2


def lost(caplog) -> int:
    return sum("retrying until it is available" in record.getMessage() for record in caplog.records)


def test_an_absent_broker_is_logged_once_and_tried_with_exponential_backoff(device, caplog):
    port = free_port()
    stream = device.configure(source=source(f"mqtt://127.0.0.1:{port}")).streams[0]
    waits, stop = [], threading.Event()

    def wait(stopped: threading.Event, seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 8:
            stop.set()
        return stopped.is_set()

    clock = Clock(lambda: 0.0, lambda: 0.0, wait)
    assert not list(open_source(stream, clock, stop, Path("/"), lambda: 0.5, print))
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"air: no messages from 127.0.0.1:{port} (Connection refused); "
        "retrying until it is available"
    ]


@pytest.fixture
@needs("mosquitto")
def strict_broker(tmp_path):
    """mosquitto without any user."""
    with mosquitto(tmp_path, anonymous=False) as port:
        yield f"mqtt://127.0.0.1:{port}"


def test_a_broker_that_refuses_is_logged_once_with_the_fix(device, strict_broker, until, caplog):
    more = ", username: me, password: s3cret"
    stream = device.configure(source=source(strict_broker, more=more)).streams[0]
    real, waits = system_clock(), []

    def wait(stop: threading.Event, seconds: float) -> bool:
        waits.append(seconds)
        return stop.wait(0.01)

    with listening(stream, Clock(real.now, real.monotonic, wait)):
        until(lambda: len(waits) >= 3, "it was refused three times")
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "it refuses this device: Not authorized; set username and password" in said[0]
    assert "s3cret" not in said[0]


def test_an_agent_releases_what_a_topic_states(device, broker, peer, until):
    device.configure(broker.url, source=source(broker.url), window="2s")
    with peer(broker.url) as collector:
        agent = device.start("run")
        agent.wait_for_output("air: listening to home/air")
        with publisher(broker.url) as publish:
            publish(GOOD)
            publish('{"temp": 17.348261, "wind": 12}')
        until(lambda: collector.releases, "a release")
        assert agent.stop() == 0
    assert "17.34" not in agent.output
