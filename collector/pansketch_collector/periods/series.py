"""`query QUESTION --by window|day|device`: one answer for each group of releases, as a series.

Each row is the model of its own releases alone, or of groups of their devices (`--robust`). The
same rule refuses it as an answer of all releases: a row that noise outweighs has no value. Its
releases still help the smoother: those of several such rows together give it one.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import numpy as np

from pansketch import Estimate
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.periods.smoothing import pooled, smoothed
from pansketch_collector.queries import questions, robust_merge
from pansketch_collector.queries.answered_sums import PER_DEVICE, is_masked, spans
from pansketch_collector.queries.answers import Answer
from pansketch_collector.queries.basis import (
    Basis,
    LeftOut,
    answered_of,
    joined_left,
    joined_parts,
    joined_span,
)
from pansketch_collector.queries.fleet_model import Merged, NotYet, guarantee_of, merged, model_of
from pansketch_collector.queries.generator_registry import (
    GENERATORS,
    GeneratorChoice,
    choose,
    trainer,
)
from pansketch_collector.queries.robust_merge import MAX_GROUPS, Groups, build_groups
from pansketch_collector.queries.selection import (
    DAY_SECONDS,
    check_devices,
    nothing_selected,
)
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.settings import ReadingStream

By = Literal["window", "day", "device"]


@dataclass(frozen=True)
class Row:
    """The answer of one group: a `device`, or a window or day from `start` to `end`.

    Times are of the fleet's clock, in unix seconds. `readings`: their estimated number. `answer` is
    None for a refused row. Then `refusal` holds the reason, and `more_windows` the number of
    missing windows of all devices, if known. `level`: the smoothed answer, if requested; None if
    the other rows do not determine it.
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
    level moves in one window or day, where it was smoothed. `bounds`: what no level is outside of.
    """

    by: By
    rows: tuple[Row, ...]
    step: float | None = None
    bounds: tuple[float, float] = (-inf, inf)


Found = tuple[Row, Basis | None]  # None: of a group whose releases do not make a model
Ask = Callable[[Row, Selection], Found]
# A function of the question's name, the releases that its row depends on, and a function that
# computes the row.
Answering = Callable[[Reader, Hashable, Sequence[Selection], Callable[[], Found]], Found]


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
    answering: Answering = lambda reader, name, releases, answer: answer(),
) -> Series:
    """A row for each group that has a release. `answering`: computes each row or has it cached.

    Raises CommandError: for a question without such rows, for too many of them, and for an empty
    selection. Also for every refusal of `questions.answer` that does not depend on the releases.
    """
    stream = next(s for s in config.streams if s.name == selection.stream)
    assert isinstance(stream, ReadingStream), "check_answers refuses streams of keys"
    _check(stream, choice, asked)
    check_devices(reader, selection)
    alone = questions.is_of_one(stream.domain, asked.question, asked.words)
    groups = list(_groups(reader, stream, selection, asked.by))
    if not groups:
        raise nothing_selected(reader, selection)
    generator = GENERATORS[choose(stream.name, stream.spec.family, choice)]
    most = generator.max_single_rows if alone else generator.max_rows
    if choice.robust:
        most = max(1, most // MAX_GROUPS)
    if len(groups) > most:
        raise wrong(
            f"{len(groups):,} rows by {asked.by} are more than {most:,}: select less with --from "
            "and --to" + ("" if asked.by == "day" else ", or ask --by day")
        )
    epochs = reader.epochs(stream.name)
    other = trainer(config.parts(stream)) if generator.trained else None
    rows: list[Row] = []
    found: list[Basis] = []
    held: list[Selection] = []
    left: list[LeftOut] = []

    def make(row: Row, group: Selection) -> Found:
        try:
            if choice.robust:
                return _of_groups(row, build_groups(reader, config, group, choice), asked)
            together = merged(reader, config, group, choice, epochs)
            answered = _answered(row, together, choice, asked)
            return answered, replace(together, releases=(), training=())
        except CommandError as error:
            more = error.more_windows if isinstance(error, NotYet) else None
            return replace(row, refusal=str(error), more_windows=more), None

    def ask(row: Row, group: Selection) -> Found:
        releases = [group, *([replace(group, stream=other.name)] if other else [])]
        name = row, group, choice, asked.question, asked.words
        return answering(reader, name, releases, lambda: make(row, group))

    for row, group in groups:
        answered, basis = ask(row, group)
        rows.append(answered)
        if basis is None:
            left.append(LeftOut(reader.count(group), answered.refusal))
        else:
            found.append(basis)
            held.append(group)
    if not found:
        raise CommandError(rows[0].refusal)
    step, bounds = None, questions.bounds_of(stream.domain, asked.question, asked.words)
    if asked.smooth:
        seconds = DAY_SECONDS if asked.by == "day" else stream.window_seconds
        rows, step = _smoothed(groups, rows, ask, bounds, seconds)
    parts = tuple(joined_parts(part for each in found for part in each.parts))
    return Series(
        generator=found[0].generator,
        windows=sum(each.windows for each in found),
        devices=_devices(reader, selection, asked.by, found, held),
        span=joined_span(found),
        guarantee=guarantee_of(stream, parts),
        shared=found[0].shared,
        left=tuple(joined_left([*(e for each in found for e in each.left), *left])),
        parts=parts,
        groups=min((each.groups for each in found), default=0),
        answered=answered_of([each.answered for each in found if each.answered is not None]),
        by=asked.by,
        rows=tuple(rows),
        step=step,
        bounds=bounds,
    )


def _devices(
    reader: Reader, selection: Selection, by: By, found: Sequence[Basis], held: Sequence[Selection]
) -> int:
    """The number of devices with a release in one of the answered rows."""
    named = frozenset().union(*(each.named for each in found if isinstance(each, Merged)))
    if named or by == "device" or len(found) == 1:
        return len(named) or sum(each.devices for each in found)
    return reader.device_count(held, sum(each.windows for each in found))


def _check(stream: ReadingStream, choice: GeneratorChoice, asked: SeriesQuestion) -> None:
    if asked.question == "covariance":
        raise wrong("covariance has no rows by window, day or device: ask without --by")
    if choice.robust and asked.by == "device":
        raise wrong("--robust asks groups of devices: leave it out, or ask --by window or day")
    if asked.by == "day" and stream.window_seconds > DAY_SECONDS:
        raise wrong(f"a window of {stream.name} is longer than a day: ask --by window")
    if asked.smooth and asked.by == "device":
        raise wrong("--smooth follows time, and devices have no order: ask --by window or day")
    if asked.smooth and asked.question == "mean" and asked.words:
        attribute = questions.attribute_of(stream.domain, asked.words[0])
        if attribute.cyclic:
            raise wrong(f"{attribute.name} is cyclic, and --smooth follows a line: leave it out")


def _groups(
    reader: Reader, stream: ReadingStream, selection: Selection, by: By
) -> Iterator[tuple[Row, Selection]]:
    """A row without an answer for each group, and the group's releases."""
    empty = Row(0, 0, "", 0, 0, None, None)
    masked = is_masked(stream.spec)
    if by == "device":
        if masked:
            raise wrong(PER_DEVICE)
        for device in reader.releasing_devices(selection):
            yield replace(empty, device=device), replace(selection, devices=frozenset([device]))
        return
    seconds = DAY_SECONDS if by == "day" else stream.window_seconds
    for span in (spans if masked else Reader.spans)(reader, selection, seconds):
        start, end = span * seconds, (span + 1) * seconds
        since = start if selection.since is None else max(start, selection.since)
        until = end if selection.until is None else min(end, selection.until)
        yield (
            replace(empty, start=start, end=end),
            replace(selection, since=since, until=until),
        )


def _answered(row: Row, found: Merged, choice: GeneratorChoice, asked: SeriesQuestion) -> Row:
    """The row with its answer, or with the reason why noise outweighs one."""
    model = model_of(found, choice)
    start, end = (row.start, row.end) if row.end else found.span
    row = replace(
        row,
        start=start,
        end=end,
        releases=found.windows,
        devices=found.devices,
        readings=model.fitted.readings,
    )
    try:
        answer = questions.answer(model, asked.question, asked.words)
    except NotYet as refusal:
        return replace(row, refusal=str(refusal), more_windows=refusal.more_windows)
    assert isinstance(answer, Answer), "a question of several values is refused"
    return replace(row, answer=answer)


def _of_groups(row: Row, groups: Groups, asked: SeriesQuestion) -> Found:
    """The row with the median of what groups of devices answer. Raises CommandError."""
    answer, answered = robust_merge.answer(groups, asked.question, asked.words)
    assert isinstance(answer, Answer), "a question of several values is refused"
    readings = [model.fitted.readings for model in answered.models]
    start, end = (row.start, row.end) if row.end else answered.span
    filled = replace(
        row,
        start=start,
        end=end,
        releases=answered.windows,
        devices=answered.devices,
        readings=Estimate(
            sum(each.value for each in readings),
            float(np.hypot.reduce([each.standard_error for each in readings])),
        ),
        answer=answer,
    )
    return filled, replace(answered, models=())


def _smoothed(
    groups: Sequence[tuple[Row, Selection]],
    rows: list[Row],
    ask: Ask,
    bounds: tuple[float, float],
    seconds: int,
) -> tuple[list[Row], float | None]:
    """The rows with their levels, and how far a level moves in one of their steps."""

    def together(first: int, last: int) -> Answer | None:
        start, end = groups[first], groups[last]
        both = replace(start[1], until=end[1].until)
        return ask(replace(start[0], end=end[0].end), both)[0].answer

    answers = pooled([row.answer for row in rows], together)
    levels = smoothed(answers, [row.start / seconds for row in rows], bounds)
    if levels is None:
        return rows, None
    found = [replace(row, level=level) for row, level in zip(rows, levels[0], strict=True)]
    return found, levels[1]
