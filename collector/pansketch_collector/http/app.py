"""The endpoints. All of them read, except those of `add_changes`.

Blocking work runs in thread pools, so that a fit delays no other request:
collector/pansketch_collector/http/server/executors.py.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse

from pansketch import __version__
from pansketch.version import sources_digest
from pansketch_collector import clock
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.http.endpoints import listing, metrics
from pansketch_collector.http.endpoints.caches import Models
from pansketch_collector.http.endpoints.device_changes import add_changes
from pansketch_collector.http.endpoints.listing import audit_object
from pansketch_collector.http.endpoints.parameters import (
    COMPARISONS,
    ListParameters,
    ModelParameters,
    Paging,
    QuestionParameters,
    SampleParameters,
    check_given,
    choice_of,
    compared_of,
    question_of,
    selection_of,
    series_of,
)
from pansketch_collector.http.endpoints.row_formats import SHAPES, file_response
from pansketch_collector.http.endpoints.warm_up import Ask, warm_up
from pansketch_collector.http.server import pages
from pansketch_collector.http.server.access_control import ResponseLimits
from pansketch_collector.http.server.etag import Revalidation
from pansketch_collector.http.server.executors import CachedCount, Executors
from pansketch_collector.http.server.pages import add_page
from pansketch_collector.http.server.problem_details import RESPONSES, UnknownStream, add_problems
from pansketch_collector.http.supervisor import BrokerState
from pansketch_collector.periods import comparison, series, series_report
from pansketch_collector.queries import distinct
from pansketch_collector.queries.generator_registry import DISTINCT, SAMPLE, answering
from pansketch_collector.reports import fleet as fleets
from pansketch_collector.storage.tables.holdings import by_stream
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.settings import KeyStream, ReadingStream, Stream

DESCRIPTION = (
    "Private telemetry of a fleet: every answer comes from published releases alone. "
    "Every figure has a standard error and names its releases."
)
NO_BROKER = "the collector has no subscription at its broker now: its log has the reason"


def application(
    config: Config, pools: Executors, limits: ResponseLimits, broker: BrokerState
) -> FastAPI:
    """The application for one configuration. `state.warm_up`: to be awaited beside the server."""
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
    models = Models(pools, config)
    _add_health(app, pools, broker)
    counts = _add_fleet(app, config, pools, limits, broker)
    if http is not None and http.token is not None:
        add_changes(app, pools, (*(count.forget for count in counts), models.forget))
    _add_lists(app, config, pools)
    ask = _add_answers(app, config, pools, models)
    app.state.warm_up = partial(warm_up, config, counts[0], ask, lambda: limits.busy)
    add_page(app)
    pages.name_streams(app.openapi(), [stream.name for stream in config.streams])
    return app


def _add_health(app: FastAPI, pools: Executors, broker: BrokerState) -> None:
    @app.get("/healthz", summary="Whether this process answers")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", summary="Whether the database can be read, and the broker is connected")
    async def readyz() -> dict[str, str]:
        try:
            await pools.read(lambda reader: reader.refusals())
        except CommandError as error:
            raise HTTPException(503, str(error)) from error
        if not broker.connected:
            raise HTTPException(503, NO_BROKER)
        return {"status": "ok"}


def _add_fleet(
    app: FastAPI, config: Config, pools: Executors, limits: ResponseLimits, broker: BrokerState
) -> tuple[CachedCount[Any], ...]:
    """Returns the counts that the endpoints rest on."""
    stored = CachedCount(pools, lambda reader: by_stream(reader.connection))
    ingested = CachedCount(pools, lambda reader: metrics.measured(reader, config))
    fleet = CachedCount(pools, lambda reader: fleets.fleet(reader, config))

    @app.get(
        "/metrics",
        summary="Ingest, refusals, gaps, lag, backlog and devices, for Prometheus",
        response_class=PlainTextResponse,
    )
    async def metrics_text() -> Response:
        windows = {stream.name: stream.window_seconds for stream in config.streams}
        found = (await ingested.count()).found
        text = metrics.as_text(found, clock.now(), limits.answered, windows, broker.connected)
        return Response(text, media_type=metrics.MEDIA_TYPE)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(pages.as_html(app.openapi()))

    @app.get("/v1/streams", summary="The streams, their attributes, and what is stored of each")
    async def streams() -> dict[str, Any]:
        found = (await stored.count()).found
        streams = [listing.stream_object(each, found.get(each.name)) for each in config.streams]
        return {"streams": streams, "groups": {k: list(v) for k, v in config.groups.items()}}

    @app.get("/v1/devices", summary="The devices by name, part by part, and what was refused")
    async def devices(asked: Annotated[Paging, Query()], response: Response) -> dict[str, Any]:
        count = await fleet.count()
        # A header, so that the answer changes only with the fleet.
        response.headers["Age"] = str(max(clock.now() - count.at, 0))
        whose = config, count.found, asked.after, asked.limit
        part = await pools.read(lambda reader: listing.device_part(reader, *whose))
        http = config.collector.http
        return {**part, "changes": http is not None and http.token is not None}

    @app.get(
        "/v1/streams/{stream}/guarantee",
        summary="The privacy guarantee of a stream's releases",
    )
    async def guarantee(stream: str) -> dict[str, Any]:
        found, counts = _stream(config, stream), (await stored.count()).found
        devices = counts[stream].devices if stream in counts else 0
        return listing.guarantee_object(config, found, devices)

    return stored, ingested, fleet


def _add_lists(app: FastAPI, config: Config, pools: Executors) -> None:
    sources = sources_digest()

    @app.get("/v1/audit", summary="What the last audit found, and this collector's own version")
    async def audit() -> dict[str, Any]:
        return await pools.run(pools.reads, lambda: audit_object(config.collector.audit, sources))

    @app.get("/v1/releases", summary="The stored releases of a stream, part by part")
    async def releases(asked: Annotated[ListParameters, Query()]) -> dict[str, Any]:
        _stream(config, asked.stream)
        return await pools.read(
            lambda reader: listing.release_part(
                reader, selection_of(config, asked.stream, asked), asked.after, asked.limit
            )
        )


def _add_answers(app: FastAPI, config: Config, pools: Executors, models: Models) -> Ask:
    """Returns a function that answers as `query` does."""

    @app.get(
        "/v1/streams/{stream}/query",
        summary="One question, answered with its standard error and its sources",
    )
    async def query(stream: str, asked: Annotated[QuestionParameters, Query()]) -> dict[str, Any]:
        check_given(asked)
        found = _answering_stream(config, stream, asked, _capability(asked.question))
        if isinstance(found, KeyStream):
            selection = await pools.run(
                pools.reads, lambda: selection_of(config, found.name, asked)
            )
            return await _count_keys(config, pools, selection, asked)
        answer = await _answer(config, pools, models, found, asked)
        return {"question": asked.question, **answer}

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
    async def sample(stream: str, asked: Annotated[SampleParameters, Query()]) -> Response:
        found = _answering_stream(config, stream, asked, SAMPLE)
        selection = await pools.run(pools.reads, lambda: selection_of(config, found.name, asked))
        model = await models.model(selection, choice_of(asked))
        return await file_response(pools, model, stream, asked)

    return query


async def _answer(
    config: Config,
    pools: Executors,
    models: Models,
    stream: ReadingStream,
    asked: QuestionParameters,
) -> Mapping[str, Any]:
    """One answer of all selected releases, one for each row, or a comparison of two selections."""
    name, choice = asked.model_dump_json(), choice_of(asked)
    if asked.question in COMPARISONS:
        periods = await pools.run(pools.reads, lambda: compared_of(config, stream.name, asked))
        return await models.derived(
            name,
            periods,
            lambda reader: comparison.as_object(
                comparison.compare(reader, config, periods, choice, asked.question, asked.attribute)
            ),
        )
    selection = await pools.run(pools.reads, lambda: selection_of(config, stream.name, asked))
    if asked.by is not None:
        rows, cached = series_of(stream, asked), models.rows.answering
        return await models.derived(
            name,
            (selection,),
            lambda reader: series_report.as_object(
                series.series(reader, config, selection, choice, rows, cached)
            ),
        )
    answer, _ = await models.ask(selection, choice, name, question_of(stream, asked))
    return answer


def _capability(question: str) -> str:
    """The question of the command line that the sketch must answer for this one."""
    return "count" if question in ("histogram", "density") else question


async def _count_keys(
    config: Config, pools: Executors, selection: Selection, asked: QuestionParameters
) -> dict[str, Any]:
    if asked.by == "day":
        raise wrong("distinct keys of several windows do not add up: ask by=window")
    by: distinct.By = asked.by or "window"
    counted = await pools.read(
        lambda reader: distinct.count_keys(reader, config, selection, by, asked.keys)
    )
    return {
        "question": DISTINCT,
        **distinct.as_object(counted),
        "fleet": counted.fleet,
    }


def _answering_stream(config: Config, name: str, asked: ModelParameters, question: str) -> Stream:
    """The stream, or another sketch of it that answers. Raises UnknownStream, CommandError."""
    stream = _stream(config, name)
    parts = (stream,) if stream.part_of else config.parts(stream)
    return answering(parts, question, choice_of(asked), asked.sketch)


def _stream(config: Config, name: str) -> Stream:
    for stream in config.streams:
        if stream.name == name:
            return stream
    known = ", ".join(stream.name for stream in config.streams)
    raise UnknownStream(f"unknown stream {name[:60]!r}; there is {known}")
