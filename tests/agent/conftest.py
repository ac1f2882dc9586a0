"""A device for the agent's tests: a real configuration, broker, process and peer."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from pansketch import WindowId, encode, os_entropy
from pansketch.blinding import PrivateKey
from pansketch_agent.host.hardening import MemoryProtection
from pansketch_fleet.config.loader import Config, load_agent
from pansketch_fleet.protocol import topics
from testbed.embedded_broker import broker_process, free_port
from testbed.program import Program
from tests.agent.device import Device
from tests.agent.peer import Peer
from tests.waiting import SECONDS, until

ENTROPY = os_entropy()
KEY_STREAM = """\
fleet: testing
mqtt: {{url: "{url}"}}
agent: {{device: dev-1, profile: pi-zero-2w}}
streams:
  doors:
    source: {source}
    window: {window}
    privacy: {privacy}
    key: badge
    sketches: [{{type: distinct, {sketch}}}]
"""


@pytest.fixture(autouse=True)
def unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent code inside this process from hardening it."""
    monkeypatch.setattr("pansketch_agent.host.hardening.forbid_dumps", list)
    monkeypatch.setattr(
        "pansketch_agent.host.hardening.lock_memory", lambda root: MemoryProtection("", root)
    )


@pytest.fixture
def release_of() -> Callable[[Config, int], bytes]:
    """Makes honest releases of empty windows, by their sequence numbers."""

    def made(config: Config, sequence: int) -> bytes:
        window = WindowId("dev-1", "air", sequence, 3600 * sequence, 3600 * (sequence + 1))
        return encode(config.streams[0].spec.start(ENTROPY).release(ENTROPY, window))

    return made


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
    for program in made.started:
        program.close()


@dataclass(frozen=True)
class Broker:
    """The address of a broker, and its process."""

    port: int
    program: Program

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"


@contextmanager
def running_broker(port: int) -> Iterator[Broker]:
    """The embedded broker in a process of its own, where it may leave connections unclosed."""
    with broker_process(port) as (_, program):
        yield Broker(port, program)


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
    client.publish(topics.status("testing", "dev-1"), b"", 1, retain=True).wait_for_publish(SECONDS)
    client.disconnect()
    client.loop_stop()
    return shared_broker


@pytest.fixture
def keyed(device: Device) -> Callable[..., Config]:
    """Writes the configuration of a device with one stream of keys.

    All keys of the universe are tracked: at epsilon 100 its counts are exact
    (tests/agent/windows/test_keys.py).
    """

    def configure(
        url: str = "mqtt://127.0.0.1:1",
        rows: str = "time,badge\n",
        source: str = "{type: replay, path: rows.csv}",
        window: str = "1h",
        privacy: str = "{epsilon: 100}",
        sketch: str = "universe: 1000",
    ) -> Config:
        (device.folder / "rows.csv").write_text(rows)
        settings = {"url": url, "source": source, "window": window, "privacy": privacy}
        device.config.write_text(KEY_STREAM.format(**settings, sketch=sketch))
        return load_agent(device.config, {})

    return configure


@pytest.fixture(scope="session")
def keepers() -> list[PrivateKey]:
    """The private keys of two keepers."""
    return [PrivateKey.draw(ENTROPY) for _ in range(2)]


@pytest.fixture
def blinded(device: Device, keepers: list[PrivateKey]) -> Callable[..., Config]:
    """Writes the device's configuration, with a blinded stream and two keepers."""

    def configure(more: str = "", **settings: Any) -> Config:
        return device.configure_blinded([key.public for key in keepers], more, **settings)

    return configure
