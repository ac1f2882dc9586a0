"""Limits of a real broker: a release that is too large stays and is logged, and the rest
continues."""

import queue
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

pytestmark = pytest.mark.needs("mosquitto")

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
    site.collector(site.configure(site.plain(), more=WIDE)).wait_until_connected()
    path = site.configure(site.plain(**mqtt), more=WIDE)
    return path, site.agent(path)


def listed(site, path):
    """The lines of `outbox list`, beside the running agent."""
    command = site.agent(path, "outbox", "list")
    assert command.wait() == 0, command.output
    return command.output.splitlines()


def test_an_announcement_that_is_too_large_ends_no_connection_of_the_collector(site):
    """The collector skips it with one log line, and everything else continues."""
    site.start_plain_broker(f"max_packet_size {LIMIT}")
    path = site.configure(site.plain())
    text = path.read_text().replace("{database:", "{home_assistant: true, database:")
    path.write_text(text)
    collector = site.collector(path)
    agent = site.agent(site.configure(site.plain()))
    assert agent.wait() == 0, agent.output
    collector.wait_for_output(
        "a message exceeds the broker's limit: homeassistant/device/pansketch_greenhouse_"
    )
    assert site.stored() == 2
    assert collector.stop() == 0
    assert "raise its max_packet_size" in collector.output
    assert "closed the connection" not in collector.output


def test_a_limit_that_mqtt_5_states_is_never_overstepped(site):
    path, agent = running(site, f"max_packet_size {LIMIT}")
    agent.wait_for_output("waiting for the collector")
    site.until(lambda: site.stored() == 2, lambda: agent.output)
    agent.wait_for_output("is on hold in the outbox: larger than the broker takes (")
    header, *rows = listed(site, path)
    assert header.endswith("on hold")
    assert len(rows) == 2
    for row in rows:
        assert "wide" in row
        assert "larger than the broker takes (" in row
    assert agent.stop() == 0
    assert agent.output.count("connected to the broker") == 1
    assert agent.output.count("on hold") == 1
    assert "raise max_packet_size or message_size_limit of the broker, or lower" in agent.output


@pytest.mark.parametrize(
    ("setting", "protocol"), [("max_packet_size", "3.1.1"), ("message_size_limit", "5")]
)
def test_a_limit_that_only_ends_connections_is_found(site, setting, protocol):
    """MQTT 3.1.1 states no limit, and mosquitto does not state this one with MQTT 5 either."""
    path, agent = running(site, f"{setting} {LIMIT}", protocol=protocol)
    site.until(lambda: site.stored() == 2, lambda: agent.output)
    agent.wait_for_output(
        "is on hold in the outbox: the broker ends the connection when it is sent ("
    )
    site.until(
        lambda: sum("wide" in row and "ends the conn" in row for row in listed(site, path)) == 2,
        lambda: agent.output,
    )
    ended = agent.output.count("retrying until it is available")
    assert 3 <= ended <= 8, agent.output
    assert agent.stop() == 0


def test_what_a_broker_of_3_1_1_drops_in_silence_holds_up_nothing(site):
    """The broker sends a PUBACK for the release, and no client ever gets it."""
    path, agent = running(site, f"message_size_limit {LIMIT}", protocol="3.1.1")
    site.until(lambda: site.stored() == 2, lambda: agent.output)
    rows = listed(site, path)[1:]
    assert len(rows) == 2
    assert all("wide" in row for row in rows)
    assert agent.stop() == 0
    assert agent.output.count("connected to the broker") == 1


class Holding:
    """Forwards connections, and blocks acknowledgements of releases until `let_go`.

    It blocks those of the broker and of the collector, and nothing else: pings and the mark arrive.
    `unanswered`: the maximum number of publications without PUBACK on one connection at once.
    """

    PUBLISH, PUBACK = 3, 4

    def __init__(self, port):
        self._broker = ("127.0.0.1", port)
        self.unanswered = 0
        self.let_go = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                line = _Line(client, socket.create_connection(self._broker))
                for work in (self._ask, self._answer, self._answer_later):
                    threading.Thread(target=work, args=(line,), daemon=True).start()

    def _ask(self, line):
        with line.client, suppress(OSError):
            for packet, _ in packets(line.client):
                if packet[0] >> 4 == self.PUBLISH and packet[0] & 2:
                    with line.lock:
                        line.unanswered += 1
                        self.unanswered = max(self.unanswered, line.unanswered)
                line.broker.sendall(packet)
            line.broker.shutdown(socket.SHUT_RDWR)

    def _answer(self, line):
        with line.broker, suppress(OSError):
            for packet, body in packets(line.broker):
                kind = packet[0] >> 4
                topic = body[2 : 2 + int.from_bytes(body[:2])] if kind == self.PUBLISH else b""
                if kind == self.PUBACK or topic.endswith(b"/ack"):
                    line.held.put(packet)
                else:
                    line.tell(packet)
            line.client.shutdown(socket.SHUT_RDWR)
        line.held.put(b"")

    def _answer_later(self, line):
        self.let_go.wait()
        with suppress(OSError):
            while packet := line.held.get():
                if packet[0] >> 4 == self.PUBACK:
                    with line.lock:
                        line.unanswered -= 1
                line.tell(packet)

    def close(self):
        self.let_go.set()
        self._listener.close()


@dataclass
class _Line:
    """One connection through it."""

    client: socket.socket
    broker: socket.socket
    unanswered: int = 0
    held: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, packet):
        with self.lock:
            self.client.sendall(packet)


def packets(source):
    """Each packet of a connection, whole, and what follows its length."""
    with source.makefile("rb") as stream:
        while first := stream.read(1):
            length, digits = 0, b""
            while not digits or digits[-1] & 128:
                digits += stream.read(1)
                length |= (digits[-1] & 127) << 7 * (len(digits) - 1)
            body = stream.read(length)
            yield first + digits + body, body


@pytest.mark.parametrize(("most", "sent"), [(1, 1), (3, 3), (20, 5)])
def test_no_more_is_unanswered_than_the_broker_wants(site, most, sent):
    """Receive Maximum of MQTT 5. Without a limit it is a status and four releases of a stream."""
    site.start_plain_broker(f"max_inflight_messages {most}")
    site.collector(site.configure(site.plain())).wait_until_connected()
    holding = Holding(site.ports["1883"])
    rows = "time,temp\n" + "".join(f"2024-01-01T{hour:02d}:30:00Z,1\n" for hour in range(8))
    path = site.configure(site.plain(holding.port))
    (site.folder / "rows.csv").write_text(rows)
    agent = site.agent(path)
    agent.wait_for_output("waiting for the collector")
    site.until(lambda: holding.unanswered == sent, lambda: str(holding.unanswered))
    holding.let_go.set()
    assert agent.wait() == 0, agent.output
    assert holding.unanswered == sent
    assert site.stored() == 8
    holding.close()
