"""The command line of `pansketch-collector`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from textwrap import fill

from pansketch import __version__
from pansketch_collector.commands import enrolment, retention
from pansketch_collector.queries.generator_registry import AUTO, CHANGE, DISTINCT, DRIFT, GENERATORS
from pansketch_collector.queries.questions import HELP, QUESTIONS
from pansketch_collector.queries.sample import MAX_ROWS
from pansketch_collector.reports.devices import MAX_SHOWN
from pansketch_fleet.errors import OnePath, SingleLineParser
from pansketch_fleet.logs import add_log_options
from pansketch_fleet.protocol.topics import PATTERN_RULE, is_pattern

DEFAULT_CONFIG = "config.yaml"
EPILOG = "Exit codes: 0 done, 1 failed at run time, 2 wrong input (a single line on stderr)."
DISPUTED = (
    "list them; keep: count these instead of the stored ones, which become disputed; "
    "drop: delete these"
)


def parser() -> SingleLineParser:
    """The command line."""
    found = SingleLineParser(
        prog="pansketch-collector",
        description="Ingests the releases of a fleet of devices, and answers queries from them.",
        epilog=EPILOG,
    )
    found.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    _config(found, DEFAULT_CONFIG)
    commands = found.add_subparsers(dest="command", required=True, metavar="COMMAND")
    help_text = "ingest releases from the broker until stopped"
    more = "One process serves a database. It serves HTTP as well if collector.http is set."
    add_log_options(_add(commands, "serve", help_text, more))
    help_text = "ingest a share of the releases, beside serve, until stopped"
    more = "For a PostgreSQL server. Start as many as are needed, on any host."
    add_log_options(_add(commands, "ingest", help_text, more))
    shown = _add(
        commands,
        "devices",
        "show devices, windows, gaps, refusals and health",
        "Late and disputed windows, duplicates, lag, estimated totals, settings and excluded "
        f"ranges are shown as well. Of more than {MAX_SHOWN:,} devices some are shown, those with "
        "a problem first, and all are counted.",
    )
    help_text = "show devices of these names only; * and ? stand for any text and any character"
    shown.add_argument("names", nargs="*", type=_pattern, metavar="NAME", help=help_text)
    shown.add_argument("--all", action="store_true", help="show each device, as --json does")
    _json(shown)
    _json(_add(commands, "keepers", "show what keepers are asked and have answered"))
    help_text = "write the broker's access rules for the configured streams"
    more = "The rules are mosquitto's. The size of the largest message is printed as well."
    acl = _add(commands, "acl", help_text, more)
    help_text = "rules for these devices only (default: for each user, below the user's own name)"
    acl.add_argument("--devices", metavar="A,B", help=help_text)
    acl.add_argument("--out", default="-", metavar="FILE", help="the file (default: -, stdout)")
    _sample(commands)
    _scales(commands)
    _query(commands)
    export = _add(commands, "export", "write the stored releases as JSON lines")
    _selecting(export)
    _out(export, "FILE.jsonl")
    disputed = _add(commands, "disputed", "list, keep or drop other releases of stored windows")
    choices = "list", "keep", "drop"
    disputed.add_argument("what", choices=choices, metavar="|".join(choices), help=DISPUTED)
    disputed.add_argument(
        "ids", nargs="*", type=_whole_number(1), metavar="ID", help="as list prints it"
    )
    _json(disputed)
    replay = _add(
        commands,
        "replay",
        "ingest an exported file",
        "No serve may run on the database. The file may be that of an outbox. The exit code is 1 "
        "if a release was refused.",
    )
    replay.add_argument("file", type=Path, metavar="FILE.jsonl", help="the output of an export")
    _maintenance(commands)
    for module in (retention, enrolment):
        module.add_commands(lambda *names: _add(commands, *names))
    return found


def _sample(commands: "argparse._SubParsersAction[SingleLineParser]") -> None:
    sample = _add(commands, "sample", "write synthetic records of a stream of readings as CSV")
    _selecting(sample)
    _generating(sample)
    _archived(sample)
    rows = _whole_number(1, MAX_ROWS)
    sample.add_argument("--rows", type=rows, required=True, metavar="N", help="how many")
    _out(sample, "FILE.csv")
    sample.add_argument("--seed", type=_whole_number(0), metavar="N", help="repeat the same rows")
    help_text = "print on stderr the predicted distance of the rows from the readings (type views)"
    sample.add_argument("--robust", action="store_true", help=argparse.SUPPRESS)  # to refuse it
    sample.add_argument("--report", action="store_true", help=help_text)


def _scales(commands: "argparse._SubParsersAction[SingleLineParser]") -> None:
    scales = _add(
        commands,
        "scales",
        "print scales with fine cells where readings are, as YAML",
        "They cost no epsilon. Copy them into the configurations of collector and devices.",
    )
    _selecting(scales)
    _generating(scales)
    _archived(scales)
    scales.set_defaults(robust=False)
    scales.add_argument("--out", default="-", metavar="FILE", help="the file (default: -, stdout)")


def _query(commands: "argparse._SubParsersAction[SingleLineParser]") -> None:
    query = _add(commands, "query", "answer one question with its standard error", epilog=HELP)
    _selecting(query)
    _generating(query)
    _archived(query)
    _json(query)
    help_text = "the median over groups of devices, which a few hostile devices cannot move far"
    query.add_argument("--robust", action="store_true", help=help_text)
    query.add_argument(
        "--by",
        choices=("window", "day", "device"),
        help="a row for each window, day (UTC) or device, not for covariance (distinct: for each "
        "window, the default, or device)",
    )
    help_text = "with --by window or day: the level behind the noise, with its error"
    query.add_argument("--smooth", action="store_true", help=help_text)
    query.add_argument(
        "--keys",
        choices=("shared", "disjoint"),
        help="distinct: whether devices see the same keys (default: shared if they release "
        "bitmaps)",
    )
    query.add_argument(
        "--between", nargs=2, metavar=("A", "B"), help="change, drift: the two periods"
    )
    help_text = "change, drift: instead of two periods, --devices with these, in the same windows"
    query.add_argument("--against", metavar="A,B", help=help_text)
    questions = sorted([*QUESTIONS, CHANGE, DISTINCT, DRIFT])
    query.add_argument("question", choices=questions, help="the question, as listed below")
    query.add_argument("words", nargs="*", metavar="WORD", help="attribute, numbers, categories")


def _maintenance(commands: "argparse._SubParsersAction[SingleLineParser]") -> None:
    backup = _add(
        commands,
        "backup",
        "copy the database to a file",
        "A serve may run meanwhile. The copy is verified, and readable for its owner only.",
    )
    backup.add_argument("file", type=Path, metavar="FILE", help="a new file; none is overwritten")
    migrate = _add(
        commands,
        "migrate",
        "copy a SQLite database to the PostgreSQL server of the configuration",
        "No serve may run on either. The server's database must be empty. The copy is verified.",
    )
    migrate.add_argument("file", type=Path, metavar="FILE", help="the SQLite file; it stays")
    verify = _add(
        commands,
        "verify",
        "check every stored release and the file of the database",
        "Damaged releases are named, and sums that are not theirs. The exit code is 1 then.",
    )
    verify.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help="a backup (default: the database)"
    )
    verify.add_argument("--rebuild", action="store_true", help="add up again; no serve may run")
    _json(verify)
    epochs = _add(
        commands,
        "settings",
        "list the settings of each stream that were ever served",
        "Each has its start, its stored releases, and its difference from the configuration.",
    )
    _json(epochs)
    quarantine = _add(
        commands,
        "quarantine",
        "list refused messages, or ingest those that this configuration accepts",
        "The list has device, stream, sequence, reason, count, time and bytes. A retry ingests "
        "complete releases while no serve runs on the database; serve does the same at its start.",
    )
    actions = "list", "retry"
    quarantine.add_argument("action", choices=actions, metavar="|".join(actions), help="what to do")
    _json(quarantine)
    quarantine.add_argument("--device", metavar="NAME", help="list: of this device only")
    quarantine.add_argument("--stream", metavar="NAME", help="list: of this stream only")
    help_text = "leave a device's releases out of every answer"
    out = _add(commands, "exclude", help_text, "Nothing is deleted.")
    out.add_argument(
        "device", nargs="?", type=enrolment.device_name, metavar="DEVICE", help="the device"
    )
    _range(out)
    out.add_argument("--list", action="store_true", help="list the excluded ranges")
    out.add_argument("--undo", action="store_true", help="count this range again (default: all)")
    _json(out)
    forget = _add(commands, "forget", "delete the reports of a device, to make room for another")
    forget.add_argument("device", type=enrolment.device_name, metavar="DEVICE", help="the device")
    forget.add_argument(
        "--releases", action="store_true", help="delete its releases as well, permanently"
    )
    forget.add_argument("--yes", action="store_true", help="do not ask before deleting releases")


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON object")


def _add(
    commands: "argparse._SubParsersAction[SingleLineParser]",
    name: str,
    help_text: str,
    more: str = "",
    epilog: str = "",
) -> SingleLineParser:
    command = commands.add_parser(
        name,
        help=help_text,
        description=fill(f"{help_text[0].upper()}{help_text[1:]}. {more}", 80).strip(),
        epilog=epilog + EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # No default here: it would override a --config before the command.
    _config(command, argparse.SUPPRESS)
    return command


def _config(parser: argparse.ArgumentParser, default: str) -> None:
    what = "the fleet's configuration: a file, or a folder of *.yaml files"
    names, text = ("--config", "--config-dir"), f"{what} (default {DEFAULT_CONFIG})"
    parser.add_argument(*names, action=OnePath, default=default, metavar="PATH", help=text)


def _selecting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stream", required=True, metavar="NAME", help="the stream")
    _range(parser)
    help_text = "only these devices; @GROUP: those of a group of the configuration"
    parser.add_argument("--devices", metavar="A,B", help=help_text)


def _archived(parser: argparse.ArgumentParser) -> None:
    help_text = "read the releases of this archive, not those of the database"
    parser.add_argument("--archive", type=Path, metavar="DIR", help=help_text)
    help_text = "with --archive: a Ray cluster that adds up its files, as host:port or auto"
    parser.add_argument("--cluster", metavar="ADDRESS", help=help_text)


def _range(parser: argparse.ArgumentParser) -> None:
    when = "(ISO date or time in UTC, 7d or 12h for so long ago, or unix seconds)"
    parser.add_argument(
        "--from", dest="since", metavar="WHEN", help=f"windows that start at or after this {when}"
    )
    parser.add_argument(
        "--to", dest="until", metavar="WHEN", help=f"windows that start before this {when}"
    )


def _generating(parser: argparse.ArgumentParser) -> None:
    reads = ", ".join(f"{name} ({each.family})" for name, each in GENERATORS.items())
    parser.add_argument(
        "--generator",
        choices=[AUTO, *GENERATORS],
        default=AUTO,
        help=f"the generator of the model, by the type of the stream's sketch: {reads}",
    )
    help_text = "ask the sketch of this type (default: the first one of the stream that can answer)"
    families = sorted({each.family for each in GENERATORS.values()})
    parser.add_argument("--sketch", choices=families, help=help_text)
    help_text = "density: the maximum number of heavy cells"
    parser.add_argument("--cells", type=_whole_number(1), metavar="H", help=help_text)
    help_text = "m2m: the number of points at which questions and features are compared"
    parser.add_argument("--points", type=_whole_number(1), metavar="N", help=help_text)


def _out(parser: argparse.ArgumentParser, metavar: str) -> None:
    parser.add_argument("--out", required=True, metavar=metavar, help="the file, or - for stdout")


def _pattern(text: str) -> str:
    """Parse a pattern of devices' names. Raises ArgumentTypeError."""
    if not is_pattern(text):
        raise argparse.ArgumentTypeError(f"{text[:64]!r} is no pattern: use {PATTERN_RULE}")
    return text


def _whole_number(minimum: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """A parser of whole numbers from `minimum` to `most`, by default the largest in a database."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and minimum <= int(text[:20]) <= most):
            wanted = f"a whole number from {minimum} to {most}"
            raise argparse.ArgumentTypeError(f"{text[:64]!r} is not {wanted}")
        return int(text)

    return read
