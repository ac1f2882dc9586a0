"""One collector and a fleet of 10, 100 and 1,000 devices, on one machine: what grows, and how.

The devices are one client that speaks for all of them with the bytes that they would send, through
a mosquitto: a birth each, then a window of each in turn. The collector and the commands that read
its database are the programs that users run.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks import alone
from benchmarks.footprint import MeasurementFailed
from benchmarks.ingest import Messages, broker, publish, releases
from benchmarks.row import Row, at_most
from collector.failure import CommandError
from collector.reader import Reader, Selection, reading
from demo.fleet import CONFIG, ROOT
from fleet import topics
from fleet.config import load
from fleet.messages import Status, StreamBirth

FLEET, STREAM = "beijing-air", "air"
SIZES, QUICK_SIZES = (10, 100, 1_000), (10, 100, 300)
WINDOWS, QUICK_WINDOWS = 10, 4
GROWTH = 1.5  # A figure of ten times the devices may be so much more than ten times as large.
RESIDENT_GROWTH_MIB = 32.0
POLL_SECONDS, MOST_SECONDS = 0.02, 120.0
SAMPLED_ROWS = 10_000
# Of a window, one each hour: the stream's six attributes in their order.
READINGS = [(t, t - 5, 1000 + t, 10 * t, 2 * t, t / 10) for t in map(float, range(30))] * 24
COMMANDS = {
    "devices": ["devices"],
    "query": ["query", "--stream", STREAM, "mean", "temp"],
    "sample": ["sample", "--stream", STREAM, "--rows", str(SAMPLED_ROWS), "--out", os.devnull],
}


def run(quick: bool, watch: alone.Watch = iter) -> list[Row]:
    found = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        return [Row("not measured", 0.0, "", note="there is no mosquitto on this machine")]
    sizes, windows = (QUICK_SIZES, QUICK_WINDOWS) if quick else (SIZES, WINDOWS)
    measured = {}
    for size in watch(sizes):
        with tempfile.TemporaryDirectory() as folder, broker(found, Path(folder)) as port:
            measured[size] = Fleet(Path(folder), port, size, windows).measured()
    rows = [row for size in sizes for row in _rows(size, windows, measured[size])]
    return rows + _growth(sizes[-2], sizes[-1], measured)


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
    """How much faster than the number of devices each figure has grown, at the last step."""
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
        self._environment = {**os.environ, "BROKER": f"127.0.0.1:{port}", "VAR": str(folder)}
        self._database = folder / "collector.sqlite"

    def measured(self) -> dict[str, float]:
        """Seconds of "ingest" and of each command, "resident" MiB, bytes of the "database"."""
        words = [sys.executable, "-m", "collector", "serve", "--config", str(CONFIG)]
        log = self._folder / "log"
        with log.open("wb") as errors:
            process = subprocess.Popen(words, cwd=ROOT, env=self._environment, stderr=errors)
            try:
                _until(lambda: b"is there" in log.read_bytes(), process)
                publish(self._port, births(self._devices))
                found = {"ingest": self._ingested(process), "resident": resident(process.pid)}
                return found | self._read()
            finally:
                process.terminate()
                process.wait(MOST_SECONDS)

    def _ingested(self, process: "subprocess.Popen[bytes]") -> float:
        """Seconds from the first release to the commit of the last one."""
        messages = releases(self._devices * self._windows, STREAM, self._devices, READINGS)
        started = time.perf_counter()
        publish(self._port, messages)
        _until(lambda: self._stored() == len(messages), process)
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
        command = [sys.executable, "-m", "collector", *words, "--config", str(CONFIG)]
        started = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, env=self._environment, capture_output=True)
        if done.returncode:
            raise MeasurementFailed(f"scale: {words[0]} failed: {done.stderr.decode().strip()}")
        return time.perf_counter() - started


def births(devices: int) -> Messages:
    """What each device says of itself when it connects."""
    stream = next(s for s in load(CONFIG, "agent", {}).streams if s.name == STREAM)
    birth = StreamBirth(stream.spec.fingerprint.hex(), "epsilon 1", stream.window_seconds)
    status = Status("online", "a-session", {STREAM: birth}).encode()
    return [(topics.status(FLEET, f"device-{n}"), status) for n in range(devices)]


def resident(pid: int) -> float:
    """MiB of a process that are in memory."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


def _count(reader: Reader) -> int:
    selection = Selection(STREAM)
    return sum(reader.count(selection, each) for each in reader.fingerprints(selection))


def _until(holds: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while not holds():
        if process.poll() is not None:
            raise MeasurementFailed("scale: the collector ended by itself")
        if time.monotonic() > deadline:
            raise MeasurementFailed("scale: the collector did not follow in time")
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(alone.main("scale", __doc__, run, lambda folder, rows: [], None))
