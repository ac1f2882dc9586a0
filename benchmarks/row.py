"""One line of the report: a figure, the bar it is held against, and whether it meets it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FAILED = "failed"


@dataclass(frozen=True)
class Row:
    """`bar` is text such as ">= 10", or empty; `meets` is None where there is no bar.

    `detail`: the figures behind the value, for the pictures and the JSON file.
    """

    name: str
    value: float
    unit: str
    bar: str = ""
    meets: bool | None = None
    note: str = ""
    detail: Mapping[str, float] = field(default_factory=dict)


def at_least(
    name: str,
    value: float,
    unit: str,
    bar: float,
    note: str = "",
    detail: Mapping[str, float] | None = None,
) -> Row:
    return Row(name, value, unit, f">= {bar:g}", value >= bar, note, detail or {})


def at_most(
    name: str,
    value: float,
    unit: str,
    bar: float,
    note: str = "",
    detail: Mapping[str, float] | None = None,
) -> Row:
    return Row(name, value, unit, f"<= {bar:g}", value <= bar, note, detail or {})


def failed(rows: Sequence[Row]) -> bool:
    """Whether they only say that the benchmark failed."""
    return [row.name for row in rows] == [FAILED]
