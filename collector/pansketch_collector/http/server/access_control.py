"""What stands before every answer: whom a request is for, who asks, and whether there is room.

A request for a name that is not this server's is refused, so that no page of another site can make
a browser read from it (DNS rebinding); there are no CORS headers at all.
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
# A download gives its place to another one when its reader has let it wait for so long, and takes
# so little.
SLOW_SECONDS, SLOW_BYTES_PER_SECOND = 60.0, 32 * 1024
OPEN = frozenset({"/healthz", "/readyz"})
READING = frozenset({"GET", "HEAD"})  # What changes something needs the token everywhere.
KINDS = {"/metrics": "metrics"}  # Its places are no other question's.
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
    """What one answer holds. `waited`: seconds for its reader; `lost`: another one has it now."""

    sent_bytes: int = 0
    waited: float = 0.0
    lost: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def slow(self) -> bool:
        return self.waited >= SLOW_SECONDS and (
            self.sent_bytes < SLOW_BYTES_PER_SECOND * self.waited
        )


@dataclass
class ResponseLimits:
    """The answers of each kind that are under way. A download holds its place until its end, or
    until another one wants it and its reader is slow."""

    most: dict[str, int] = field(
        default_factory=lambda: {"download": 6, "answer": 64, "metrics": 4}
    )
    taken: dict[str, set[ResponseSlot]] = field(default_factory=dict)
    answered: Counter[int] = field(default_factory=Counter)  # by status, since the start

    def enter(self, kind: str) -> ResponseSlot | None:
        """A place, None where all are taken."""
        taken = self.taken.setdefault(kind, set())
        if len(taken) >= self.most[kind]:
            slowest = max(taken, key=lambda place: place.waited)
            if not slowest.slow:
                return None
            taken.discard(slowest)
            slowest.lost.set()
        place = ResponseSlot()
        taken.add(place)
        return place

    def leave(self, kind: str, place: ResponseSlot) -> None:
        self.taken[kind].discard(place)


@dataclass(frozen=True)
class AccessControl:
    """An ASGI application before another one."""

    inside: ASGIApp
    http: Http
    room: ResponseLimits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def out(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY)
                headers.setdefault("Cache-Control", "no-store")
                self.room.answered[message["status"]] += 1
            async with asyncio.timeout(STALL_SECONDS):
                await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, out)
            return
        await self._within(scope, receive, out)

    async def _within(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path in OPEN:
            await self.inside(scope, receive, send)
            return
        kind = "download" if path.endswith("/sample") else KINDS.get(path, "answer")
        place = self.room.enter(kind)
        if place is None:
            busy = problem(503, f"too many {kind}s are under way: try again in a moment")
            await busy(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            began = clock.uptime()
            try:
                await send(message)
            finally:
                place.waited += clock.uptime() - began
            place.sent_bytes += len(message.get("body", b""))

        try:
            await while_read(self.inside, scope, receive, counted, place.lost)
        finally:
            self.room.leave(kind, place)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy before this server may take the other one for the request's length.
            return problem(
                400,
                "Content-Length and Transfer-Encoding exclude each other: send one of them",
                {"Connection": "close"},
            )
        if not is_ours(headers.getlist("host"), self.http):
            return problem(
                421, "this server does not answer for that host: add its name to collector.hosts"
            )
        path = scope["path"]
        known = path in OPEN or is_open(path)
        reads = scope["method"] in READING
        wanted = (self.http.closed and not known) or (self.http.token is not None and not reads)
        if wanted and not self._bears_token(headers):
            return problem(
                401,
                "a token is needed: send the header `Authorization: Bearer TOKEN`",
                {"WWW-Authenticate": "Bearer"},
            )
        return None

    def _bears_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        wanted = (self.http.token or "").encode()
        # Of equal length or not, the comparison takes the time of the given one.
        same = hmac.compare_digest(given.strip().encode("latin-1", "replace"), wanted)
        return same and scheme.lower() == "bearer"


async def while_read(
    inside: ASGIApp, scope: Scope, receive: Receive, send: Send, lost: asyncio.Event
) -> None:
    """The answer, which is given up when its reader goes away or its place is lost: work for it
    that has not begun is then never done."""

    async def left() -> None:
        # Requests that are for reading have no body; what comes as one is thrown away.
        while (await receive())["type"] != "http.disconnect":
            pass

    async def ask() -> Message:
        await asyncio.wait({watch})
        return {"type": "http.disconnect"}

    watch = asyncio.create_task(left())
    answer = asyncio.create_task(_called(inside, scope, ask, send))
    losing = asyncio.create_task(lost.wait())
    tasks = {answer, watch, losing}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if not answer.cancelled():
        answer.result()


async def _called(inside: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await inside(scope, receive, send)


def is_ours(given: list[str], http: Http) -> bool:
    """Whether a request's Host is a name of this server, whatever its port: a configured one, its
    loopback, and, where others reach it, any address, which no foreign name can stand for."""
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
