"""What `pansketch plan --config` answers, as text and as JSON: a table for each stream."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pansketch import Span, ViewsSpec
from pansketch.planning import Errors
from pansketch_fleet.config.loader import Config
from pansketch_fleet.config.sketch_summary import (
    SketchOption,
    choices,
    expected_text,
    is_planned,
    sizes_text,
)
from pansketch_fleet.settings.profiles import Profile
from pansketch_fleet.settings.settings import ReadingStream, Stream
from pansketch_fleet.units import duration_text, number_text, size_text

NOTES = """\
W1: distance of an attribute's distribution from the truth, in its standard deviations, mean of all.
pairs: total variation on 16 x 16 quantile bins, mean of all pairs. correlation: mean error of all
pairs of numbers. Predicted from noise and cells for readings that fill about a third of their
bounds; readings on few values, or in a corner of their bounds, have larger errors.
chosen: the fewest bytes of those within 3 % of the least error (pairs + 2 W1 + correlation / 4).\
"""
HEADER = ("", "state", "release", "W1", "pairs", "correlation", "")


@dataclass(frozen=True)
class StreamPlan:
    """One stream, its choices with the chosen one first, and the bytes that the planner may take
    (None for what is not planned)."""

    stream: Stream
    choices: tuple[SketchOption, ...]
    memory_bytes: int | None


def outlooks(config: Config, profile: Profile) -> list[StreamPlan]:
    """All streams on one class of device. Raises ConfigError at a sketch that it cannot have."""
    return [_outlook(config, stream, profile) for stream in config.streams]


def _outlook(config: Config, stream: Stream, profile: Profile) -> StreamPlan:
    try:
        found = tuple(choices(stream, profile))
    except ValueError as error:
        problem = f"{error}, on {profile.name}; {stream.plan.fix}"
        raise config.error(stream.sketch_at, problem) from None
    memory = stream.plan.memory(profile) if is_planned(stream.plan) else None
    return StreamPlan(stream, found, memory)


def as_text(profile: Profile, found: Sequence[StreamPlan]) -> str:
    """Aligned tables, and what their words mean."""
    parts = ["\n".join(_lines(each)) for each in found]
    notes = [NOTES] if any(each.memory_bytes is not None for each in found) else []
    return "\n\n".join([_together(profile, found), *parts, *notes])


def _together(profile: Profile, found: Sequence[StreamPlan]) -> str:
    states = sum(each.choices[0].spec.nbytes for each in found if each.choices[0].spec)
    fits = "" if states <= profile.sketch_memory_bytes else ": TOO MUCH"
    allowed = size_text(profile.sketch_memory_bytes)
    return f"profile {profile.name}: all states take {states:,} bytes of {allowed}{fits}"


def _lines(outlook: StreamPlan) -> Iterator[str]:
    stream = outlook.stream
    privacy = stream.plan.privacy
    unit = "span" if isinstance(privacy.unit, Span) else privacy.unit
    yield (
        f"stream {stream.name}: epsilon {number_text(privacy.epsilon)} per {unit}, "
        f"{privacy.intrusion}; windows of {duration_text(stream.window_seconds)}"
    )
    if outlook.memory_bytes is not None and isinstance(stream, ReadingStream):
        allowed = size_text(outlook.memory_bytes)
        yield f"  expected: {expected_text(stream)}; the planner may take {allowed}"
    rows = [HEADER, *(_cells(choice, outlook) for choice in outlook.choices)]
    if outlook.memory_bytes is None:
        rows = [(*row[:3], "", "", "", row[6]) for row in rows]
    yield from (f"  {line}" for line in _aligned(rows))


def _cells(choice: SketchOption, outlook: StreamPlan) -> tuple[str, ...]:
    if choice.spec is None:
        return (choice.label, "-", "-", "-", "-", "-", choice.problem)
    sizes = sizes_text(choice.spec) or choice.spec.family
    state, release = f"{choice.spec.nbytes:,}", f"{choice.spec.release_nbytes:,}"
    return (choice.label, state, release, *_errors(choice.errors), sizes)


def _errors(errors: Errors | None) -> tuple[str, str, str]:
    if errors is None:
        return "", "", ""
    shown = (errors.marginal, errors.pair, errors.correlation)
    w1, pairs, correlation = (f"{error:.3f}" if error else "-" for error in shown)
    return w1, pairs, correlation


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Numbers to the right; labels, and the ragged last column, to the left. No empty columns."""
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    widths = [max(map(len, column)) for column in columns]
    last = len(columns) - 1
    for row in zip(*columns, strict=True):
        cells = (
            cell.ljust(width) if place in (0, last) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def _expected(stream: Stream) -> dict[str, Any] | None:
    return asdict(stream.expected) if isinstance(stream, ReadingStream) else None


def as_json(profile: Profile, found: Sequence[StreamPlan]) -> str:
    """The same as one object."""
    streams = [
        {
            "stream": each.stream.name,
            "epsilon": each.stream.plan.privacy.epsilon,
            "expect": _expected(each.stream),
            "planner_bytes": each.memory_bytes,
            "choices": [_as_object(choice) for choice in each.choices],
        }
        for each in found
    ]
    allowed = {"profile": profile.name, "sketch_memory_bytes": profile.sketch_memory_bytes}
    return json.dumps(allowed | {"streams": streams}, indent=1)


def _as_object(choice: SketchOption) -> dict[str, Any]:
    spec = choice.spec
    if spec is None:
        return {"choice": choice.label, "problem": choice.problem}
    views = spec.views if isinstance(spec, ViewsSpec) else ()
    return {
        "choice": choice.label,
        "family": spec.family,
        "fingerprint": spec.fingerprint.hex(),
        "state_bytes": spec.nbytes,
        "release_bytes": spec.release_nbytes,
        "sizes": sizes_text(spec),
        "views": [
            {"attributes": view.names, "cells": view.shape, "micro_epsilon": view.micro}
            for view in views
        ],
        "predicted": asdict(choice.errors) if choice.errors else None,
    }
