"""Notifications to systemd (sd_notify(3)), requests to reload, and events that signals set.

They are ready, connected, still at work, and stopping; sd_notify leaves variables that begin with
X_ to the programs. Datagrams of NAME=value lines go to the socket that NOTIFY_SOCKET names. Without
that variable nothing is sent. A failing socket does not stop the program.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path

NO_CREDENTIAL = b"none"  # SetCredential= of the units, for a credential without a file
MAX_WAIT_SECONDS = 2.0
HEARTBEATS = 3  # in the time after which systemd would end a program without heartbeat
MICROSECONDS = 1_000_000
MISSED_SECONDS = 1.0  # at most, from a signal to its effect on a thread that waits


class Notifier:
    """One program's notifications to systemd.

    `uptime` is, in every call, seconds of a monotonic clock. Any thread may call `connected`; one
    thread calls the other methods.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID."""
        name = environment.get("NOTIFY_SOCKET", "")
        # "@" stands for the zero byte of a name outside the file system.
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._heartbeat_seconds = _heartbeat_seconds(environment)
        self._next_heartbeat = 0.0
        self._status = ""
        self._lock = threading.Lock()  # of the two below; held for a moment only
        self._connected = self._connected_sent = False

    def ready(self) -> None:
        """Report that the program has started."""
        self._send("READY=1")

    def connected(self, connected: bool) -> None:
        """Report whether the program has all its subscriptions at the broker; it starts with none.

        Sends each change at once and never waits: `alive` retries a failed one.
        """
        with self._lock:
            self._connected = connected
            self._send_connected()

    def alive(self, uptime: float, status: str) -> None:
        """Report an iteration of the main loop: the heartbeat, if it is due, and `status`, if it is
        new.
        """
        with self._lock:
            self._send_connected()
        lines = []
        due = self._heartbeat_seconds is not None and uptime >= self._next_heartbeat
        if due:
            lines.append("WATCHDOG=1")
        if status != self._status:
            lines.append(f"STATUS={status}")
        if not lines or not self._send(*lines):
            return
        self._status = status
        if due and self._heartbeat_seconds is not None:
            self._next_heartbeat = uptime + self._heartbeat_seconds

    def reloading(self, uptime: float) -> None:
        """Report that the program reads its configuration again, until `ready`.

        `uptime`: of the kernel's monotonic clock.
        """
        self._send("RELOADING=1", f"MONOTONIC_USEC={int(uptime * MICROSECONDS)}")

    def stopping(self) -> None:
        """Report that the program is stopping."""
        self._send("STOPPING=1")

    def _send_connected(self) -> None:
        if self._connected == self._connected_sent:
            return
        if self._send(f"X_CONNECTED={int(self._connected)}", wait_seconds=0.0):
            self._connected_sent = self._connected

    def _send(self, *lines: str, wait_seconds: float | None = None) -> bool:
        """Send lines, and return whether systemd has them."""
        if not self._address:
            return False
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.settimeout(MAX_WAIT_SECONDS if wait_seconds is None else wait_seconds)
            link.sendto("\n".join(lines).encode(), self._address)
            return True
        return False


def missing_credential(path: Path, data: bytes) -> str:
    """Return why a file of credentials is unusable if its content stands for a missing one; or "".

    The units of the programs give each credential this content where /etc/pansketch/credentials
    lacks the file.
    """
    if data.strip() != NO_CREDENTIAL:
        return ""
    fix = f"put {path.name} into /etc/pansketch/credentials, and restart the service"
    return f"{path} stands for a missing file; {fix}"


def _heartbeat_seconds(environment: Mapping[str, str]) -> float | None:
    """Return the interval of heartbeats; None if systemd expects none of this process."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    text = environment.get("WATCHDOG_USEC", "")
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        return None
    return int(text) / MICROSECONDS / HEARTBEATS


def on_reload(requested: Callable[[], object]) -> None:
    """Call `requested` at SIGHUP: the program is to read its configuration again.

    SIGHUP still ends a program in a terminal, because the kernel sends it when the terminal closes.
    """
    if not os.isatty(0):
        signal.signal(signal.SIGHUP, lambda *_: requested())


class SignalEvent(threading.Event):
    """An event that a signal handler may set at any moment.

    A handler runs between two instructions of the main thread. There `threading.Event` may hold its
    lock, for example in the handler of the signal before, and would wait for itself forever.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_set, self._changed = False, threading.Condition(threading.RLock())

    def is_set(self) -> bool:
        """Return whether the event is set."""
        return self._is_set

    def set(self) -> None:
        """Set the event and wake all waiting threads."""
        with self._changed:
            self._is_set = True
            self._changed.notify_all()

    def clear(self) -> None:
        """Reset the event."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set, at most `timeout` seconds; return whether it is."""
        left = inf if timeout is None else timeout
        with self._changed:
            while not self._is_set and left > 0:
                # A handler may run after the test and before the wait, which then misses it.
                self._changed.wait(min(left, MISSED_SECONDS))
                left -= MISSED_SECONDS
            return self._is_set
