"""Limits of a real broker: what is too large waits and is said, and all the rest goes on."""

import socket
import threading
from contextlib import suppress

import pytest

LIMIT = 1500
# A second stream, whose releases are larger than the limit; those of the first one are not.
WIDE = """\
  wide:
    source: {type: replay, path: rows.csv}
    window: 1h
    privacy: {epsilon: 1.0, unit: reading}
    attributes:
      temp: {low: -40, high: 60}
    sketch: {depth: 10, k: 16, width: 256, rows: 2, fanout: 2}
"""


def running(site, settings, **mqtt):
    """A broker with these settings, a collector, and an agent with a stream that is too large."""
    site.start_plain_broker(settings)
    site.collector(site.configure(site.plain(), more=WIDE)).says("is there")
    path = site.configure(site.plain(**mqtt), more=WIDE)
    return path, site.agent(path)


def listed(site, path):
    """The lines of `outbox list`, beside the running agent."""
    command = site.agent(path, "outbox", "list")
    assert command.ends() == 0, command.said
    return command.said.splitlines()


def test_a_limit_that_mqtt_5_states_is_never_overstepped(site):
    path, agent = running(site, f"max_packet_size {LIMIT}")
    agent.says("waiting for the collector")
    site.until(lambda: site.stored() == 2, lambda: agent.said)
    agent.says("is held back in the outbox: larger than the broker takes (")
    header, *rows = listed(site, path)
    assert header.endswith("held back")
    assert len(rows) == 2
    for row in rows:
        assert "wide" in row
        assert "larger than the broker takes (" in row
    assert agent.stop() == 0
    assert agent.said.count("connected to the broker") == 1
    assert agent.said.count("held back") == 1
    assert "raise max_packet_size or message_size_limit of the broker, or lower" in agent.said


@pytest.mark.parametrize(
    ("setting", "protocol"), [("max_packet_size", "3.1.1"), ("message_size_limit", "5")]
)
def test_a_limit_that_only_ends_connections_is_found(site, setting, protocol):
    """MQTT 3.1.1 states no limit, and mosquitto does not state this one with MQTT 5 either."""
    path, agent = running(site, f"{setting} {LIMIT}", protocol=protocol)
    site.until(lambda: site.stored() == 2, lambda: agent.said)
    agent.says("is held back in the outbox: the broker ends the connection when it is sent (")
    site.until(
        lambda: sum("wide" in row and "ends the conn" in row for row in listed(site, path)) == 2,
        lambda: agent.said,
    )
    ended = agent.said.count("trying until it is there")
    assert 3 <= ended <= 8, agent.said
    assert agent.stop() == 0


def test_what_a_broker_of_3_1_1_drops_in_silence_holds_up_nothing(site):
    """It says that it has the release, and nobody ever gets it."""
    path, agent = running(site, f"message_size_limit {LIMIT}", protocol="3.1.1")
    site.until(lambda: site.stored() == 2, lambda: agent.said)
    rows = listed(site, path)[1:]
    assert len(rows) == 2
    assert all("wide" in row for row in rows)
    assert agent.stop() == 0
    assert agent.said.count("connected to the broker") == 1


class Holding:
    """Passes one connection on and holds back the broker's answers to publications until `let_go`;
    `unanswered`: how many there were at once, at most."""

    PUBLISH, PUBACK = 3, 4

    def __init__(self, port):
        self._broker = ("127.0.0.1", port)
        self.unanswered = self._now = 0
        self.let_go = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._broker)
                for ends in ((client, broker, self._sent), (broker, client, self._answered)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source, sink, look):
        with source, suppress(OSError):
            for packet in packets(source):
                look(packet[0])
                sink.sendall(packet)
            sink.shutdown(socket.SHUT_RDWR)

    def _sent(self, first):
        if first >> 4 == self.PUBLISH and first & 2:
            self._now += 1
            self.unanswered = max(self.unanswered, self._now)

    def _answered(self, first):
        if first >> 4 == self.PUBACK:
            self.let_go.wait()
            self._now -= 1

    def close(self):
        self.let_go.set()
        self._listener.close()


def packets(source):
    """Each packet of a connection, whole."""
    with source.makefile("rb") as stream:
        while first := stream.read(1):
            length, digits = 0, b""
            while not digits or digits[-1] & 128:
                digits += stream.read(1)
                length |= (digits[-1] & 127) << 7 * (len(digits) - 1)
            yield first + digits + stream.read(length)


@pytest.mark.parametrize(("most", "sent"), [(1, 1), (3, 3), (20, 5)])
def test_no_more_is_unanswered_than_the_broker_wants(site, most, sent):
    """Receive Maximum of MQTT 5. Without a limit it is a status and four releases of a stream."""
    site.start_plain_broker(f"max_inflight_messages {most}")
    site.collector(site.configure(site.plain())).says("is there")
    holding = Holding(site.ports["1883"])
    rows = "time,temp\n" + "".join(f"2024-01-01T{hour:02d}:30:00Z,1\n" for hour in range(8))
    path = site.configure(site.plain(holding.port))
    (site.folder / "rows.csv").write_text(rows)
    agent = site.agent(path)
    agent.says("waiting for the collector")
    site.until(lambda: holding.unanswered == sent, lambda: str(holding.unanswered))
    holding.let_go.set()
    assert agent.ends() == 0, agent.said
    assert holding.unanswered == sent
    assert site.stored() == 8
    holding.close()
