"""`make demo`: a fleet of devices on this machine, from raw readings to synthetic records."""

import argparse
import json
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
from rich.console import Console

from demo import blinded, picture, tables
from demo.comparison import KeyComparison, Raw, compare, compare_keys
from demo.replay import STREAM, replay, stored
from pansketch.generators import fidelity
from pansketch_collector.errors import CommandError
from pansketch_collector.queries import fleet_model
from pansketch_collector.queries.distinct import count_keys
from pansketch_collector.reports.devices import table
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.child_process import end_in_order
from pansketch_fleet.config.loader import Config, ConfigError, load_collector
from pansketch_fleet.config.privacy_cost import all_costs
from pansketch_fleet.settings.settings import KeyStream
from testbed.embedded_broker import broker_process
from testbed.local_fleet import CONFIG, DemoFailed, LocalFleet, stations
from testbed.metrics import Distances, distances

MAX_SECONDS = 110.0
CSV_ROWS = 10_000
COMPARED_ROWS = 400_000
SHORT_STATIONS = 3


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: done; 1: a program of the fleet failed; 2: wrong input."""
    options = _parser().parse_args(argv)
    end_in_order()
    console = Console(stderr=False, highlight=False)
    try:
        _run(options, console)
    except (DemoFailed, CommandError, ConfigError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "demo",
        description="Twelve devices replay four years of hourly air quality, and a week of badges "
        "at their doors, through the real agent, a broker and the real collector, which makes "
        "synthetic records for the fleet and counts its keys.",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/demo"), metavar="FOLDER", help="(default: out/demo)"
    )
    parser.add_argument(
        "--short", action="store_true", help=f"{SHORT_STATIONS} devices instead of all"
    )
    parser.add_argument(
        "--blinded",
        action="store_true",
        help="afterwards the same devices with masked counters and two keepers, beside the first",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave broker and collector running until Ctrl-C"
    )
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="the collector answers over HTTP as well, and has a page; needs the extra dashboard",
    )
    return parser


def _run(options: argparse.Namespace, console: Console) -> None:
    started = time.monotonic()
    folder = _fresh(options.out)
    devices = stations()[: SHORT_STATIONS if options.short else None]
    with (
        broker_process() as (port, _),
        LocalFleet(address := f"127.0.0.1:{port}", folder, options.http) as fleet,
    ):
        config = load_collector(CONFIG, fleet.environment(devices[0]))
        console.print(f"broker on {address}; {len(devices)} devices and a collector start")
        fleet.start_collector(started + MAX_SECONDS)
        raw = replay(fleet, config, devices, started + MAX_SECONDS, console)
        found = {"local": _report(fleet, config, folder, raw, console)}
        if options.blinded:
            console.print("the same devices with masked counters, and two keepers")
            deadline = time.monotonic() + blinded.MAX_SECONDS
            place = folder / "blinded"
            found |= blinded.measure(address, place, devices, COMPARED_ROWS, deadline, console)
            console.print(blinded.table(found))
        _write_report(folder, found)
        console.print(f"done in {time.monotonic() - started:.0f} s")
        if options.keep:
            _keep(console, address, folder)
            if options.http is None:
                console.print("`make dashboard` has a page in the browser as well.")
            else:
                console.print(f"The page: http://{options.http}/", soft_wrap=True)
            _wait()


def _fresh(out: Path) -> Path:
    """An empty folder for this run; nothing but an earlier run of the demo is removed."""
    folder = out.resolve()
    if folder.exists():
        if any(folder.iterdir()) and not (folder / "log").is_dir():
            raise DemoFailed(f"{folder} holds something else than a demo; choose another --out")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def _report(
    fleet: LocalFleet, config: Config, folder: Path, raw: list[Raw], console: Console
) -> Distances:
    csv_file, png_file = folder / "synthetic.csv", folder / "fleet.png"
    fleet.collector_command(
        "sample", "--stream", STREAM, "--rows", str(CSV_ROWS), "--out", str(csv_file)
    )
    with reading(config.collector.database) as store:
        console.print(f"{stored(config)} releases stored")
        console.print(table(store, config), soft_wrap=True)
        found = fleet_model.build(store, config, Selection(STREAM))
    console.print(f"{STREAM}: {found.guarantee}", soft_wrap=True)
    keys = _keys(config, raw, console)
    truth = np.concatenate([device.readings for device in raw])
    model = found.fitted
    sample = model.sampler().sample(COMPARED_ROWS, np.random.default_rng())
    comparisons = compare(model, sample, truth)
    measured = distances(model.domain, truth, sample)
    predicted = fidelity(found.releases, len(sample))
    console.print(
        tables.fidelity(comparisons, measured, predicted, model.readings.value, len(truth))
    )
    console.print(tables.keys(keys))
    caption = f"{STREAM}: {found.windows} releases of {found.devices} devices\n" + str(
        found.guarantee
    ).replace(", intrusion", ",\nintrusion")
    picture.draw(png_file, comparisons, truth, sample, keys, caption)
    console.print(f"synthetic records: {csv_file}\npicture: {png_file}", soft_wrap=True)
    return measured


def _write_report(folder: Path, found: Mapping[str, Distances]) -> None:
    """The distances of the records of each way of aggregation, for programs."""
    figures = {
        way: {
            "pair_tv": float(measured.pairs.mean()),
            "w1": float(measured.marginals.mean()),
            "correlation": measured.correlation,
        }
        for way, measured in found.items()
    }
    report = json.dumps({STREAM: figures}, indent=2)
    (folder / "report.json").write_text(f"{report}\n", encoding="utf-8")


def _keys(config: Config, raw: list[Raw], console: Console) -> list[KeyComparison]:
    """The streams of keys beside the truth, each with its guarantee."""
    found = []
    for stream in config.streams:
        if isinstance(stream, KeyStream):
            with reading(config.collector.database) as store:
                counted = count_keys(store, config, Selection(stream.name), "window", None)
            console.print(f"{stream.name}: {counted.guarantee}", soft_wrap=True)
            for of, says in all_costs(stream, config.streams):
                if of.startswith("at "):
                    console.print(f"{stream.name}, {of}: {says}", soft_wrap=True)
            found.append(compare_keys(stream, counted, raw))
    return found


def _keep(console: Console, address: str, folder: Path) -> None:
    console.print(
        "\nbroker and collector keep running; in another terminal, from the repository:\n"
        f"  export BROKER={address} VAR={folder / 'var'} PATH=$PWD/.venv/bin:$PATH\n"
        "  pansketch-collector devices\n"
        f"  pansketch-collector query --stream {STREAM} quantile temp 0.5\n"
        f"  pansketch-collector query --stream {STREAM} range temp 0 10 pm25 0 50\n"
        "  pansketch-collector query --stream doors distinct\n"
        "  pansketch-collector query --stream lockers distinct --by device --from 2017-02-25\n"
        f"  pansketch-collector sample --stream {STREAM} --rows 5 --report --out -\n"
        "  DEVICE=dongsi pansketch-agent validate\n"
        "Ctrl-C ends it.",
        soft_wrap=True,
    )


def _wait() -> None:
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
