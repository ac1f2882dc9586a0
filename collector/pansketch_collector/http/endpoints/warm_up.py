"""After a start: answers the first questions of the page's views of streams and of changes.

After a start no row of a series is cached, and each window of each attribute needs a fit. A density
needs two dozen fits. The answers stay in the caches, so the first visitor gets them without these
fits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from pansketch import Attribute
from pansketch_collector import clock
from pansketch_collector.errors import CommandError
from pansketch_collector.http.endpoints.listing import known_questions
from pansketch_collector.http.endpoints.parameters import QuestionParameters
from pansketch_collector.http.server.executors import CachedCount
from pansketch_collector.queries.selection import DAY_SECONDS
from pansketch_collector.storage.tables.holdings import StreamCounts
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.settings import ReadingStream

MAX_SECONDS = 30.0  # after the start; what is not answered by then waits for a visitor
PAUSE_SECONDS = 0.05
# As in static/changes.js, change_answers.js and answers.js; tests compare the requests.
MAX_PERIOD_SECONDS, MAX_PERIOD_WINDOWS = 7 * DAY_SECONDS, 7
MAX_CATEGORIES = 4
MAX_WINDOWS = 200
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

Ask = Callable[[str, QuestionParameters], Awaitable[Any]]


async def warm_up(
    config: Config,
    stored: CachedCount[Mapping[str, StreamCounts]],
    ask: Ask,
    busy: Callable[[], bool],
) -> None:
    """Asks the first questions of each stream of readings, one after the other.

    It waits while the server is `busy` with an answer, so it delays one by a question at most.
    """
    ends_at = clock.uptime() + MAX_SECONDS
    with suppress(CommandError):
        counts = (await stored.count()).found
        for stream in config.streams:
            if not isinstance(stream, ReadingStream) or stream.name not in counts:
                continue
            for asked in first_questions(stream, counts[stream.name]):
                while busy() and clock.uptime() < ends_at:
                    await asyncio.sleep(PAUSE_SECONDS)
                if clock.uptime() >= ends_at:
                    return
                with suppress(CommandError):  # Noise outweighs the readings.
                    await ask(stream.name, asked)


def first_questions(stream: ReadingStream, counts: StreamCounts) -> Iterator[QuestionParameters]:
    """The questions of both views without a choice, the slowest ones last."""
    shown = list(stream_questions(stream, counts))
    yield from (each for each in shown if each.question != "density")
    yield from change_questions(stream, counts)
    yield from (each for each in shown if each.question == "density")


def stream_questions(stream: ReadingStream, counts: StreamCounts) -> Iterator[QuestionParameters]:
    """The questions of the view of a stream: of its first attribute, then of the first two."""
    shown = [each for each in stream.domain.attributes if each.constant is None]
    questions = known_questions(stream)
    for first in shown[:1]:
        one = {"attribute": [first.name]}
        yield QuestionParameters.model_validate({"question": "histogram"} | one)
        if first.categories is None:
            yield QuestionParameters.model_validate({"question": "mean"} | one)
            for q in QUANTILES if "quantile" in questions else ():
                yield QuestionParameters.model_validate({"question": "quantile", "q": q} | one)
            if not first.cyclic:
                by = _by(counts.newest - counts.first_start, stream.window_seconds)
                rows = {"question": "mean", "by": by, "smooth": True}
                yield QuestionParameters.model_validate(rows | one)
    if len(shown) > 1:
        names = [each.name for each in shown[:2]]
        yield QuestionParameters.model_validate({"question": "density", "attribute": names})


def change_questions(stream: ReadingStream, counts: StreamCounts) -> Iterator[QuestionParameters]:
    """The questions of the view of changes: both comparisons, then each line."""
    ends = _usual(stream.window_seconds, counts)
    between = [f"{ends[0]}..{ends[1]}", f"{ends[1]}..{ends[2]}"]
    for question in ("change", "drift"):
        yield QuestionParameters.model_validate({"question": question, "between": between})
    seconds = (datetime.fromisoformat(ends[2]) - datetime.fromisoformat(ends[0])).total_seconds()
    rows = {"from": ends[0], "to": ends[2], "by": _by(seconds, stream.window_seconds)}
    for attribute in stream.domain.attributes:
        for line in _lines(attribute):
            yield QuestionParameters.model_validate(line | rows)


def _lines(attribute: Attribute) -> Iterator[dict[str, Any]]:
    if attribute.constant is not None:
        return
    if attribute.categories is None:
        yield {"question": "mean", "attribute": [attribute.name], "smooth": not attribute.cyclic}
        return
    for category in attribute.categories[:MAX_CATEGORIES]:
        named = {"attribute": [attribute.name], "category": [category]}
        yield {"question": "range", "smooth": True} | named


def _by(seconds: float, window_seconds: int) -> str:
    """Windows, or days where there would be too many windows."""
    many = seconds / window_seconds > MAX_WINDOWS and window_seconds <= DAY_SECONDS
    return "day" if many else "window"


def _usual(seconds: int, counts: StreamCounts) -> tuple[str, str, str]:
    """The ends of the two periods that the page compares without a choice, in minutes of UTC."""
    first, end = counts.first_start // seconds, counts.newest // seconds
    most = max(MAX_PERIOD_WINDOWS, MAX_PERIOD_SECONDS // seconds)
    length = min(max(1, (end - first) // 2), most)
    first, middle = end - 2 * length, end - length
    return _minute(first * seconds), _minute(middle * seconds), _minute(end * seconds)


def _minute(seconds: int) -> str:
    # Beyond 2038 on any machine.
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M}"
