"""Conditional requests: ETag, If-None-Match, 304 (RFC 9110).

A reader revalidates a cached answer with every request. A cache may reuse an answer for the same
token only. A header tells the reader that the server itself answered from older releases.
"""

import hashlib
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.staticfiles import NotModifiedResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pansketch_collector.http.server.pages import is_open

PAGE: Mapping[str, str] = {"Cache-Control": "no-cache"}
FIGURES: Mapping[str, str] = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}
DIGEST_BYTES = 16
NEWER = "Pansketch-Newer-Releases"

# True if the request is answered from fewer releases than are stored.
newer_releases: ContextVar[bool] = ContextVar("newer_releases", default=False)


@dataclass(frozen=True)
class Revalidation:
    """An ASGI middleware. Streamed answers and rejections pass unchanged."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rules = rules_for(scope["path"]) if scope["type"] == "http" else None
        if rules is None:
            await self.app(scope, receive, send)
            return
        newer_releases.set(False)
        buffered: list[Message] = []  # the start message, until the first piece of the body

        async def out(message: Message) -> None:
            if message["type"] == "http.response.start":
                if newer_releases.get():
                    MutableHeaders(scope=message)[NEWER] = "true"
                if message["status"] == 200:
                    buffered.append(message)
                    return
            if buffered:
                head = buffered.pop()
                if not message.get("more_body", False):
                    headers = MutableHeaders(scope=head)
                    headers.update({**rules, "ETag": tag_of(message["body"])})
                    if is_known(headers["ETag"], Headers(scope=scope)):
                        unchanged = NotModifiedResponse(headers)
                        if NEWER in headers:
                            unchanged.headers[NEWER] = headers[NEWER]
                        await unchanged(scope, receive, send)
                        return
                await send(head)
            await send(message)

        await self.app(scope, receive, out)


def rules_for(path: str) -> Mapping[str, str] | None:
    """The cache headers for a path; None: uncacheable."""
    if is_open(path):
        return PAGE
    return FIGURES if path.startswith("/v1/") else None


def tag_of(body: bytes) -> str:
    """A strong ETag: a digest of the body."""
    return f'"{hashlib.blake2b(body, digest_size=DIGEST_BYTES).hexdigest()}"'


def is_known(tag: str, headers: Headers) -> bool:
    """True if the If-None-Match header contains this ETag."""
    given = ",".join(headers.getlist("if-none-match"))
    return tag in [each.strip().removeprefix("W/") for each in given.split(",")]
