"""The five commands, each from a configuration and parsed options to an exit code."""

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Callable

import numpy as np

from collector import clock, devices, export, query, sample, service, store
from collector.inbox import Rules
from collector.model import Model, build
from collector.mqtt import Link
from collector.output import writing
from collector.reader import Selection, reading
from collector.selection import check_devices, nothing_selected, select
from fleet.config import Config

log = logging.getLogger("collector")


def run_serve(config: Config, options: argparse.Namespace) -> int:
    """Takes in releases until SIGTERM or SIGINT."""
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s", level=logging.INFO)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    rules = Rules.of(config)
    link = Link(config.mqtt, config.fleet, rules.largest)
    with store.opened(config.collector.database) as opened:
        log.info("serving fleet %s into %s", config.fleet, config.collector.database)
        link.start()
        try:
            service.serve(link, opened, rules, service.Clock(clock.now, clock.uptime), stop)
        finally:
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
    query.check_words(options.question, options.words)
    model = _model(config, options)
    answer = query.answer(model, options.question, options.words)
    shape = query.as_json if options.json else query.as_line
    with writing("-") as out:
        out.write(shape(answer, model) + "\n")
    return 0


def run_sample(config: Config, options: argparse.Namespace) -> int:
    """Writes synthetic readings."""
    model = _model(config, options)
    rng = np.random.default_rng(options.seed)
    with writing(options.out) as out:
        sample.write_csv(model.partition, options.rows, rng, out)
    if options.out != "-":
        rows = f"{options.rows:,} synthetic rows"
        print(f"{options.out}: {rows} from {query.source(model)}", file=sys.stderr)
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


COMMANDS: dict[str, Callable[[Config, argparse.Namespace], int]] = {
    "serve": run_serve,
    "devices": run_devices,
    "sample": run_sample,
    "query": run_query,
    "export": run_export,
}


def _selection(config: Config, options: argparse.Namespace) -> Selection:
    return select(config, options.stream, options.since, options.until, options.devices)


def _model(config: Config, options: argparse.Namespace) -> Model:
    selection = _selection(config, options)
    with reading(config.collector.database) as reader:
        model = build(reader, config, selection)
    if model.left_out:
        print(
            f"note: {model.left_out} releases were made with other settings and are left out",
            file=sys.stderr,
        )
    return model
