"""The command line of `pansketch-agent`."""

import argparse
from pathlib import Path

from pansketch import __version__
from pansketch_fleet.errors import OnePath, SingleLineParser
from pansketch_fleet.logs import add_log_options

DONE, FAILED = 0, 1
PROGRAM = "Turns a device's readings into private releases for its fleet's collector."
ONCE_DRAIN_SECONDS = 60.0

EPILOG = """\
exit codes: 0 done, 1 failed at run time, 2 wrong input.
The agent publishes noisy counters only; no reading leaves the device, its logs or its disk.
"""


def parser() -> SingleLineParser:
    """Return the parser of all commands."""
    program = SingleLineParser(
        "pansketch-agent",
        description=PROGRAM,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    program.add_argument("--version", action="version", version=f"pansketch-agent {__version__}")
    commands = program.add_subparsers(dest="command", required=True, metavar="COMMAND")
    init = _command(
        commands,
        "init",
        "write a commented configuration to start from",
        "It asks nothing and overwrites nothing; --config names the new file. validate accepts it.",
    )
    init.add_argument(
        "--fleet", default="my-fleet", metavar="NAME", help="the fleet (default: my-fleet)"
    )
    init.add_argument(
        "--device", metavar="NAME", help="the device (default: the short name of this host)"
    )
    init.add_argument(
        "--url",
        default="mqtt://localhost:1883",
        metavar="URL",
        help="the broker (default: mqtt://localhost:1883)",
    )
    init.add_argument(
        "--state",
        default="var/agent",
        metavar="FOLDER",
        help="the folder above that of ledger and outbox (default: var/agent)",
    )
    run = _command(
        commands,
        "run",
        "absorb readings and publish releases until stopped",
        "A replay ends when every release is acknowledged.",
    )
    once = _command(
        commands, "once", "publish one window of each stream, wait for the acknowledgements, exit"
    )
    valid = _command(
        commands,
        "validate",
        "check the configuration and the sources",
        "It shows the bytes and the guarantee of each stream.",
    )
    _command(
        commands,
        "print-config",
        "print every setting, its value and its origin",
        "Secrets are hidden.",
    )
    _command(
        commands,
        "rerandomise",
        "announce an intrusion to the running agent",
        "Every open sketch draws fresh noise, or accepts no more keys, before the command returns.",
    )
    check = _command(
        commands,
        "check",
        "test hardening, clock, disk, ledger, broker and sensors",
        "Each result is ok, note, refused or wrong, with its fix. "
        "The exit code is 1 if a result is wrong.",
    )
    ledger = _command(
        commands,
        "ledger",
        "show the epsilon spent",
        "It is that of a reading, a span, a key, the busiest day, today and the lifetime. "
        "The agent may run meanwhile.",
    )
    outbox = _command(
        commands,
        "outbox",
        "list, export or retransmit queued releases",
        "The agent may run meanwhile; retry needs it.",
    )
    outbox.add_argument(
        "action",
        choices=("list", "export", "retry"),
        metavar="list|export|retry",
        help="list: number, window, bytes, age and attempts; export: JSON lines for "
        "pansketch-collector replay, with dead-lettered releases; retry: retransmit at once, as "
        "after a start",
    )
    outbox.add_argument(
        "--refused", action="store_true", help="retry: requeue dead-lettered releases as well"
    )
    outbox.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="export: the file (default: stdout)"
    )
    sources = _command(
        commands,
        "sources",
        "list the sensors of this host, and what programs may send to",
        "Each has the line of configuration that reads it. No value is shown.",
    )
    sources.add_argument(
        "--page", metavar="URL", help="list the series of a page of metrics instead"
    )
    for command in (check, ledger, sources):
        command.add_argument("--json", action="store_true", help="print JSON")
    _root_option(valid)
    _root_option(check)
    _root_option(sources)
    _run_options(run, None, "for ever")
    _run_options(once, ONCE_DRAIN_SECONDS, f"{ONCE_DRAIN_SECONDS:g}")
    return program


def _command(
    commands: "argparse._SubParsersAction[SingleLineParser]",
    name: str,
    what: str,
    more: str = "",
) -> SingleLineParser:
    description = f"{what[0].upper()}{what[1:]}. {more}".strip()
    command = commands.add_parser(name, help=what, description=description)
    command.add_argument(
        "--config",
        "--config-dir",
        action=OnePath,
        type=Path,
        default=Path("config.yaml"),
        metavar="PATH",
        help="the fleet's configuration: a file, or a folder of *.yaml files (default: "
        "config.yaml)",
    )
    return command


def _run_options(
    command: argparse.ArgumentParser, drain_seconds: float | None, default: str
) -> None:
    command.add_argument(
        "--drain",
        type=_seconds,
        default=drain_seconds,
        metavar="SECONDS",
        help="how long to wait for acknowledgements after the last release "
        f"(default: {default}); other releases stay in the outbox",
    )
    _root_option(command)
    add_log_options(command)


def _root_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="FOLDER",
        help="the folder of proc/ and sys/, for sensors and swap (default: /)",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 1e9:
        raise ValueError
    return seconds
