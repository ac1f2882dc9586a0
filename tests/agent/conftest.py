"""A device for the agent's tests: a real configuration, broker, process and peer."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgpack
import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from agent.backlog import releases_in
from agent.records import Key
from demo.broker import free_port
from fleet import topics
from fleet.config import Config, load
from fleet.messages import Ack, Health, Status, digest
from pansketch import WindowId, encode, os_entropy, peek
from pansketch.hashing import digest as checksum

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 20.0
ENTROPY = os_entropy()

CONFIG = """\
fleet: testing
mqtt: {{url: "{url}"}}
agent: {{device: dev-1, profile: pi-zero-2w}}
streams:
  air:
    source: {source}
    window: {window}
    privacy: {privacy}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      wind: {{categories: [calm, N, NO]}}
    sketch: {{depth: 4, k: 4, width: 8, rows: 1, fanout: 2}}
"""

HOURLY = """\
time,temp,wind
2024-01-01T00:30:00Z,11.5,N
2024-01-01T01:30:00Z,12.5,calm
2024-01-01T04:30:00Z,13.5,NO
"""


def until(happened: Callable[[], object], what: str) -> None:
    """Waits, within a deadline, until something is true."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, f"still waiting for: {what}"
        time.sleep(0.01)


@dataclass
class Device:
    """One device's folder, its configuration and its program."""

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def config(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def state(self) -> Path:
        return self.folder / "var/agent/dev-1"

    def configure(
        self,
        url: str = "mqtt://127.0.0.1:1",
        source: str = "{type: replay, path: rows.csv}",
        window: str = "1h",
        rows: str = HOURLY,
        privacy: str = "{epsilon: 1.0, unit: reading, intrusion: silent}",
    ) -> Config:
        (self.folder / "rows.csv").write_text(rows)
        self.config.write_text(
            CONFIG.format(url=url, source=source, window=window, privacy=privacy)
        )
        return load(self.config, "agent", {})

    def start(self, *arguments: str, program: tuple[str, ...] = ("-m", "agent")) -> "Running":
        process = subprocess.Popen(
            [sys.executable, *program, *arguments, "--config", str(self.config)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return Running(process)

    def outbox(self) -> list[str]:
        """What waits, by names: SEQUENCE.STREAM.release."""
        return sorted(key.filename for key in self.releases())

    def releases(self) -> dict[Key, bytes]:
        """What waits on disk."""
        return dict(releases_in(self.state / "outbox"))

    def ledger(self) -> list[list[str]]:
        """The debits: [sequence, stream, start, end, micro-epsilon]."""
        lines = (self.state / "ledger").read_text().splitlines()
        return [line.split()[1:6] for line in lines if line.startswith("debit")]


@dataclass
class Running:
    """An agent's process; its standard error is read while it runs."""

    process: subprocess.Popen[str]
    said: str = ""

    def __post_init__(self) -> None:
        assert self.process.stderr is not None
        os.set_blocking(self.process.stderr.fileno(), False)

    def errors(self) -> str:
        assert self.process.stderr is not None
        with suppress(BlockingIOError):
            self.said += os.read(self.process.stderr.fileno(), 1 << 20).decode()
        return self.said

    def says(self, text: str) -> None:
        until(lambda: text in self.errors(), f"{text!r} in {self.said!r}")

    def ends(self) -> int:
        until(lambda: self.errors() is not None and self.process.poll() is not None, self.said)
        self.errors()
        return self.process.returncode

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.ends()


@dataclass
class Peer:
    """A collector's side of the protocol: keeps what arrives, answers what `answer` says."""

    url: str
    answer: Callable[[bytes, Ack], Ack | None] = lambda payload, ack: ack
    releases: list[bytes] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    healths: list[tuple[bool, Health]] = field(default_factory=list)  # with: was it retained?

    def __enter__(self) -> "Peer":
        self._client = Client(CallbackAPIVersion.VERSION2, client_id="peer")
        self._client.on_connect = lambda *_: self._client.subscribe(
            [(topic, 1) for topic in topics.fleet_filter("testing")]
        )
        self._ready = False
        self._client.on_subscribe = lambda *_: setattr(self, "_ready", True)
        self._client.on_message = self._on_message
        self._client.connect_async("127.0.0.1", int(self.url.rpartition(":")[2]))
        self._client.loop_start()
        until(lambda: self._ready, "the peer's subscription")
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _on_message(self, _client: Client, _userdata: object, message: MQTTMessage) -> None:
        topic, payload = topics.parse(message.topic), bytes(message.payload)
        assert topic is not None
        if topic.kind == "status":
            self.statuses.append(Status.decode(payload))
            return
        if topic.kind == "health":
            self.healths.append((message.retain, Health.decode(payload)))
            return
        self.releases.append(payload)
        window = peek(payload).windows[0]
        ack = self.answer(payload, Ack(window.stream, window.sequence, digest(payload), "stored"))
        if ack is not None:
            self._client.publish(topics.ack("testing", "dev-1"), ack.encode(), 1)

    def windows(self) -> list[WindowId]:
        return [peek(payload).windows[0] for payload in self.releases]

    def sequences(self) -> list[int]:
        return [window.sequence for window in self.windows()]


@pytest.fixture(autouse=True)
def unchanged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is started inside this process must not harden it, nor log into a closed stream."""
    monkeypatch.setattr("agent.hardening.apply", list)
    handlers = logging.root.handlers[:]
    yield
    logging.root.handlers[:] = handlers


@pytest.fixture
def release_of() -> Callable[[Config, int], bytes]:
    """Makes honest releases of empty windows, by their sequence numbers."""

    def made(config: Config, sequence: int) -> bytes:
        window = WindowId("dev-1", "air", sequence, 3600 * sequence, 3600 * (sequence + 1))
        return encode(config.streams[0].spec.start(ENTROPY).release(ENTROPY, window))

    return made


@pytest.fixture
def as_version_1() -> Callable[[bytes], bytes]:
    """The bytes that version 1 of the wire gave a release: its windows have no clock."""

    def version_1(data: bytes) -> bytes:
        fields = msgpack.unpackb(data[13:])
        fields[2] = [entry[:5] for entry in fields[2]]
        body = msgpack.packb(fields)
        return b"PANS\1" + checksum(body, 8) + body

    return version_1


@pytest.fixture(name="until")
def fixture_until() -> Callable[[Callable[[], object], str], None]:
    return until


@pytest.fixture
def peer() -> type[Peer]:
    return Peer


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    made = Device(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()


SERVE = """
import sys
from demo.broker import EmbeddedBroker
with EmbeddedBroker(int(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True)
class Broker:
    """Where a broker listens, and its process."""

    port: int
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"


@contextmanager
def running_broker(port: int) -> Iterator[Broker]:
    """The embedded broker in a process of its own, where it may leave connections unclosed."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(port)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield Broker(port, process)
        process.stdin.close()
        process.wait(DEADLINE_SECONDS)


@pytest.fixture
def broker_at() -> Callable[[int], AbstractContextManager[Broker]]:
    return running_broker


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    with running_broker(free_port()) as running:
        yield running


@pytest.fixture
def broker(shared_broker: Broker) -> Broker:
    """A broker without a retained status of an earlier test."""
    client = Client(CallbackAPIVersion.VERSION2, client_id="cleaner")
    client.connect("127.0.0.1", shared_broker.port)
    client.loop_start()
    client.publish(topics.status("testing", "dev-1"), b"", 1, retain=True).wait_for_publish(5)
    client.disconnect()
    client.loop_stop()
    return shared_broker
