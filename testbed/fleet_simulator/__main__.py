"""`python -m testbed.fleet_simulator`: many devices, to size a broker and a collector."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pansketch import os_entropy
from pansketch_collector.commands.verification import verified
from pansketch_collector.errors import CommandError
from pansketch_fleet.child_process import end_in_order
from pansketch_fleet.config.loader import Config, ConfigError, Stream, load_collector
from pansketch_fleet.mqtt.tls import TlsFilesError
from pansketch_fleet.protocol.topics import is_id
from pansketch_fleet.settings.sources import Mqtt
from testbed.fleet_simulator import arithmetic, report, usage
from testbed.fleet_simulator.delivery import (
    GaveUp,
    Pace,
    drain_backlog,
    into_database,
    through_broker,
)
from testbed.fleet_simulator.kills import Kills
from testbed.fleet_simulator.options import WrongInput, broker_at, parser
from testbed.fleet_simulator.outbox import FleetOutbox
from testbed.fleet_simulator.releases import Load, SimulatedFleet
from testbed.fleet_simulator.server import CannotStart, Server, own_server

SHOW_SECONDS = 0.2


def main(argv: Sequence[str]) -> int:
    """Exit code 0: every release is acknowledged; 1: not, or interrupted; 2: wrong input."""
    options = parser().parse_args(argv)
    end_in_order()
    try:
        if options.arithmetic:
            print(_arithmetic(options))
            return 0
        run = _run(options)
    except (WrongInput, ConfigError, CannotStart, CommandError, TlsFilesError, OSError) as error:
        print(f"fleet_simulator: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fleet_simulator: interrupted before its start", file=sys.stderr)
        return 1
    print(json.dumps(run.figures(), indent=1) if options.json else report.text(run))
    return int(not run.good)


def _run(options: argparse.Namespace) -> report.Run:
    if not is_id(f"{options.prefix}-{options.devices}"):
        raise WrongInput(f"--prefix {options.prefix[:64]!r} is no id; use a-z, 0-9 and -")
    for name in ("kills", "backlog"):
        if getattr(options, name) and (options.url is not None or options.database is not None):
            text = "needs a broker and a collector of its own: no --url, no --database"
            raise WrongInput(f"--{name} {text}")
    if options.backlog and (options.kills or options.duplicates or options.rate):
        raise WrongInput("--backlog goes without --kills, --duplicates and --rate")
    if options.backlog and options.windows < 2:
        raise WrongInput("--backlog needs --windows 2 or more: the first one is stored before it")
    config = load_collector(options.config, {"BROKER": "localhost:1883", **os.environ})
    _streams(config, options.stream)
    processes = {f"{usage.name_of(pid)} {pid}": pid for pid in options.pid}
    if options.database is not None:
        return _measured(options, config, None, processes, options.database.resolve())
    if options.url is not None:
        return _measured(options, config, broker_at(config.mqtt, options.url), processes, None)
    with (
        _folder(options.out) as folder,
        own_server(folder, options.config.resolve(), options.workers) as server,
    ):
        processes |= server.processes
        place = server.config.collector.database
        file = place if isinstance(place, Path) else None
        return _measured(options, server.config, server.config.mqtt, processes, file, server)


def _arithmetic(options: argparse.Namespace) -> str:
    config = load_collector(options.config, {"BROKER": "localhost:1883", **os.environ})
    given = config, _streams(config, options.stream), _load(options), os_entropy()
    if options.json:
        return json.dumps(arithmetic.loads(*given), indent=1)
    return arithmetic.text(*given)


def _load(options: argparse.Namespace) -> Load:
    return Load(
        options.devices,
        options.windows,
        options.readings,
        options.outages,
        options.health,
        options.prefix,
        options.seed,
    )


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory(prefix="pansketch-simulator-") as folder:
            yield Path(folder)
        return
    if out.exists() and any(out.iterdir()):
        raise WrongInput(f"{out} is not empty; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    yield out.resolve()


def _measured(
    options: argparse.Namespace,
    config: Config,
    mqtt: Mqtt | None,
    processes: Mapping[str, int],
    database: Path | None,
    server: Server | None = None,
) -> report.Run:
    """Runs it and measures. An interruption ends the run, not the report."""
    load = _load(options)
    streams = _streams(config, options.stream)
    fleet = SimulatedFleet(config, streams, load, os_entropy())
    chance = np.random.default_rng(options.seed + 1)
    outbox = FleetOutbox(
        fleet.messages(last=1 if options.backlog else None),
        options.in_flight,
        options.resend_after,
        lambda: bool(chance.random() < options.duplicates),
    )
    kills, before, problem = None, None, ""
    if server is not None and options.kills:
        kills = Kills(
            server, options.kills, fleet.releases, outbox.acknowledged_count, options.seed
        )
    meter = usage.Meter({"simulator": os.getpid(), **processes})
    with (
        _progress(fleet.releases, outbox, kills) as show,
        kills.during() if kills else nullcontext(),
    ):
        try:
            if mqtt is None:
                assert database is not None
                into_database(database, config, outbox, show)
            else:
                pace = Pace(options.rate, options.give_up)
                through_broker(mqtt, config, outbox, pace, show)
            if options.backlog:
                assert mqtt is not None
                assert server is not None
                before = outbox.counts.releases
                outbox = FleetOutbox(fleet.messages(2), fleet.releases + 1, options.resend_after)
                paused = server.ingest_paused()
                drain_backlog(mqtt, config, outbox, paused, meter, options.give_up)
        except GaveUp as error:
            problem = str(error)
        except KeyboardInterrupt:
            problem = "interrupted"
    meter.stop()
    is_checked = kills is not None or before is not None
    return report.Run(
        load,
        tuple(stream.name for stream in streams),
        meter.seconds,
        outbox,
        fleet.offline,
        meter.spent,
        _size(database) if database is not None else 0,
        problem,
        kills,
        verified(config, config.collector.database) if is_checked else None,
        before,
        meter.other_cores,
    )


def _streams(config: Config, names: Sequence[str] | None) -> list[Stream]:
    known = {stream.name: stream for stream in config.streams}
    for name in names or known:
        if name not in known:
            raise WrongInput(f"--stream {name[:64]!r}: there is {', '.join(known)}")
        if known[name].blinded is not None:
            raise WrongInput(f"stream {name} is blinded, and needs real keepers; leave it out")
    return [known[name] for name in names or known]


def _size(database: Path) -> int:
    return sum(file.stat().st_size for file in database.parent.glob(f"{database.name}*"))


@contextmanager
def _progress(
    total: int, outbox: FleetOutbox, kills: Kills | None
) -> Iterator[Callable[[], object]]:
    """A bar on a terminal; yields what is called at each turn."""
    console, shown_at = Console(stderr=True), [0.0]
    columns = (TextColumn("releases acknowledged"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as shown:
        task = shown.add_task("", total=total)

        def show() -> None:
            if kills is not None:
                kills.keep_pace()
                if kills.problem:
                    raise GaveUp(kills.problem)
            if time.monotonic() - shown_at[0] >= SHOW_SECONDS:
                shown_at[0] = time.monotonic()
                shown.update(task, completed=outbox.acknowledged_count())

        yield show


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
