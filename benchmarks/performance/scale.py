"""One collector and a fleet of 10, 100 and 1,000 devices, on one machine: growth of the costs.

One client sends the messages of all devices through a mosquitto: a birth message each, then a
window of each in turn. The collector and the commands that read its database are the programs that
users run. Stores of up to a million releases follow. `run_workers` measures on PostgreSQL.
"""

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from benchmarks.harness import report
from benchmarks.harness.result import MeasurementFailed, Row, at_least, at_most
from benchmarks.performance import large_stores
from benchmarks.performance.ingest import Messages, broker, publish, releases
from pansketch_collector.errors import CommandError
from pansketch_collector.storage.reader import Reader, Selection, reading
from pansketch_fleet.child_process import run_child
from pansketch_fleet.config.loader import load_agent
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Status, StreamBirth
from testbed.fleet_simulator.usage import resident
from testbed.local_fleet import CONFIG
from testbed.mosquitto import executable
from testbed.notify_socket import ProgramEnded, ProgramTimeout
from testbed.postgresql import installed
from testbed.program import ROOT, Program

FLEET, STREAM = "beijing-air", "air"
SIZES, QUICK_SIZES = (10, 100, 1_000), (10, 100, 300)
WINDOWS, QUICK_WINDOWS = 10, 4
GROWTH = 1.5  # A figure of ten times the devices may be so much more than ten times as large.
RESIDENT_GROWTH_MIB = 32.0
MAX_SECONDS = 120.0
SAMPLED_ROWS = 10_000
WORKERS_BAR = 1.5
# Devices, windows of each, pairs of runs.
WORKERS_LOAD, QUICK_WORKERS_LOAD = (2_000, 11, 5), (500, 5, 1)
ROLES = ("broker", "postgresql", "collectors", "simulator")
# Of a window, one each hour: the stream's six attributes in their order.
READINGS = [(t, t - 5, 1000 + t, 10 * t, 2 * t, t / 10) for t in map(float, range(30))] * 24
COMMANDS = {
    "devices": ["devices"],
    "query": ["query", "--stream", STREAM, "mean", "temp"],
    "sample": ["sample", "--stream", STREAM, "--rows", str(SAMPLED_ROWS), "--out", os.devnull],
}


def run(quick: bool, watch: report.Watch = iter) -> list[Row]:
    if executable() is None:
        return [Row("not measured", 0.0, "", note="there is no mosquitto on this machine")]
    sizes, windows = (QUICK_SIZES, QUICK_WINDOWS) if quick else (SIZES, WINDOWS)
    measured = {}
    for size in watch(sizes):
        with tempfile.TemporaryDirectory() as folder, broker(Path(folder)) as port:
            measured[size] = Fleet(Path(folder), port, size, windows).measured()
    rows = [row for size in sizes for row in _rows(size, windows, measured[size])]
    return rows + _growth(sizes[-2], sizes[-1], measured) + large_stores.run(quick)


def _rows(devices: int, windows: int, found: dict[str, float]) -> list[Row]:
    label, many = f"{devices:,} devices", devices * windows
    note = f"{many:,} releases"
    return [
        Row(f"{label}, ingest", many / found["ingest"], "releases/s", note=note),
        Row(f"{label}, collector", found["resident"], "MiB"),
        Row(f"{label}, database", found["database"] / 2**20, "MiB", note=note),
        *(Row(f"{label}, {name}", found[name], "s", note="whole command") for name in COMMANDS),
    ]


def _growth(smaller: int, larger: int, measured: dict[int, dict[str, float]]) -> list[Row]:
    """The growth of each figure over that of the number of devices, at the last step."""
    before, after = measured[smaller], measured[larger]
    times = larger / smaller
    rows = [
        at_most(
            f"{name} at {larger:,} over {smaller:,} devices",
            after[name] / before[name] / times,
            "x their number",
            GROWTH,
        )
        for name in ("ingest", "database", *COMMANDS)
    ]
    grown = after["resident"] - before["resident"]
    return [*rows, at_most("collector, growth", grown, "MiB", RESIDENT_GROWTH_MIB)]


class Fleet:
    """A collector of its own, and so many devices with so many windows each."""

    def __init__(self, folder: Path, port: int, devices: int, windows: int) -> None:
        self._folder, self._port = folder, port
        self._devices, self._windows = devices, windows
        self._environment = {"BROKER": f"127.0.0.1:{port}", "VAR": str(folder)}
        self._database = folder / "collector.sqlite"

    def measured(self) -> dict[str, float]:
        """Seconds of "ingest" and of each command, "resident" MiB, bytes of the "database"."""
        words = [sys.executable, "-m", "pansketch_collector", "serve", "--config", str(CONFIG)]
        log = self._folder / "log"
        with Program(words, log, environment=self._environment) as collector:
            try:
                collector.wait_until_connected(seconds=MAX_SECONDS)
                publish(self._port, births(self._devices))
                ingest, pid = self._ingested(collector), collector.process.pid
                return {"ingest": ingest, "resident": resident(pid)} | self._read()
            except (ProgramTimeout, ProgramEnded) as error:
                raise MeasurementFailed(f"scale: the collector: {error}") from error

    def _ingested(self, collector: Program) -> float:
        """Seconds from the first release to the commit of the last one."""
        messages = releases(self._devices * self._windows, STREAM, self._devices, READINGS)
        started = time.perf_counter()
        publish(self._port, messages)
        collector.until(lambda: self._stored() == len(messages), "its last commit", MAX_SECONDS)
        return time.perf_counter() - started

    def _stored(self) -> int:
        with suppress(CommandError), reading(self._database) as reader:
            return _count(reader)
        return 0

    def _read(self) -> dict[str, float]:
        files = self._folder.glob(f"{self._database.name}*")
        found: dict[str, float] = {"database": sum(file.stat().st_size for file in files)}
        return found | {name: self._seconds(words) for name, words in COMMANDS.items()}

    def _seconds(self, words: Sequence[str]) -> float:
        command = [sys.executable, "-m", "pansketch_collector", *words, "--config", str(CONFIG)]
        started = time.perf_counter()
        done = run_child(command, cwd=ROOT, env={**os.environ, **self._environment})
        if done.returncode:
            raise MeasurementFailed(f"scale: {words[0]} failed: {done.stderr.decode().strip()}")
        return time.perf_counter() - started


def births(devices: int) -> Messages:
    """The status message of each device when it connects."""
    stream = next(s for s in load_agent(CONFIG, {}).streams if s.name == STREAM)
    birth = StreamBirth(stream.spec.fingerprint.hex(), "epsilon 1", stream.window_seconds)
    status = Status("online", "a-session", {STREAM: birth}).encode()
    return [(topics.status(FLEET, f"device-{n}"), status) for n in range(devices)]


def _count(reader: Reader) -> int:
    selection = Selection(STREAM)
    return sum(reader.count(selection, each) for each in reader.fingerprints(selection))


def run_workers(quick: bool) -> list[Row]:
    """One process that ingests into PostgreSQL beside two, in turns.

    Each run drains a backlog, so the load generator takes no part of the measured time.
    """
    if executable() is None or not installed():
        note = "there is no mosquitto or no PostgreSQL on this machine"
        return [Row("not measured", 0.0, "", note=note)]
    devices, windows, pairs = QUICK_WORKERS_LOAD if quick else WORKERS_LOAD
    one: list[dict[str, float]] = []
    two: list[dict[str, float]] = []
    # Each pair begins with the other one, so that a drift of the machine favours neither.
    for number in range(pairs):
        for workers in (0, 1) if number % 2 == 0 else (1, 0):
            (one, two)[workers].append(_drained(devices, windows, workers))
    ratios = [b["rate"] / a["rate"] for a, b in zip(one, two, strict=True)]
    note = f"pairs: {', '.join(f'{ratio:.2f}' for ratio in ratios)}; {os.cpu_count()} cores for all"
    least, most = (of(each["others"] for each in one + two) for of in (min, max))
    note += f", of which other programs took {least:.1f} to {most:.1f}"
    return [
        _drain_row("one process", one),
        _drain_row("two processes", two),
        at_least("two processes over one", median(ratios), "x", WORKERS_BAR, note),
    ]


def _drain_row(name: str, runs: Sequence[dict[str, float]]) -> Row:
    """The median rate, and the CPU time of each role."""
    middle = {key: median(one[key] for one in runs) for key in runs[0]}
    spent = ", ".join(f"{role} {middle[role]:.0f}" for role in ROLES)
    note = f"CPU µs a release: {spent}"
    return Row(name, middle["rate"], "releases/s", note=note, detail=middle)


def _drained(devices: int, windows: int, workers: int) -> dict[str, float]:
    """One run, of which every release is stored once: its rate, cores of "others", and CPU µs.

    Raises MeasurementFailed.
    """
    words = ["--devices", str(devices), "--windows", str(windows), "--workers", str(workers)]
    program = [sys.executable, "-m", "testbed.fleet_simulator", "--backlog", "--json", *words]
    done = run_child(program, cwd=ROOT)
    if done.returncode:
        raise MeasurementFailed(f"workers: {(done.stderr or done.stdout).decode().strip()}")
    found = json.loads(done.stdout)
    if found["stored"] != devices * windows or found["faults"]:
        raise MeasurementFailed(f"workers: {found['stored']} stored, {found['faults']} faults")
    spent = Counter[str]()
    for name, used in found["processes"].items():
        # `serve` ingests as well.
        role = "collectors" if name == "collector" or name.startswith("worker") else name
        spent[role] += used["cpu_microseconds_per_release"]
    return {"rate": found["releases_per_second"], "others": found["other_cores"], **spent}


if __name__ == "__main__":
    sys.exit(report.main("performance.scale", __doc__, run, lambda folder, rows: [], None))
