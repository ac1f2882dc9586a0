"""`pansketch-demo`: a fleet of devices on this machine, from raw readings to synthetic records."""

import argparse
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from agent.window import schedule_for
from collector import model as fleet_model
from collector.devices import as_table, overview
from collector.failure import CommandError
from collector.reader import Selection, reading
from demo import picture, tables
from demo.broker import EmbeddedBroker
from demo.fidelity import FloatArray, compare, read_station
from demo.fleet import CONFIG, POLL_SECONDS, STATIONS, DemoFailed, LocalFleet, stations
from fleet.config import Config, ConfigError, load

STREAM = "air"
LONGEST_SECONDS = 110.0
CSV_ROWS = 10_000
COMPARED_ROWS = 400_000
SHORT_STATIONS = 3


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: done; 1: a program of the fleet failed; 2: wrong input."""
    options = _parser().parse_args(argv)
    console = Console(stderr=False, highlight=False)
    try:
        _run(options, console)
    except (DemoFailed, CommandError, ConfigError, OSError) as error:
        print(f"pansketch-demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("pansketch-demo: interrupted", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "pansketch-demo",
        description="Twelve devices replay four years of hourly air quality through the real "
        "agent, a broker and the real collector, which makes synthetic records for the fleet.",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/demo"), metavar="FOLDER", help="(default: out/demo)"
    )
    parser.add_argument(
        "--short", action="store_true", help=f"{SHORT_STATIONS} devices instead of all"
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave broker and collector running until Ctrl-C"
    )
    return parser


def _run(options: argparse.Namespace, console: Console) -> None:
    started = time.monotonic()
    folder = _fresh(options.out)
    devices = stations()[: SHORT_STATIONS if options.short else None]
    with EmbeddedBroker() as broker:
        address = broker.url.removeprefix("mqtt://")
        with LocalFleet(address, folder) as fleet:
            config = load(CONFIG, "collector", fleet.environment(devices[0]))
            console.print(f"broker on {address}; {len(devices)} devices and a collector start")
            fleet.start_collector(started + LONGEST_SECONDS)
            truth = _replay(fleet, config, devices, started + LONGEST_SECONDS, console)
            _report(fleet, config, folder, truth, console)
            console.print(f"done in {time.monotonic() - started:.0f} s")
            if options.keep:
                _keep(console, address, folder)


def _fresh(out: Path) -> Path:
    """An empty folder for this run; nothing but an earlier run of the demo is removed."""
    folder = out.resolve()
    if folder.exists():
        if any(folder.iterdir()) and not (folder / "log").is_dir():
            raise DemoFailed(f"{folder} holds something else than a demo; choose another --out")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def _replay(
    fleet: LocalFleet, config: Config, devices: list[str], deadline: float, console: Console
) -> FloatArray:
    """Runs all agents to their end; returns the raw readings, which only this demo holds."""
    for device in devices:
        fleet.start_agent(device)
    names = config.streams[0].spec.domain.names
    columns = (
        TextColumn("releases stored"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with (
        ThreadPoolExecutor(1) as beside,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        files = [beside.submit(read_station, STATIONS / f"{d}.csv.gz", names) for d in devices]
        task = progress.add_task("", total=None)
        while not fleet.finished(devices):
            if time.monotonic() > deadline:
                raise DemoFailed(f"not finished after {LONGEST_SECONDS:.0f} s; see the logs")
            progress.update(
                task, completed=_stored(config), total=_expected(config, devices, files)
            )
            time.sleep(POLL_SECONDS)
        truth = [file.result() for file in files]
        progress.update(task, completed=_stored(config), total=_expected(config, devices, files))
    return np.concatenate([readings for _, readings in truth])


def _expected(
    config: Config, devices: list[str], files: list[Future[tuple[list[str], FloatArray]]]
) -> int | None:
    """How many releases there will be, once all files are read."""
    if not all(file.done() for file in files):
        return None
    pairs = zip(devices, files, strict=True)
    return sum(_windows(config, device, file.result()[0]) for device, file in pairs)


def _windows(config: Config, device: str, times: list[str]) -> int:
    """How many windows a replay of these times releases: all from the first to the last."""
    schedule = schedule_for(device, config.streams[0].window_seconds)
    first, last = (
        np.datetime64(t.removesuffix("Z"), "s").astype(int) for t in (times[0], times[-1])
    )
    return schedule.index(float(last)) - schedule.index(float(first)) + 1


def _stored(config: Config) -> int:
    with reading(config.collector.database) as store:
        return sum(holding.windows for holding in store.holdings())


def _report(
    fleet: LocalFleet, config: Config, folder: Path, truth: FloatArray, console: Console
) -> None:
    csv_file, png_file = folder / "synthetic.csv", folder / "fleet.png"
    fleet.collector_command(
        "sample", "--stream", STREAM, "--rows", str(CSV_ROWS), "--out", str(csv_file)
    )
    with reading(config.collector.database) as store:
        console.print(as_table(overview(store)), soft_wrap=True)
        found = fleet_model.build(store, config, Selection(STREAM))
    sample = found.partition.sample(COMPARED_ROWS, np.random.default_rng())
    comparisons = compare(found.partition, sample, truth)
    console.print(f"guarantee: {found.guarantee}", soft_wrap=True)
    console.print(tables.fidelity(comparisons, found.partition.total, len(truth)))
    caption = f"{len(found.windows)} releases of {len(found.devices)} devices\n" + str(
        found.guarantee
    ).replace(", intrusion", ",\nintrusion")
    picture.draw(png_file, comparisons, truth, sample, caption)
    console.print(f"synthetic records: {csv_file}\npicture: {png_file}", soft_wrap=True)


def _keep(console: Console, address: str, folder: Path) -> None:
    console.print(
        "\nbroker and collector keep running; in another terminal, from the repository:\n"
        f"  export BROKER={address} VAR={folder / 'var'} PATH=$PWD/.venv/bin:$PATH\n"
        "  pansketch-collector devices\n"
        f"  pansketch-collector query --stream {STREAM} quantile temp 0.5\n"
        f"  pansketch-collector query --stream {STREAM} range temp 0 10 pm25 0 50\n"
        f"  pansketch-collector sample --stream {STREAM} --rows 5 --out -\n"
        "  DEVICE=dongsi pansketch-agent validate\n"
        "Ctrl-C ends it."
    )
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    stop.wait()


if __name__ == "__main__":
    sys.exit(main())
