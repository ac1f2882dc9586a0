"""The service manager's end of NOTIFY_SOCKET, as in sd_notify(3).

Demo, chaos, benchmarks and tests wait for notifications of a program, never for a line of its log.
"""

import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

POLL_SECONDS = 0.1  # between two polls whether the program runs
MAX_BYTES = 4096
READY, CONNECTED = "READY", "X_CONNECTED"


class ProgramEnded(Exception):
    """The program ended before the awaited event; the message quotes its output."""


class ProgramTimeout(Exception):
    """The awaited event of the program did not happen in time."""


class NotifySocket:
    """The notifications of one process, from its start to its end.

    A thread reads at once: a full socket would block the program.
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
        """The environment variable that names the socket to the program."""
        return {"NOTIFY_SOCKET": "@" + self._socket.getsockname()[1:].decode()}

    def watch(self, process: "subprocess.Popen[Any]", errors: Callable[[], str] = str) -> None:
        """End every wait when `process` ends. `errors` returns its output so far."""
        self._process, self._errors = process, errors

    def value(self, name: str) -> str | None:
        """The latest value of a variable; None before the first."""
        with self._news:
            return self._values.get(name)

    def times(self, name: str, value: str = "1") -> int:
        """The number of times that the program has sent this value."""
        with self._news:
            return self._times[name, value]

    @property
    def connected(self) -> bool:
        """True while the program has its subscriptions at the broker."""
        return self.value(CONNECTED) == "1"

    def wait_until_connected(self, max_seconds: float, times: int = 1) -> None:
        """Return after `times` connections since the start. Raises ProgramEnded, ProgramTimeout."""
        self.wait_for(CONNECTED, "1", max_seconds, times)

    def wait_until_ready(self, max_seconds: float) -> None:
        """Return once it is ready, also without a broker. Raises ProgramEnded, ProgramTimeout."""
        self.wait_for(READY, "1", max_seconds)

    def wait_for(self, name: str, value: str, max_seconds: float, times: int = 1) -> None:
        """Return once the latest value is `value` and the program has sent it `times` times.

        Raises ProgramEnded, ProgramTimeout."""
        deadline = time.monotonic() + max_seconds
        while not self._holds(name, value, times):
            if self._process is not None and self._process.poll() is not None:
                self._drain()
                if self._holds(name, value, times):
                    return
                raise ProgramEnded(f"it ended before {name}={value}: {self._errors()}")
            if time.monotonic() > deadline:
                what = f"{name}={value} in {max_seconds:.0f} s"
                raise ProgramTimeout(f"it did not report {what}, but: {self._errors()}")
            with self._news:
                self._news.wait_for(lambda: self._holds(name, value, times), POLL_SECONDS)

    def _holds(self, name: str, value: str, times: int) -> bool:
        with self._news:
            return self._values.get(name) == value and self._times[name, value] >= times

    def close(self) -> None:
        """Close the socket: later notifications are ignored and do not block the program."""
        self._drain()
        self._socket.close()

    def _drain(self) -> None:
        """Read the pending notifications, then end the thread."""
        if not self._closing:
            self._closing = True
            self._socket.shutdown(socket.SHUT_RD)
        self._thread.join()

    def _read(self) -> None:
        while (message := self._socket.recv(MAX_BYTES)) or not self._closing:
            with self._news:
                for line in message.decode(errors="replace").splitlines():
                    name, _, value = line.partition("=")
                    self._values[name] = value
                    self._times[name, value] += 1
                self._news.notify_all()
