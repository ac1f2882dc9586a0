"""pansketch-agent: turns a device's readings into private releases for its fleet's collector."""

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from agent import preflight, report, runtime
from agent.clock import system_clock
from agent.ledger import LedgerError
from agent.stream import explain
from fleet.config import Config, ConfigError, load
from pansketch import os_entropy

DONE, FAILED, WRONG_INPUT = 0, 1, 2
ONCE_DRAIN_SECONDS = 60.0

EPILOG = """\
exit codes: 0 done, 1 failed at run time, 2 wrong input.
The agent publishes noisy counters only; no reading leaves the device, its logs or its disk.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit code."""
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as leaving:
        return int(leaving.code or DONE)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="pansketch-agent: %(message)s", force=True
    )
    try:
        config = load(arguments.config, "agent", os.environ)
        if arguments.command != "print-config":
            preflight.check(config)
        return _execute(config, arguments)
    except ConfigError as error:
        return _say(str(error), WRONG_INPUT)
    except (LedgerError, OSError) as error:
        return _say(str(error), FAILED)
    except Exception as error:
        return _say(explain(error, "agent"), FAILED)


def _execute(config: Config, arguments: argparse.Namespace) -> int:
    if arguments.command == "validate":
        return _print(report.validation(config))
    if arguments.command == "print-config":
        return _print(report.settings_table(config))
    once = arguments.command == "once"
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    entropy = {stream.name: os_entropy() for stream in config.streams}
    session = f"{os_entropy().identifier():016x}"
    task = runtime.Task(once, arguments.drain, arguments.root)
    return runtime.run(config, task, system_clock(), entropy, session, stop)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "pansketch-agent",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = _command(commands, "run", "absorb readings and publish releases until stopped")
    once = _command(commands, "once", "publish one window of each stream, wait for its ack, exit")
    _command(commands, "validate", "check configuration and sources; show what each stream costs")
    _command(commands, "print-config", "show every setting in force and where it came from")
    _run_options(run, None, "for ever")
    _run_options(once, ONCE_DRAIN_SECONDS, f"{ONCE_DRAIN_SECONDS:g}")
    parser.error = _usage_error  # type: ignore[method-assign, assignment]
    return parser


def _usage_error(problem: str) -> NoReturn:
    """One line, like every other error."""
    print(f"pansketch-agent: {problem}; see pansketch-agent --help", file=sys.stderr)
    sys.exit(WRONG_INPUT)


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, what: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=what, description=f"{what.capitalize()}.")
    command.error = _usage_error  # type: ignore[method-assign, assignment]
    command.add_argument(
        "--config",
        type=Path,
        default=Path("config.yaml"),
        metavar="FILE",
        help="the fleet's configuration (default: config.yaml)",
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
        help="after the last release, wait this long for the collector's acknowledgements "
        f"(default: {default}); what is left stays in the outbox",
    )
    command.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="FOLDER",
        help="where the system source finds proc/ and sys/ (default: /)",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 1e9:
        raise ValueError
    return seconds


def _print(text: str) -> int:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


def _say(line: str, code: int) -> int:
    print(f"pansketch-agent: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
