"""The command line of `pansketch-keeper`."""

import argparse
from pathlib import Path

from pansketch import __version__
from pansketch_fleet.errors import SingleLineParser
from pansketch_fleet.logs import add_log_options

DONE, FAILED = 0, 1
DEFAULT_CONFIG = "keeper.yaml"
EPILOG = """\
exit codes: 0 done, 1 failed at run time, 2 wrong input.
A keeper sees no readings and no counters. It answers each window once for each level.
"""


def parser() -> SingleLineParser:
    """The command line."""
    found = SingleLineParser(
        "pansketch-keeper",
        description="Keeps one key of a blinded fleet, and adds the noise to its answers.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--version", action="version", version=f"pansketch-keeper {__version__}")
    commands = found.add_subparsers(dest="command", required=True, metavar="COMMAND")
    made = _command(
        commands,
        "init",
        "write a configuration, a key and an empty ledger",
        "It prints the lines for keepers: of the fleet's configuration.",
    )
    made.add_argument("--fleet", required=True, metavar="NAME", help="the fleet")
    made.add_argument("--name", required=True, metavar="NAME", help="the keeper's own name")
    made.add_argument(
        "--url", required=True, metavar="URL", help="the broker, such as mqtts://broker.example"
    )
    made.add_argument(
        "--state", default="keeper-state", metavar="FOLDER", help="the folder of keys and ledger"
    )
    add_log_options(
        _command(
            commands,
            "run",
            "answer questions until stopped",
            "It listens on no port; it connects to the broker.",
        )
    )
    ledger = _command(
        commands,
        "ledger",
        "show what was answered, by stream and level",
        "The keeper may run meanwhile.",
    )
    rotate = _command(
        commands,
        "rotate",
        "make a new key, or erase an earlier one",
        "Earlier keys stay in use until they are erased. The keeper must not run meanwhile.",
    )
    rotate.add_argument(
        "--erase", metavar="KEYID", help="erase this key for good; export-public lists the ids"
    )
    _command(
        commands,
        "export-public",
        "print the public keys for the fleet's configuration",
        "The keeper may run meanwhile.",
    )
    check = _command(
        commands,
        "check",
        "test keys, ledger, hardening and the TLS files",
        "Each result is ok, note, refused or wrong. The exit code is 1 if a result is wrong. The "
        "keeper must not run meanwhile.",
    )
    for command in (ledger, check):
        command.add_argument("--json", action="store_true", help="print JSON")
    return found


def _command(
    commands: "argparse._SubParsersAction[SingleLineParser]", name: str, what: str, more: str
) -> SingleLineParser:
    command = commands.add_parser(
        name, help=what, description=f"{what[0].upper()}{what[1:]}. {more}"
    )
    command.add_argument(
        "--config",
        type=Path,
        default=Path(DEFAULT_CONFIG),
        metavar="FILE",
        help=f"the keeper's configuration (default: {DEFAULT_CONFIG})",
    )
    return command
