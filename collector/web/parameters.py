"""What a request may say: names, types and ranges of the query parameters. Others are refused."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from collector.generators import LEAST_POINTS, MOST_POINTS

MOST_ROWS = 100_000_000
MOST_SEED = 2**53 - 1  # what every reader of JSON holds exactly
MOST_BINS = 64
MOST_CELLS = 1 << 20

Question = Literal[
    "quantile",
    "mean",
    "cdf",
    "range",
    "count",
    "covariance",
    "histogram",
    "density",
    "distinct",
]
GeneratorName = Literal["auto", "privhp", "kdtree", "density", "pairwise", "m2m"]
Number = Annotated[float, Field(allow_inf_nan=False)]
Moment = Annotated[str, Field(max_length=40)]
Name = Annotated[str, Field(min_length=1, max_length=100)]


class Strict(BaseModel):
    """What all requests share: a parameter that does not exist is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Selecting(Strict):
    """Which releases; all of them unless told."""

    since: Moment | None = Field(
        None,
        alias="from",
        description="windows that start at or after this: an ISO date or time in UTC, or unix "
        "seconds",
    )
    to: Moment | None = Field(None, description="windows that start before this")
    devices: Annotated[str, Field(max_length=20_000, pattern="^[a-z0-9,-]*$")] | None = Field(
        None, description="only these devices, with commas between"
    )


class Modelling(Selecting):
    """And what reads them."""

    generator: GeneratorName = Field("auto", description="what reads the releases")
    cells: int | None = Field(
        None, ge=1, le=MOST_CELLS, description="density: read off at most so many heavy cells"
    )
    points: int | None = Field(
        None,
        ge=LEAST_POINTS,
        le=MOST_POINTS,
        description="m2m: compare questions with features at so many points",
    )


class Sampling(Modelling):
    """A file of synthetic readings."""

    rows: int = Field(ge=1, le=MOST_ROWS, description="how many")
    format: Literal["csv", "json", "parquet"] = Field("csv", description="of the file")
    seed: int | None = Field(
        None, ge=0, le=MOST_SEED, description="make the same rows again; a new one unless told"
    )


class Asking(Modelling):
    """One question. `attribute`, `low`, `high` and `category` may be given several times."""

    question: Question = Field(description="what to ask")
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
        None, ge=1, le=MOST_BINS, description="histogram (32), density (12 of each attribute)"
    )
    by: Literal["window", "device"] | None = Field(
        None, description="distinct: a figure for each window, or for each of its devices as well"
    )
    keys: Literal["shared", "disjoint"] | None = Field(
        None, description="distinct: whether devices may see the same keys"
    )


class Paging(Strict):
    """A part of a list."""

    limit: int = Field(100, ge=1, le=1000, description="at most so many")
    after: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="go on behind this: `next` of the part before"
    )


class Listing(Selecting):
    """Stored releases of one stream, by window, device and sequence."""

    stream: Name = Field(description="of which stream")
    limit: int = Field(100, ge=1, le=1000, description="at most so many")
    after: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="go on behind this: `next` of the part before"
    )
