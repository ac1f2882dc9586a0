"""One line of the report: a figure, the bar it is held against, and whether it meets it.

A time is the least of several runs: what else the machine does can only add to it.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

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
    """True if the rows only report a failed benchmark."""
    return [row.name for row in rows] == [FAILED]


def write_table(file: Path, records: Sequence[Mapping[str, object]]) -> None:
    """A CSV file with a column for each key of the first record."""
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, list(records[0]))
        writer.writeheader()
        writer.writerows(records)


class MeasurementFailed(Exception):
    """A measured process failed; the text describes its end."""


def seconds(function: Callable[[], object]) -> float:
    started = perf_counter()
    function()
    return perf_counter() - started


def fastest(functions: list[Callable[[], object]], repeats: int) -> list[float]:
    """Least seconds of each function, called in turns, so that a ratio sees one machine."""
    for function in functions:
        function()
    runs = [[seconds(function) for function in functions] for _ in range(repeats)]
    return [min(times) for times in zip(*runs, strict=True)]
