"""JSON over HTTP: programs of this host POST one object, or a list of them, to a loopback port.

The thread of the source serves one connection at a time, and one request of each, from one fixed
buffer that it overwrites. The only queue is the system's, of a few connections. No request leaves
state: a response depends on its request alone, and is sent before the sketch absorbs anything. No
request is logged.
"""

import errno
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Literal

import numpy as np

from pansketch_agent.host.clock import Clock
from pansketch_agent.sources.decoders import RecordDecoder, list_members
from pansketch_agent.sources.readings import Readings, Rows
from pansketch_fleet.backoff import Backoff
from pansketch_fleet.settings.sources import (
    HttpSource,
)

LOG = logging.getLogger(__name__)

HOST, PORT = "127.0.0.1", 8787  # The port is the default of a configuration.
ACCEPTED_HOSTS = (
    HOST,
    "localhost",
)  # A page of another site, in this host's browser, cannot send these.
SERVER = "pansketch-agent"
MAX_CONNECTIONS = 8  # in the system's queue
SOCKET_BYTES = 4096  # The receive buffer of each; the system may use its own minimum.
MAX_HEAD_BYTES, MAX_BODY_BYTES, MAX_ROWS = 4096, 16384, 256
MAX_DRAIN_BYTES = 2**20  # of a request that is too large
REQUEST_SECONDS = 2.0  # for a whole request, and for the rest of a refused one
FULLY_READ = (202, 400, 429)  # These requests were read completely.
POLL_SECONDS = 0.2
# The wait after each request limits requests and bytes per second.
MIN_INTERVAL_SECONDS, MAX_BYTES_PER_SECOND = 0.005, 256 * 1024
MIN_DELAY_SECONDS, MAX_DELAY_SECONDS = 1.0, 60.0
END = b"\r\n\r\n"
RESPONSES = {
    202: ("Accepted", ""),
    400: ("Bad Request", "send one JSON object, or a list of them"),
    403: ("Forbidden", f"send to http://{HOST}, from this host"),
    404: ("Not Found", "send to the path /"),
    405: ("Method Not Allowed", "use POST"),
    408: ("Request Timeout", f"send the whole request within {REQUEST_SECONDS:g} s"),
    411: ("Length Required", "send a Content-Length, without chunks"),
    413: ("Content Too Large", f"send at most {MAX_BODY_BYTES} bytes"),
    415: ("Unsupported Media Type", "send Content-Type: application/json"),
    429: ("Too Many Requests", f"send at most {MAX_ROWS} readings in a request"),
    431: ("Request Header Fields Too Large", f"send at most {MAX_HEAD_BYTES} bytes of headers"),
}


def listener_of(port: int) -> Literal["none", "agent", "another"]:
    """Return the owner of a port of the loopback address now."""
    try:
        with socket.create_connection((HOST, port), REQUEST_SECONDS) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
            logged = connection.recv(256)
    except ConnectionRefusedError:
        return "none"
    except OSError:
        return "another"
    return "agent" if f"Server: {SERVER}\r\n".encode() in logged else "another"


def readings(
    name: str,
    source: HttpSource,
    decoder: RecordDecoder,
    clock: Clock,
    stop: threading.Event,
    uniform: Callable[[], float],
) -> Iterator[Readings]:
    """Yield the posted readings until `stop` is set. `uniform`: draws from [0, 1), for jitter.

    If another program has the port, that is logged once and retried.
    """
    delays = Backoff(MIN_DELAY_SECONDS, MAX_DELAY_SECONDS, 0.5, uniform).delays()
    logged = ""
    while not stop.is_set():
        try:
            listener = _listener(source.port)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            if reason != logged:
                text = "%s: cannot listen to http://%s:%d/ (%s); retrying until it is free"
                LOG.warning(text, name, HOST, source.port, reason)
                logged = reason
            clock.wait(stop, next(delays))
            continue
        with listener:
            LOG.info("%s: listening to http://%s:%d/", name, HOST, source.port)
            yield from _serve(listener, decoder, clock, stop)


def _listener(port: int) -> socket.socket:
    """Open the listening socket. Raises OSError."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        listener.bind((HOST, port))
        listener.listen(MAX_CONNECTIONS)
        listener.settimeout(POLL_SECONDS)
    except OSError:
        listener.close()
        raise
    return listener


def _serve(
    listener: socket.socket, decoder: RecordDecoder, clock: Clock, stop: threading.Event
) -> Iterator[Readings]:
    """Yield the readings of one connection after the other."""
    at, rows = np.zeros(MAX_ROWS), decoder.empty(MAX_ROWS)
    buffer = bytearray(MAX_HEAD_BYTES + MAX_BODY_BYTES)
    while not stop.is_set():
        try:
            connection, _ = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                clock.wait(stop, POLL_SECONDS)
            continue
        with connection:
            request = _Request(connection, buffer, clock)
            status, count = _decode(request, decoder, rows)
            _respond(connection, status)
            if status not in FULLY_READ:
                _drain(connection, buffer, clock)
        if count:
            at.fill(clock.now())
            yield Readings(at[:count], rows[:count])
        rows.fill(0)
        buffer[:] = bytes(len(buffer))
        decoder.overwrite_freed()
        clock.wait(stop, max(MIN_INTERVAL_SECONDS, request.filled / MAX_BYTES_PER_SECOND))


class _Refused(Exception):
    """The status of a response to a refused request."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__()


class _Request:
    """A request in the buffer, of which `filled` bytes have arrived."""

    def __init__(self, connection: socket.socket, buffer: bytearray, clock: Clock) -> None:
        self._connection, self._buffer, self._clock = connection, buffer, clock
        self._view = memoryview(buffer)
        self._until = clock.monotonic() + REQUEST_SECONDS
        self.filled = 0

    def body(self) -> memoryview:
        """Return the body. Raises _Refused for an invalid request, and OSError."""
        end = self._head_end()
        line, *fields = bytes(self._view[:end]).split(b"\r\n")
        words = line.split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            raise _Refused(400)
        headers = {}
        for each in fields:
            name, _, value = each.partition(b":")
            headers[name.lower()] = value.strip().decode("latin-1").lower()
        if headers.get(b"host", "").partition(":")[0] not in ACCEPTED_HOSTS:
            raise _Refused(403)
        if words[1] != b"/":
            raise _Refused(404)
        if words[0] != b"POST":
            raise _Refused(405)
        begin, length = end + len(END), _length(headers)
        if "100-continue" in headers.get(b"expect", "") and self.filled < begin + length:
            self._connection.sendall(b"HTTP/1.1 100 Continue" + END)
        while self.filled < begin + length:
            self._receive(begin + length)
        return self._view[begin : begin + length]

    def _head_end(self) -> int:
        """Return the end of the headers."""
        while True:
            end = self._buffer.find(END, 0, min(self.filled, MAX_HEAD_BYTES))
            if end >= 0:
                return end
            if self.filled >= MAX_HEAD_BYTES:
                raise _Refused(431)
            self._receive(MAX_HEAD_BYTES)

    def _receive(self, until: int) -> None:
        left = self._until - self._clock.monotonic()
        if left <= 0:
            raise _Refused(408)
        self._connection.settimeout(left)
        try:
            got = self._connection.recv_into(self._view[self.filled : until])
        except TimeoutError:
            raise _Refused(408) from None
        if not got:
            raise _Refused(400)
        self.filled += got


def _length(headers: dict[bytes, str]) -> int:
    """Return the length of the body. Raises _Refused."""
    if headers.get(b"content-type", "").partition(";")[0].strip() != "application/json":
        raise _Refused(415)
    text = headers.get(b"content-length", "")
    if b"transfer-encoding" in headers or not (text.isascii() and text.isdigit()):
        raise _Refused(411)
    if len(text) > len(str(MAX_BODY_BYTES)) or int(text) > MAX_BODY_BYTES:
        raise _Refused(413)
    return int(text)


def _decode(request: _Request, decoder: RecordDecoder, rows: Rows) -> tuple[int, int]:
    """Return the response's status, and the number of decoded rows: all of a request, or none."""
    try:
        members = list_members(request.body())
    except _Refused as refused:
        return refused.status, 0
    except OSError:
        return 400, 0
    if len(members) > MAX_ROWS:
        return 429, 0
    for row, member in enumerate(members):
        if not decoder.decode_line(member, rows, row):
            return 400, 0
    return 202, len(members)


def _respond(connection: socket.socket, status: int) -> None:
    """Send the response, without waiting for a sender that reads nothing."""
    reason, fix = RESPONSES[status]
    body = f"{fix}\n" if fix else ""
    allow = "Allow: POST\r\n" if status == 405 else ""
    text = (
        f"HTTP/1.1 {status} {reason}\r\nServer: {SERVER}\r\nConnection: close\r\n{allow}"
        f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
    with suppress(OSError):
        connection.settimeout(POLL_SECONDS)
        connection.sendall(text.encode())
        connection.shutdown(socket.SHUT_WR)


def _drain(connection: socket.socket, buffer: bytearray, clock: Clock) -> None:
    """Read the rest of a request; otherwise a reset would reach the sender before the response."""
    until, left = clock.monotonic() + REQUEST_SECONDS, MAX_DRAIN_BYTES
    with suppress(OSError):
        while left > 0 and (seconds := until - clock.monotonic()) > 0:
            connection.settimeout(seconds)
            got = connection.recv_into(buffer)
            if not got:
                return
            left -= got
