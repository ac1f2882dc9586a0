"""SIGHUP: `serve` goes on with the configuration as it is then, or with the one before."""

import os
import pty
import signal

import pytest

from testbed.embedded_broker import EmbeddedBroker
from tests.collector.serving import serving

KEPT = "the configuration before stays in effect"
ANEW = "the configuration is reloaded; starting again"
RELOADS = 5


@pytest.fixture
def served(make_small_fleet):
    with EmbeddedBroker() as broker:
        fleet = make_small_fleet(url=broker.url)
        fleet.port = broker.port
        yield fleet


def edit(fleet, before, after):
    text = fleet.path.read_text()
    assert before in text
    fleet.path.write_text(text.replace(before, after))


def reload(running, until):
    seen = running.output.count(ANEW)
    running.process.send_signal(signal.SIGHUP)
    until(lambda: running.output.count(ANEW) > seen)


def test_no_release_is_lost_and_none_is_stored_twice(served, start, until, connect):
    running = start(served.path)
    running.wait_until_connected()
    payloads = [served.release("one", n) for n in range(1, 4 * RELOADS + 1)]
    with connect(served.port, served.fleet, "one") as peer:
        for number, payload in enumerate(payloads):
            if number % 4 == 2:
                reload(running, until)
            peer.exchange(served.topic(), payload)
    assert sorted(served.stored()) == sorted(payloads)
    assert running.stop() == 0, running.output
    assert running.output.count(ANEW) == RELOADS


def test_another_database_is_the_one_of_the_releases_that_follow(served, start, until, connect):
    running = start(served.path)
    running.wait_until_connected()
    first, second = served.release("one", 1), served.release("one", 2)
    with connect(served.port, served.fleet, "one") as peer:
        peer.exchange(served.topic(), first)
        edit(served, "collector.sqlite", "another.sqlite")
        reload(running, until)
        peer.exchange(served.topic(), second)
    assert running.stop() == 0, running.output
    assert served.stored() == [second]
    edit(served, "another.sqlite", "collector.sqlite")
    assert served.stored() == [first]


@pytest.mark.parametrize(("before", "after"), [("fleet: ", "fleet: ["), ("epsilon", "epsilno")])
def test_a_wrong_configuration_changes_nothing(served, start, until, connect, before, after):
    running, payload = start(served.path), served.release("one", 1)
    topic = served.topic()
    running.wait_until_connected()
    edit(served, before, after)
    running.process.send_signal(signal.SIGHUP)
    running.wait_for_output(KEPT)
    assert str(served.path) in running.output
    with connect(served.port, served.fleet, "one") as peer:
        peer.exchange(topic, payload)
    assert ANEW not in running.output
    edit(served, after, before)
    assert served.stored() == [payload]
    assert running.stop() == 0


def test_a_stop_that_comes_with_a_reload_is_a_stop(served, start):
    running = start(served.path)
    running.wait_until_connected()
    running.process.send_signal(signal.SIGHUP)
    assert running.stop() == 0, running.output


def test_a_collector_in_a_terminal_ends_with_it(served, tmp_path):
    keyboard, terminal = pty.openpty()
    try:
        with serving(served.path, tmp_path / "log", stdin=terminal) as running:
            running.wait_until_connected()
            running.process.send_signal(signal.SIGHUP)
            assert running.wait() == -signal.SIGHUP
    finally:
        os.close(keyboard)
        os.close(terminal)
