"""`query` and `sample`: one question, or synthetic records, of the selected releases."""

import argparse
import json
import sys
from collections.abc import Sequence

import numpy as np

from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.errors import wrong
from pansketch_collector.queries import answers, distinct, questions, robust_merge, sample
from pansketch_collector.queries.basis import Basis, LeftOut, omission_lines
from pansketch_collector.queries.fleet_model import Model, NotYet, build
from pansketch_collector.queries.generator_registry import (
    DISTINCT,
    SAMPLE,
    GeneratorChoice,
    check_answers,
)
from pansketch_collector.queries.selection import select
from pansketch_collector.storage.reader import Selection, reading
from pansketch_fleet.config.loader import Config
from pansketch_fleet.units import utc_text


def run_query(config: Config, options: argparse.Namespace) -> int:
    """Prints one answer with its standard error."""
    selection = _selection(config, options, options.question)
    if options.question == DISTINCT:
        return _run_distinct(config, options, selection)
    if options.by or options.keys:
        raise wrong(f"--by and --keys are for the question {DISTINCT}: leave them out")
    questions.check_words(options.question, options.words)
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


def _answer(
    config: Config, selection: Selection, options: argparse.Namespace
) -> tuple[answers.Answer | answers.Matrix, Basis]:
    """And what it rests on."""
    if not options.robust:
        model = _model(config, selection, _choice(options))
        return questions.answer(model, options.question, options.words), model
    with reading(config.collector.database) as reader:
        groups = robust_merge.build_groups(reader, config, selection, _choice(options))
    found, answered = robust_merge.answer(groups, options.question, options.words)
    note_left_out(answered.left)
    return found, answered


def _run_distinct(config: Config, options: argparse.Namespace, selection: Selection) -> int:
    """Prints the figures of all windows; 1 when one of them cannot be given."""
    if options.words:
        raise wrong(f"write: query --stream STREAM {DISTINCT}, and nothing behind it")
    if options.by == "device" and options.keys:
        raise wrong("--keys is about devices together: leave it out, or leave out --by device")
    with reading(config.collector.database) as reader:
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
        stream = next(s for s in config.streams if s.name == selection.stream)
        sample.check_assessed(stream.spec.family)
    model = _model(config, selection, _choice(options))
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


def _selection(
    config: Config, options: argparse.Namespace, question: str | None = None
) -> Selection:
    """The selection, of a stream that answers the question."""
    found = select(config, options.stream, options.since, options.until, options.devices)
    if question is not None:
        stream = next(s for s in config.streams if s.name == found.stream)
        check_answers(stream, question, _choice(options))
    return found


def _choice(options: argparse.Namespace) -> GeneratorChoice:
    return GeneratorChoice(options.generator, options.cells, options.points, options.robust)


def _model(config: Config, selection: Selection, choice: GeneratorChoice) -> Model:
    with reading(config.collector.database) as reader:
        model = build(reader, config, selection, choice)
    note_left_out(model.left)
    return model


def note_left_out(left: Sequence[LeftOut]) -> None:
    """Prints a note on stderr for each reason."""
    for line in omission_lines(left):
        print(line, file=sys.stderr)
