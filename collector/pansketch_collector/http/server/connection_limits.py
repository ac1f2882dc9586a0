"""Connections before there is a request: how long one may take, and who goes when there are many.

Access control (access_control.py) bounds connections with a whole request head. A connection
without one is closed after HEAD_SECONDS, and cut for a new one once there are MOST, or half
as many of its address. So half-open connections never keep a look at `/healthz` or `/metrics` out.
"""

import asyncio
import logging
from collections import Counter
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
FLUSH_SECONDS = 60.0  # for a reader to take the end of an answer
MOST = 2048
RARE_SECONDS = 60.0

log = logging.getLogger("pansketch_collector.http")


class ConnectionLimits:
    """Everybody who is connected, by address; of those who wait the longest waiting first."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._open: Counter[str] = Counter()
        self._waiting: dict[str, dict[HttpConnection, None]] = {}

    def enter(self, connection: "HttpConnection") -> None:
        """One more; another one may have to go for it, or itself where nobody waits."""
        self._open[connection.address] += 1
        self.wait(connection)
        if self._open[connection.address] > self.most // 2:
            self._send_away(connection.address)
        elif self._open.total() > self.most:
            self._send_away(max(self._waiting, key=lambda address: len(self._waiting[address])))

    def leave(self, connection: "HttpConnection") -> None:
        self.serve(connection)
        self._open[connection.address] -= 1
        if not self._open[connection.address]:
            del self._open[connection.address]

    def wait(self, connection: "HttpConnection") -> None:
        self._waiting.setdefault(connection.address, {})[connection] = None

    def serve(self, connection: "HttpConnection") -> None:
        """It waits no longer."""
        waiting = self._waiting.get(connection.address, {})
        waiting.pop(connection, None)
        if not waiting:
            self._waiting.pop(connection.address, None)

    def _send_away(self, address: str) -> None:
        first = next(iter(self._waiting[address]))
        self.serve(first)
        first.transport.abort()
        log.warning("too many connections: closing those that send no request")


class HttpConnection(H11Protocol):
    """uvicorn's, with a time limit on each request's head."""

    crowd = ConnectionLimits()
    address = ""
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._await_head()
        self.crowd.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_deadline()
        self.crowd.leave(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._end_deadline()
            self.crowd.serve(self)

    def on_response_complete(self) -> None:
        self._await_head()
        self.crowd.wait(self)
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
    """Lets each kind of line pass once in RARE_SECONDS: what strangers do must not fill the log."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[Any, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        said, more = self._kinds.get(record.msg, (record.created - RARE_SECONDS, 0))
        if record.created - said < RARE_SECONDS:
            self._kinds[record.msg] = said, more + 1
            return False
        self._kinds[record.msg] = record.created, 0
        if more:
            record.msg = f"{record.msg} ({more} more like this since)"
        return True
