"""The collector's side of the process that answers over HTTP: starts it, minds it, ends it.

A process of its own, and one of lower priority: in a thread of the collector, or with an equal
share of the processor, fitting and drawing for readers takes most of the rate at which releases are
taken in (benchmarks/web_beside.py).
"""

import errno
import importlib.util
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from collector.failure import CommandError
from collector.web.told import line
from fleet.settings import Http

NEEDS = ("fastapi", "uvicorn", "pyarrow")
BACKLOG = 2048
# A collector that was killed leaves the address to its last reader for a moment.
BIND_ATTEMPTS, BIND_PAUSE_SECONDS = 12, 0.25
RESTART_SECONDS = 2.0
STOP_SECONDS = 6.0

log = logging.getLogger("collector")


@contextmanager
def answering(
    http: Http | None, config: Path, pause: Callable[[float], object]
) -> Iterator[Callable[[float, bool], object]]:
    """Gives what has to be called now and then, with the uptime and whether the broker is there;
    without `http` it does nothing.

    Raises CommandError as `Web` does.
    """
    if http is None:
        yield lambda uptime, broker_connected: None
        return
    web = Web(http, config, pause)
    try:
        yield web.attend
    finally:
        web.stop()


class Web:
    """The process and its socket, which is open before the first start and until `stop`."""

    def __init__(self, http: Http, config: Path, pause: Callable[[float], object]) -> None:
        """Raises CommandError when the address is taken, or the extra is not installed. `pause`
        waits so many seconds, or less when this program is to stop."""
        missing = [name for name in NEEDS if not _is_installed(name)]
        if missing:
            raise CommandError(
                f"collector.http needs {', '.join(missing)}: pip install '.[collector]' in a "
                "clone, or leave it out"
            )
        self._config = config
        self._socket = _listening(http, pause)
        self._process: subprocess.Popen[bytes] | None = None
        self._told: bool | None = None  # what the process knows of the broker
        self._next_start = 0.0
        host = f"[{http.host}]" if ":" in http.host else http.host
        self._address = f"{host}:{http.port}"

    def attend(self, uptime: float, broker_connected: bool) -> None:
        """Starts the process where there is none, and tells it of the broker what it does not know;
        cheap. `uptime`: of a clock that only grows."""
        if self._process is not None and self._process.poll() is None:
            self._tell(self._process, broker_connected)
            return
        if uptime < self._next_start:
            return
        if self._process is None:
            log.info("http://%s answers", self._address)
        else:
            self._close_input(self._process)
            log.error("what answers http://%s ended by itself; starting it anew", self._address)
        self._next_start = uptime + RESTART_SECONDS
        self._process, self._told = self._start(), None
        self._tell(self._process, broker_connected)

    def stop(self) -> None:
        """Ends the process and gives the address back."""
        self._socket.close()
        if self._process is None:
            return
        self._close_input(self._process)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        number = self._socket.fileno()
        command = [sys.executable, "-m", "collector.web"]
        process = subprocess.Popen(
            [*command, "--config", str(self._config), "--socket", str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(number,),
            env=_without_notify(os.environ),
        )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)  # The taking in never waits for it.
        return process

    def _tell(self, process: subprocess.Popen[bytes], broker_connected: bool) -> None:
        if self._told == broker_connected:
            return
        assert process.stdin is not None
        # One that does not read is told at another turn; one that has ended is started anew.
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(process.stdin.fileno(), line(broker_connected))
            self._told = broker_connected

    @staticmethod
    def _close_input(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        process.stdin.close()


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _without_notify(environment: Mapping[str, str]) -> dict[str, str]:
    """Only the collector itself speaks to systemd."""
    return {k: v for k, v in environment.items() if k not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")}


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
