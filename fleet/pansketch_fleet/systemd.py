"""What a program tells systemd: ready, connected, still at work, stopping (the protocol of
sd_notify(3), which leaves variables that begin with X_ to the programs); and requests to reload.

Datagrams of NAME=value lines go to the socket that NOTIFY_SOCKET names. Without that variable
nothing is sent, and a socket that does not take them is no reason to stop: the program goes on.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

MAX_WAIT_SECONDS = 2.0
BEATS = 3  # in the time after which systemd would end a silent program
MICROSECONDS = 1_000_000


class Notifier:
    """One program's line to systemd.

    `uptime` is, in every call, seconds of a clock that only grows. `connected` may be called by any
    thread, the others by one.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID."""
        name = environment.get("NOTIFY_SOCKET", "")
        # "@" stands for the zero byte of a name outside the file system.
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._pause_seconds = _pause_seconds(environment)
        self._next_beat = 0.0
        self._status = ""
        self._lock = threading.Lock()  # of the two below; held for a moment only
        self._connected = self._connected_sent = False

    def ready(self) -> None:
        """The program has all it needs and is at work."""
        self._send("READY=1")

    def connected(self, connected: bool) -> None:
        """Whether the program has all its subscriptions at the broker; from the start it has none.
        Sends each change at once and never waits: `alive` sends what the socket does not take."""
        with self._lock:
            self._connected = connected
            self._send_connected()

    def alive(self, uptime: float, status: str) -> None:
        """The main loop came round. Cheap: says so as often as asked for, and `status` if new."""
        with self._lock:
            self._send_connected()
        lines = []
        due = self._pause_seconds is not None and uptime >= self._next_beat
        if due:
            lines.append("WATCHDOG=1")
        if status != self._status:
            lines.append(f"STATUS={status}")
        if not lines or not self._send(*lines):
            return
        self._status = status
        if due and self._pause_seconds is not None:
            self._next_beat = uptime + self._pause_seconds

    def reloading(self, uptime: float) -> None:
        """The program reads its configuration again; `ready` says when it has. `uptime`: of the
        kernel's monotonic clock."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={int(uptime * MICROSECONDS)}")

    def stopping(self) -> None:
        """The program is on its way out."""
        self._send("STOPPING=1")

    def _send_connected(self) -> None:
        if self._connected == self._connected_sent:
            return
        if self._send(f"X_CONNECTED={int(self._connected)}", wait_seconds=0.0):
            self._connected_sent = self._connected

    def _send(self, *lines: str, wait_seconds: float | None = None) -> bool:
        """Whether systemd has it."""
        if not self._address:
            return False
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.settimeout(MAX_WAIT_SECONDS if wait_seconds is None else wait_seconds)
            link.sendto("\n".join(lines).encode(), self._address)
            return True
        return False


def _pause_seconds(environment: Mapping[str, str]) -> float | None:
    """Between two signs of life; None when nobody waits for them, or for another process's."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    text = environment.get("WATCHDOG_USEC", "")
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        return None
    return int(text) / MICROSECONDS / BEATS


def on_reload(asked: Callable[[], object]) -> None:
    """Calls `asked` when somebody asks the program to read its configuration again, by SIGHUP.

    A program in a terminal still ends with it: the kernel sends the same signal then.
    """
    if not os.isatty(0):
        signal.signal(signal.SIGHUP, lambda *_: asked())
