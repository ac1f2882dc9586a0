"""The answers of `pansketch plan`, as text and as JSON.

With a configuration: a table for each stream. Without one: the memory of distinct counting.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pansketch import Span, ViewsSpec
from pansketch.planning import DistinctPlan, DistinctWanted, Errors
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
from pansketch_fleet.text_table import columns
from pansketch_fleet.units import duration_text, number_text, size_text

CONFIG_NOTES = """\
W1: distance of an attribute's distribution from the truth, in its standard deviations, mean of all.
pairs: total variation on 16 x 16 quantile bins, mean of all pairs. correlation: mean error of all
pairs of numbers. Predicted from noise and cells for readings that fill about a third of their
bounds; readings on few values, or in a corner of their bounds, have larger errors.
chosen: the fewest bytes of those within 3 % of the least error (pairs + 2 W1 + correlation / 4).\
"""
CONFIG_HEADER = ("", "state", "release", "W1", "pairs", "correlation", "")
CONVENTION = """\
epsilon: what the state and the output's noise are each calibrated to, as in the papers. A key seen
before a snapshot and after it spends their sum, `together`; unit key, add or remove. {share}
between state and output as is best for the given memory.\
"""
LAST_LINE = "The last line\nof each epsilon shares the same sum"
EVERY_LINE = "Every line\nshares this sum"
PUBLISHED = """\
As published: 4 bytes an id, output noise too small for the guarantee, and the level of ppds leaks
(pansketch audit). Repaired: one bit a key. The bounds hold for every stream and every universe.\
"""
NUMBERED = """\
keys, 3 parts: sampling, bits and output noise have a share of alpha each, as in the paper, split in
the best way. keys: sampling and bits share one part, which is tighter. within: that bound again.
standard error: of the density, when half of the universe appears.\
"""
HASHED = """\
Keys of an open universe are hashed to slots. Errors are relative to the expected number of keys and
take the estimate as normal; the standard error is that of linear counting, bits and output noise.\
"""
LEVELS = """\
Keys of an open universe are hashed to slots on levels: half of them to the first level, a quarter
to the second, and so on. Errors are relative to the number of keys and take the estimate as normal.
More memory lowers the error of many keys and raises that of few.\
"""
NEEDED = ["epsilon", "together", "estimator", "share", "keys, 3 parts", "keys", "bytes", ""]
REACHED = ["epsilon", "together", "estimator", "share", "keys", "within", "std. error", ""]
THREE_PARTS = frozenset({4})


@dataclass(frozen=True)
class StreamPlan:
    """One stream with its choices, the chosen one first.

    `memory_bytes`: the maximum for the planner, None for sketches that are not planned.
    """

    stream: Stream
    choices: tuple[SketchOption, ...]
    memory_bytes: int | None


def plan_streams(config: Config, profile: Profile) -> list[StreamPlan]:
    """Plan all streams on a class of device. Raises ConfigError at an impossible sketch."""
    return [_plan_stream(config, stream, profile) for stream in config.streams]


def _plan_stream(config: Config, stream: Stream, profile: Profile) -> StreamPlan:
    try:
        found = tuple(choices(stream, profile))
    except ValueError as error:
        problem = f"{error}, on {profile.name}; {stream.plan.fix}"
        raise config.error(stream.sketch_at, problem) from None
    memory = stream.plan.memory(profile) if is_planned(stream.plan) else None
    return StreamPlan(stream, found, memory)


def config_text(profile: Profile, found: Sequence[StreamPlan]) -> str:
    """Return aligned tables, and an explanation of their terms."""
    parts = ["\n".join(_lines(each)) for each in found]
    notes = [CONFIG_NOTES] if any(each.memory_bytes is not None for each in found) else []
    return "\n\n".join([_total_text(profile, found), *parts, *notes])


def _total_text(profile: Profile, found: Sequence[StreamPlan]) -> str:
    states = sum(each.choices[0].spec.nbytes for each in found if each.choices[0].spec)
    fits = "" if states <= profile.sketch_memory_bytes else ": TOO MUCH"
    allowed = size_text(profile.sketch_memory_bytes)
    return f"profile {profile.name}: all states take {states:,} bytes of {allowed}{fits}"


def _lines(plan: StreamPlan) -> Iterator[str]:
    stream = plan.stream
    privacy = stream.plan.privacy
    unit = "span" if isinstance(privacy.unit, Span) else privacy.unit
    yield (
        f"stream {stream.name}: epsilon {number_text(privacy.epsilon)} per {unit}, "
        f"{privacy.intrusion}; windows of {duration_text(stream.window_seconds)}"
    )
    if plan.memory_bytes is not None and isinstance(stream, ReadingStream):
        allowed = size_text(plan.memory_bytes)
        yield f"  expected: {expected_text(stream)}; the planner may take {allowed}"
    rows = [CONFIG_HEADER, *(_cells(choice, plan) for choice in plan.choices)]
    if plan.memory_bytes is None:
        rows = [(*row[:3], "", "", "", row[6]) for row in rows]
    yield from (f"  {line}" for line in _aligned(rows))


def _cells(choice: SketchOption, plan: StreamPlan) -> tuple[str, ...]:
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


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align numbers to the right, labels and the last column to the left. Omit empty columns."""
    used = [column for column in zip(*rows, strict=True) if any(column)]
    return columns(list(zip(*used, strict=True)), range(1, len(used) - 1))


def _expected(stream: Stream) -> dict[str, Any] | None:
    if not isinstance(stream, ReadingStream):
        return None
    found = asdict(stream.expected)
    found["ask"] = found.pop("means")  # as in the configuration
    if stream.expected.answering is None:
        del found["answering"]
    else:
        found["answering"]["levels"] = [
            {"windows": windows, "share": str(share)}
            for windows, share in stream.expected.answering.levels
        ]
    return found


def config_json(profile: Profile, found: Sequence[StreamPlan]) -> str:
    """Return the same as one object."""
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


def distinct_json(wanted: DistinctWanted, answers: Sequence[DistinctPlan]) -> str:
    return json.dumps({"wanted": asdict(wanted), "answers": [asdict(a) for a in answers]}, indent=1)


def distinct_text(wanted: DistinctWanted, answers: Sequence[DistinctPlan]) -> str:
    """Return two tables, by wanted error and by given memory, and their terms."""
    if wanted.any_number:
        return _levels_text(wanted, answers)
    hashed = wanted.expected_keys is not None
    error = f"{wanted.alpha:g}" + (" of the keys" if hashed else "")
    probability = f"with probability {1 - wanted.beta:g}"
    notes = [HASHED] if hashed else [NUMBERED, PUBLISHED]
    return "\n".join(
        [
            f"What is needed for an error of at most {error}, {probability}",
            *_distinct_table(
                [NEEDED, *(_needed_cells(each) for each in answers)],
                THREE_PARTS if hashed else frozenset(),
            ),
            "",
            f"What a memory of {wanted.memory:,} B reaches, {probability}",
            *_distinct_table([REACHED, *(_reached_cells(each, wanted) for each in answers)]),
            "",
            "\n\n".join([CONVENTION.format(share=LAST_LINE), *notes]),
        ]
    )


def _levels_text(wanted: DistinctWanted, answers: Sequence[DistinctPlan]) -> str:
    rows = [REACHED, *map(_level_cells, answers)]
    head = f"What a memory of {wanted.memory:,} B reaches, with probability {1 - wanted.beta:g}"
    return "\n".join(
        [head, *_distinct_table(rows), "", CONVENTION.format(share=EVERY_LINE), "", LEVELS]
    )


def _level_cells(line: DistinctPlan) -> list[str]:
    errors = ["-" if e is None else f"{e:.3g}" for e in (line.within, line.standard_error)]
    return [*_setting_cells(line), f"{line.of_keys:,}", *errors, "too many" if line.problem else ""]


def _needed_cells(line: DistinctPlan) -> list[str]:
    numbers = (line.keys_three_parts, line.keys, line.memory_bytes)
    return [*_setting_cells(line), *(f"{n:,}" if n else "-" for n in numbers), line.problem]


def _reached_cells(line: DistinctPlan, wanted: DistinctWanted) -> list[str]:
    errors = (line.within, line.standard_error)
    whole = wanted.universe or wanted.expected_keys
    cells = ["-" if e is None else f"{e:.3g}" for e in errors]
    about = f"within {line.within * whole:,.0f} keys" if whole and line.within else ""
    return [
        *_setting_cells(line),
        "-" if line.tracked is None else f"{line.tracked:,}",
        *cells,
        about,
    ]


def _setting_cells(line: DistinctPlan) -> list[str]:
    return [f"{line.epsilon:g}", f"{line.together:g}", line.estimator, line.output_share]


def _distinct_table(rows: list[list[str]], without: frozenset[int] = frozenset()) -> list[str]:
    """Align numbers to the right, the estimator and remarks to the left."""
    kept = [[cell for place, cell in enumerate(row) if place not in without] for row in rows]
    return columns(kept, {*range(len(kept[0]) - 1)} - {2})
