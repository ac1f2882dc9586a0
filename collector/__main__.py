"""pansketch-collector: the command line."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

try:
    from collector.commands import COMMANDS
except ModuleNotFoundError as missing:
    # A device's installation brings this program along, but not what it needs.
    sys.exit(
        f"pansketch-collector: no module {missing.name}; pip install '.[collector]' in a clone"
    )
from collector.failure import CommandError
from collector.families import DISTINCT
from collector.generators import AUTO, GENERATORS
from collector.query import QUESTIONS
from fleet.config import ConfigError, load
from fleet.errors import one_line

DEFAULT_CONFIG = "config.yaml"
MOST_USAGE = 1000  # characters of what argparse says, which quotes what was written
EPILOG = "Exit codes: 0 done, 1 failed at run time, 2 wrong input (one line on stderr says what)."
QUERIES = """questions:
  quantile ATTRIBUTE Q    the value that a share Q (0 to 1) of the readings does not exceed
  mean ATTRIBUTE          the mean
  cdf ATTRIBUTE X         the share of readings that are at most X
  range ATTRIBUTE LOW HIGH [ATTRIBUTE LOW HIGH ...]
                          how many readings lie in all of these ranges, and which share;
                          for an attribute with categories: range ATTRIBUTE CATEGORY
  count "ATTRIBUTE > X & ATTRIBUTE = CATEGORY"
                          how many readings meet all conditions (<, <=, >, >=, =), and which share
  covariance [ATTRIBUTE ...]
                          the covariances of these attributes, or of all that are numbers
  distinct                of a stream with a key: how many different keys each window had. The keys
                          of different windows cannot be matched, so there is no total over them
A sketch of type moments answers mean, cdf, count and covariance.

"""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line instead of a usage text."""

    def error(self, message: str) -> NoReturn:
        problem = one_line(message)[:MOST_USAGE]
        self.exit(2, f"{self.prog}: {problem}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; never raises for what a user or a disk did."""
    try:
        options = _parser().parse_args(argv)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        config = load(options.config, "collector", os.environ)
        return COMMANDS[options.command](config, options)
    except ConfigError as error:
        return _say(str(error), 2)
    except CommandError as failure:
        return _say(str(failure), failure.code)
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        return _say("interrupted", 1)


def _say(line: str, code: int) -> int:
    print(line, file=sys.stderr)
    return code


def _parser() -> Parser:
    parser = Parser(
        prog="pansketch-collector",
        description="Takes in the releases of a fleet of devices, and answers from them.",
        epilog=EPILOG,
    )
    _config(parser, DEFAULT_CONFIG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add(commands, "serve", "take in releases from the broker until stopped")
    devices = _add(commands, "devices", "list devices, windows, gaps and refusals")
    devices.add_argument("--json", action="store_true", help="one JSON object")
    sample = _add(commands, "sample", "write synthetic readings as CSV")
    _selecting(sample)
    _generating(sample)
    sample.add_argument("--rows", type=_whole(1), required=True, metavar="N", help="how many")
    _out(sample, "FILE.csv")
    sample.add_argument("--seed", type=_whole(0), help="make the same rows again")
    says = "say on stderr how far the rows are likely to be from the readings (sketches of views)"
    sample.add_argument("--report", action="store_true", help=says)
    query = _add(commands, "query", "answer one question, with its standard error", QUERIES)
    _selecting(query)
    _generating(query)
    query.add_argument("--json", action="store_true", help="one JSON object")
    query.add_argument(
        "--by",
        choices=("window", "device"),
        help="distinct: a line a window (default), or a device",
    )
    query.add_argument(
        "--keys",
        choices=("shared", "disjoint"),
        help="distinct: may devices see the same keys? (default: shared if they release bitmaps)",
    )
    questions = sorted([*QUESTIONS, DISTINCT])
    query.add_argument("question", choices=questions, help="what to ask (see below)")
    query.add_argument("words", nargs="*", metavar="WORD", help="attribute, numbers, categories")
    export = _add(commands, "export", "write the stored releases as JSON lines")
    _selecting(export)
    _out(export, "FILE.jsonl")
    replay = _add(commands, "replay", "take in an exported file, while no other one serves")
    replay.add_argument("file", type=Path, metavar="FILE.jsonl", help="what export has written")
    return parser


def _add(
    commands: "argparse._SubParsersAction[Parser]", name: str, says: str, more: str = ""
) -> Parser:
    command = commands.add_parser(
        name,
        help=says,
        description=f"{says[0].upper()}{says[1:]}.",
        epilog=more + EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # Without a default here, or it would hide a --config that stands before the command.
    _config(command, argparse.SUPPRESS)
    return command


def _config(parser: argparse.ArgumentParser, default: str) -> None:
    says = f"the fleet's configuration (default {DEFAULT_CONFIG})"
    parser.add_argument("--config", default=default, metavar="FILE", help=says)


def _selecting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stream", required=True, metavar="NAME", help="which stream")
    when = "(ISO date or time in UTC, or unix seconds)"
    parser.add_argument(
        "--from", dest="since", metavar="WHEN", help=f"windows that start at or after this {when}"
    )
    parser.add_argument(
        "--to", dest="until", metavar="WHEN", help=f"windows that start before this {when}"
    )
    parser.add_argument("--devices", metavar="A,B", help="only these devices")


def _generating(parser: argparse.ArgumentParser) -> None:
    reads = ", ".join(f"{name} ({each.family})" for name, each in GENERATORS.items())
    parser.add_argument(
        "--generator",
        choices=[AUTO, *GENERATORS],
        default=AUTO,
        help=f"what reads the releases, by the type of the stream's sketch: {reads}",
    )
    says = "density: read off at most so many heavy cells"
    parser.add_argument("--cells", type=_whole(1), metavar="H", help=says)
    says = "m2m: compare questions with features at so many points"
    parser.add_argument("--points", type=_whole(1), metavar="N", help=says)


def _out(parser: argparse.ArgumentParser, metavar: str) -> None:
    parser.add_argument("--out", required=True, metavar=metavar, help="the file, or - for stdout")


def _whole(least: int) -> Callable[[str], int]:
    """What reads a whole number of at least `least`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) >= least):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
        return int(text)

    return read


if __name__ == "__main__":
    sys.exit(main())
