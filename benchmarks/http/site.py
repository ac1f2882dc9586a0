"""The collector as users run it, with its page: mosquitto, `serve` with an address, and a fleet's
releases sent through the broker."""

import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from benchmarks.harness.result import MeasurementFailed
from benchmarks.performance.ingest import FLEET, Messages, publish, releases
from pansketch_collector.errors import CommandError
from pansketch_collector.storage.reader import reading
from pansketch_fleet.config.loader import load_agent
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status, StreamBirth
from testbed.embedded_broker import free_port
from testbed.local_fleet import CONFIG
from testbed.notify_socket import ProgramEnded, ProgramTimeout
from testbed.program import Program

STREAMS = ("air", "doors", "lockers")  # all of the demo
READINGS = {
    "air": [(temp, temp - 5, 1010, 60, 40, 2) for temp in range(30)] * 24,  # 30 days, each hour
}
POLL_SECONDS, MAX_SECONDS = 0.02, 120.0
MAX_FILES = 4096
# As `serve` starts it, but for its priority.
ANSWERING = """
import os, sys
from pansketch_collector.http import __main__ as web
from pansketch_collector.http.supervisor import BrokerState
niceness, *batch = sys.argv.pop(1).split()
if batch:
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
web.NICENESS = int(niceness)
state = BrokerState(os.memfd_create("broker-state"))
state.set(True)
sys.argv += ["--broker-state", str(state.descriptor)]
sys.exit(web.main())
"""


@dataclass(frozen=True)
class Site:
    """A running collector. `pid`: of the ingesting process, `web_pid`: of the HTTP process."""

    folder: Path
    broker_port: int
    http_port: int
    pid: int
    web_pid: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def database(self) -> Path:
        return self.folder / "collector.sqlite"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def stored(self) -> int:
        with suppress(CommandError), reading(self.database) as reader:
            return sum(holding.windows for holding in reader.holdings())
        return 0

    def fill(self, messages: Messages) -> float:
        """Publishes releases that are new; seconds until the last one was committed."""
        wanted = self.stored() + len(messages)
        started = time.perf_counter()
        publish(self.broker_port, messages)
        until(lambda: self.stored() >= wanted, "the collector did not follow")
        return time.perf_counter() - started


def until(holds: Callable[[], bool], otherwise: str) -> None:
    """Waits. Raises MeasurementFailed."""
    deadline = time.monotonic() + MAX_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise MeasurementFailed(f"web: {otherwise} in {MAX_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def of_fleet(devices: int, windows: int, streams: Sequence[str] = STREAMS) -> Messages:
    """So many windows of each stream of each device."""
    return [
        message
        for stream in streams
        for message in releases(devices * windows, stream, devices, READINGS.get(stream, ()))
    ]


def of_devices(devices: int) -> Messages:
    """The status messages of each device: a birth message and its health."""
    streams = load_agent(CONFIG, {}).streams
    births = {
        each.name: StreamBirth(
            each.spec.fingerprint.hex(), str(each.spec.guarantee), each.window_seconds
        )
        for each in streams
    }
    birth = Status("online", "a-session", births).encode()
    health = Health("a-session", "0.1.0", 60, True, 0, None, 0, 0, 0).encode()
    names = [f"device-{number}" for number in range(devices)]
    return [(topics.status(FLEET, name), birth) for name in names] + [
        (topics.health(FLEET, name), health) for name in names
    ]


@contextmanager
def serving(folder: Path, broker_port: int, priority: str | None = None) -> Iterator[Site]:
    """A collector that answers, with files of its own below `folder`, or those of an earlier one.

    `priority`: the niceness of what answers, with " batch" for the scheduler's class of that name;
    it is then started beside `serve`. None: as `serve` starts it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    http_port = free_port()
    config = folder / "config.yaml"
    address = f'\n  http: "127.0.0.1:{http_port}"\n'
    config.write_text(CONFIG.read_text(encoding="utf-8").rstrip() + address, encoding="utf-8")
    environment = {"BROKER": f"127.0.0.1:{broker_port}", "VAR": str(folder)}
    served = config if priority is None else CONFIG
    serve = ["-m", "pansketch_collector", "serve", "--config", str(served)]
    with ExitStack() as running:

        def start(words: list[str], **options: Any) -> Program:
            command, log = [sys.executable, *words], folder / "log"
            return running.enter_context(Program(command, log, environment=environment, **options))

        collector = start(serve)
        pid = collector.process.pid
        try:
            collector.wait_until_connected(seconds=MAX_SECONDS)
            answering = None if priority is None else _answer(start, priority, config, http_port)
            until(lambda: _answers(http_port), "no answer over HTTP")
            web_pid = _child(pid) if answering is None else answering.process.pid
            yield Site(folder, broker_port, http_port, pid, web_pid)
        except (ProgramTimeout, ProgramEnded) as error:
            raise MeasurementFailed(f"web: the collector: {error}") from error


def _answer(start: Callable[..., Program], priority: str, config: Path, port: int) -> Program:
    """Starts what answers over HTTP."""
    with socket.create_server(("127.0.0.1", port), backlog=2048) as listening:
        number = listening.fileno()
        words = ["-c", ANSWERING, priority, "--config", str(config), "--socket", str(number)]
        return start(words, stdin=subprocess.PIPE, pass_fds=(number,))


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2.0) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False


def _child(pid: int) -> int:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return next(int(child) for listed in threads for child in listed.read_text().split())


def busy_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    """The most memory that a process ever had."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def allow_connections() -> None:
    """As many open ones as the system lets this process have, up to a bound."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
