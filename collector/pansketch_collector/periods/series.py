"""`query QUESTION --by window|day|device`: one answer for each group of releases, as a series.

Each row is the model of its own releases alone, and is refused by the same rule as an answer of all
of them: a row that noise outweighs has no value.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pansketch import Domain, Estimate
from pansketch.generators import parse_predicate, smooth_levels
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.queries import questions
from pansketch_collector.queries.answers import Answer
from pansketch_collector.queries.basis import (
    Basis,
    LeftOut,
    joined_left,
    joined_parts,
)
from pansketch_collector.queries.fleet_model import Merged, NotYet, merged, model_of, promise
from pansketch_collector.queries.generator_registry import (
    GENERATORS,
    MOST_MARGINS,
    GeneratorChoice,
    choose,
)
from pansketch_collector.queries.selection import (
    DAY_SECONDS,
    check_devices,
    nothing_selected,
)
from pansketch_collector.storage.reader import Reader, Selection
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.settings import ReadingStream

By = Literal["window", "day", "device"]


@dataclass(frozen=True)
class Row:
    """The answer of one group: of a window or day from `start` to `end` by the fleet's clock, in
    unix seconds, or of a `device`.

    `readings`: their estimated number. `answer` is None where there is none; then `refusal` says
    why, and `more_windows` how many more windows of all devices it needs, if that is known.
    `level`: the smoothed answer, where one was asked for.
    """

    start: int
    end: int
    device: str
    releases: int
    devices: int
    readings: Estimate | None
    answer: Answer | None
    refusal: str = ""
    more_windows: int | None = None
    level: Estimate | None = None


@dataclass(frozen=True, kw_only=True)
class Series(Basis):
    """Rows in order of time, or of devices' names. `step`: the standard deviation by which the
    level moves in one window or day, where it was smoothed."""

    by: By
    rows: tuple[Row, ...]
    step: float | None = None


@dataclass(frozen=True)
class SeriesQuestion:
    """One question of every group. `smooth`: its level over time as well."""

    question: str
    words: tuple[str, ...]
    by: By
    smooth: bool = False


def series(
    reader: Reader,
    config: Config,
    selection: Selection,
    choice: GeneratorChoice,
    asked: SeriesQuestion,
) -> Series:
    """A row for each group that has a release.

    Raises CommandError: for a question that has no such rows, for too many of them, for an empty
    selection, and for what `questions.answer` refuses whatever the releases are.
    """
    stream = next(s for s in config.streams if s.name == selection.stream)
    assert isinstance(stream, ReadingStream), "check_answers refuses streams of keys"
    _check(stream, choice, asked)
    check_devices(reader, selection)
    attribute = _attribute(stream.domain, asked)
    groups = list(_groups(reader, stream, selection, asked.by))
    if not groups:
        raise nothing_selected(reader, selection)
    generator = GENERATORS[choose(stream.name, stream.spec.family, choice)]
    margin = attribute is not None and generator.margin is not None
    most = MOST_MARGINS if margin else generator.most_rows
    if len(groups) > most:
        raise wrong(
            f"{len(groups):,} rows by {asked.by} are more than {most:,}: select less with --from "
            "and --to" + ("" if asked.by == "day" else ", or ask --by day")
        )
    epochs = reader.epochs(stream.name)
    rows: list[Row] = []
    found: list[Basis] = []
    left: list[LeftOut] = []
    for row, group in groups:
        try:
            together = merged(reader, config, group, choice, epochs)
        except CommandError as error:
            left.append(LeftOut(reader.count(group), str(error)))
            rows.append(replace(row, refusal=str(error)))
            continue
        found.append(together)
        rows.append(_answered(row, together, choice, asked, attribute))
    if not found:
        raise CommandError(rows[0].refusal)
    rows, step = _smoothed(rows, asked, stream.window_seconds)
    parts = tuple(joined_parts(part for each in found for part in each.parts))
    return Series(
        generator=found[0].generator,
        windows=tuple(sorted(window for each in found for window in each.windows)),
        guarantee=promise(stream, parts),
        left=tuple(joined_left([*(e for each in found for e in each.left), *left])),
        parts=parts,
        by=asked.by,
        rows=tuple(rows),
        step=step,
    )


def _check(stream: ReadingStream, choice: GeneratorChoice, asked: SeriesQuestion) -> None:
    if asked.question == "covariance":
        raise wrong("covariance has no rows by window, day or device: ask without --by")
    if choice.robust:
        raise wrong("--robust needs all devices of all windows at once: leave out --by")
    if asked.by == "day" and stream.window_seconds > DAY_SECONDS:
        raise wrong(f"a window of {stream.name} is longer than a day: ask --by window")
    if asked.smooth and asked.by == "device":
        raise wrong("--smooth follows time, and devices have no order: ask --by window or day")
    if asked.smooth and asked.question == "mean" and asked.words:
        attribute = questions.attribute_of(stream.domain, asked.words[0])
        if attribute.cyclic:
            raise wrong(f"{attribute.name} is cyclic, and --smooth follows a line: leave it out")


def _attribute(domain: Domain, asked: SeriesQuestion) -> str | None:
    """The only attribute of the question; None where there are several."""
    if asked.question == "count":
        try:
            positions = parse_predicate(" ".join(asked.words), domain).positions
        except ValueError as error:
            raise wrong(str(error)) from error
        names = {domain.names[position] for position in positions}
    else:
        names = {questions.attribute_of(domain, asked.words[0]).name}
        names |= {word for word in asked.words if word in domain.names}
    return names.pop() if len(names) == 1 else None


def _groups(
    reader: Reader, stream: ReadingStream, selection: Selection, by: By
) -> Iterator[tuple[Row, Selection]]:
    """A row without an answer for each group, and the group's releases."""
    empty = Row(0, 0, "", 0, 0, None, None)
    if by == "device":
        for device in reader.releasing(selection):
            yield replace(empty, device=device), replace(selection, devices=frozenset([device]))
        return
    seconds = DAY_SECONDS if by == "day" else stream.window_seconds
    for span in reader.spans(selection, seconds):
        start, end = span * seconds, (span + 1) * seconds
        since = start if selection.since is None else max(start, selection.since)
        until = end if selection.until is None else min(end, selection.until)
        yield (
            replace(empty, start=start, end=end),
            replace(selection, since=since, until=until),
        )


def _answered(
    row: Row, found: Merged, choice: GeneratorChoice, asked: SeriesQuestion, attribute: str | None
) -> Row:
    """The row with its answer, or with the reason why noise outweighs one."""
    model = model_of(found, choice, attribute)
    start, end = (row.start, row.end) if row.end else found.span
    row = replace(
        row,
        start=start,
        end=end,
        releases=len(found.windows),
        devices=len(found.devices),
        readings=model.fitted.readings,
    )
    try:
        answer = questions.answer(model, asked.question, asked.words)
    except NotYet as refusal:
        return replace(row, refusal=str(refusal), more_windows=refusal.more_windows)
    assert isinstance(answer, Answer), "a question of several values is refused"
    return replace(row, answer=answer)


def _smoothed(
    rows: list[Row], asked: SeriesQuestion, window_seconds: int
) -> tuple[list[Row], float | None]:
    """The rows with their levels, and how far a level moves in one of their steps."""
    if not asked.smooth:
        return rows, None
    seconds = DAY_SECONDS if asked.by == "day" else window_seconds
    told = [
        (each.answer.value, each.answer.standard_error) if each.answer else (np.nan, np.nan)
        for each in rows
    ]
    values, errors = np.array(told, dtype=np.float64).T
    unknown = ~(np.isfinite(values) & np.isfinite(errors) & (errors > 0))
    values[unknown] = errors[unknown] = np.nan
    times = np.array([each.start / seconds for each in rows])
    levels = smooth_levels(values[:, None], errors[:, None], times)
    if unknown.all():
        return rows, None
    found = [
        replace(row, level=Estimate(float(value), float(error)))
        for row, value, error in zip(
            rows, levels.value[:, 0], levels.standard_error[:, 0], strict=True
        )
    ]
    return found, float(np.sqrt(levels.step_variance[0]))
