"""`python -m testbed.fleet_simulator`: many devices, to size a broker and a collector."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

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
from pansketch_fleet.settings.sources import (
    Mqtt,
)
from testbed.fleet_simulator import arithmetic, report, usage
from testbed.fleet_simulator.delivery import GaveUp, Pace, into_database, through_broker
from testbed.fleet_simulator.kills import Kills
from testbed.fleet_simulator.outbox import FleetOutbox
from testbed.fleet_simulator.releases import Load, SimulatedFleet
from testbed.fleet_simulator.server import CannotStart, Server, own_server

CONFIG = Path(__file__).with_name("fleet.yaml")
PORTS = {"mqtt": 1883, "mqtts": 8883}
MAX_DEVICES, MAX_IN_FLIGHT = 10_000_000, 30_000
SHOW_SECONDS = 0.2


class WrongInput(Exception):
    """Invalid options; the text names the reason."""


def main(argv: Sequence[str]) -> int:
    """Exit code 0: every release is acknowledged; 1: not, or interrupted; 2: wrong input."""
    options = _parser().parse_args(argv)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m testbed.fleet_simulator",
        description="Publishes the births and releases of a fleet, with the noise and the labels "
        "of real ones, until a collector has acknowledged each. Without --url and --database it "
        "starts a mosquitto and a collector of its own, and a PostgreSQL for --workers. A "
        "collector counts simulated releases "
        "like all others, so use a fleet and a database of their own.",
    )
    add, whole = parser.add_argument, _number(int, 1)
    add("--devices", type=_number(int, 1, MAX_DEVICES), default=1000, help="(1000)")
    add("--windows", type=whole, default=24, help="of each device and stream (24)")
    text = "configuration of fleet and streams (testbed/fleet_simulator/fleet.yaml)"
    add("--config", type=Path, default=CONFIG, metavar="FILE", help=text)
    add("--stream", action="append", metavar="NAME", help="of the configuration (all of them)")
    add("--readings", type=whole, default=60, help="of each window (60)")
    where = parser.add_mutually_exclusive_group()
    text = "broker of a collector that serves the same configuration"
    where.add_argument("--url", metavar="mqtt://HOST:PORT", help=text)
    text = "store straight into this database, by the collector's own ingest"
    where.add_argument("--database", type=Path, metavar="FILE", help=text)
    text = "messages a second (as fast as releases are acknowledged)"
    add("--rate", type=_number(float, 0.001), help=text)
    text = "the most releases without an acknowledgement (1000)"
    add("--in-flight", type=_number(int, 1, MAX_IN_FLIGHT), default=1000, help=text)
    share = _number(float, 0.0, 1.0)
    add("--outages", type=share, default=0.0, help="share of releases a window late (0)")
    text = "share of releases published again after their acknowledgement (0)"
    add("--duplicates", type=share, default=0.0, help=text)
    text = "health messages of each device and window; agents send one a minute (0)"
    add("--health", type=_number(int, 0), default=0, help=text)
    text = "publish again what is not acknowledged after so long, as agents do (300)"
    add("--resend-after", type=_number(float, 0.1), default=300.0, metavar="SECONDS", help=text)
    text = "end when the collector is silent for so long (900)"
    add("--give-up", type=_number(float, 0.1), default=900.0, metavar="SECONDS", help=text)
    text = "a PostgreSQL of its own, and so many processes that ingest beside the collector"
    where.add_argument("--workers", type=_number(int, 0), metavar="N", help=text)
    text = "kill broker, collector, workers or PostgreSQL so often, and start it again (0)"
    add("--kills", type=_number(int, 0), default=0, help=text)
    text = "of the devices' names (simulated); a second run on one database needs another"
    add("--prefix", default="simulated", help=text)
    add("--seed", type=int, default=1, help="of readings and outages, not of noise (1)")
    text = "a process of this machine whose CPU time is reported"
    add("--pid", type=whole, action="append", default=[], metavar="PID", help=text)
    add("--out", type=Path, metavar="FOLDER", help="keeps database and logs (nowhere)")
    text = "only print what such a fleet publishes, by its configuration"
    add("--arithmetic", action="store_true", help=text)
    add("--json", action="store_true", help="report as JSON")
    return parser


def _number(
    kind: type[int] | type[float], low: float, high: float = float("inf")
) -> Callable[[str], float]:
    def read(text: str) -> float:
        number = kind(text)
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{text} is not from {low:g} to {high:g}")
        return number

    read.__name__ = "whole number" if kind is int else "number"
    return read


def _run(options: argparse.Namespace) -> report.Run:
    if not is_id(f"{options.prefix}-{options.devices}"):
        raise WrongInput(f"--prefix {options.prefix[:64]!r} is no id; use a-z, 0-9 and -")
    if options.kills and (options.url is not None or options.database is not None):
        raise WrongInput(
            "--kills needs a broker and a collector of its own: no --url, no --database"
        )
    config = load_collector(options.config, {"BROKER": "localhost:1883", **os.environ})
    _streams(config, options.stream)
    processes = {f"{usage.name_of(pid)} {pid}": pid for pid in options.pid}
    if options.database is not None:
        return _measured(options, config, None, processes, options.database.resolve())
    if options.url is not None:
        return _measured(options, config, _mqtt(config.mqtt, options.url), processes, None)
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


def _mqtt(given: Mqtt, text: str) -> Mqtt:
    """The broker at this address, with the user and the files that the configuration names."""
    try:
        url = urlsplit(text)
        if url.scheme not in PORTS or not url.hostname or url.path.strip("/") or url.username:
            raise ValueError
        port = url.port or PORTS[url.scheme]
    except ValueError:
        raise WrongInput(f"--url {text[:80]!r}: write mqtt://host:1883 or mqtts://host") from None
    return replace(given, host=url.hostname, port=port, tls=url.scheme == "mqtts")


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
        fleet.messages(),
        options.in_flight,
        options.resend_after,
        lambda: bool(chance.random() < options.duplicates),
    )
    kills = None
    if server is not None and options.kills:
        kills = Kills(
            server, options.kills, fleet.releases, outbox.acknowledged_count, options.seed
        )
    watched = {"simulator": os.getpid(), **processes}
    before, started, problem = _used(watched), time.monotonic(), ""
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
        except GaveUp as error:
            problem = str(error)
        except KeyboardInterrupt:
            problem = "interrupted"
    seconds = time.monotonic() - started
    spent = {
        name: usage.Usage(now.cpu_seconds - before[name].cpu_seconds, now.peak_mib)
        for name, now in _used(watched).items()
    }
    result = verified(config, config.collector.database) if kills else None
    size = _size(database) if database is not None else 0
    names = tuple(stream.name for stream in streams)
    return report.Run(
        load, names, seconds, outbox, fleet.offline, spent, size, problem, kills, result
    )


def _streams(config: Config, names: Sequence[str] | None) -> list[Stream]:
    known = {stream.name: stream for stream in config.streams}
    for name in names or known:
        if name not in known:
            raise WrongInput(f"--stream {name[:64]!r}: there is {', '.join(known)}")
        if known[name].blinded is not None:
            raise WrongInput(f"stream {name} is blinded, and needs real keepers; leave it out")
    return [known[name] for name in names or known]


def _used(processes: Mapping[str, int]) -> dict[str, usage.Usage]:
    """Of those that run."""
    found = {}
    for name, pid in processes.items():
        with suppress(OSError):
            of = usage.family_usage if name == "postgresql" else usage.usage
            found[name] = of(pid)
    return found


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
