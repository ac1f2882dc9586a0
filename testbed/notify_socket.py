"""The service manager's end of NOTIFY_SOCKET (sd_notify(3)), for demo, chaos, benchmarks and tests:
they wait for what a program of the fleet says there, and never for a line of its log."""

import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

LOOK_SECONDS = 0.1  # between two looks whether the program runs
MAX_BYTES = 4096
READY, CONNECTED = "READY", "X_CONNECTED"


class ProgramEnded(Exception):
    """The program ended before it said what was waited for; the text is its standard error."""


class NotSaid(Exception):
    """The program did not say in time what was waited for."""


class NotifySocket:
    """What one process says, from its start to its end.

    A thread reads at once: a full socket would hold up the program.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("")  # The system finds a name outside the file system.
        self._values: dict[str, str] = {}
        self._times = Counter[tuple[str, str]]()
        self._news = threading.Condition()
        self._closing = False
        self._process: subprocess.Popen[Any] | None = None
        self._errors: Callable[[], str] = str
        self._thread = threading.Thread(target=self._read, name="notify", daemon=True)
        self._thread.start()

    def __enter__(self) -> "NotifySocket":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def environment(self) -> dict[str, str]:
        """What the program is to be started with."""
        return {"NOTIFY_SOCKET": "@" + self._socket.getsockname()[1:].decode()}

    def watch(self, process: "subprocess.Popen[Any]", errors: Callable[[], str] = str) -> None:
        """Makes the end of `process` the end of every wait. `errors`: its standard error so far."""
        self._process, self._errors = process, errors

    def value(self, name: str) -> str | None:
        """The latest value of a variable; None before there is one."""
        with self._news:
            return self._values.get(name)

    def times(self, name: str, value: str = "1") -> int:
        """How many times the program has said so."""
        with self._news:
            return self._times[name, value]

    @property
    def connected(self) -> bool:
        """Whether the program has its subscriptions at the broker now."""
        return self.value(CONNECTED) == "1"

    def wait_until_connected(self, max_seconds: float, times: int = 1) -> None:
        """`times`: how many connections since the start. Raises ProgramEnded, NotSaid."""
        self.wait_for(CONNECTED, "1", max_seconds, times)

    def wait_until_ready(self, max_seconds: float) -> None:
        """Also without a broker. Raises ProgramEnded, NotSaid."""
        self.wait_for(READY, "1", max_seconds)

    def wait_for(self, name: str, value: str, max_seconds: float, times: int = 1) -> None:
        """Returns once the latest value is this one, and the program has said so so many times.
        Raises ProgramEnded, NotSaid."""
        deadline = time.monotonic() + max_seconds
        while not self._holds(name, value, times):
            if self._process is not None and self._process.poll() is not None:
                self._drain()
                if self._holds(name, value, times):
                    return
                raise ProgramEnded(f"it ended before {name}={value}: {self._errors()}")
            if time.monotonic() > deadline:
                what = f"{name}={value} in {max_seconds:.0f} s"
                raise NotSaid(f"it did not report {what}, but: {self._errors()}")
            with self._news:
                self._news.wait_for(lambda: self._holds(name, value, times), LOOK_SECONDS)

    def _holds(self, name: str, value: str, times: int) -> bool:
        with self._news:
            return self._values.get(name) == value and self._times[name, value] >= times

    def close(self) -> None:
        """From now on a program that says more is neither heard nor held up."""
        self._drain()
        self._socket.close()

    def _drain(self) -> None:
        """Reads what was sent before, and then ends the thread."""
        if not self._closing:
            self._closing = True
            self._socket.shutdown(socket.SHUT_RD)
        self._thread.join()

    def _read(self) -> None:
        while (said := self._socket.recv(MAX_BYTES)) or not self._closing:
            with self._news:
                for line in said.decode(errors="replace").splitlines():
                    name, _, value = line.partition("=")
                    self._values[name] = value
                    self._times[name, value] += 1
                self._news.notify_all()
