"""Answers that a reader has already are not sent again: ETag, If-None-Match, 304 (RFC 9110).

Whoever keeps an answer asks each time whether it still holds, and one that a token opened is kept
for that token alone.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.staticfiles import NotModifiedResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pansketch_collector.http.server.pages import is_open

PAGE: Mapping[str, str] = {"Cache-Control": "no-cache"}
FIGURES: Mapping[str, str] = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}
DIGEST_BYTES = 16


@dataclass(frozen=True)
class Revalidation:
    """An ASGI application before another one. What is sent piece by piece, such as a file that is
    drawn meanwhile, and every refusal go through as they are."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rules = rules_for(scope["path"]) if scope["type"] == "http" else None
        if rules is None:
            await self.app(scope, receive, send)
            return
        held: list[Message] = []  # the head of an answer, until its first piece is there

        async def out(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                held.append(message)
                return
            if held:
                head = held.pop()
                if not message.get("more_body", False):
                    headers = MutableHeaders(scope=head)
                    headers.update({**rules, "ETag": tag_of(message["body"])})
                    if is_known(headers["ETag"], Headers(scope=scope)):
                        await NotModifiedResponse(headers)(scope, receive, send)
                        return
                await send(head)
            await send(message)

        await self.app(scope, receive, out)


def rules_for(path: str) -> Mapping[str, str] | None:
    """The headers that say who may keep an answer of this path, None: nobody."""
    if is_open(path):
        return PAGE
    return FIGURES if path.startswith("/v1/") else None


def tag_of(body: bytes) -> str:
    """A strong ETag: the same bytes and no others have it."""
    return f'"{hashlib.blake2b(body, digest_size=DIGEST_BYTES).hexdigest()}"'


def is_known(tag: str, headers: Headers) -> bool:
    """Whether the reader has this answer, as its If-None-Match says."""
    given = ",".join(headers.getlist("if-none-match"))
    return tag in [each.strip().removeprefix("W/") for each in given.split(",")]
