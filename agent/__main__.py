"""pansketch-agent: turns a device's readings into private releases for its fleet's collector."""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from agent import (
    asking,
    backlog,
    check,
    finding,
    hardening,
    intrusion,
    inventory,
    preflight,
    report,
    runtime,
    spending,
)
from agent.aside import dropped_in
from agent.clock import system_clock
from agent.ledger import LedgerError
from agent.stream import explain
from agent.task import Signals, Task
from fleet.config import Config, ConfigError, load
from fleet.errors import one_line
from fleet.notify import Notifier
from pansketch import os_entropy

DONE, FAILED, WRONG_INPUT = 0, 1, 2
ONCE_DRAIN_SECONDS = 60.0
MOST_USAGE = 1000  # characters of what argparse says, which quotes what was written

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
        if arguments.command == "sources":
            return _sources(arguments)
        config = load(arguments.config, "agent", os.environ)
        if arguments.command in ("run", "once", "validate"):
            preflight.check(config)
        return _execute(config, arguments)
    except ConfigError as error:
        return _say(str(error), WRONG_INPUT)
    except (LedgerError, OSError, intrusion.NotAnnouncedError, asking.NoAnswerError) as error:
        return _say(str(error), FAILED)
    except Exception as error:
        return _say(explain(error, "agent"), FAILED)


def _execute(config: Config, arguments: argparse.Namespace) -> int:
    match arguments.command:
        case "validate":
            return _print(report.validation(config))
        case "print-config":
            return _print(report.settings_table(config))
        case "check":
            return _check(config, arguments)
        case "ledger":
            return _ledger(config, arguments)
        case "rerandomise":
            return _rerandomise(config)
        case "outbox":
            return _outbox(config, arguments)
        case _:
            return _run(config, arguments)


def _sources(arguments: argparse.Namespace) -> int:
    found = inventory.sensors(arguments.root)
    rows = inventory.as_rows(found)
    return _print(inventory.as_json(found) if arguments.json else report.aligned(rows))


def _check(config: Config, arguments: argparse.Namespace) -> int:
    found = check.check(config, arguments.root, system_clock())
    rows = finding.as_rows(found)
    _print(finding.as_json(found) if arguments.json else report.aligned(rows))
    return DONE if finding.all_well(found) else FAILED


def _ledger(config: Config, arguments: argparse.Namespace) -> int:
    path, book, found = spending.spending(config, system_clock().now())
    if arguments.json:
        return _print(spending.as_json(path, book, found))
    table = report.aligned(spending.as_rows(found))
    return _print(f"{table}\n\n{spending.as_notes(path, book)}")


def _outbox(config: Config, arguments: argparse.Namespace) -> int:
    assert config.agent is not None
    state, clock = config.agent.state, system_clock()
    if arguments.action == "export":
        return _export(config, state / "outbox", arguments.file)
    if arguments.file is not None:
        return _say(f"outbox {arguments.action} takes no file; leave it out", WRONG_INPUT)
    answer = asking.ask(state, clock, retry=arguments.action == "retry")
    if arguments.action == "retry":
        return _print(asking.told_to_retry(answer))
    rows = backlog.as_rows(state / "outbox", clock.now(), answer)
    notes = asking.notes(answer, dropped_in(state / "outbox"))
    return _print("\n".join((report.aligned(rows), *notes)))


def _export(config: Config, folder: Path, file: Path | None) -> int:
    assert config.agent is not None
    lines = backlog.as_jsonl(config.fleet, config.agent.device, folder)
    if file is None:
        for line in lines:
            _print(line)
        return DONE
    count = backlog.write(lines, file)
    return _print(f"{file}: {count} release{'s' * (count != 1)}")


def _rerandomise(config: Config) -> int:
    assert config.agent is not None
    intrusion.announce(config.agent.state, system_clock())
    return _print(f"the running agent has answered: {intrusion.told(config.streams)}")


def _run(config: Config, arguments: argparse.Namespace) -> int:
    signals = Signals()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: signals.stop.set())
    signal.signal(signal.SIGUSR1, lambda *_: signals.intruded.set())
    signal.signal(signal.SIGUSR2, lambda *_: signals.asked.set())
    _harden()
    entropy = {stream.name: os_entropy() for stream in config.streams}
    session = f"{os_entropy().identifier():016x}"
    task = Task(arguments.command == "once", arguments.drain, arguments.root)
    notifier = Notifier(os.environ)
    return runtime.run(config, task, system_clock(), entropy, session, signals, notifier)


def _harden() -> None:
    """Before any sketch exists; what the system refuses is said once."""
    refused = [found for found in hardening.apply() if found.state != "ok"]
    if refused:
        what = "; ".join(f"{found.subject}: {found.text}" for found in refused)
        logging.getLogger(__name__).warning("running without protection of %s", what)


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
    _command(commands, "rerandomise", "tell the running agent of an intrusion: fresh noise now")
    looked = _command(commands, "check", "check system, clock, disk, ledger, broker and sensors")
    told = _command(commands, "ledger", "show what readings, spans and days have cost so far")
    boxed = _command(commands, "outbox", "list, export or send again what waits for the collector")
    boxed.add_argument("action", choices=("list", "export", "retry"))
    boxed.add_argument("file", nargs="?", type=Path, help="for export; without it, to the screen")
    listed = _command(commands, "sources", "list this host's sensors, with the line to paste")
    for command in (looked, told, listed):
        command.add_argument("--json", action="store_true", help="for programs")
    _root_option(looked)
    _root_option(listed)
    _run_options(run, None, "for ever")
    _run_options(once, ONCE_DRAIN_SECONDS, f"{ONCE_DRAIN_SECONDS:g}")
    parser.error = _usage_error  # type: ignore[method-assign, assignment]
    return parser


def _usage_error(problem: str) -> NoReturn:
    """One line, like every other error."""
    problem = one_line(problem)[:MOST_USAGE]
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
    _root_option(command)


def _root_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="FOLDER",
        help="where sensors are found: the folder with proc/ and sys/ (default: /)",
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
