"""Running agents that take readings from all kinds of live sources, seized and searched.

Nothing but the last reading may be found. Negative control: an agent that keeps what it was given.
"""

import json
import os
import sys
import time
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from pansketch_audit.seizure import agent_process
from pansketch_audit.seizure.captive_process import running, settle, take_snapshot, until
from pansketch_audit.seizure.marked_readings import forms_of, marked_readings
from pansketch_audit.seizure.mqtt_recorder import Recorder
from pansketch_audit.seizure.process_memory import Scanner
from testbed.embedded_broker import free_port
from testbed.notify_socket import NotifySocket
from tests.waiting import SECONDS

COUNT = 200
MARKED = marked_readings(COUNT)
SCANNER = Scanner(forms_of(MARKED, agent_process.SPEC))
WINDOW_SECONDS = 60
LEAKY = """
import sys
from pansketch_agent.windows import window
from pansketch_agent.__main__ import main

kept, absorb = [], window.Windows.absorb

def leaky(self, index, rows):
    kept.append(rows.copy())
    absorb(self, index, rows)

window.Windows.absorb = leaky
sys.exit(main(sys.argv[1:]))
"""
PROGRAM = """\
import array, fcntl, sys, termios, time
lines, count, waiting = open(sys.argv[1]).readlines(), 0, array.array("i", [1])
while lines:
    count = 1 + count % 5
    sys.stdout.write("".join(lines[:count]))
    sys.stdout.flush()
    del lines[:count]
    time.sleep(0.005)
while waiting[0]:  # bytes that the agent has not read yet
    time.sleep(0.005)
    fcntl.ioctl(1, termios.FIONREAD, waiting)
open(sys.argv[1] + ".done", "w").close()
time.sleep(600)
"""


@pytest.fixture
def seized(tmp_path):
    """Run an agent with a source, give it the readings, and seize it when it is idle."""

    def run(source, give, program=("-m", "pansketch_agent"), more=()):
        folder = tmp_path / "run"
        folder.mkdir()
        with Recorder() as peer:
            config = folder / "config.yaml"
            config.write_text(
                agent_process.CONFIG.format(port=peer.port, source=source, window=WINDOW_SECONDS)
            )
            command = [*program, "run", "--config", str(config), *more]
            with running(command, folder, peer) as agent:
                until(agent, lambda: bool(peer.published), "it had published a message")
                given = give(agent)
                time.sleep(0.3)
                settle(agent)
                return given, take_snapshot(agent, SCANNER, "after the last reading", given - 1)

    return run


def found(given, seen) -> set[int]:
    """The values that should be gone and are not. Without root nothing is read, and this is
    reported.
    """
    if not may_read_others():
        assert "the audit needs root" in seen.unread[0]
        return set()
    assert not seen.unread
    sightings = {(sighting.place, sighting.reading) for sighting in seen.sightings}
    return {reading for place, reading in sightings if (place, reading) != ("memory", given - 1)}


def may_read_others() -> bool:
    """The agent forbids others to read its memory; root may, and CI is root."""
    return os.geteuid() == 0 or "CI" in os.environ


def judge(seized, keeps: bool, source, give, more=()) -> None:
    """`keeps`: the agent's own program with an extra line, the negative control."""
    given, seen = seized(source, give, ("-c", LEAKY) if keeps else ("-m", "pansketch_agent"), more)
    kept = found(given, seen)
    if keeps and may_read_others():
        assert len(kept) > given / 2
    else:
        assert not kept


def objects() -> list[str]:
    return [json.dumps({"temp": temp, "pm25": pm25}) for temp, pm25 in MARKED.tolist()]


@pytest.fixture
def by_program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    # Told apart from the agent's own files: raw data on this disk is the program's matter.
    (tmp_path / "rows").write_text("\n".join([*objects(), ""]))
    words = json.dumps([sys.executable, str(tmp_path / "program.py"), str(tmp_path / "rows")])

    def give(agent) -> int:
        until(agent, (tmp_path / "rows.done").exists, "the program had printed all")
        return COUNT

    return f"{{type: exec, command: {words}}}", give


@pytest.mark.parametrize("keeps", [False, True])
def test_what_stays_of_what_a_program_printed(seized, by_program, keeps):
    judge(seized, keeps, *by_program)


@pytest.mark.parametrize("keeps", [False, True])
def test_what_stays_of_messages(seized, broker, keeps):
    def give(agent) -> int:
        until(agent, lambda: "listening" in (agent.folder / "log").read_text(), "it listens")
        client = Client(CallbackAPIVersion.VERSION2, client_id="speaker")
        client.connect("127.0.0.1", broker.port)
        client.loop_start()
        for text in objects():
            client.publish("home/air", text, 1).wait_for_publish(SECONDS)
        client.disconnect()
        client.loop_stop()
        return COUNT

    judge(seized, keeps, f'{{type: mqtt, topic: home/air, url: "{broker.url}"}}', give)


@pytest.mark.parametrize("keeps", [False, True])
def test_what_stays_of_requests(seized, keeps):
    port = free_port()

    def give(agent) -> int:
        until(agent, lambda: "listening" in (agent.folder / "log").read_text(), "it listens")
        texts = objects()
        # One by one, and lists of several.
        bodies = [*texts[:50], *(f"[{', '.join(texts[n : n + 5])}]" for n in range(50, COUNT, 5))]
        for body in bodies:
            connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
            connection.request("POST", "/", body, {"Content-Type": "application/json"})
            assert connection.getresponse().status == 202
            connection.close()
        return COUNT

    judge(seized, keeps, f"{{type: http, port: {port}}}", give)


@pytest.mark.parametrize("keeps", [False, True])
def test_what_stays_of_pages(seized, keeps):
    """Each page shows the next reading, among a thousand other lines."""
    others = b"".join(b'other{number="%d"} 1\n' % number for number in range(1000))
    shown = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            temp, pm25 = MARKED[min(len(shown), 15)].tolist()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"%s# TYPE temp gauge\ntemp %r\n" % (others, temp))
            self.wfile.write(b'dust{size="2.5"} %r\n' % pm25)
            shown.append(True)

        def log_message(self, *_):
            pass

    def give(agent) -> int:
        until(agent, lambda: len(shown) > 16, "all were shown")
        return 16

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,)).start()
        metrics = "metrics: {temp: temp, pm25: dust}"
        url = f"http://127.0.0.1:{server.server_port}/"
        try:
            settings = f'{{type: prometheus, url: "{url}", interval: 100ms, {metrics}}}'
            judge(seized, keeps, settings, give)
        finally:
            server.shutdown()


@pytest.fixture
def ready(monkeypatch):
    """Return whether the agent has notified its service manager that its streams run.

    By then it no longer waits for the collector's mark, and reads its sensors.
    """
    with NotifySocket() as notified:
        for name, address in notified.environment.items():
            monkeypatch.setenv(name, address)
        yield lambda: notified.value("READY") == "1"


@pytest.mark.parametrize("keeps", [False, True])
def test_what_stays_of_a_sensor(seized, tmp_path, ready, keeps):
    device = tmp_path / "host/sys/bus/iio/devices/iio:device0"
    device.mkdir(parents=True)
    (device / "name").write_text("station\n")

    def give(agent) -> int:
        until(agent, ready, "its streams ran")
        shown = MARKED[:16].tolist()
        for reading in shown:
            for channel, value in zip(("temp", "dust"), reading, strict=True):
                (device / "new").write_text(f"{value!r}\n")
                (device / "new").replace(device / f"in_{channel}_raw")
            time.sleep(0.11)
        return len(shown)

    places = "sensors: {temp: station/temp, pm25: station/dust}"
    source = f"{{type: iio, interval: 100ms, {places}}}"
    judge(seized, keeps, source, give, ("--root", str(tmp_path / "host")))
