"""`query`, `sample` and `scales`: answers and synthetic records from the selected releases."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from pansketch_collector.archive.archive_reader import ArchiveReader, in_processes, on_cluster
from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.errors import wrong
from pansketch_collector.periods import comparison, series, series_report
from pansketch_collector.queries import answers, distinct, questions, robust_merge, sample
from pansketch_collector.queries.basis import Basis, LeftOut, omission_lines
from pansketch_collector.queries.fleet_model import Model, NotYet, build
from pansketch_collector.queries.generator_registry import (
    CHANGE,
    DISTINCT,
    DRIFT,
    SAMPLE,
    GeneratorChoice,
    answering,
)
from pansketch_collector.queries.selection import (
    select,
    select_groups,
    select_periods,
    stream_named,
)
from pansketch_collector.scales import learning
from pansketch_collector.storage.reader import Reader, reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.settings import ReadingStream
from pansketch_fleet.units import utc_text


def run_query(config: Config, options: argparse.Namespace) -> int:
    """Prints one answer with its standard error."""
    if options.question in (CHANGE, DRIFT):
        return _run_comparison(config, options)
    if options.between or options.against:
        option = "--between" if options.between else "--against"
        raise wrong(f"{option} is for the questions {CHANGE} and {DRIFT}: leave it out")
    selection = _selection(config, options, options.question)
    if options.question == DISTINCT:
        return _run_distinct(config, options, selection)
    if options.keys:
        raise wrong(f"--keys is for the question {DISTINCT}: leave it out")
    if options.smooth and options.by is None:
        raise wrong("--smooth follows windows or days: add --by window or --by day")
    questions.check_words(options.question, options.words)
    stream = stream_named(config, selection.stream)
    assert isinstance(stream, ReadingStream), "answering refuses streams of keys"
    with questions.wrong_words_first(stream.domain, options.question, options.words):
        return _run_question(config, options, selection)


def _run_question(config: Config, options: argparse.Namespace, selection: Selection) -> int:
    """Prints one answer of all selected releases, or one of each window, day or device."""
    if options.by is not None:
        return _run_series(config, options, selection)
    try:
        answer, basis = _answer(config, selection, options)
    except NotYet as refusal:
        if options.json:
            with writing("-") as out:
                out.write(json.dumps(refusal.as_object()) + "\n")
        raise
    shape = answers.as_json if options.json else answers.as_line
    with writing("-") as out:
        out.write(shape(answer, basis) + "\n")
    return 0


def _run_series(config: Config, options: argparse.Namespace, selection: Selection) -> int:
    """Prints a row for each window, day or device; returns 1 if noise outweighs all of them."""
    asked = series.SeriesQuestion(
        options.question, tuple(options.words), options.by, options.smooth
    )
    with _reader(config, options) as reader:
        found = series.series(reader, config, selection, _choice(options), asked)
    note_left_out(found.left)
    with writing("-") as out:
        out.write((series_report.as_json if options.json else series_report.as_table)(found) + "\n")
    return 0 if any(row.answer is not None for row in found.rows) else 1


def _run_comparison(config: Config, options: argparse.Namespace) -> int:
    """Prints a row for each attribute of two periods, or of two groups of devices."""
    if (options.between is None) == (options.against is None):
        raise wrong(f"{options.question} compares: add --between A B, or --against DEVICES")
    if options.between and (options.since or options.until):
        raise wrong("with --between leave out --from and --to")
    if options.by or options.keys or options.smooth:
        raise wrong(f"{options.question} has no --by, --keys and --smooth: leave them out")
    if options.between:
        stream = _answering(config, options, options.question)
        periods = select_periods(config, stream, options.between, options.devices)
    else:
        selected = _selection(config, options, options.question)
        periods = select_groups(config, selected, options.against)
    with _reader(config, options) as reader:
        found = comparison.compare(
            reader, config, periods, _choice(options), options.question, options.words
        )
    note_left_out([left for period in found.periods for left in period.left])
    with writing("-") as out:
        out.write((comparison.as_json if options.json else comparison.as_table)(found) + "\n")
    return 0


def _answer(
    config: Config, selection: Selection, options: argparse.Namespace
) -> tuple[answers.Answer | answers.Matrix, Basis]:
    """The answer and its basis."""
    if not options.robust:
        model = _model(config, selection, options)
        return questions.answer(model, options.question, options.words), model
    with _reader(config, options) as reader:
        groups = robust_merge.build_groups(reader, config, selection, _choice(options))
    found, answered = robust_merge.answer(groups, options.question, options.words)
    note_left_out(answered.left)
    return found, answered


def _run_distinct(config: Config, options: argparse.Namespace, selection: Selection) -> int:
    """Prints the figures of all windows; returns 1 if one of them has no estimate."""
    if options.words:
        raise wrong(f"write: query --stream STREAM {DISTINCT}, and nothing behind it")
    if options.by == "day" or options.smooth:
        raise wrong(f"{DISTINCT} keys of several windows do not add up: ask --by window")
    if options.by == "device" and options.keys:
        raise wrong("--keys is about devices together: leave it out, or leave out --by device")
    with _reader(config, options) as reader:
        by: distinct.By = options.by or "window"
        counted = distinct.count_keys(reader, config, selection, by, options.keys)
    note_left_out(counted.left)
    with writing("-") as out:
        out.write((distinct.as_json if options.json else distinct.as_table)(counted) + "\n")
    unknown = next((figure for figure in counted.figures if figure.estimate is None), None)
    if unknown is not None:
        print(f"window {utc_text(unknown.start)}: {unknown.problem}", file=sys.stderr)
    return 0 if unknown is None else 1


def run_sample(config: Config, options: argparse.Namespace) -> int:
    """Writes synthetic readings."""
    selection = _selection(config, options, SAMPLE)
    if options.report:
        stream = stream_named(config, selection.stream)
        sample.check_assessed(stream.spec.family)
    model = _model(config, selection, options)
    rng = np.random.default_rng(options.seed)
    model.check_sample()
    sampler = model.fitted.sampler()
    with writing(options.out) as out:
        sample.write_csv(model.fitted.domain, sampler, options.rows, rng, out)
    if options.out != "-":
        rows = f"{options.rows:,} synthetic rows"
        print(f"{options.out}: {rows} from {answers.source(model)}", file=sys.stderr)
    if options.report:
        print(sample.report(model, options.rows), file=sys.stderr)
    return 0


def run_scales(config: Config, options: argparse.Namespace) -> int:
    """Prints the attributes of a stream with learned scales."""
    selection = _selection(config, options, SAMPLE)
    model = _model(config, selection, options)
    with model.refusing():
        learned = learning.learned(model, selection.stream)
    with writing(options.out) as out:
        out.write(learning.as_yaml(learned, answers.source(model)))
    for name in learned.kept:
        print(f"{name} keeps its scale: {learned.kept[name]}", file=sys.stderr)
    return 0


def _selection(
    config: Config, options: argparse.Namespace, question: str | None = None
) -> Selection:
    """The selection, of the sketch of the stream that answers the question."""
    found = select(config, options.stream, options.since, options.until, options.devices)
    if question is not None:
        found = replace(found, stream=_answering(config, options, question))
    return found


def _answering(config: Config, options: argparse.Namespace, question: str) -> str:
    """The name of the stream, or of the one of another of its sketches."""
    asked = stream_named(config, options.stream)
    # The name of a further sketch selects that one.
    parts = (asked,) if asked.part_of else config.parts(asked)
    return answering(parts, question, _choice(options), options.sketch).name


def _choice(options: argparse.Namespace) -> GeneratorChoice:
    return GeneratorChoice(options.generator, options.cells, options.points, options.robust)


@contextmanager
def _reader(config: Config, options: argparse.Namespace) -> Iterator[Reader]:
    """A reader of the database, or of the named archive."""
    if options.archive is None and options.cluster is not None:
        raise wrong("--cluster adds up the files of an archive: add --archive DIR")
    with reading(config.collector.database) as reader:
        if options.archive is None:
            yield reader
            return
        if not options.archive.is_dir():
            raise wrong(f"no archive {options.archive}: run `pansketch-collector archive` first")
        summing = on_cluster(options.cluster) if options.cluster else in_processes
        yield ArchiveReader(reader, options.archive, summing)


def _model(config: Config, selection: Selection, options: argparse.Namespace) -> Model:
    with _reader(config, options) as reader:
        model = build(reader, config, selection, _choice(options))
    note_left_out(model.left)
    return model


def note_left_out(left: Sequence[LeftOut]) -> None:
    """Prints a note on stderr for each reason."""
    for line in omission_lines(left):
        print(line, file=sys.stderr)
