"""The endpoints. Each reads; none changes anything.

Blocking work is done at the desk (desk.py), so that a fit does not hold up a look at `/healthz`.
"""

import os
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse

from collector import clock, distinct, figures
from collector.answers import source
from collector.failure import CommandError
from collector.families import DISTINCT, check_answers
from collector.generators import SAMPLE
from collector.model import Model
from collector.reader import Selection
from collector.web import listing, metrics, page
from collector.web.asking import check_given, choice_of, question_of, selection_of
from collector.web.assets import add_page
from collector.web.audit import audit_object
from collector.web.census import Census
from collector.web.desk import Desk
from collector.web.door import Room
from collector.web.models import Models
from collector.web.parameters import Asking, Listing, Paging, Sampling
from collector.web.problems import RESPONSES, Unknown, add_problems
from collector.web.revalidation import Revalidation
from collector.web.rows import SHAPES, pieces
from collector.web.told import Told
from fleet.config import Config
from fleet.settings import Stream
from pansketch import __version__
from pansketch.audit.code import sources_digest

DESCRIPTION = (
    "Private telemetry of a fleet: what stands here is made of published releases alone. "
    "Every figure has a standard error and says what it rests on."
)
SEED_BYTES = 4
NO_BROKER = "the collector has no subscription at its broker now: its log says why"


def application(config: Config, desk: Desk, room: Room, told: Told) -> FastAPI:
    """The application for one configuration."""
    http = config.collector.http
    closed = http is not None and http.closed
    app = FastAPI(
        title="pansketch collector",
        description=DESCRIPTION,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=RESPONSES,
        dependencies=[Depends(HTTPBearer(auto_error=False))] if closed else [],
    )
    app.add_middleware(Revalidation)
    add_problems(app)
    census = Census(desk)
    _add_health(app, desk, told)
    _add_fleet(app, config, census, room, told)
    _add_lists(app, config, desk)
    _add_answers(app, config, desk, Models(desk, config))
    add_page(app)
    _name_streams(app.openapi(), [stream.name for stream in config.streams])
    return app


def _name_streams(description: dict[str, Any], names: list[str]) -> None:
    """Says in the description which streams there are; another one is not found."""
    for operations in description["paths"].values():
        for parameter in operations["get"].get("parameters", ()):
            if parameter["name"] == "stream":
                parameter["schema"]["enum"] = names


def _add_health(app: FastAPI, desk: Desk, told: Told) -> None:
    @app.get("/healthz", summary="Whether this process answers")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", summary="Whether the database can be read, and the broker is there")
    async def readyz() -> dict[str, str]:
        try:
            await desk.read(lambda reader: reader.refusals())
        except CommandError as error:
            raise HTTPException(503, str(error)) from error
        if not told.broker_connected:
            raise HTTPException(503, NO_BROKER)
        return {"status": "ok"}


def _add_fleet(app: FastAPI, config: Config, census: Census, room: Room, told: Told) -> None:
    @app.get(
        "/metrics",
        summary="Ingest, refusals, gaps, lag, backlog and devices, for Prometheus",
        response_class=PlainTextResponse,
    )
    async def measured() -> Response:
        windows = {stream.name: stream.window_seconds for stream in config.streams}
        text = metrics.as_text(
            await census.count(), clock.now(), room.answered, windows, told.broker_connected
        )
        return Response(text, media_type=metrics.MEDIA_TYPE)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(page.as_html(app.openapi()))

    @app.get("/v1/streams", summary="The streams, their attributes, and what is stored of each")
    async def streams() -> dict[str, Any]:
        count = await census.count()
        return {"streams": [listing.stream_object(stream, count) for stream in config.streams]}

    @app.get("/v1/devices", summary="The devices by name, part by part, and what was refused")
    async def devices(asked: Annotated[Paging, Query()], response: Response) -> dict[str, Any]:
        count = await census.count()
        # Not in the answer, which stays the same as long as the fleet does.
        response.headers["Age"] = str(max(clock.now() - count.at, 0))
        return listing.device_part(count, asked.after, asked.limit)


def _add_lists(app: FastAPI, config: Config, desk: Desk) -> None:
    sources = sources_digest()

    @app.get("/v1/audit", summary="What the last audit found, and this collector's own version")
    async def audit() -> dict[str, Any]:
        return await desk.run(desk.reads, lambda: audit_object(config.collector.audit, sources))

    @app.get("/v1/releases", summary="The stored releases of a stream, part by part")
    async def releases(asked: Annotated[Listing, Query()]) -> dict[str, Any]:
        _stream(config, asked.stream)
        selection = selection_of(config, asked.stream, asked)
        return await desk.read(
            lambda reader: listing.release_part(reader, selection, asked.after, asked.limit)
        )

    @app.get("/v1/streams/{stream}/guarantee", summary="What every release of a stream promises")
    async def guarantee(stream: str) -> dict[str, Any]:
        return listing.guarantee_object(_stream(config, stream))


def _add_answers(app: FastAPI, config: Config, desk: Desk, models: Models) -> None:
    @app.get(
        "/v1/streams/{stream}/query",
        summary="One question, answered with its standard error and what it rests on",
    )
    async def query(stream: str, asked: Annotated[Asking, Query()]) -> dict[str, Any]:
        found = _stream(config, stream)
        check_given(asked)
        selection, choice = selection_of(config, stream, asked), choice_of(asked)
        check_answers(found, _capability(asked.question), choice)
        if asked.question == DISTINCT:
            return await _count_keys(config, desk, selection, asked)
        answer, model = await models.ask(
            selection, choice, asked.model_dump_json(), question_of(found, asked)
        )
        return {"question": asked.question, **answer, "left_out": model.left_out}

    @app.get(
        "/v1/streams/{stream}/sample",
        summary="A file of synthetic readings",
        response_class=StreamingResponse,
        responses={
            200: {
                "content": {shape.media_type.split(";")[0]: {} for shape in SHAPES.values()},
                "description": "The file, as it is drawn",
            }
        },
    )
    async def sample(stream: str, asked: Annotated[Sampling, Query()]) -> Response:
        selection, choice = (
            selection_of(config, _stream(config, stream).name, asked),
            choice_of(asked),
        )
        check_answers(_stream(config, stream), SAMPLE, choice)
        model = await models.model(selection, choice)
        return await _file(desk, model, stream, asked)


def _capability(question: str) -> str:
    """The question of the command line that a sketch must answer for this one."""
    return "count" if question in ("histogram", "density") else question


async def _count_keys(
    config: Config, desk: Desk, selection: Selection, asked: Asking
) -> dict[str, Any]:
    by: distinct.By = asked.by or "window"
    counted = await desk.read(
        lambda reader: distinct.count_keys(reader, config, selection, by, asked.keys)
    )
    return {
        "question": DISTINCT,
        **figures.as_object(counted),
        "fleet": counted.fleet,
        "left_out": counted.left_out,
    }


async def _file(desk: Desk, model: Model, stream: str, asked: Sampling) -> Response:
    shape = SHAPES[asked.format]
    seed = asked.seed
    if seed is None:
        seed = int.from_bytes(os.urandom(SEED_BYTES), "big")
    found = await desk.run(desk.draws, partial(pieces, model, shape, asked.rows, seed))
    headers = {
        "Content-Disposition": f'attachment; filename="{stream}.{asked.format}"',
        "Pansketch-Seed": str(seed),
        "Pansketch-Source": source(model).encode("ascii", "replace").decode(),
    }
    return StreamingResponse(_drawn(desk, found), headers=headers, media_type=shape.media_type)


async def _drawn(desk: Desk, found: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Draws the next piece when the last one is sent: who reads slowly is drawn for slowly."""
    while (piece := await desk.run(desk.draws, lambda: next(found, None))) is not None:
        yield piece


def _stream(config: Config, name: str) -> Stream:
    for stream in config.streams:
        if stream.name == name:
            return stream
    known = ", ".join(stream.name for stream in config.streams)
    raise Unknown(f"unknown stream {name[:60]!r}; there is {known}")
