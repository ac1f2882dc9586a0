"""A fleet with releases of every kind of sketch, and a real server of them over loopback."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import pytest

from pansketch import WindowId, encode
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.validation import Rules
from pansketch_fleet.config.loader import Config
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status, digest
from pansketch_fleet.settings.device_spec import schedule_offset, window_index
from testbed.embedded_broker import free_port
from testbed.program import Program
from tests import waiting
from tests.collector import serving as processes
from tests.collector.small_fleet import config_at
from tests.seeded_noise import noise_of_fixture, noise_of_test

DAY = 86_400
ENTROPY = noise_of_test()
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
        return config_at(self.path)

    def release(self, device: str, stream: str, day: int, times: int = 1) -> bytes:
        """Day `day` of 1970 is its window, its sequence number too; of each reading so many."""
        found = next(s for s in self.config.streams if s.name == stream)
        start = day * DAY + schedule_offset(device, DAY)
        window = WindowId(device, stream, day, start, start + DAY)
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
        health = Health("s1", "0.1.0", 60, True, 3, 120, 2, 1, 4096, name_conflicts=5)
        checkup = incoming(topics.health("testing", "one"), health.encode())
        garbage = [incoming("x", b"1"), incoming("x", b"2")]
        self.commit([*held, status, checkup, *garbage, *more])

    def commit(self, messages: list[Incoming]) -> None:
        config = self.config
        with store.opened(config.collector.database) as opened:
            commit_batch(opened, messages, Rules.of(config), 1_000_001_000)


def incoming(topic: str, payload: bytes) -> Incoming:
    return Incoming(topic, payload, len(payload), digest(payload), 0, 1, 1)


@dataclass
class Server:
    """`pansketch-collector serve` in a process of its own."""

    site: Site
    program: Program

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.site.port}"

    @property
    def web_pid(self) -> int:
        """The process that answers."""
        threads = Path(f"/proc/{self.program.process.pid}/task").glob("*/children")
        (pid,) = [int(pid) for listed in threads for pid in listed.read_text().split()]
        return pid

    def client(self, **options: object) -> httpx.Client:
        # Its address has no TLS; to read the certificates of this machine takes 50 ms of a core.
        known = {"base_url": self.url, "timeout": waiting.SECONDS, "verify": False}
        return httpx.Client(**known | options)


@contextmanager
def serving(site: Site, answers: bool = True) -> Iterator[Server]:
    """A running server, by default after its first answer; it is stopped afterwards."""
    with processes.serving(site.path, site.folder / "stderr") as program:
        server = Server(site, program)
        if answers:
            program.until(lambda: is_up(server), "its first answer")
        yield server


def is_up(server: Server) -> bool:
    try:
        with server.client() as client:
            return client.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests that only read."""
    with noise_of_fixture("shared"):
        site = Site(tmp_path_factory.mktemp("site"))
        site.fill()
    with serving(site) as server:
        yield server
        assert server.program.stop() == 0, server.program.output
        assert "Traceback" not in server.program.output


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
    return waiting.until


@pytest.fixture
def arrive() -> Callable[[str, bytes], Incoming]:
    return incoming


@pytest.fixture
def token() -> str:
    return TOKEN
