"""A broker and a collector of the simulator's own, as processes, below one folder.

With workers, the collector's database is a PostgreSQL of the simulator's own, and further processes
ingest releases beside `serve`.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pansketch_fleet.config.loader import CollectorConfig, load_collector
from pansketch_fleet.settings.settings import DatabaseServer
from testbed import mosquitto
from testbed.embedded_broker import free_port
from testbed.notify_socket import ProgramEnded, ProgramTimeout
from testbed.postgresql import Postgresql, postgresql
from testbed.program import END_SECONDS, Program

# As docs/how-to/scale.md has operators set it: nothing is dropped while the collector works.
BROKER = "max_queued_messages 0\nmax_inflight_messages 0\n"
DATABASE_LINE = re.compile(r"^( +database:).*$", re.MULTILINE)


class CannotStart(Exception):
    """A single-line reason why no own server runs."""


class Killable:
    """A program of a run that can be killed and started again."""

    def __init__(self, start: Callable[[], Program]) -> None:
        self._start = start
        self._program = start()

    @property
    def pid(self) -> int:
        return self._program.process.pid

    def ended(self) -> bool:
        """True if it does not run."""
        return self._program.ended()

    def kill(self) -> None:
        """Ends it by SIGKILL."""
        self._program.close()

    def start(self) -> None:
        """Starts it after its end. Raises OSError."""
        self._program.close()
        self._program = self._start()

    def frozen(self) -> AbstractContextManager[None]:
        """Stops it by SIGSTOP for the duration of the block."""
        return self._program.frozen()

    def stop(self) -> None:
        """Ends it by SIGTERM, and by SIGKILL if it does not end."""
        self._program.close(END_SECONDS)

    def wait_until_connected(self) -> None:
        """Return once it has subscribed at the broker. Raises ProgramEnded, ProgramTimeout."""
        self._program.wait_until_connected()


@dataclass(frozen=True)
class Server:
    """The server of a run.

    Attributes:
        config: of the collector.
        programs: by role: broker, collector, worker 1 and so on.
        database: the PostgreSQL of a run with workers.
    """

    config: CollectorConfig
    programs: dict[str, Killable]
    database: Postgresql | None

    @property
    def processes(self) -> dict[str, int]:
        """The process ids by role."""
        found = {name: program.pid for name, program in self.programs.items()}
        if self.database is not None:
            found["postgresql"] = self.database.pid
        return found

    @contextmanager
    def ingest_paused(self) -> Iterator[None]:
        """Pauses all processes that ingest. They stay connected, so the broker queues for them."""
        with ExitStack() as stack:
            for name, program in self.programs.items():
                if name != "broker":
                    stack.enter_context(program.frozen())
            yield


@contextmanager
def own_server(folder: Path, path: Path, workers: int | None = None) -> Iterator[Server]:
    """Runs a mosquitto on loopback and a collector, with the configuration `path` and all files
    below `folder`.

    Args:
        folder: of configurations, logs and a SQLite database.
        path: the configuration of fleet and streams.
        workers: processes that ingest beside `serve`, on a PostgreSQL of their own; None: SQLite.

    Raises:
        CannotStart, ConfigError.
    """
    port = free_port()
    known = {"BROKER": f"127.0.0.1:{port}", "VAR": str(folder)}
    config = load_collector(path, {**os.environ, **known})
    _check(config, path, port, folder)
    try:
        with ExitStack() as stack:
            database = None
            if workers is not None:
                database = stack.enter_context(postgresql())
                path = _with_database(path, database.url, folder)
                config = load_collector(path, {**os.environ, **known})

            def run(name: str, start: Callable[[], Program]) -> None:
                programs[name] = Killable(start)
                stack.callback(programs[name].stop)

            def command(name: str, word: str) -> Callable[[], Program]:
                words = [sys.executable, "-m", "pansketch_collector", word, "--config", str(path)]
                log = folder / f"{name.replace(' ', '-')}.log"
                return lambda: Program(words, log, environment=known)

            programs = dict[str, Killable]()
            run("broker", lambda: mosquitto.start(folder, port, BROKER))
            run("collector", command("collector", "serve"))
            # `serve` makes the tables before it connects.
            programs["collector"].wait_until_connected()
            for number in range(1, (workers or 0) + 1):
                name = f"worker {number}"
                run(name, command(name, "ingest"))
                programs[name].wait_until_connected()
            yield Server(config, programs, database)
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


def _with_database(path: Path, url: str, folder: Path) -> Path:
    """The same configuration with another database. Raises CannotStart."""
    text, found = DATABASE_LINE.subn(rf'\1 "{url}"', path.read_text(encoding="utf-8"))
    if found != 1:
        raise CannotStart(f"{path}: write collector.database once, on a line of its own")
    other = folder / "fleet.yaml"
    other.write_text(text, encoding="utf-8")
    return other
