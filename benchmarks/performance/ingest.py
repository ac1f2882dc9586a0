"""The collector beside a bare paho subscriber: the same releases, through the same mosquitto.

The bare one only counts what arrives. The collector checks every release, has it on the disk, and
tells both the broker and the device. Each is a process of its own, in turns; the best turn counts.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.harness.result import MeasurementFailed, Row, at_least
from pansketch import WindowId, encode, os_entropy
from pansketch_fleet.config.loader import load_agent
from pansketch_fleet.protocol import topics
from pansketch_fleet.settings.device_spec import schedule_offset, window_index
from testbed.local_fleet import CONFIG
from testbed.mosquitto import executable, mosquitto
from testbed.notify_socket import ProgramTimeout
from testbed.program import Program

BAR = 0.5
RELEASES = 6_000
DEVICES = 12
FLEET = "beijing-air"
STREAMS = ("air", "lockers")  # two attributes, and one number
INFLIGHT = 1_000
MAX_SECONDS = 60.0

Messages = Sequence[tuple[str, bytes]]

# Both print "ready" once they are subscribed, the time of the first message, and the time of their
# DISCONNECT. Without expected messages they only create a session.
BARE = """
import sys, threading, time
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
port, expected, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
client = paho.Client(CallbackAPIVersion.VERSION2, client_id="bare", clean_session=False)
times, all_here, ready = [], threading.Event(), threading.Event()
def count(*_):
    times.append(time.perf_counter())
    if len(times) == expected:
        all_here.set()
client.on_message = count
client.on_connect = lambda *_: client.subscribe(name, qos=1)
client.on_subscribe = lambda *_: ready.set()
client.connect("127.0.0.1", port)
client.loop_start()
ready.wait()
print("ready", flush=True)
if expected:
    all_here.wait()
client.disconnect()
client.loop_stop()
if expected:
    print(times[0], time.perf_counter(), sep="\\n", flush=True)
"""
COLLECTOR = """
import os, sys, threading, time
from pathlib import Path
from pansketch_collector import clock
from pansketch_collector.ingest import ingest_loop as service
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.validation import Rules
from pansketch_collector.mqtt.connection import CollectorClient
from pansketch_fleet.config.loader import load_agent, load_collector
port, expected, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.environ["BROKER"] = f"127.0.0.1:{port}"
config = load_collector(Path("config.yaml"), os.environ)
rules, stop, ready, stored = Rules.of(config), threading.Event(), threading.Event(), []
class Timed(CollectorClient):
    first = 0.0
    def on_messages(self, *arguments):
        self.first = self.first or time.perf_counter()
        super().on_messages(*arguments)
    def stop(self):
        expected and print(self.first, flush=True)
        super().stop()
    def on_subscribed(self, *arguments):
        super().on_subscribed(*arguments)
        print("ready", flush=True)
        ready.set()
class Counted:
    def __init__(self, post):
        self.receive, self.ack_broker, self.flush = post.receive, post.ack_broker, post.flush
        self.acknowledge = post.send_ack
    def send_ack(self, device, ack):
        assert ack.status == "stored", ack
        self.acknowledge(device, ack)
        stored.append(ack.sequence)
        if len(stored) == expected:
            stop.set()
link = Timed(config.mqtt, config.fleet, rules.largest)
if expected:
    with store.opened(Path(name)) as opened:
        link.start()
        watch = service.IngestClock(clock.now, clock.uptime)
        service.tune_gc()
        service.serve(Counted(link), opened, rules, watch, stop, lambda: None)
        link.stop()
    print(time.perf_counter(), flush=True)
else:
    link.start()
    ready.wait()
    link.stop()
"""


def run(quick: bool) -> list[Row]:
    if executable() is None:
        note = "not measured: there is no mosquitto on this machine; install it"
        return [at_least("as they are published", 0.0, "x bare paho", BAR, note)]
    rows = []
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder)) as port:
        for stream in STREAMS:
            messages = releases(RELEASES // 4 if quick else RELEASES, stream)
            turns = Turns(Path(folder), port, stream, messages)
            rows.append(turns.compared("as they are published", False, 2 if quick else 4))
            rows.append(turns.compared("a backlog", True, 2 if quick else 4))
    return rows


def releases(
    many: int, stream: str, devices: int = DEVICES, readings: Sequence[Sequence[float]] = ()
) -> Messages:
    """Topics and releases of a stream of config.yaml, from so many devices in turn, which have
    absorbed these readings each."""
    made = next(s for s in load_agent(CONFIG, {}).streams if s.name == stream)
    rng, found = os_entropy(), []
    for number in range(many):
        device, sequence = f"device-{number % devices}", number // devices + 1
        start = sequence * made.window_seconds + schedule_offset(device, made.window_seconds)
        window = WindowId(device, stream, sequence, start, start + made.window_seconds)
        spec = made.spec.for_window(window_index(start, made.window_seconds))
        sketch = spec.start(rng)
        if readings:
            sketch.update_many(np.array(readings))
        found.append((topics.release(FLEET, device, stream), encode(sketch.release(rng, window))))
    return found


def broker(folder: Path) -> AbstractContextManager[int]:
    """An own mosquitto that keeps the backlog of a session; yields its port."""
    return mosquitto(folder, settings="max_queued_messages 0\nmax_inflight_messages 0")


class Turns:
    """Runs of the two subscribers over the same messages."""

    def __init__(self, folder: Path, port: int, stream: str, messages: Messages) -> None:
        self._folder, self._port, self._messages = folder, port, messages
        self._stream, self._databases = stream, 0

    def compared(self, name: str, backlog: bool, repeats: int) -> Row:
        """The collector's rate over the bare one's."""
        pairs = [(self._bare(backlog), self._collector(backlog)) for _ in range(repeats)]
        bare, ours = (len(self._messages) / min(seconds) for seconds in zip(*pairs, strict=True))
        note = f"{ours:,.0f} releases/s stored and acknowledged, {bare:,.0f} only received"
        if backlog:
            note += "; nobody publishes meanwhile, so it is the work of one against another's"
        name = f"{self._stream}, {len(self._messages[0][1])} bytes each, {name}"
        return at_least(name, ours / bare, "x bare paho", BAR, note)

    def _bare(self, backlog: bool) -> float:
        return self._seconds(BARE, topics.fleet_filter(FLEET)[1], "bare", backlog)

    def _collector(self, backlog: bool) -> float:
        self._databases += 1
        database = self._folder / f"{self._stream}-{self._databases}.sqlite"
        client = f"pansketch-{FLEET}-collector"
        return self._seconds(COLLECTOR, str(database), client, backlog)

    def _seconds(self, program: str, name: str, client: str, backlog: bool) -> float:
        """Seconds of one turn, after which the broker keeps nothing for this client."""
        if backlog:
            with self._subscribed(program, 0, name) as subscriber:
                _ended(subscriber)
            publish(self._port, self._messages)
        with self._subscribed(program, len(self._messages), name) as subscriber:
            if not backlog:
                publish(self._port, self._messages)
            first, end = map(float, _ended(subscriber).split())
        _forget(self._port, client)
        return end - first

    @contextmanager
    def _subscribed(self, program: str, expected: int, name: str) -> Iterator[Program]:
        words = [sys.executable, "-c", program, str(self._port), str(expected), name]
        log = self._folder / "subscriber.log"
        with Program(words, log, stdout=subprocess.PIPE, text=True) as subscriber:
            try:
                assert subscriber.process.stdout is not None
                if subscriber.process.stdout.readline().strip() != "ready":
                    raise MeasurementFailed("ingest: a subscriber ended before it was subscribed")
                yield subscriber
            finally:
                subscriber.process.kill()


def _ended(subscriber: Program) -> str:
    """The rest of its output."""
    try:
        code = subscriber.wait(MAX_SECONDS)
    except ProgramTimeout:
        raise MeasurementFailed("ingest: a subscriber did not get all messages") from None
    if code:
        raise MeasurementFailed("ingest: a subscriber failed")
    assert subscriber.process.stdout is not None
    return str(subscriber.process.stdout.read())


def publish(port: int, messages: Messages) -> None:
    """Publishes as fast as one client can; all are with the broker when it returns."""
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(INFLIGHT)
    client.connect("127.0.0.1", port)
    client.loop_start()
    for sent in [client.publish(topic, payload, qos=1) for topic, payload in messages]:
        sent.wait_for_publish(MAX_SECONDS)
    client.disconnect()
    client.loop_stop()


def _forget(port: int, name: str) -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=True)
    client.on_connect = lambda *_: _leave(client)
    client.connect("127.0.0.1", port)
    client.loop_forever()


def _leave(client: paho.Client) -> None:
    client.disconnect()
