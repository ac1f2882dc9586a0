"""pansketch-collector: runs one command."""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence

from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.commands.backup import run_backup, run_migrate
from pansketch_collector.commands.command_line import parser
from pansketch_collector.commands.enrolment import run_enroll, run_revoke, run_rotate
from pansketch_collector.commands.operator_decisions import run_disputed, run_exclude, run_forget
from pansketch_collector.commands.quarantine import run_quarantine
from pansketch_collector.commands.query import run_query, run_sample, run_scales
from pansketch_collector.commands.release_files import run_export, run_replay
from pansketch_collector.commands.retention import run_archive, run_retention
from pansketch_collector.commands.serve import run_ingest, run_serve
from pansketch_collector.commands.verification import run_verify
from pansketch_collector.errors import CommandError
from pansketch_collector.queries.selection import without_signs
from pansketch_collector.reports import broker_acl, devices, keepers, stream_settings
from pansketch_collector.storage.reader import reading
from pansketch_fleet.child_process import end_in_order
from pansketch_fleet.config.loader import (
    CollectorConfig,
    Config,
    ConfigError,
    load_collector,
    load_reader,
)


def run_acl(config: Config, options: argparse.Namespace) -> int:
    """Prints the broker's access rules for this fleet."""
    names = [] if options.devices is None else options.devices.split(",")
    with writing(options.out) as out:
        out.write(broker_acl.as_text(config, names))
    return 0


def run_devices(config: Config, options: argparse.Namespace) -> int:
    """Prints a table of devices, or one JSON object."""
    with reading(config.collector.database) as reader:
        if options.json:
            texts = devices.as_json(reader, config, options.names)
        else:
            texts = [devices.table(reader, config, options.names, options.all)]
    with writing("-") as out:
        for text in (*texts, "\n"):
            out.write(text)
    return 0


def run_settings(config: Config, options: argparse.Namespace) -> int:
    """Prints the settings of the stored releases, and since when each is in effect."""
    with reading(config.collector.database) as reader:
        found = list(stream_settings.rows(reader, config))
    with writing("-") as out:
        out.write(
            (stream_settings.as_json if options.json else stream_settings.as_table)(found) + "\n"
        )
    return 0


def run_keepers(config: Config, options: argparse.Namespace) -> int:
    """Prints the questions to keepers, and those without an answer."""
    with reading(config.collector.database) as reader:
        found = keepers.asking_report(reader, config)
    with writing("-") as out:
        out.write((keepers.as_json if options.json else keepers.as_table)(found) + "\n")
    return 0


# Commands that need the broker.
WITH_BROKER: dict[str, Callable[[CollectorConfig, argparse.Namespace], int]] = {
    "serve": run_serve,
    "ingest": run_ingest,
}
COMMANDS: dict[str, Callable[[Config, argparse.Namespace], int]] = {
    "devices": run_devices,
    "keepers": run_keepers,
    "acl": run_acl,
    "sample": run_sample,
    "scales": run_scales,
    "query": run_query,
    "export": run_export,
    "archive": run_archive,
    "disputed": run_disputed,
    "replay": run_replay,
    "quarantine": run_quarantine,
    "exclude": run_exclude,
    "forget": run_forget,
    "enroll": run_enroll,
    "rotate": run_rotate,
    "revoke": run_revoke,
    "backup": run_backup,
    "migrate": run_migrate,
    "verify": run_verify,
    "retention": run_retention,
    "settings": run_settings,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; reports errors of users and disks without
    raising."""
    if argv is None:
        gc.freeze()  # Modules stay: no collection visits them, also at exit.
    try:
        options = parser().parse_args(without_signs(sys.argv[1:] if argv is None else argv))
    except SystemExit as end:
        return int(end.code or 0)
    try:
        if options.command in WITH_BROKER:
            run = WITH_BROKER[options.command]
            return run(load_collector(options.config, os.environ), options)
        if argv is None:
            end_in_order()  # An unfinished file of output is removed.
        config = load_reader(options.config, os.environ)
        return COMMANDS[options.command](config, options)
    except ConfigError as error:
        return _fail(str(error), 2)
    except CommandError as failure:
        return _fail(str(failure), failure.code)
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        return _fail("interrupted", 1)


def _fail(line: str, code: int) -> int:
    print(line, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
