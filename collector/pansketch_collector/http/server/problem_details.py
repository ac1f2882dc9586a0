"""Rejections and failures as problem details (RFC 9457): the problem and its fix."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pansketch import MergeError, WireError
from pansketch_collector.errors import CommandError
from pansketch_collector.queries.fleet_model import NotYet
from pansketch_collector.storage.tables.connection import ERRORS
from pansketch_fleet.errors import one_line

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 2
WRONG_METHOD = "this address does not take that method: use GET, or see /docs"
# The command line's options have the parameters' names, behind two dashes.
_OPTION = re.compile(r"--(?=[a-z])")

MAX_NAME = 60  # characters of a parameter's name
# Of the validation's errors, by type; the values of its context have these names.
FIXES: Mapping[str, str] = {
    "missing": "is missing: add it",
    "extra_forbidden": "this address has no such parameter: see /docs",
    "less_than_equal": "is out of range: write at most {le}",
    "greater_than_equal": "is out of range: write at least {ge}",
    "finite_number": "is no number: write a finite one",
    "float_parsing": "is no number: write one such as 0.5",
    "int_parsing": "is no whole number: write one such as 10",
    "int_parsing_size": "is out of range: write a smaller number",
    "bool_parsing": "is neither true nor false: write one of them",
    "literal_error": "is none of the choices: write {expected}",
    "too_long": "is given too often: write it at most {max_length} times",
    "string_too_long": "is too long: write at most {max_length} characters",
    "string_too_short": "is empty: write a text, or leave it out",
    "string_pattern_mismatch": "has other characters: write names with commas between",
}

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        # If noise outweighs the readings: how many more windows an answer needs.
        "more_windows": {"type": ["integer", "null"]},
    },
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": SCHEMA}},
    }
    for status in (400, 401, 404, 405, 409, 421, 422, 500, 503)
}


class UnknownStream(Exception):
    """A stream that the configuration lacks."""


def problem(
    status: int,
    sentence: str,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> JSONResponse:
    """A response with the problem and its fix in `detail`, and further members from `more`."""
    added = dict(headers or {})
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        added.setdefault("Retry-After", str(RETRY_SECONDS))
    return JSONResponse(
        {
            "type": "about:blank",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": sentence,
            **(more or {}),
        },
        status,
        added,
        MEDIA_TYPE,
    )


def of_command(error: CommandError) -> JSONResponse:
    """The response for a CommandError.

    Wrong input: 422. An unreadable database: 503. Damage: 500. Releases that cannot answer: 409.
    """
    sentence = _OPTION.sub("", str(error))
    if error.code == 2:
        return problem(422, sentence)
    if isinstance(error, NotYet):
        return problem(409, sentence, more={"more_windows": error.more_windows})
    if isinstance(error.__cause__, (OSError, *ERRORS)):
        return problem(503, sentence)
    match error.__cause__:
        case WireError() | MergeError():
            return problem(500, sentence)
    return problem(409, sentence)


def add_problems(app: FastAPI) -> None:
    """Reports all errors of an application as problem details."""

    async def command(request: Request, error: Exception) -> Response:
        return of_command(cast(CommandError, error))

    async def invalid(request: Request, error: Exception) -> Response:
        first = cast(RequestValidationError, error).errors()[0]
        location = ".".join(str(step) for step in first["loc"][1:])[:MAX_NAME]
        given = FIXES.get(first["type"], first["msg"])
        sentence = given.format(**first.get("ctx", {}))
        return problem(422, one_line(f"{location}: {sentence}")[:400])

    async def refused(request: Request, error: Exception) -> Response:
        found = cast(HTTPException, error)
        sentence = {404: "there is nothing here: see /docs", 405: WRONG_METHOD}
        return problem(
            found.status_code, sentence.get(found.status_code, str(found.detail)), found.headers
        )

    async def unknown(request: Request, error: Exception) -> Response:
        return problem(404, str(error))

    async def failed(request: Request, error: Exception) -> Response:
        return problem(500, "the collector failed here: its log has the reason")

    app.add_exception_handler(CommandError, command)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(UnknownStream, unknown)
    app.add_exception_handler(Exception, failed)
