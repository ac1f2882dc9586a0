"""A fleet with releases of every kind of sketch, and a real server of them over loopback."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import pytest

from collector import store
from collector.inbox import Rules
from collector.link import Incoming
from collector.service import settle
from fleet import topics
from fleet.config import Config, load
from fleet.messages import Health, Status, digest
from fleet.specs import window_index
from pansketch import WindowId, encode, os_entropy

REPOSITORY = Path(__file__).resolve().parents[3]
DAY = 86_400
DEADLINE_SECONDS = 30.0
ENTROPY = os_entropy()
TOKEN = "correct-horse-battery"

CONFIG = """
fleet: testing
mqtt: {{url: "{url}"}}
agent: {{device: "${{DEVICE}}"}}
streams:
  air:
    source: {{type: stdin}}
    window: 1d
    privacy: {{epsilon: 100}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      wind: {{categories: [calm, "north, east", south]}}
    sketch: {{depth: 12}}
  pairs:
    source: {{type: system, interval: 10s}}
    window: 1d
    privacy: {{epsilon: 100}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC, step: 0.1}}
      humid: {{low: 0, high: 100}}
      wind: {{categories: [calm, south]}}
    views: [[temp], [temp, humid], [wind]]
  sums:
    source: {{type: system, interval: 10s}}
    window: 1d
    privacy: {{epsilon: 100}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      humid: {{low: 0, high: 100}}
    sketches: [{{type: moments, features: hist, bins: 50}}]
  doors:
    source: {{type: replay, path: none.csv}}
    window: 1d
    key: badge_id
    privacy: {{epsilon: 100}}
    sketches: [{{type: distinct, universe: 1000, release: bitmap}}]
  silent:
    source: {{type: system, interval: 10s}}
    window: 1d
    privacy: {{epsilon: 1}}
    attributes: {{temp: {{low: -40, high: 60}}}}
collector: {{database: var/collector.sqlite, {collector}}}
"""

READINGS = {
    "air": [[20.0, 0.0], [25.0, 1.0], [10.0, 2.0]] * 200,
    "pairs": [[20.0, 50.0, 0.0], [25.0, 60.0, 1.0]] * 200,
    "sums": [[20.0, 50.0], [25.0, 60.0]] * 200,
}
WINDOWS = (1, 2, 4)  # of each stream of each device; the third is missing


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Site:
    """A configuration on disk, and the means to make what its devices would send."""

    folder: Path
    collector: str = ""
    url: str = "mqtt://127.0.0.1:1"
    port: int = field(default_factory=free_port)
    host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        http = f"http: '{self.host}:{self.port}'"
        collector = ", ".join(filter(None, (http, self.collector)))
        self.path.write_text(CONFIG.format(url=self.url, collector=collector), encoding="utf-8")

    @property
    def path(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def config(self) -> Config:
        return load(self.path, "collector", {})

    def release(self, device: str, stream: str, day: int, times: int = 1) -> bytes:
        """Day `day` of 1970 is its window, its sequence number too; of each reading so many."""
        found = next(s for s in self.config.streams if s.name == stream)
        window = WindowId(device, stream, day, day * DAY, (day + 1) * DAY)
        sketch = found.spec.for_window(window_index(window.start, DAY)).start(ENTROPY)
        keys, readings = np.arange(100), READINGS.get(stream, []) * times
        sketch.update_many(keys if stream == "doors" else np.array(readings, dtype=np.float64))
        return encode(sketch.release(ENTROPY, window))

    def fill(self, *more: Incoming) -> None:
        """Three windows of each stream of two devices, some refusals, one status and a health."""
        held = [
            incoming(topics.release("testing", d, s), self.release(d, s, n))
            for d in ("one", "two")
            for s in (*READINGS, "doors")
            for n in WINDOWS
        ]
        status = incoming(topics.status("testing", "one"), Status("online", "s1", {}).encode())
        health = Health("s1", "0.1.0", 60, True, 3, 120, 2, 1, 4096)
        checkup = incoming(topics.health("testing", "one"), health.encode())
        garbage = [incoming("x", b"1"), incoming("x", b"2")]
        self.settle([*held, status, checkup, *garbage, *more])

    def settle(self, messages: list[Incoming]) -> None:
        config = self.config
        with store.opened(config.collector.database) as opened:
            settle(opened, messages, Rules.of(config), 1000)


def incoming(topic: str, payload: bytes) -> Incoming:
    return Incoming(topic, payload, len(payload), digest(payload), 0, 1, 1)


@dataclass
class Server:
    """`pansketch-collector serve` in a process of its own."""

    site: Site
    process: subprocess.Popen[bytes]
    errors: Path

    @property
    def said(self) -> str:
        return self.errors.read_text(encoding="utf-8")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.site.port}"

    @property
    def web_pid(self) -> int:
        """The process that answers."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(listed.split()[0])

    def client(self, **options: object) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=DEADLINE_SECONDS, **options)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_SECONDS)


def wait_for(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@contextmanager
def serving(site: Site, answers: bool = True) -> Iterator[Server]:
    """A server that answers, unless told; it is gone afterwards."""
    errors = site.folder / "stderr"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "collector", "serve", "--config", str(site.path)],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stderr=file,
        )
    server = Server(site, process, errors)
    try:
        if answers:
            wait_for(lambda: is_up(server))
        yield server
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(DEADLINE_SECONDS)


def is_up(server: Server) -> bool:
    assert server.process.poll() is None, server.said
    try:
        return httpx.get(f"{server.url}/healthz", timeout=2.0).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests that only read."""
    site = Site(tmp_path_factory.mktemp("site"))
    site.fill()
    with serving(site) as server:
        yield server
        assert server.end() == 0, server.said
        assert "Traceback" not in server.said


@pytest.fixture
def get(shared: Server) -> Iterator[Callable[..., httpx.Response]]:
    with shared.client() as client:
        yield lambda path, **parameters: client.get(path, params=parameters)


@pytest.fixture
def make_site(tmp_path: Path) -> Callable[..., Site]:
    return lambda **settings: Site(tmp_path, **settings)


@pytest.fixture
def serve() -> Callable[..., object]:
    return serving


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    return wait_for


@pytest.fixture
def arrive() -> Callable[[str, bytes], Incoming]:
    return incoming


@pytest.fixture
def token() -> str:
    return TOKEN
