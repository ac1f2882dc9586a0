"""Checks before every answer: Host header, token, and limits of concurrent answers.

A request for another host name is rejected, so that no page of another site can make a browser read
from this server (DNS rebinding). There are no CORS headers.
"""

import asyncio
import hmac
import re
from collections import Counter
from dataclasses import dataclass, field
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pansketch_collector import clock
from pansketch_collector.http.server.pages import is_open
from pansketch_collector.http.server.problem_details import problem
from pansketch_fleet.settings.settings import Http

STALL_SECONDS = 60.0  # for a reader to take one piece of an answer
# A download with a slower reader than this yields its slot to another one.
SLOW_SECONDS, SLOW_BYTES_PER_SECOND = 60.0, 32 * 1024
OPEN = frozenset({"/healthz", "/readyz"})
READING = frozenset({"GET", "HEAD"})  # Other methods always need the token.
KINDS = {"/metrics": "metrics"}  # A kind of its own, with reserved slots.
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")


@dataclass(eq=False)
class ResponseSlot:
    """The slot of one answer. `waited_seconds`: for its reader; `revoked`: another answer has the
    slot."""

    sent_bytes: int = 0
    waited_seconds: float = 0.0
    revoked: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def slow(self) -> bool:
        return self.waited_seconds >= SLOW_SECONDS and (
            self.sent_bytes < SLOW_BYTES_PER_SECOND * self.waited_seconds
        )


@dataclass
class ResponseLimits:
    """The unfinished answers of each kind.

    A download keeps its slot until its end, or until another one needs it and its reader is slow.
    """

    maxima: dict[str, int] = field(
        default_factory=lambda: {"download": 6, "answer": 64, "metrics": 4}
    )
    slots: dict[str, set[ResponseSlot]] = field(default_factory=dict)
    answered: Counter[int] = field(default_factory=Counter)  # by status code, since the start

    @property
    def busy(self) -> bool:
        """True if an answer is unfinished."""
        return any(self.slots.values())

    def enter(self, kind: str) -> ResponseSlot | None:
        """A slot; None if all are occupied."""
        slots = self.slots.setdefault(kind, set())
        if len(slots) >= self.maxima[kind]:
            slowest = max(slots, key=lambda slot: slot.waited_seconds)
            if not slowest.slow:
                return None
            slots.discard(slowest)
            slowest.revoked.set()
        slot = ResponseSlot()
        slots.add(slot)
        return slot

    def leave(self, kind: str, slot: ResponseSlot) -> None:
        self.slots[kind].discard(slot)


@dataclass(frozen=True)
class AccessControl:
    """An ASGI middleware."""

    app: ASGIApp
    http: Http
    limits: ResponseLimits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_response(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY)
                headers.setdefault("Cache-Control", "no-store")
                self.limits.answered[message["status"]] += 1
            async with asyncio.timeout(STALL_SECONDS):
                await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_response)
            return
        await self._serve_within_limits(scope, receive, send_response)

    async def _serve_within_limits(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path in OPEN:
            await self.app(scope, receive, send)
            return
        kind = "download" if path.endswith("/sample") else KINDS.get(path, "answer")
        slot = self.limits.enter(kind)
        if slot is None:
            busy = problem(503, f"too many {kind}s are under way: try again in a moment")
            await busy(scope, receive, send)
            return

        async def send_counted(message: Message) -> None:
            began = clock.uptime()
            try:
                await send(message)
            finally:
                slot.waited_seconds += clock.uptime() - began
            slot.sent_bytes += len(message.get("body", b""))

        try:
            await run_while_connected(self.app, scope, receive, send_counted, slot.revoked)
        finally:
            self.limits.leave(kind, slot)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy before this server may use the other header for the request's length.
            return problem(
                400,
                "Content-Length and Transfer-Encoding exclude each other: send one of them",
                {"Connection": "close"},
            )
        if not is_own_host(headers.getlist("host"), self.http):
            return problem(
                421, "this server does not answer for that host: add its name to collector.hosts"
            )
        path = scope["path"]
        known = path in OPEN or is_open(path)
        reads = scope["method"] in READING
        wanted = (self.http.closed and not known) or (self.http.token is not None and not reads)
        if wanted and not self._has_token(headers):
            return problem(
                401,
                "a token is needed: send the header `Authorization: Bearer TOKEN`",
                {"WWW-Authenticate": "Bearer"},
            )
        return None

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        wanted = (self.http.token or "").encode()
        # The time of the comparison depends on the given token only.
        same = hmac.compare_digest(given.strip().encode("latin-1", "replace"), wanted)
        return same and scheme.lower() == "bearer"


async def run_while_connected(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, revoked: asyncio.Event
) -> None:
    """Runs the application until its reader disconnects or its slot is revoked.

    Work that has not begun by then is cancelled.
    """

    async def disconnected() -> None:
        # Reading requests have no body; a received one is discarded.
        while (await receive())["type"] != "http.disconnect":
            pass

    async def receive_disconnect() -> Message:
        await asyncio.wait({watch})
        return {"type": "http.disconnect"}

    watch = asyncio.create_task(disconnected())
    answer = asyncio.create_task(_run(app, scope, receive_disconnect, send))
    revocation = asyncio.create_task(revoked.wait())
    tasks = {answer, watch, revocation}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if not answer.cancelled():
        answer.result()


async def _run(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


def is_own_host(given: list[str], http: Http) -> bool:
    """True if a request's Host is a name of this server, with any port.

    These are the configured names and the loopback. A server that others can reach also accepts any
    IP address, which no foreign name can imitate.
    """
    found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
    if found is None:
        return False
    name = found[1].strip("[]").lower().removesuffix(".")
    if name == "localhost" or name in http.hosts:
        return True
    try:
        address = ip_address(name)
        return address.is_loopback or not http.loopback
    except ValueError:
        return False
