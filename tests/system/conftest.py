"""A whole fleet: a real broker, the real collector and real agents, each a process of its own."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pansketch_agent.commands.list_outbox import releases_in
from testbed.embedded_broker import free_port
from testbed.mosquitto import listens
from testbed.program import ROOT, Program
from tests.packages import missing
from tests.waiting import SECONDS, until

# mosquitto is what people have; amqtt, which every machine has, stands in for it. A whole fleet and
# what an observer sees are tried with both: they order and repeat messages in different ways.
MOSQUITTO = pytest.param("mosquitto", marks=pytest.mark.needs("mosquitto"))
WITH_BOTH = ("test_fleet", "test_neighbours", "test_garbage")

# As another user, which root's broker becomes otherwise, it would outlive a test that is killed.
MOSQUITTO_CONFIG = "user root\nlistener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"

CONFIG = """\
fleet: {fleet}
mqtt: {{url: "mqtt://127.0.0.1:{port}"}}
agent: {{device: {device}, state: var/agent/{device}, profile: {profile}}}
streams:
  air:
    source: {source}
    window: {window}
    privacy: {{epsilon: {epsilon}, unit: reading, intrusion: silent}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      pm25: {{low: 0, high: 1000, scale: log}}
collector: {{database: var/collector.sqlite}}
"""

DEFAULTS = {"fleet": "home", "window": "1h", "epsilon": 1.0, "profile": "pi-zero-2w"}

Rows = list[tuple[float, float, float]]


@dataclass
class Fleet:
    """A fleet in one folder."""

    folder: Path
    broker_name: str
    port: int
    programs: list[Program] = field(default_factory=list)

    until = staticmethod(until)

    def start(self, name: str, *command: str, stdin: int = subprocess.DEVNULL) -> Program:
        log = self.folder / f"log-{len(self.programs):02d}-{name}"
        self.programs.append(Program(command, log, folder=self.folder, stdin=stdin))
        return self.programs[-1]

    def start_broker(self) -> Program:
        """Starts the broker on its port, which stays the same; it listens afterwards."""
        config = self.folder / "mosquitto.conf"
        config.write_text(MOSQUITTO_CONFIG.format(port=self.port))
        commands = {
            "amqtt": (sys.executable, "-m", "testbed.embedded_broker", str(self.port)),
            "mosquitto": ("mosquitto", "-c", str(config)),
        }
        command = commands[self.broker_name]
        broker = self.start("broker", *command, stdin=subprocess.PIPE)
        broker.until(lambda: listens(self.port), "a listener")
        return broker

    def configure(self, device: str, rows: Rows, **settings: object) -> Path:
        """Writes the device's configuration, and its rows (unix seconds, temp, pm25) as CSV."""
        text = "".join(f"{at},{temp},{pm25}\n" for at, temp, pm25 in rows)
        (self.folder / f"{device}.csv").write_text(f"time,temp,pm25\n{text}")
        source = f"{{type: replay, path: {device}.csv}}"
        path = self.folder / f"{device}.yaml"
        known = DEFAULTS | {"port": self.port, "device": device, "source": source}
        path.write_text(CONFIG.format(**known | settings))
        return path

    def agent(self, device: str, *options: str, stdin: int = subprocess.DEVNULL) -> Program:
        command = (
            sys.executable,
            "-m",
            "pansketch_agent",
            "run",
            *options,
            "--config",
            f"{device}.yaml",
        )
        return self.start(device, *command, stdin=stdin)

    def collector(self, listens: bool = True) -> Program:
        """Serves with the configuration of the first device."""
        command = (sys.executable, "-m", "pansketch_collector", "serve", "--config", "dev-1.yaml")
        collector = self.start("collector", *command)
        if listens:
            collector.wait_until_connected()
        return collector

    def ask(self, *words: str) -> str:
        """The output of a command of the collector, which must succeed."""
        command = [sys.executable, "-m", "pansketch_collector", *words, "--config", "dev-1.yaml"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, query: str, *values: object) -> list[tuple]:
        """Rows of the collector's database; none before it exists."""
        path = self.folder / "var/collector.sqlite"
        try:
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
                return database.execute(query, values).fetchall()
        except sqlite3.OperationalError:
            return []

    def stored(self, device: str = "dev-1") -> list[tuple[int, int, int]]:
        """(sequence, start, end) of every stored release of a device."""
        query = "SELECT sequence, window_start, window_end FROM releases WHERE device = ?"
        return sorted(self.rows(query, device))

    def quarantine(self) -> list[tuple[str, str]]:
        """(topic, reason) of everything that was ever refused."""
        return sorted(self.rows("SELECT topic, reason FROM quarantine"))

    def ledger(self, device: str = "dev-1") -> list[tuple[int, int, int]]:
        """(sequence, start, end) of every debit; none before there is a ledger."""
        path = self.folder / "var/agent" / device / "ledger"
        lines = path.read_text().splitlines() if path.exists() else []
        words = [line.split() for line in lines if line.startswith("debit ")]
        return [(int(word[1]), int(word[3]), int(word[4])) for word in words if len(word) == 7]

    def outbox(self, device: str = "dev-1") -> list[str]:
        folder = self.folder / "var/agent" / device / "outbox"
        others = [path for path in folder.rglob("*") if path.suffix != ".segment"]
        waiting = [key.filename for key, _ in releases_in(folder)]
        return sorted([*waiting, *(str(path.relative_to(folder)) for path in others)])

    def close(self) -> None:
        for program in self.programs:
            program.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "broker_name" in metafunc.fixturenames:
        both = metafunc.module.__name__.rpartition(".")[2] in WITH_BOTH
        brokers = ["amqtt", MOSQUITTO] if both or missing(["mosquitto"]) else [MOSQUITTO]
        metafunc.parametrize("broker_name", brokers)


@pytest.fixture
def make_fleet(broker_name: str, tmp_path: Path) -> Iterator[Callable[[str], Fleet]]:
    """Makes houses without a broker yet, each in a folder of that name."""
    made: list[Fleet] = []

    def make(name: str = "home") -> Fleet:
        (tmp_path / name).mkdir()
        made.append(Fleet(tmp_path / name, broker_name, free_port()))
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()


@pytest.fixture
def fleet(make_fleet: Callable[[str], Fleet]) -> Fleet:
    return make_fleet("home")


@pytest.fixture
def hourly() -> Callable[..., Rows]:
    """Rows in the middle of each of the hours from 2024-01-01 on, so in one window each."""

    def rows(hours: int, each: int = 1, temp: float = 20.0, pm25: float = 50.0) -> Rows:
        return [
            (1704067200 + 3600 * hour + 1800 + number, temp, pm25)
            for hour in range(hours)
            for number in range(each)
        ]

    return rows
