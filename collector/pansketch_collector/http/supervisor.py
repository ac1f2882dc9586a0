"""Supervisor of the HTTP process: the collector starts it, restarts it and stops it.

It is a process of its own, of lower priority. In a thread of the collector, or with an equal share
of the processor, fits and draws take most of the ingest rate (benchmarks/http/load.py). The
supervisor holds the listening socket, so no connection is refused while the process restarts.
"""

import errno
import importlib.util
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pansketch_collector.errors import CommandError
from pansketch_fleet.child_process import Child
from pansketch_fleet.settings.settings import Http

NEEDS = ("fastapi", "uvicorn")
BACKLOG = 2048
# The HTTP process of a killed collector keeps the address until it ends.
BIND_ATTEMPTS, BIND_PAUSE_SECONDS = 12, 0.25
RESTART_SECONDS = 2.0
STOP_SECONDS = 6.0

log = logging.getLogger("collector")


class BrokerState:
    """Reports to the HTTP process whether the collector is subscribed.

    It is one byte of an anonymous file, which both processes have open.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @property
    def connected(self) -> bool:
        """False until the collector sets it."""
        return os.pread(self.descriptor, 1, 0) == b"1"

    def set(self, connected: bool) -> None:
        os.pwrite(self.descriptor, b"1" if connected else b"0", 0)


@contextmanager
def supervised(
    http: Http | None,
    config: Path,
    pause: Callable[[float], object],
    log_options: Sequence[str] = (),
) -> Iterator[Callable[[float, bool], object]]:
    """Yields a function to call at every turn, with the uptime and the state of the broker
    connection.

    Without `http` the function does nothing. `log_options`: options for the command line of the
    process. Raises CommandError as `HttpSupervisor` does.
    """
    if http is None:
        yield lambda uptime, broker_connected: None
        return
    supervisor = HttpSupervisor(http, config, pause, log_options)
    try:
        yield supervisor.step
    finally:
        supervisor.stop()


class HttpSupervisor:
    """The HTTP process and its listening socket, which is open before the first start and until
    `stop`."""

    def __init__(
        self,
        http: Http,
        config: Path,
        pause: Callable[[float], object],
        log_options: Sequence[str] = (),
    ) -> None:
        """Raises CommandError when the address is in use, or the extra is not installed.

        `pause`: waits so many seconds, or less while the program stops.
        """
        missing = [name for name in NEEDS if not _is_installed(name)]
        if missing:
            raise CommandError(
                f"collector.http needs {', '.join(missing)}: pip install '.[collector]' in a "
                "clone, or leave it out"
            )
        self._config, self._log_options = config, log_options
        self._socket = _listen(http, pause)
        self._process: subprocess.Popen[bytes] | None = None
        self._broker = BrokerState(os.memfd_create("broker-state"))
        self._next_start = 0.0
        host = f"[{http.host}]" if ":" in http.host else http.host
        self._address = f"{host}:{http.port}"

    def step(self, uptime: float, broker_connected: bool) -> None:
        """Shares the state of the broker connection, and starts the process if none runs; cheap.

        `uptime`: monotonic seconds.
        """
        self._broker.set(broker_connected)
        running = self._process is not None and self._process.poll() is None
        if running or uptime < self._next_start:
            return
        if self._process is None:
            log.info("http://%s answers", self._address)
        else:
            self._close_input(self._process)
            log.error("the process of http://%s ended unexpectedly; restarting it", self._address)
        self._next_start = uptime + RESTART_SECONDS
        self._process = self._start()

    def stop(self) -> None:
        """Ends the process and closes the socket."""
        self._socket.close()
        os.close(self._broker.descriptor)
        if self._process is None:
            return
        self._close_input(self._process)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        listening, broker = self._socket.fileno(), self._broker.descriptor
        command = [sys.executable, "-m", "pansketch_collector.http", "--config", str(self._config)]
        return Child(
            [
                *command,
                *self._log_options,
                "--socket",
                str(listening),
                "--broker-state",
                str(broker),
            ],
            # Never written: its end ends the process, even if this one is killed.
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(listening, broker),
            env=_environment(os.environ),
        )

    @staticmethod
    def _close_input(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        process.stdin.close()


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without systemd's variables, which are for the collector only."""
    return {k: v for k, v in environment.items() if k not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")}


def _listen(http: Http, pause: Callable[[float], object]) -> socket.socket:
    family = socket.AF_INET6 if ":" in http.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    attempts = BIND_ATTEMPTS
    while (error := _bind(listening, http)) is not None:
        attempts -= 1
        if error.errno != errno.EADDRINUSE or not attempts:
            listening.close()
            raise CommandError(
                f"collector.http: cannot listen on {http.host} port {http.port} "
                f"({error.strerror}): free the port, or name another address"
            ) from error
        pause(BIND_PAUSE_SECONDS)
    return listening


def _bind(listening: socket.socket, http: Http) -> OSError | None:
    """Binds and listens; returns the error, if any."""
    try:
        listening.bind((http.host, http.port))
        listening.listen(BACKLOG)
    except OSError as error:
        return error
    return None
