"""Limits of connections without a request: their duration and their number.

access_control.py limits connections with a complete request head. A connection without one is
closed after HEAD_SECONDS. A new connection evicts one beyond MAX_CONNECTIONS, or beyond half as
many of its address. So half-open connections never block requests for `/healthz` or `/metrics`.
"""

import asyncio
import logging
from collections import Counter
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
FLUSH_SECONDS = 60.0  # for a reader to receive the end of an answer
MAX_CONNECTIONS = 2048
LOG_SECONDS = 60.0

log = logging.getLogger("pansketch_collector.http")


class ConnectionLimits:
    """All connections by address, and the idle ones in the order of their idle time."""

    def __init__(self, maximum: int = MAX_CONNECTIONS) -> None:
        self.maximum = maximum
        self._open: Counter[str] = Counter()
        self._waiting: dict[str, dict[HttpConnection, None]] = {}

    def enter(self, connection: "HttpConnection") -> None:
        """Adds a connection, and evicts an idle one beyond the limits: itself if no other one is
        idle."""
        self._open[connection.address] += 1
        self.wait(connection)
        if self._open[connection.address] > self.maximum // 2:
            self._evict(connection.address)
        elif self._open.total() > self.maximum:
            self._evict(max(self._waiting, key=lambda address: len(self._waiting[address])))

    def leave(self, connection: "HttpConnection") -> None:
        self.serve(connection)
        self._open[connection.address] -= 1
        if not self._open[connection.address]:
            del self._open[connection.address]

    def wait(self, connection: "HttpConnection") -> None:
        self._waiting.setdefault(connection.address, {})[connection] = None

    def serve(self, connection: "HttpConnection") -> None:
        """Marks a connection as busy."""
        waiting = self._waiting.get(connection.address, {})
        waiting.pop(connection, None)
        if not waiting:
            self._waiting.pop(connection.address, None)

    def _evict(self, address: str) -> None:
        first = next(iter(self._waiting[address]))
        self.serve(first)
        first.transport.abort()
        log.warning("too many connections: closing those that send no request")


class HttpConnection(H11Protocol):
    """uvicorn's connection, with a time limit for each request head."""

    limits = ConnectionLimits()
    address = ""
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._await_head()
        self.limits.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_deadline()
        self.limits.leave(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._end_deadline()
            self.limits.serve(self)

    def on_response_complete(self) -> None:
        self._await_head()
        self.limits.wait(self)
        super().on_response_complete()

    def _await_head(self) -> None:
        self._end_deadline()
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._close)

    def _close(self) -> None:
        self.transport.close()
        self._deadline = self.loop.call_later(FLUSH_SECONDS, self.transport.abort)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class LogRateLimit(logging.Filter):
    """Passes each kind of message once in LOG_SECONDS: clients must not be able to fill the log."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[Any, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        logged_at, more = self._kinds.get(record.msg, (record.created - LOG_SECONDS, 0))
        if record.created - logged_at < LOG_SECONDS:
            self._kinds[record.msg] = logged_at, more + 1
            return False
        self._kinds[record.msg] = record.created, 0
        if more:
            record.msg = f"{record.msg} ({more} more like this since)"
        return True
