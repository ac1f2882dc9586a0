"""Stores of 10^4, 10^5 and 10^6 releases: what questions cost, as ratios of one run.

Figures of a whole fleet have a limit of their own: 10^5 devices with one window of one stream.

The releases are those of `testbed.fleet_simulator`, each with noise of its own, stored by the
collector's own ingest. Commands and HTTP answers are those that users have. A figure is CPU time,
which other work on the machine changes least.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from benchmarks.harness import report
from benchmarks.harness.result import MeasurementFailed, Row, at_most
from benchmarks.performance.ingest import broker
from pansketch_fleet.child_process import run_child
from testbed.embedded_broker import free_port
from testbed.fleet_simulator.options import CONFIG
from testbed.fleet_simulator.usage import children, usage
from testbed.mosquitto import executable
from testbed.notify_socket import ProgramEnded, ProgramTimeout
from testbed.program import ROOT, Program

SIZES, QUICK_SIZES = (10_000, 100_000, 1_000_000), (10_000, 100_000)
WINDOWS = 10
YEAR, YEAR_DEVICES, QUICK_YEAR = 8_760, 10, 876
GROWTH = 1.5  # of a question, from the smallest store to the largest
MAX_MIB = 120.0
FEW_DEVICES, MANY_DEVICES = 1_000, 100_000
MAX_FLEET_SECONDS, MAX_YEAR_SECONDS = 0.5, 2.0
REPEATS = 3  # of a command, of which the least disturbed one counts
COMMANDS = {
    "quantile": ["query", "--stream", "temp", "quantile", "temp", "0.5"],
    "mean": ["query", "--stream", "temp", "mean", "temp"],
}
PATHS = ("/v1/streams", "/metrics", "/v1/devices?limit=100")
ANSWER_SECONDS = 600.0
# Runs a command; prints its CPU seconds, and the MiB that it had in memory at most.
MEASURED = """
import json, os, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
sys.exit(done.returncode)
"""

Cost = tuple[float, float]  # CPU seconds, MiB


def run(quick: bool, watch: report.Watch = iter) -> list[Row]:
    rows, found = [], {}
    sizes = QUICK_SIZES if quick else SIZES
    for size in watch(sizes):
        with stored(size // WINDOWS, WINDOWS) as (folder, seconds):
            found[size] = {name: command(folder, words) for name, words in COMMANDS.items()}
            rows.append(_stored(size, seconds, folder))
    rows += _fleet()
    for name in COMMANDS:
        rows += _questions(name, {size: found[size][name] for size in sizes})
    windows = QUICK_YEAR if quick else YEAR
    with stored(YEAR_DEVICES, windows) as (folder, _):
        spent, _ = command(folder, COMMANDS["quantile"])
    label = f"query quantile, {windows:,} windows of {YEAR_DEVICES} devices"
    return [*rows, at_most(label, spent, "s CPU", MAX_YEAR_SECONDS)]


@contextmanager
def stored(devices: int, windows: int) -> Iterator[tuple[Path, float]]:
    """A folder with the database of a simulated fleet, and the CPU seconds of making it."""
    with tempfile.TemporaryDirectory() as name:
        words = ["--devices", str(devices), "--windows", str(windows), "--json"]
        words += ["--database", str(Path(name) / "collector.sqlite")]
        made = json.loads(_output([sys.executable, "-m", "testbed.fleet_simulator", *words], {}))
        yield Path(name), made["processes"]["simulator"]["cpu_seconds"]


def command(folder: Path, words: Sequence[str]) -> Cost:
    """The seconds of a command of the collector, with its start."""
    program = [sys.executable, "-m", "pansketch_collector", *words, "--config", str(CONFIG)]
    output = _output([sys.executable, "-c", MEASURED, *program], {"VAR": str(folder)})
    seconds, mib = json.loads(output)
    return float(seconds), float(mib)


def _stored(size: int, seconds: float, folder: Path) -> Row:
    each = sum(f.stat().st_size for f in folder.glob("collector.sqlite*")) / size
    note = f"{1e6 * seconds / size:.0f} µs CPU each to make, judge and store"
    return Row(f"{size:,} releases", each, "bytes each", note=note)


def _questions(name: str, costs: dict[int, Cost]) -> list[Row]:
    smallest, largest = min(costs), max(costs)
    label = f"query {name}"
    note = ", ".join(f"{size:,}: {seconds:.1f} s" for size, (seconds, _) in costs.items())
    growth = costs[largest][0] / costs[smallest][0]
    over = f"{largest:,} over {smallest:,} releases"
    return [
        at_most(f"{label}, {over}", growth, "x", GROWTH, f"CPU of whole commands: {note}"),
        at_most(f"{label}, {largest:,} releases", costs[largest][1], "MiB", MAX_MIB),
    ]


def _fleet() -> list[Row]:
    """The command and the HTTP requests about all devices of a fleet."""
    with stored(FEW_DEVICES, 1) as (folder, _):
        few, _ = min(command(folder, ["devices"]) for _ in range(REPEATS))
    with stored(MANY_DEVICES, 1) as (folder, _):
        many, mib = min(command(folder, ["devices"]) for _ in range(REPEATS))
        rows = _answers(folder)
    # A table has at most FEW_DEVICES devices, so the rest is the program's start and the table.
    label = f"devices, {MANY_DEVICES:,} beyond {FEW_DEVICES:,} of them"
    note = f"whole commands {few:.1f} s and {many:.1f} s"
    return [
        at_most(label, many - few, "s CPU", MAX_FLEET_SECONDS, note),
        at_most(f"devices, {MANY_DEVICES:,} of them", mib, "MiB", MAX_MIB),
        *rows,
    ]


def _answers(folder: Path) -> list[Row]:
    """The seconds of HTTP requests about all devices, each path once."""
    label = f"{MANY_DEVICES:,} devices"
    if executable() is None:
        return [Row(f"{label}, HTTP", 0.0, "", note="not measured: there is no mosquitto")]
    with _answering(folder) as seconds:
        return [
            at_most(f"{label}, first {path}", seconds(path), "s CPU", MAX_FLEET_SECONDS)
            for path in PATHS
        ]


@contextmanager
def _answering(folder: Path) -> Iterator[Callable[[str], float]]:
    """A collector with an address; yields what asks, and tells the CPU seconds of the answer."""
    config, port = folder / "collector.yaml", free_port()
    text = CONFIG.read_text(encoding="utf-8").rstrip()
    config.write_text(f'{text}\n  http: "127.0.0.1:{port}"\n', encoding="utf-8")
    words = [sys.executable, "-m", "pansketch_collector", "serve", "--config", str(config)]
    with broker(folder) as mqtt:
        known = {"BROKER": f"127.0.0.1:{mqtt}", "VAR": str(folder)}
        with Program(words, folder / "log", environment=known) as collector:
            try:
                collector.wait_until_connected()
                collector.until(lambda: _status(port), "an answer over HTTP")
            except (ProgramTimeout, ProgramEnded) as error:
                raise MeasurementFailed(f"scale: the collector: {error}") from error
            (web,) = children(collector.process.pid)

            def seconds(path: str) -> float:
                before = usage(web).cpu_seconds
                with urlopen(f"http://127.0.0.1:{port}{path}", timeout=ANSWER_SECONDS) as answer:
                    answer.read()
                return usage(web).cpu_seconds - before

            yield seconds


def _status(port: int) -> bool:
    """True if it answers; the request reads no releases."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=ANSWER_SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        time.sleep(0.1)
        return False


def _output(words: Sequence[str], environment: dict[str, str]) -> str:
    done = run_child(words, cwd=ROOT, env={**os.environ, **environment}, text=True)
    if done.returncode:
        raise MeasurementFailed(f"scale: a program failed: {done.stderr.strip()}")
    return str(done.stdout)


if __name__ == "__main__":
    sys.exit(report.main("performance.large_stores", __doc__, run, lambda folder, rows: [], None))
