"""Versions of MQTT with real brokers: 5 if supported, else 3.1.1, and no loss on either.

A proxy between a program and mosquitto simulates a broker without MQTT 5. All messages that it
forwards are mosquitto's.
"""

import select
import socket
import threading
from contextlib import suppress

import pytest

from pansketch_agent.diagnostics.broker_reachability import check_broker
from pansketch_agent.host.clock import system_clock
from pansketch_fleet.config.loader import load_agent

pytestmark = pytest.mark.needs("mosquitto")

LESSER = "the broker does not support MQTT 5; using MQTT 3.1.1 until the next start"
CONNECT = 1
UNKNOWN_VERSION = b"\x20\x02\x00\x01"


class Front:
    """Forwards connections to a broker. `refuses`: its response to MQTT 5; None: it forwards it
    too.

    `levels`: the version of each connection by its first packet, 4 or 5.
    """

    def __init__(self, port, refuses):
        self._broker, self.refuses = ("127.0.0.1", port), refuses
        self.levels, self._open = [], []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, suppress(OSError):
            first = client.recv(4096)
            # A fixed header, the length of "MQTT", the name, and the level.
            at = first.find(b"MQTT")
            if first[:1] != bytes([CONNECT << 4]) or at < 0:
                return
            self.levels.append(first[at + 4])
            if self.refuses and first[at + 4] == 5:
                self._refuse(client)
                return
            with socket.create_connection(self._broker) as broker:
                self._open.append(client)
                broker.sendall(first)
                self._pass(client, broker)

    def _refuse(self, client):
        if self.refuses == "says so":
            client.sendall(UNKNOWN_VERSION)
        elif self.refuses == "is silent":
            client.recv(1)

    def _pass(self, client, broker):
        while True:
            readable, _, _ = select.select([client, broker], [], [])
            for source in readable:
                data = source.recv(65536)
                if not data:
                    return
                (broker if source is client else client).sendall(data)

    def cut(self):
        """Ends all connections."""
        while self._open:
            with suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def close(self):
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()


@pytest.fixture
def front(site):
    """A maker of fronts before the plain broker."""
    made = []

    def make(refuses):
        made.append(Front(site.ports["1883"], refuses))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(("protocol", "version"), [("", "5"), ("auto", "5"), ("3.1.1", "3.1.1")])
def test_the_version_is_the_broker_s_best_or_the_one_that_is_set(site, protocol, version):
    site.start_plain_broker()
    mqtt = site.plain(protocol=protocol) if protocol else site.plain()
    collector = site.collector(site.configure(mqtt))
    collector.wait_for_output(f"is connected (MQTT {version})")
    agent = site.agent(site.configure(mqtt))
    assert agent.wait() == 0, agent.output
    assert f"(MQTT {version})" in agent.output
    assert site.stored() == 2
    assert LESSER not in agent.output + collector.output


@pytest.mark.parametrize("refuses", ["says so", "hangs up", "is silent"])
def test_a_broker_without_mqtt_5_is_asked_once_and_nothing_is_lost(site, front, refuses):
    """The choice stays for the life of the process, after any change of its connections."""
    site.start_plain_broker()
    before_agent, before_collector = front(refuses), front(refuses)
    collector = site.collector(site.configure(site.plain(before_collector.port)))
    collector.wait_for_output("is connected (MQTT 3.1.1)")
    agent = site.agent(site.configure(site.plain(before_agent.port), source="{type: stdin}"))
    agent.wait_for_output("(MQTT 3.1.1)")
    for times in (2, 3):
        before_agent.cut()
        before_collector.cut()
        site.until(
            lambda times=times: agent.output.count("(MQTT 3.1.1)") == times, lambda: agent.output
        )
        collector.wait_until_connected(times)
    assert agent.stop() == 0
    replay = site.agent(site.configure(site.plain(before_agent.port)))
    assert replay.wait() == 0, replay.output
    assert site.stored() == 2
    assert before_agent.levels.count(5) == 2, "once by each of the two processes"
    assert before_collector.levels.count(5) == 1
    for program in (agent, collector, replay):
        assert program.output.count(LESSER) == 1
        assert "Traceback" not in program.output


def test_a_broker_that_has_spoken_5_and_hangs_up_twice_is_only_restarting(site, front):
    site.start_plain_broker()
    before = front(None)
    agent = site.agent(site.configure(site.plain(before.port), source="{type: stdin}"))
    agent.wait_for_output("(MQTT 5)")
    before.refuses = "hangs up"
    before.cut()
    site.until(lambda: before.levels[2:] == [5], lambda: str(before.levels))
    before.refuses = None
    site.until(lambda: agent.output.count("(MQTT 5)") == 2, lambda: agent.output)
    assert agent.stop() == 0
    assert set(before.levels) == {5}


def test_a_broker_that_is_replaced_by_one_without_5_needs_no_restart(site, front):
    site.start_plain_broker()
    before = front(None)
    config = site.configure(site.plain(before.port), source="{type: stdin}")
    agent, collector = site.agent(config), site.collector(config)
    agent.wait_for_output("(MQTT 5)")
    collector.wait_for_output("(MQTT 5)")
    before.refuses = "hangs up"
    before.cut()
    agent.wait_for_output("(MQTT 3.1.1)")
    collector.wait_for_output("is connected (MQTT 3.1.1)")
    assert agent.stop() == 0


@pytest.mark.parametrize("refuses", ["says so", "hangs up"])
def test_a_version_that_is_set_is_not_changed(site, front, refuses):
    site.start_plain_broker()
    before = front(refuses)
    path = site.configure(site.plain(before.port, protocol="5"), source="{type: stdin}")
    agent, collector = site.agent(path), site.collector(path)
    text = {
        "says so": "it does not support MQTT 5; set mqtt.protocol to auto",
        "hangs up": "it ends the connection without a reason",
    }[refuses]
    agent.wait_for_output(text)
    collector.wait_for_output("set mqtt.protocol to auto" if refuses == "says so" else text)
    found = check_broker(load_agent(path, {}).mqtt, site.fleet, "dev-1", system_clock())
    assert found.state == "wrong"
    assert found.text.startswith("MQTT: ")
    assert text in found.text
    assert set(before.levels) == {5}


@pytest.mark.parametrize("refuses", [None, "says so", "hangs up", "is silent"])
def test_check_finds_the_version_too(site, front, refuses):
    site.start_plain_broker()
    config = load_agent(site.configure(site.plain(front(refuses).port)), {})
    broker = check_broker(config.mqtt, site.fleet, "dev-1", system_clock())
    version = "3.1.1" if refuses else "5"
    assert broker.state == "ok"
    assert f"accepts the device with MQTT {version}, and its" in broker.text


@pytest.mark.parametrize(
    ("first", "second", "ending"),
    [
        ("5", "5", "killed"),
        ("3.1.1", "3.1.1", "stopped"),
        ("3.1.1", "5", "killed"),
        ("5", "3.1.1", "stopped"),
    ],
)
def test_what_comes_while_the_collector_and_then_the_broker_are_away_is_kept(
    site, first, second, ending
):
    """The broker keeps the collector's session over both restarts and a change of version. The
    device is gone by then, so only the session can bring its releases."""
    broker = site.start_plain_broker()
    collector = site.collector(site.configure(site.plain(protocol=first)))
    collector.wait_until_connected()
    agent = site.agent(site.configure(site.plain()))
    assert agent.wait() == 0, agent.output
    if ending == "stopped":
        assert collector.stop() == 0
    else:
        collector.process.kill()
        collector.wait()
    agent = site.agent(site.configure_later(site.plain()), "run", "--drain", "10")
    assert agent.wait() == 1, agent.output
    assert broker.stop() == 0
    site.start_plain_broker()
    site.collector(site.configure(site.plain(protocol=second)))
    site.until(lambda: site.stored() == 4, lambda: f"what waited; {site.stored()} are there")
