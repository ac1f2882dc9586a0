"""A broker and a collector of the simulator's own, as processes, below one folder."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pansketch_fleet.config.loader import CollectorConfig, load_collector
from pansketch_fleet.settings.settings import DatabaseServer
from testbed.fleet_simulator import usage
from testbed.mosquitto import mosquitto
from testbed.notify_socket import ProgramEnded, ProgramTimeout
from testbed.program import Program

# As docs/how-to/scale.md has operators set it: nothing is dropped while the collector works.
BROKER = "max_queued_messages 0\nmax_inflight_messages 0\n"


class CannotStart(Exception):
    """A single-line reason why no own server runs."""


@dataclass(frozen=True)
class Server:
    """The server of a run: its configuration, and process ids by their role."""

    config: CollectorConfig
    processes: dict[str, int]


@contextmanager
def own_server(folder: Path, path: Path) -> Iterator[Server]:
    """Runs a mosquitto on loopback and a collector, with the configuration `path` and all files
    below `folder`. Raises CannotStart, ConfigError."""
    try:
        with mosquitto(folder, settings=BROKER) as port:
            known = {"BROKER": f"127.0.0.1:{port}", "VAR": str(folder)}
            config = load_collector(path, {**os.environ, **known})
            _check(config, path, port, folder)
            words = [sys.executable, "-m", "pansketch_collector", "serve", "--config", str(path)]
            with Program(words, folder / "collector.log", environment=known) as collector:
                collector.wait_until_connected()
                own = {usage.name_of(pid): pid for pid in usage.children(os.getpid())}
                found = {"broker": own["mosquitto"], "collector": collector.process.pid}
                yield Server(config, found)
    except (FileNotFoundError, ProgramEnded, ProgramTimeout) as error:
        raise CannotStart(str(error)) from error


def _check(config: CollectorConfig, path: Path, port: int, folder: Path) -> None:
    """Simulated releases must not reach the broker or the database of a real fleet."""
    if (config.mqtt.host, config.mqtt.port) != ("127.0.0.1", port):
        text = 'write mqtt.url "mqtt://${BROKER}", or use --url'
        raise CannotStart(f"{path} names a broker of its own: {text}")
    database = config.collector.database
    if isinstance(database, DatabaseServer) or not database.is_relative_to(folder):
        text = 'write collector.database "${VAR}/collector.sqlite", or use --url'
        raise CannotStart(f"{path} names a database of its own: {text}")
