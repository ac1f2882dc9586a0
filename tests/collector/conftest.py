"""A small fleet for the collector's tests: real configuration, real releases, a real process."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from collector import store
from collector.__main__ import main
from collector.inbox import Rules
from collector.link import Incoming
from collector.reader import Selection, reading
from collector.service import settle
from fleet import topics
from fleet.config import Config, load
from fleet.messages import Ack, digest
from pansketch import HierarchySpec, WindowId, encode, os_entropy

REPOSITORY = Path(__file__).resolve().parents[2]
DAY = 86_400
DEADLINE_SECONDS = 20.0
ENTROPY = os_entropy()

CONFIG = """
fleet: {fleet}
mqtt: {{url: "{url}"}}
agent: {{device: "${{DEVICE}}", profile: pi-zero-2w}}
streams:
  air:
    source: {{type: stdin}}
    window: 1d
    privacy: {{epsilon: {epsilon}, unit: reading, intrusion: silent}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
    sketch: {{depth: 4, k: 4, width: 8, rows: 1, fanout: 2}}
  fine:
    source: {{type: system, interval: 10s}}
    window: 1d
    privacy: {{epsilon: 100, unit: reading, intrusion: silent}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      wind: {{categories: [calm, "north, east", south]}}
    sketch: {{depth: 12}}           # the rest is planned, otherwise for a class of little memory
  heavy:
    source: {{type: system, interval: 10s}}
    window: 1d
    privacy: {{epsilon: 100}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      humid: {{low: 0, high: 100}}
      wind: {{categories: [calm, "north, east", south]}}
    sketches: [{{type: cells}}]
  sums:
    source: {{type: system, interval: 10s}}
    window: 1d
    privacy: {{epsilon: 100}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      humid: {{low: 0, high: 100}}
      wind: {{categories: [calm, "north, east", south]}}
    sketches: [{{type: moments}}]
  bars:
    source: {{type: system, interval: 10s}}
    window: 1d
    privacy: {{epsilon: {epsilon}}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      humid: {{low: 0, high: 100}}
      wind: {{categories: [calm, "north, east", south]}}
    sketches: [{{type: moments, features: hist, bins: 50}}]
collector: {{database: var/collector.sqlite}}
"""


@dataclass
class Bench:
    """A configuration on disk, and the means to make what its devices would send."""

    folder: Path
    fleet: str = "testing"
    url: str = "mqtt://127.0.0.1:1"
    epsilon: float = 1.0
    path: Path = field(init=False)

    def __post_init__(self) -> None:
        self.path = self.folder / "config.yaml"
        text = CONFIG.format(fleet=self.fleet, url=self.url, epsilon=self.epsilon)
        self.path.write_text(text, encoding="utf-8")

    @property
    def config(self) -> Config:
        return load(self.path, "collector", {})

    @property
    def database(self) -> Path:
        return self.config.collector.database

    @property
    def rules(self) -> Rules:
        return Rules.of(self.config)

    def specs(self, stream: str) -> list[HierarchySpec]:
        config = self.config
        return list(config.specs(next(s for s in config.streams if s.name == stream)).values())

    def release(
        self,
        device: str = "one",
        sequence: int = 1,
        stream: str = "air",
        readings: Sequence[Sequence[float]] = ((20.0,),),
        window: WindowId | None = None,
        spec: HierarchySpec | None = None,
    ) -> bytes:
        """The bytes of one fresh release; day `sequence` of 1970 is its window."""
        spec = spec or self.specs(stream)[0]
        sketch = spec.start(ENTROPY)
        sketch.update_many(np.array(readings, dtype=np.float64))
        day = WindowId(device, stream, sequence, sequence * DAY, (sequence + 1) * DAY)
        return encode(sketch.release(ENTROPY, window or day))

    def stored(self, stream: str = "air") -> list[bytes]:
        """The payloads in the database, by window."""
        with reading(self.database) as reader:
            return [r.payload for r in reader.releases(Selection(stream))]

    def topic(self, device: str = "one", stream: str = "air") -> str:
        return topics.release(self.fleet, device, stream)


def incoming(topic: str, payload: bytes) -> Incoming:
    return Incoming(topic, payload, len(payload), digest(payload), 0, 1, 1)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="session")
def shared_rules(tmp_path_factory: pytest.TempPathFactory) -> Rules:
    """Rules that property tests may use for all their examples."""
    return Bench(tmp_path_factory.mktemp("rules")).rules


@pytest.fixture
def make_bench(tmp_path: Path) -> Callable[..., Bench]:
    return lambda **settings: Bench(tmp_path, **settings)


@pytest.fixture
def arrive() -> Callable[[str, bytes], Incoming]:
    return incoming


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Waits until something holds, with a deadline."""

    def wait(holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.02)

    return wait


@pytest.fixture
def filled(bench: Bench) -> Bench:
    """A fleet of two devices with five windows of `fine`, one missing, and some refusals."""
    readings = [[20.0, 0.0], [25.0, 1.0], [10.0, 2.0]] * 200
    messages = [
        incoming(bench.topic(device, "fine"), bench.release(device, n, "fine", readings))
        for device, n in [("one", 1), ("one", 2), ("one", 4), ("two", 1), ("two", 2)]
    ]
    with store.opened(bench.database) as opened:
        settle(opened, [*messages, incoming("x", b"1"), incoming("x", b"2")], bench.rules, 1000)
        settle(opened, messages[:1], bench.rules, 1000)  # its acknowledgement was lost
    return bench


@pytest.fixture
def run(bench: Bench, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command with the bench's configuration: exit code, stdout, stderr."""

    def go(*words: str, config: Path | None = None) -> tuple[int, str, str]:
        code = main([*words, "--config", str(config or bench.path)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return go


class Peer:
    """A device as the broker sees one: publishes, and hears its acknowledgements."""

    def __init__(self, port: int, fleet: str, *devices: str) -> None:
        self.acks: queue.Queue[tuple[str, Ack]] = queue.Queue()
        self._ready = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = lambda c, u, m: self.acks.put((m.topic, Ack.decode(m.payload)))
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._client.subscribe([(topics.ack(fleet, device), 1) for device in devices])
        assert self._ready.wait(DEADLINE_SECONDS)

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> None:
        sent = self._client.publish(topic, payload, qos=1, retain=retain)
        sent.wait_for_publish(DEADLINE_SECONDS)

    def ack(self) -> tuple[str, Ack]:
        return self.acks.get(timeout=DEADLINE_SECONDS)

    def exchange(self, topic: str, payload: bytes) -> Ack:
        """Publishes until an answer comes: a collector subscribes a moment after it connects."""
        for _ in range(int(DEADLINE_SECONDS)):
            self.publish(topic, payload)
            with suppress(queue.Empty):
                return self.acks.get(timeout=1.0)[1]
        raise AssertionError("no acknowledgement")

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def connect() -> type[Peer]:
    return Peer


@dataclass
class Serving:
    """A collector in a process of its own; `said` is its stderr so far."""

    process: subprocess.Popen[bytes]
    errors: Path

    @property
    def said(self) -> str:
        return self.errors.read_text(encoding="utf-8")

    def goes_on(self, seconds: float) -> None:
        """Lets it run on for a while; it must not end."""
        with pytest.raises(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_SECONDS)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[Path], Serving]]:
    """Starts `pansketch-collector serve` with a configuration; ends what is left at the end."""
    running: list[Serving] = []

    def run(config: Path) -> Serving:
        errors = tmp_path / f"stderr-{len(running)}"
        with errors.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "collector", "serve", "--config", str(config)],
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                stderr=file,
            )
        running.append(Serving(process, errors))
        return running[-1]

    yield run
    for serving in running:
        if serving.process.poll() is None:
            serving.process.kill()
            serving.process.wait(DEADLINE_SECONDS)
