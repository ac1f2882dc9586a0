"""pansketch-keeper: holds one key of a blinded fleet, and adds the noise to its answers."""

import argparse
import gc
import json
import logging
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pansketch import os_entropy
from pansketch.blinding import BlindingUnavailable, keeper_id
from pansketch_agent.host import check_result, hardening
from pansketch_agent.host.check_result import CheckResult
from pansketch_agent.host.clock import system_clock
from pansketch_fleet.errors import WRONG_INPUT, ConfigError
from pansketch_fleet.logs import set_up_log
from pansketch_fleet.mqtt import tls
from pansketch_fleet.protocol.topics import ID_RULE, is_id
from pansketch_fleet.systemd import Notifier, SignalEvent
from pansketch_fleet.text_table import aligned, show
from pansketch_keeper import settings, state
from pansketch_keeper.answering import Answerer
from pansketch_keeper.command_line import DONE, FAILED, parser
from pansketch_keeper.ledger import (
    LEDGER,
    AnsweredLevel,
    KeeperLedger,
    StateError,
)
from pansketch_keeper.mqtt_client import KeeperClient
from pansketch_keeper.settings import KeeperConfig

TURN_SECONDS = 1.0
KEY_ID = re.compile(r"[0-9a-fA-F]{16}")
ROOT = Path("/")

log = logging.getLogger("keeper")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    if argv is None:
        gc.freeze()  # Modules stay: no collection visits them, also at exit.
    try:
        options = parser().parse_args(argv)
    except SystemExit as leaving:
        return int(leaving.code or DONE)
    hardening.tune_allocator()
    set_up_log("pansketch-keeper", options, os.environ)
    try:
        return _execute(options)
    except ConfigError as error:
        return _fail(str(error), WRONG_INPUT)
    except tls.TlsFilesError as error:
        return _fail(str(error), WRONG_INPUT)
    except state.WrongPlaceError as error:
        return _fail(str(error), WRONG_INPUT)
    except (StateError, BlindingUnavailable, OSError) as error:
        return _fail(str(error), FAILED)


def _execute(options: argparse.Namespace) -> int:
    if options.command == "init":
        return _init(options)
    config = settings.load(options.config, os.environ)
    match options.command:
        case "run":
            return _run(config)
        case "ledger":
            return _ledger(config, options.json)
        case "rotate":
            return _rotate(config, options.erase)
        case "check":
            return _check(config, options.json)
        case _:
            return _print(_public(config))


def _init(options: argparse.Namespace) -> int:
    _harden()
    for name in (options.fleet, options.name):
        if not is_id(name):
            return _fail(f"{name[:40]!r} is no id; write {ID_RULE}", WRONG_INPUT)
    # A JSON text is also a YAML text, with any characters.
    url, folder = json.dumps(options.url), json.dumps(options.state)
    text = settings.EXAMPLE.format(fleet=options.fleet, name=options.name, url=url, state=folder)
    try:
        with open(options.config, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return _fail(f"{options.config}: is there already; name another file", WRONG_INPUT)
    except OSError as error:
        problem = f"cannot be written ({error.strerror}); name a file in a folder of yours"
        return _fail(f"{options.config}: {problem}", WRONG_INPUT)
    try:
        config = settings.load(options.config, os.environ)
        state.create(config.state, os_entropy())
    except BaseException:
        options.config.unlink()
        raise
    return _print(_public(config))


def _run(config: KeeperConfig) -> int:
    stop = SignalEvent()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    hardening.warn_of(_harden())
    rng, clock, notifier = os_entropy(), system_clock(), Notifier(os.environ)
    with state.opened(config.state) as held:
        session = f"{rng.identifier():016x}"
        link = KeeperClient(config.mqtt, config.fleet, config.name, session, notifier)
        answerer = Answerer(config.fleet, held.keys, held.ledger)
        serving = f"keeper {config.name} of fleet {config.fleet}, {len(held.keys)} keys"
        log.info("%s, current key %s", serving, keeper_id(held.ledger.public_keys()[-1]).hex())
        link.start()
        notifier.ready()
        try:
            while not stop.is_set():
                question = link.take(TURN_SECONDS)
                if question is not None:
                    link.reply(question, answerer.reply(question.payload).encode())
                notifier.alive(clock.monotonic(), f"{serving}, {link.state}")
        finally:
            notifier.stopping()
            link.stop()
    log.info("stopped")
    return DONE


def _ledger(config: KeeperConfig, as_json: bool) -> int:
    state.check_own(config.state)
    with KeeperLedger.open(config.state / LEDGER, readonly=True) as ledger:
        found = ledger.summary()
    if as_json:
        return _print(json.dumps([_object(each) for each in found]))
    header = ("stream", "level", "share", "questions", "devices", "windows", "open")
    rows = [tuple(map(str, _object(each).values())) for each in found]
    return _print("\n".join(aligned(header, rows, header[3:])))


def _object(each: AnsweredLevel) -> dict[str, object]:
    return {**vars(each), "share": str(each.share)}


def _rotate(config: KeeperConfig, erase: str | None) -> int:
    _harden()
    with state.opened(config.state) as held:
        if erase is None:
            held.rotate(os_entropy())
        else:
            if KEY_ID.fullmatch(erase) is None:
                return _fail(f"{erase[:40]!r} is no id of a key; see export-public", WRONG_INPUT)
            held.erase(bytes.fromhex(erase))
    return _print(_public(config))


def _public(config: KeeperConfig) -> str:
    """The lines for `keepers:` of the fleet's configuration."""
    state.check_own(config.state)
    with KeeperLedger.open(config.state / LEDGER, readonly=True) as ledger:
        *previous, current = ledger.public_keys()
    ids = ", ".join(keeper_id(each).hex() for each in (*previous, current))
    earlier = f", previous: [{', '.join(each.hex() for each in previous)}]" if previous else ""
    return (
        f"keepers:\n  # ids, the current key last: {ids}\n"
        f"  {config.name}: {{key: {current.hex()}{earlier}}}"
    )


def _check(config: KeeperConfig, as_json: bool) -> int:
    found = _harden()
    try:
        with state.opened(config.state) as held:
            found.append(CheckResult("keys", "ok", f"{len(held.keys)}, each with its entry"))
            damage = held.ledger.damage()
        sound: check_result.State = "ok" if damage == "ok" else "wrong"
        found.append(CheckResult("ledger", sound, "sound" if damage == "ok" else damage))
    except StateError as error:
        found.append(CheckResult("state", "wrong", str(error)))
    try:
        if config.mqtt.tls:
            tls.context(config.mqtt)
        found.append(CheckResult("tls", "ok", "on" if config.mqtt.tls else "off"))
    except tls.TlsFilesError as error:
        found.append(CheckResult("tls", "wrong", str(error)))
    rows = [tuple(row) for row in check_result.as_rows(found)]
    text = "\n".join(aligned(("subject", "state", "what"), rows, ()))
    _print(check_result.as_json(found) if as_json else text)
    return DONE if check_result.all_well(found) else FAILED


def _harden() -> list[CheckResult]:
    """Hardens the process, before any private key is in memory."""
    return [*hardening.forbid_dumps(), hardening.lock_memory(ROOT).finding(required=False)]


def _print(text: str) -> int:
    show(text)
    return DONE


def _fail(line: str, code: int) -> int:
    print(f"pansketch-keeper: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
