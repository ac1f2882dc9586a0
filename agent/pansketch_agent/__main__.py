"""pansketch-agent: turns a device's readings into private releases for its fleet's collector."""

import argparse
import gc
import logging
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pansketch import os_entropy
from pansketch_agent.commands import list_outbox, list_sensors, show_ledger, starter_file
from pansketch_agent.commands.command_line import DONE, FAILED, parser
from pansketch_agent.control import requests
from pansketch_agent.diagnostics import check, validate_report
from pansketch_agent.host import check_result, hardening
from pansketch_agent.host.clock import system_clock
from pansketch_agent.host.hardening import ExposedMemoryError, MemoryProtection
from pansketch_agent.ledger.ledger import LedgerError
from pansketch_agent.ledger.state_folder import check_own
from pansketch_agent.outbox.dead_letters import dropped_in, refused_dropped_in, refused_in
from pansketch_agent.runtime import agent_loop
from pansketch_agent.runtime.control import Signals
from pansketch_agent.runtime.exit_status import RunOptions
from pansketch_agent.runtime.stream_worker import explain
from pansketch_fleet.config.loader import AgentConfig, ConfigError, load_agent
from pansketch_fleet.config.privacy_cost import weak_epsilon_warning
from pansketch_fleet.errors import WRONG_INPUT
from pansketch_fleet.logs import set_up_log
from pansketch_fleet.systemd import Notifier, on_reload
from pansketch_fleet.text_table import show


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command of `pansketch-agent`, and return its exit code."""
    if argv is None:
        gc.freeze()  # Modules stay: no collection visits them, also at exit.
    try:
        arguments = parser().parse_args(argv)
    except SystemExit as leaving:
        return int(leaving.code or DONE)
    hardening.tune_allocator()
    set_up_log("pansketch-agent", arguments, os.environ)
    try:
        if arguments.command == "sources":
            return _sources(arguments)
        if arguments.command == "init":
            return _init(arguments)
        config = _load(arguments)
        return _execute(config, arguments)
    except ConfigError as error:
        return _fail(str(error), WRONG_INPUT)
    except (LedgerError, OSError, ExposedMemoryError, requests.NoAnswerError) as error:
        return _fail(str(error), FAILED)
    except Exception as error:
        return _fail(explain(error, "agent"), FAILED)


def _load(arguments: argparse.Namespace) -> AgentConfig:
    config = load_agent(arguments.config, os.environ)
    if arguments.command in ("run", "once", "validate"):
        check.check_config(config)
    return config


def _execute(config: AgentConfig, arguments: argparse.Namespace) -> int:
    if arguments.command in ("ledger", "rerandomise", "outbox"):
        check_own(config.agent.state)
    match arguments.command:
        case "validate":
            return _print(validate_report.validation(config, hardening.lock_memory(arguments.root)))
        case "print-config":
            return _print(validate_report.settings_table(config))
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


def _init(arguments: argparse.Namespace) -> int:
    path, device = arguments.config, arguments.device or starter_file.own_name()
    given = arguments.fleet, device, arguments.url, arguments.state
    return _print(starter_file.write_starter(path, *given, os.environ))


def _page(arguments: argparse.Namespace) -> int:
    try:
        found = list_sensors.page(arguments.page)
    except ValueError as error:
        return _fail(f"--page {error}", WRONG_INPUT)
    rows = list_sensors.as_rows(found)
    return _print(list_sensors.as_json(found) if arguments.json else validate_report.aligned(rows))


def _sources(arguments: argparse.Namespace) -> int:
    if arguments.page is not None:
        return _page(arguments)
    found, senders = list_sensors.sensors(arguments.root), list_sensors.senders()
    if arguments.json:
        return _print(list_sensors.as_json([*found, *senders]))
    rows = [*list_sensors.as_rows(found), *list_sensors.as_rows(senders)]
    return _print(validate_report.aligned(rows))


def _check(config: AgentConfig, arguments: argparse.Namespace) -> int:
    found = check.check(config, arguments.root, system_clock())
    rows = check_result.as_rows(found)
    _print(check_result.as_json(found) if arguments.json else validate_report.aligned(rows))
    return DONE if check_result.all_well(found) else FAILED


def _ledger(config: AgentConfig, arguments: argparse.Namespace) -> int:
    path, accounts, found = show_ledger.spending(config, system_clock().now())
    if arguments.json:
        return _print(show_ledger.as_json(path, accounts, found))
    table = validate_report.aligned(show_ledger.as_rows(found))
    return _print(f"{table}\n\n{show_ledger.as_notes(path, accounts, found)}")


def _outbox(config: AgentConfig, arguments: argparse.Namespace) -> int:
    state, clock = config.agent.state, system_clock()
    if arguments.action == "export":
        return _export(config, state / "outbox", arguments.file)
    if arguments.file is not None:
        return _fail(f"outbox {arguments.action} takes no file; leave it out", WRONG_INPUT)
    folder = state / "outbox"
    if arguments.action == "retry":
        answer = requests.ask_outbox(state, clock, requests.REFUSED if arguments.refused else b"")
        refused = len(refused_in(folder)) if arguments.refused else None
        return _print(requests.retry_text(answer, refused))
    if arguments.refused:
        return _fail("--refused is for outbox retry; leave it out", WRONG_INPUT)
    answer = requests.ask_outbox(state, clock)
    rows = list_outbox.as_rows(folder, clock.now(), answer)
    counts = dropped_in(folder), len(refused_in(folder)), refused_dropped_in(folder)
    notes = requests.notes(answer, *counts)
    return _print("\n".join((validate_report.aligned(rows), *notes)))


def _export(config: AgentConfig, folder: Path, file: Path | None) -> int:
    lines = list_outbox.as_jsonl(config.fleet, config.agent.device, folder)
    if file is None:
        for line in lines:
            _print(line)
        return DONE
    count = list_outbox.write(lines, file)
    return _print(f"{file}: {count} release{'s' * (count != 1)}")


def _rerandomise(config: AgentConfig) -> int:
    requests.announce_intrusion(config.agent.state, system_clock())
    return _print(f"the running agent has answered: {requests.intrusion_effect(config.streams)}")


def _run(config: AgentConfig, arguments: argparse.Namespace) -> int:
    signals = Signals()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: signals.stop.set())
    signal.signal(signal.SIGUSR1, lambda *_: signals.intrusion.set())
    signal.signal(signal.SIGUSR2, lambda *_: signals.outbox_request.set())
    on_reload(signals.reload.set)
    # A reading might cause a warning, and a warning would be a line in the log.
    warnings.simplefilter("ignore")
    for stream in config.streams:
        if warning := weak_epsilon_warning(stream, config.streams):
            logging.getLogger(__name__).warning("%s: %s", stream.name, warning)
    protection = _harden(config, arguments.root)
    entropy = {stream.name: os_entropy() for stream in config.streams}
    session = f"{os_entropy().identifier():016x}"
    once, load = arguments.command == "once", partial(_load, arguments)
    options = RunOptions(once, arguments.drain, arguments.root, load)
    notifier = Notifier(os.environ)
    clock = system_clock()
    return agent_loop.run(config, options, clock, entropy, session, signals, notifier, protection)


def _harden(config: AgentConfig, root: Path) -> MemoryProtection:
    """Protect the memory of this process before any sketch exists, and log once what the system
    refuses.

    Raises ExposedMemoryError.
    """
    required = config.agent.require_locked_memory
    locked = hardening.lock_memory(root)
    if required:
        locked.demand()
    hardening.warn_of([*hardening.forbid_dumps(), locked.finding(required)])
    return locked


def _print(text: str) -> int:
    show(text)
    return DONE


def _fail(line: str, code: int) -> int:
    print(f"pansketch-agent: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
