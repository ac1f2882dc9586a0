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
# A collector that was killed leaves the address to its last reader for a moment.
BIND_ATTEMPTS, BIND_PAUSE_SECONDS = 12, 0.25
RESTART_SECONDS = 2.0
STOP_SECONDS = 6.0

log = logging.getLogger("collector")


class BrokerState:
    """Whether the collector has its subscription, as the HTTP process reads it: one byte of a file
    without a name, which both processes hold open."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @property
    def connected(self) -> bool:
        """False until the collector has set it."""
        return os.pread(self.descriptor, 1, 0) == b"1"

    def set(self, connected: bool) -> None:
        os.pwrite(self.descriptor, b"1" if connected else b"0", 0)


@contextmanager
def answering(
    http: Http | None,
    config: Path,
    pause: Callable[[float], object],
    words: Sequence[str] = (),
) -> Iterator[Callable[[float, bool], object]]:
    """Gives what has to be called now and then, with the uptime and whether the broker is there;
    without `http` it does nothing. `words`: further ones for the command line of the process.

    Raises CommandError as `HttpSupervisor` does.
    """
    if http is None:
        yield lambda uptime, broker_connected: None
        return
    web = HttpSupervisor(http, config, pause, words)
    try:
        yield web.attend
    finally:
        web.stop()


class HttpSupervisor:
    """The process and its socket, which is open before the first start and until `stop`."""

    def __init__(
        self,
        http: Http,
        config: Path,
        pause: Callable[[float], object],
        words: Sequence[str] = (),
    ) -> None:
        """Raises CommandError when the address is taken, or the extra is not installed. `pause`
        waits so many seconds, or less when this program is to stop."""
        missing = [name for name in NEEDS if not _is_installed(name)]
        if missing:
            raise CommandError(
                f"collector.http needs {', '.join(missing)}: pip install '.[collector]' in a "
                "clone, or leave it out"
            )
        self._config, self._words = config, words
        self._socket = _listening(http, pause)
        self._process: subprocess.Popen[bytes] | None = None
        self._broker = BrokerState(os.memfd_create("broker-state"))
        self._next_start = 0.0
        host = f"[{http.host}]" if ":" in http.host else http.host
        self._address = f"{host}:{http.port}"

    def attend(self, uptime: float, broker_connected: bool) -> None:
        """Shares the broker's state, and starts the process where there is none; cheap. `uptime`:
        of a clock that only grows."""
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
        """Ends the process and gives the address back."""
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
            [*command, *self._words, "--socket", str(listening), "--broker-state", str(broker)],
            # Nothing is written to it: its end ends the process, whatever ended this one.
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
    """Without systemd, which the collector itself alone speaks to. One thread for each equation:
    those of a fit are small, and further threads mostly wait for each other."""
    kept = {k: v for k, v in environment.items() if k not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")}
    return {"OPENBLAS_NUM_THREADS": "1", **kept}


def _listening(http: Http, pause: Callable[[float], object]) -> socket.socket:
    family = socket.AF_INET6 if ":" in http.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    attempts = BIND_ATTEMPTS
    while (error := _bound(listening, http)) is not None:
        attempts -= 1
        if error.errno != errno.EADDRINUSE or not attempts:
            listening.close()
            raise CommandError(
                f"collector.http: cannot listen on {http.host} port {http.port} "
                f"({error.strerror}): free the port, or name another address"
            ) from error
        pause(BIND_PAUSE_SECONDS)
    return listening


def _bound(listening: socket.socket, http: Http) -> OSError | None:
    """What keeps it from listening, if anything."""
    try:
        listening.bind((http.host, http.port))
        listening.listen(BACKLOG)
    except OSError as error:
        return error
    return None
