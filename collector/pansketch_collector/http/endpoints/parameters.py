"""Query parameters: names, types and ranges, and the selection and question that they define.

An unknown parameter is rejected. Questions are those of the command line.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pansketch import Domain
from pansketch_collector.errors import wrong
from pansketch_collector.http.endpoints.histogram import histogram
from pansketch_collector.periods.series import SeriesQuestion
from pansketch_collector.queries import robust_merge as robust
from pansketch_collector.queries.answers import as_object, basis
from pansketch_collector.queries.fleet_model import Model
from pansketch_collector.queries.generator_registry import (
    CHANGE,
    DRIFT,
    MAX_POINTS,
    MIN_POINTS,
    GeneratorChoice,
)
from pansketch_collector.queries.questions import QUESTIONS, answer, attribute_of
from pansketch_collector.queries.robust_merge import Groups
from pansketch_collector.queries.sample import MAX_ROWS
from pansketch_collector.queries.selection import select, select_groups, select_periods
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.settings import ReadingStream

MAX_SEED = 2**53 - 1  # exact in every JSON parser
MAX_BINS = 64
MAX_CELLS = 1 << 20

Question = Literal[
    "quantile",
    "mean",
    "cdf",
    "range",
    "count",
    "covariance",
    "change",
    "drift",
    "histogram",
    "density",
    "distinct",
]
GeneratorName = Literal["auto", "privhp", "kdtree", "density", "pairwise", "m2m"]
Number = Annotated[float, Field(allow_inf_nan=False)]
Moment = Annotated[str, Field(max_length=40)]
Name = Annotated[str, Field(min_length=1, max_length=100)]
DeviceNames = Annotated[str, Field(max_length=20_000, pattern="^[a-z0-9,@-]*$")]


class StrictParameters(BaseModel):
    """The base of all parameters: an unknown parameter is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SelectionParameters(StrictParameters):
    """Selects releases; all of them by default."""

    since: Moment | None = Field(
        None,
        alias="from",
        description="windows that start at or after this: an ISO date or time in UTC, 7d or 12h "
        "for so long ago, or unix seconds",
    )
    to: Moment | None = Field(None, description="windows that start before this")
    devices: DeviceNames | None = Field(
        None, description="only these devices, with commas between; `@GROUP` for a configured group"
    )


class ModelParameters(SelectionParameters):
    """Also selects the generator and its sizes."""

    generator: GeneratorName = Field("auto", description="what reads the releases")
    sketch: Literal["views", "hierarchy", "cells", "moments"] | None = Field(
        None, description="the type of the sketch; by default the first one that can answer"
    )
    cells: int | None = Field(
        None, ge=1, le=MAX_CELLS, description="density: read off at most so many heavy cells"
    )
    points: int | None = Field(
        None,
        ge=MIN_POINTS,
        le=MAX_POINTS,
        description="m2m: compare questions with features at so many points",
    )


class SampleParameters(ModelParameters):
    """A file of synthetic readings."""

    rows: int = Field(ge=1, le=MAX_ROWS, description="how many")
    format: Literal["csv", "json", "parquet"] = Field("csv", description="of the file")
    seed: int | None = Field(
        None, ge=0, le=MAX_SEED, description="make the same rows again; a new one by default"
    )


class QuestionParameters(ModelParameters):
    """One question. `attribute`, `low`, `high` and `category` are repeatable."""

    question: Question = Field(description="what to ask")
    robust: bool = Field(
        False,
        description="the median over groups of devices; not for change, drift, histogram, density, "
        "and distinct, nor by device",
    )
    attribute: list[Name] = Field([], max_length=32, description="of which attribute, or several")
    q: Number | None = Field(None, ge=0, le=1, description="quantile: a share of the readings")
    x: Number | None = Field(None, description="cdf: the share of readings that are at most this")
    low: list[Number] = Field([], max_length=32, description="range: of each number, in order")
    high: list[Number] = Field([], max_length=32, description="range: of each number, in order")
    category: list[Name] = Field(
        [], max_length=32, description="range: of each attribute with categories, in order"
    )
    where: Annotated[str, Field(max_length=2000)] | None = Field(
        None, description="count: conditions joined by &, as in `temp > 20 & wind = NE`"
    )
    bins: int | None = Field(
        None, ge=1, le=MAX_BINS, description="histogram (32), density (12 of each attribute)"
    )
    by: Literal["window", "day", "device"] | None = Field(
        None,
        description="a row for each window, day or device; distinct: a figure for each window, or "
        "for each of its devices as well",
    )
    smooth: bool = Field(False, description="by window or day: the level behind the noise as well")
    between: list[Annotated[str, Field(max_length=81)]] = Field(
        [],
        max_length=2,
        description="change, drift: the two periods: FROM..TO, a date, or a moment of a window",
    )
    against: DeviceNames | None = Field(
        None, description="change, drift: instead of two periods, `devices` with these"
    )
    keys: Literal["shared", "disjoint"] | None = Field(
        None, description="distinct: whether devices may see the same keys"
    )


class Paging(StrictParameters):
    """A page of a list."""

    limit: int = Field(100, ge=1, le=1000, description="at most so many")
    after: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="go on behind this: `next` of the part before"
    )


class ListParameters(SelectionParameters, Paging):
    """Stored releases of one stream, by window, device and sequence."""

    stream: Name = Field(description="of which stream")


ROWS = ("by", "smooth")
# For each question: the allowed parameters, and the required ones.
GIVEN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "quantile": (("attribute", "q", *ROWS), ("attribute", "q")),
    "mean": (("attribute", *ROWS), ("attribute",)),
    "cdf": (("attribute", "x", *ROWS), ("attribute", "x")),
    "range": (("attribute", "low", "high", "category", *ROWS), ("attribute",)),
    "count": (("where", *ROWS), ("where",)),
    "covariance": (("attribute",), ()),
    "change": (("attribute", "between", "against"), ()),
    "drift": (("attribute", "between", "against"), ()),
    "histogram": (("attribute", "bins"), ("attribute",)),
    "density": (("attribute", "bins"), ("attribute",)),
    "distinct": (("by", "keys"), ()),
}
BINS = {"histogram": (1, 32), "density": (2, 12)}  # attributes, and default number of bins of each
MAX_DENSITY_BINS = 16
COMPARISONS = (CHANGE, DRIFT)
PARTICULAR = sorted({name for may, _ in GIVEN.values() for name in may})


def selection_of(config: Config, stream: str, asked: SelectionParameters) -> Selection:
    """The selected releases; reads the database for a group. Raises CommandError."""
    return select(config, stream, asked.since, asked.to, asked.devices)


def compared_of(
    config: Config, stream: str, asked: QuestionParameters
) -> tuple[Selection, Selection]:
    """The two periods, or groups of devices. Raises CommandError."""
    if asked.against is None:
        return select_periods(config, stream, asked.between, asked.devices)
    return select_groups(config, selection_of(config, stream, asked), asked.against)


def choice_of(asked: ModelParameters) -> GeneratorChoice:
    robust = isinstance(asked, QuestionParameters) and asked.robust
    return GeneratorChoice(asked.generator, asked.cells, asked.points, robust)


def check_given(asked: QuestionParameters) -> None:
    """Raises CommandError for a missing parameter, or one that does not apply to the question."""
    may, must = GIVEN[asked.question]
    given = {name for name in PARTICULAR if getattr(asked, name) not in (None, [], False)}
    for name in must:
        if name not in given:
            raise wrong(f"{asked.question} needs {name}: add it")
    for name in sorted(given.difference(may)):
        raise wrong(f"{name} does not apply to the question {asked.question}: leave it out")
    if asked.robust and asked.question not in QUESTIONS:
        raise wrong(f"robust does not apply to the question {asked.question}: leave it out")
    attributes = BINS.get(asked.question, (1, 0))[0]
    _check_rows(asked)
    several = asked.question in ("range", "covariance") or "attribute" not in must
    if not several and len(asked.attribute) != attributes:
        raise wrong(
            f"{asked.question} is of {attributes} attribute{'s' * (attributes > 1)}, "
            f"and {len(asked.attribute)} are given"
        )


def _check_rows(asked: QuestionParameters) -> None:
    if asked.question in COMPARISONS:
        if len(asked.between) != (2 if asked.against is None else 0):
            raise wrong(f"{asked.question} compares: give between twice, or against and devices")
        if asked.between and (asked.since is not None or asked.to is not None):
            raise wrong("with between leave out from and to")
    if asked.smooth and asked.by is None:
        raise wrong("smooth follows windows or days: add by=window or by=day")


def series_of(stream: ReadingStream, asked: QuestionParameters) -> SeriesQuestion:
    """The question of every row. Raises CommandError, as the answer does."""
    assert asked.by is not None
    return SeriesQuestion(
        asked.question, tuple(_words(stream.domain, asked)), asked.by, asked.smooth
    )


def question_of(
    stream: ReadingStream, asked: QuestionParameters
) -> Callable[[Model | Groups], dict[str, Any]]:
    """A function that answers the question from a model or from groups. Raises CommandError."""
    if asked.question in BINS:
        bins = asked.bins or BINS[asked.question][1]
        if asked.question == "density" and bins > MAX_DENSITY_BINS:
            raise wrong(f"a density has at most {MAX_DENSITY_BINS} bins of each attribute")
        return lambda model: histogram(_model_of(model), asked.attribute, bins) | basis(model)
    words = list(_words(stream.domain, asked))

    def ask(model: Model | Groups) -> dict[str, Any]:
        if isinstance(model, Groups):
            return as_object(*robust.answer(model, asked.question, words))
        return as_object(answer(model, asked.question, words), model)

    return ask


def _model_of(model: Model | Groups) -> Model:
    """The model, for a question that does not apply to groups."""
    assert isinstance(model, Model)
    return model


def _words(domain: Domain, asked: QuestionParameters) -> Iterator[str]:
    """The question as words of the command line."""
    if asked.question == "range":
        yield from _limits(domain, asked)
        return
    yield from asked.attribute
    for number in (asked.q, asked.x):
        if number is not None:
            yield repr(number)
    if asked.where is not None:
        yield asked.where


def _limits(domain: Domain, asked: QuestionParameters) -> Iterator[str]:
    limits = iter(zip(asked.low, asked.high, strict=False))
    categories = iter(asked.category)
    for name in asked.attribute:
        yield name
        if attribute_of(domain, name).categories is not None:
            yield _next(categories, f"range: a category is missing for {name}: add category")
        else:
            yield from map(
                repr, _next(limits, f"range: limits are missing for {name}: add low and high")
            )
    unused = next(categories, None) is not None or next(limits, None) is not None
    if unused or len(asked.low) != len(asked.high):
        raise wrong("range: give one low and one high for each number, one category for the others")


def _next(given: Iterator[Any], otherwise: str) -> Any:
    found = next(given, None)
    if found is None:
        raise wrong(otherwise)
    return found
