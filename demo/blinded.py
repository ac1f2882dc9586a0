"""The same devices with masked counters, and two keepers that add the noise to answers."""

import re
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from demo.comparison import Raw
from demo.replay import STREAM, replay
from pansketch_collector.errors import CommandError
from pansketch_collector.queries import fleet_model
from pansketch_collector.queries.fleet_model import Model
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.child_process import run_child
from pansketch_fleet.config.loader import Config, load_collector
from testbed.local_fleet import POLL_SECONDS, DemoFailed, LocalFleet
from testbed.metrics import Distances, distances
from testbed.program import ROOT

CONFIG = ROOT / "demo" / "blinded.yaml"
MAX_SECONDS = 400.0
FLEET = "beijing-air-blinded"
KEEPERS = ("tower", "well")
WAYS = {STREAM: "blinded", "once": "blinded_once"}  # streams of the configuration, in the report
PUBLIC_KEY = re.compile(r"key: ([0-9a-f]{64})")


def measure(
    broker: str, folder: Path, devices: list[str], rows: int, deadline: float, console: Console
) -> dict[str, Distances]:
    """Run the blinded fleet to its last answer.

    Args:
        broker: its address.
        folder: of all files; it must not exist.
        devices: names of the stations.
        rows: number of records that are compared.
        deadline: of the monotonic clock, in seconds.
        console: for the progress bar and the privacy guarantee.

    Returns:
        By the name in the report, the distances of records from readings.

    Raises:
        DemoFailed: a program failed or took too long.
    """
    folder.mkdir()
    keys = {f"{name.upper()}_KEY": _made(name, broker, folder) for name in KEEPERS}
    with LocalFleet(broker, folder / "fleet", config=CONFIG, variables=keys) as fleet:
        config = load_collector(CONFIG, fleet.environment(devices[0]))
        for name in KEEPERS:
            fleet.start_keeper(name, _settings(name, folder))
        fleet.start_collector(deadline)
        raw = replay(fleet, config, devices, deadline, console)
        console.print("all releases are stored; the collector asks the keepers")
        found = {stream: _answered(config, stream, raw, deadline) for stream in WAYS}
    truth = np.concatenate([device.readings for device in raw])
    measured = {}
    for stream, model in found.items():
        console.print(f"{stream}: {model.guarantee}", soft_wrap=True)
        sample = model.fitted.sampler().sample(rows, np.random.default_rng())
        measured[WAYS[stream]] = distances(model.fitted.domain, truth, sample)
    return measured


def table(found: dict[str, Distances]) -> Table:
    """Each way of aggregation with its distances from the readings."""
    shown = Table(title="local and blinded, against the raw readings", title_justify="left")
    shown.add_column("noise")
    for header in ("W1 / std, mean", "TV of pairs, mean", "correlation, worst"):
        shown.add_column(header, justify="right")
    for way, name in SAID.items():
        if way in found:
            each = found[way]
            figures = (each.marginals.mean(), each.pairs.mean(), each.correlation)
            shown.add_row(name, *(f"{figure:.4f}" for figure in figures))
    return shown


SAID = {
    "local": "local: in each window of each device",
    "blinded": "blinded: in one answer for each window",
    "blinded_once": "blinded: in one answer for all windows",
}


def _settings(name: str, folder: Path) -> Path:
    return folder / f"{name}.yaml"


def _made(name: str, broker: str, folder: Path) -> str:
    """Makes a keeper; returns its public key."""
    words = ["init", "--fleet", FLEET, "--name", name, "--url", f"mqtt://{broker}"]
    words += ["--state", str(folder / name), "--config", str(_settings(name, folder))]
    done = run_child([sys.executable, "-m", "pansketch_keeper", *words], cwd=ROOT, text=True)
    told = PUBLIC_KEY.search(done.stdout or "")
    if done.returncode or told is None:
        raise DemoFailed((done.stderr or "").strip() or f"keeper {name} made no key")
    return told[1]


def _answered(config: Config, stream: str, raw: list[Raw], deadline: float) -> Model:
    """The model of a stream, once answers hold all windows."""
    which = next(each for each in config.streams if each.name == stream)
    wanted, last = sum(device.windows(which) for device in raw), ""
    while time.monotonic() < deadline:
        try:
            with reading(config.collector.database) as store:
                held = fleet_model.merged(store, config, Selection(stream)).windows
                if held == wanted:
                    return fleet_model.build(store, config, Selection(stream))
            last = f"answers hold {held} of {wanted} windows"
        except CommandError as error:
            last = str(error)
        time.sleep(POLL_SECONDS)
    raise DemoFailed(f"stream {stream} has no answers in time: {last}")
