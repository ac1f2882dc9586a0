"""The six commands, each from a configuration and parsed options to an exit code."""

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from collector import (
    answers,
    assessment,
    clock,
    devices,
    distinct,
    export,
    figures,
    query,
    replay,
    sample,
    service,
    store,
)
from collector.discovery import discovery_of
from collector.failure import wrong
from collector.families import DISTINCT, check_answers
from collector.generators import SAMPLE, Choice, domain_of
from collector.inbox import Rules
from collector.link import Link
from collector.model import Model, build
from collector.output import writing
from collector.reader import Selection, reading
from collector.selection import check_devices, iso, nothing_selected, select
from collector.web import process
from fleet.config import Config
from fleet.notify import Notifier

log = logging.getLogger("collector")


def run_serve(config: Config, options: argparse.Namespace) -> int:
    """Takes in releases until SIGTERM or SIGINT."""
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s", level=logging.INFO)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    rules = Rules.of(config)
    link = Link(config.mqtt, config.fleet, rules.largest)
    notifier = Notifier(os.environ)
    serving = f"serving fleet {config.fleet} into {config.collector.database}"
    http, path = config.collector.http, Path(options.config)
    with (
        store.opened(config.collector.database) as opened,
        process.answering(http, path, stop.wait) as attend,
    ):
        discovery = discovery_of(config, link)

        def alive() -> None:
            attend(clock.uptime(), link.connected)
            notifier.alive(clock.uptime(), serving)
            if discovery is not None:
                discovery.step(clock.uptime())

        log.info(serving)
        link.start()
        notifier.ready()
        service.spare_collections()
        try:
            watch = service.Clock(clock.now, clock.uptime)
            heard = None if discovery is None else discovery.heard
            service.serve(link, opened, rules, watch, stop, alive, heard)
        finally:
            notifier.stopping()
            link.stop()
    log.info("stopped")
    return 0


def run_devices(config: Config, options: argparse.Namespace) -> int:
    """Prints the table of devices, or one JSON object."""
    with reading(config.collector.database) as reader:
        found = devices.overview(reader)
    with writing("-") as out:
        out.write((devices.as_json(found) if options.json else devices.as_table(found)) + "\n")
    return 0


def run_query(config: Config, options: argparse.Namespace) -> int:
    """Prints one answer with its standard error."""
    selection = _selection(config, options, options.question)
    if options.question == DISTINCT:
        return _run_distinct(config, options, selection)
    if options.by or options.keys:
        raise wrong(f"--by and --keys are for the question {DISTINCT}: leave them out")
    query.check_words(options.question, options.words)
    model = _model(config, selection, _choice(options))
    answer = query.answer(model, options.question, options.words)
    shape = answers.as_json if options.json else answers.as_line
    with writing("-") as out:
        out.write(shape(answer, model) + "\n")
    return 0


def run_sample(config: Config, options: argparse.Namespace) -> int:
    """Writes synthetic readings."""
    selection = _selection(config, options, SAMPLE)
    if options.report:
        stream = next(s for s in config.streams if s.name == selection.stream)
        assessment.check_assessed(stream.spec.family)
    model = _model(config, selection, _choice(options))
    rng = np.random.default_rng(options.seed)
    sampler = sample.sampler_of(model.fitted)
    with writing(options.out) as out:
        sample.write_csv(domain_of(model.fitted), sampler, options.rows, rng, out)
    if options.out != "-":
        rows = f"{options.rows:,} synthetic rows"
        print(f"{options.out}: {rows} from {answers.source(model)}", file=sys.stderr)
    if options.report:
        print(assessment.report(model, options.rows), file=sys.stderr)
    return 0


def run_export(config: Config, options: argparse.Namespace) -> int:
    """Writes the stored releases."""
    selection = _selection(config, options)
    with reading(config.collector.database) as reader:
        check_devices(reader, selection)
        if not reader.fingerprints(selection):
            raise nothing_selected(reader, selection)
        with writing(options.out) as out:
            lines = export.write_jsonl(reader, config.fleet, selection, out)
    if options.out != "-":
        print(f"{options.out}: {lines} release{'s' * (lines != 1)}", file=sys.stderr)
    return 0


def run_replay(config: Config, options: argparse.Namespace) -> int:
    """Takes in the releases of an exported file; 1 when some of them were refused."""
    with store.opened(config.collector.database) as opened:
        counts = replay.replay(options.file, opened, Rules.of(config), clock.now)
    with writing("-") as out:
        out.write(replay.summary(options.file, counts) + "\n")
    return 0 if replay.is_whole(counts) else 1


COMMANDS: dict[str, Callable[[Config, argparse.Namespace], int]] = {
    "serve": run_serve,
    "devices": run_devices,
    "sample": run_sample,
    "query": run_query,
    "export": run_export,
    "replay": run_replay,
}


def _run_distinct(config: Config, options: argparse.Namespace, selection: Selection) -> int:
    """Prints the figures of all windows; 1 when one of them cannot be given."""
    if options.words:
        raise wrong(f"write: query --stream STREAM {DISTINCT}, and nothing behind it")
    if options.by == "device" and options.keys:
        raise wrong("--keys is about devices together: leave it out, or leave out --by device")
    with reading(config.collector.database) as reader:
        by: distinct.By = options.by or "window"
        counted = distinct.count_keys(reader, config, selection, by, options.keys)
    _note_left_out(counted.left_out)
    with writing("-") as out:
        out.write((figures.as_json if options.json else figures.as_table)(counted) + "\n")
    unknown = next((figure for figure in counted.figures if figure.estimate is None), None)
    if unknown is not None:
        print(f"window {iso(unknown.start)}: {unknown.problem}", file=sys.stderr)
    return 0 if unknown is None else 1


def _selection(
    config: Config, options: argparse.Namespace, question: str | None = None
) -> Selection:
    """The selection, of a stream that answers the question."""
    found = select(config, options.stream, options.since, options.until, options.devices)
    if question is not None:
        stream = next(s for s in config.streams if s.name == found.stream)
        check_answers(stream, question, _choice(options))
    return found


def _choice(options: argparse.Namespace) -> Choice:
    return Choice(options.generator, options.cells, options.points)


def _model(config: Config, selection: Selection, choice: Choice) -> Model:
    with reading(config.collector.database) as reader:
        model = build(reader, config, selection, choice)
    _note_left_out(model.left_out)
    return model


def _note_left_out(releases: int) -> None:
    if releases:
        made = "releases were made with other settings and are left out"
        print(f"note: {releases} {made}", file=sys.stderr)
