"""Figures of different keys as a table for people and as JSON for programs."""

import json
from collections.abc import Iterator
from math import isfinite

from collector.answers import decimals_of, shown
from collector.distinct import Counted, Figure
from collector.selection import iso

MERGES = {"shared": "union", "disjoint": "sum"}


def as_table(counted: Counted) -> str:
    """An aligned table, and a sentence on the newest window."""
    header = ["window", "devices" if counted.by == "window" else "device", "keys", "± error", ""]
    rows = [header, *(_row(counted, figure) for figure in counted.figures)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(header))]
    numbers = {"keys", "± error"}
    lines = [
        "  ".join(
            cell.rjust(width) if name in numbers else cell.ljust(width)
            for name, cell, width in zip(header, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, *_newest(counted)])


def as_json(counted: Counted) -> str:
    """`as_object` on one line."""
    return json.dumps(as_object(counted), ensure_ascii=False)


def as_object(counted: Counted) -> dict[str, object]:
    """All figures; an estimate that there is not, or an unknown error, is None."""
    figures = [_object(counted, figure) for figure in counted.figures]
    return {
        "stream": counted.stream,
        "by": counted.by,
        "keys": counted.keys,
        "window_seconds": counted.window_seconds,
        "figures": figures,
        "guarantee": str(counted.guarantee),
    }


def _row(counted: Counted, figure: Figure) -> list[str]:
    value, error = "-", "-"
    if figure.estimate is not None:
        digits = decimals_of(figure.estimate.standard_error)
        value = shown(figure.estimate.value, digits)
        error = shown(figure.estimate.standard_error, digits)
    of = f" of {counted.fleet}" if len(figure.devices) < counted.fleet else ""
    who = f"{len(figure.devices)}{of}" if counted.by == "window" else figure.devices[0]
    return [iso(figure.start), who, value, error, _remark(counted, figure)]


def _remark(counted: Counted, figure: Figure) -> str:
    if figure.estimate is None:
        return "no estimate"
    if not figure.frozen:
        return ""
    who = "" if counted.by == "device" else f" {', '.join(figure.frozen)}"
    return f"incomplete: frozen by an announced intrusion{':' if who else ''}{who}"


def _newest(counted: Counted) -> Iterator[str]:
    """What the last line of the table says, in full."""
    figure, promise = counted.figures[-1], counted.guarantee
    if counted.by == "device" or figure.estimate is None:
        return
    digits = decimals_of(figure.estimate.standard_error)
    value, error = figure.estimate.value, figure.estimate.standard_error
    releases = len(figure.devices)
    made_of = f"{releases} release{'s' * (releases != 1)}"
    if releases > 1:
        made_of = f"{MERGES[counted.keys]} of {made_of}"
    yield (
        f"newest window: {shown(value, digits)} different keys ± {shown(error, digits)} "
        f"(standard error), {made_of}, epsilon {promise.epsilon:g} per key and window "
        f"({promise.intrusion})"
    )


def _object(counted: Counted, figure: Figure) -> dict[str, object]:
    estimate = figure.estimate
    error = None if estimate is None else estimate.standard_error
    found: dict[str, object] = {
        "from": iso(figure.start),
        "to": iso(figure.start + counted.window_seconds),
        "devices": list(figure.devices),
        "value": None if estimate is None else estimate.value,
        "standard_error": None if error is None or not isfinite(error) else error,
        "frozen": list(figure.frozen),
    }
    return found | ({"problem": figure.problem} if figure.problem else {})
