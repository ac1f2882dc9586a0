"""The load of readers on server and ingestion: large files, readers who leave, a thousand at once.

Two readers query beside a fleet that sends as fast as it can. One asks for a density of a stream
that changes, the other draws files, at several priorities of the answering process. `serve` starts
it with the niceness `pansketch_collector.http.__main__.NICENESS`.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.result import Row, at_least, at_most
from benchmarks.http.clients import Readers, asked, at_once, read, reading
from benchmarks.http.site import (
    STREAMS,
    Site,
    allow_connections,
    busy_seconds,
    of_fleet,
    peak_mib,
    serving,
)
from benchmarks.performance.ingest import Messages
from pansketch_collector.http.__main__ import NICENESS
from pansketch_collector.storage.reader import reading as stored
from pansketch_collector.storage.tables.records import Selection
from testbed.fleet_simulator.usage import resident

SAMPLE = "/v1/streams/air/sample?seed=1&format=parquet&rows="
DENSITY = "/v1/streams/air/query?question=density&attribute=temp&attribute=pm25"
MEAN = "/v1/streams/air/query?question=mean&attribute=temp"
FEW_ROWS, MANY_ROWS = 100_000, 1_000_000
WARMING = 4  # files of few rows before the one of many
MAX_GROWTH_MIB = 8.0
CANCELLED = 10  # more than there is room for at a time
LEAVE_SECONDS, MEASURE_SECONDS = 1.0, 2.0
IDLE = 0.02  # of one processor
PARALLEL = 1_000
PATHS = (MEAN, SAMPLE + "1000", "/v1/devices", "/v1/releases?stream=air", "/v1/streams", "/metrics")


def files(site: Site) -> list[Row]:
    """One file of many rows, against files of few, which each thread that draws has drawn."""
    for _ in range(WARMING):
        read(site, SAMPLE + str(FEW_ROWS))
    before = peak_mib(site.web_pid)
    started = time.perf_counter()
    status, size = read(site, SAMPLE + str(MANY_ROWS))
    seconds = time.perf_counter() - started
    grown = peak_mib(site.web_pid) - before
    note = f"peak {before:.0f} MiB after {FEW_ROWS:,} rows; status {status}"
    many = f"{MANY_ROWS:,} rows as Parquet"
    return [
        at_most(f"{many}, more memory than {FEW_ROWS:,}", grown, "MiB", MAX_GROWTH_MIB, note),
        Row(many, MANY_ROWS / seconds, "rows/s", note=f"{size / 2**20:.0f} MiB"),
    ]


def cancelled(site: Site) -> list[Row]:
    """Processor time that is spent for readers who have left, and the slots that they held."""
    endless = SAMPLE + "100000000"
    with asked(site, endless) as response:
        busy = _share(site, lambda: response.read(1 << 16))
    served = 0
    for _ in range(CANCELLED):
        with asked(site, endless) as response:
            served += response.status == 200 and bool(response.read(1))
    time.sleep(LEAVE_SECONDS)
    idle = _share(site, lambda: time.sleep(0.1))
    note = f"{LEAVE_SECONDS:g} s after {CANCELLED} had left; {busy:.2f} while one reads"
    return [
        at_most("cancelled files, processor", idle, "cores", IDLE, note),
        at_least("cancelled files, served", served, f"of {CANCELLED}", CANCELLED),
    ]


def at_once_and_taking_in(site: Site, messages: Messages) -> list[Row]:
    """A thousand requests that are open together, while a fleet reports."""
    allow_connections()
    paths = [PATHS[number % len(PATHS)] for number in range(PARALLEL)]
    with ThreadPoolExecutor(1) as beside:
        taking = beside.submit(site.fill, messages)
        found = at_once(site, paths)
        seconds = taking.result()
    statuses = ", ".join(f"{status}: {n}" for status, n in sorted(found.items()))
    answered = sum(found[status] for status in ("200", "503"))
    name = f"{PARALLEL:,} requests at once"
    return [
        at_least(f"{name}, served or refused", answered, f"of {PARALLEL}", PARALLEL, statuses),
        at_most(f"{name}, ends of the server", restarts(site), "", 0),
        at_most(f"{name}, releases lost", lost(site, messages), f"of {len(messages)}", 0),
        Row(f"{name}, ingest", len(messages) / seconds, "releases/s"),
        Row(f"{name}, server afterwards", resident(site.web_pid), "MiB"),
    ]


def restarts(site: Site) -> int:
    """The number of restarts and failures of the HTTP process."""
    return site.log.count("restarting it") + site.log.count("Traceback")


def lost(site: Site, messages: Messages) -> int:
    """Releases among these that the database does not have byte for byte."""
    wanted = {payload for _, payload in messages}
    with stored(site.database) as reader:
        for stream in STREAMS:
            wanted.difference_update(each.payload for each in reader.releases(Selection(stream)))
    return len(wanted)


def _share(site: Site, meanwhile: Callable[[], object]) -> float:
    """Processors that the server keeps busy while something is done again and again."""
    before, started = busy_seconds(site.web_pid), time.perf_counter()
    while (took := time.perf_counter() - started) < MEASURE_SECONDS:
        meanwhile()
    return (busy_seconds(site.web_pid) - before) / took


OTHER_NICENESSES = (0, 10)
FILE = SAMPLE + "20000"
DEVICES, STORED_WINDOWS = 12, 10
ROUNDS = 2
# Windows of each device; the flood lasts some seconds.
AIR_WINDOWS, LOCKERS_WINDOWS, QUICK = 80, 4_000, 6


@dataclass(frozen=True)
class Turn:
    """One flood: the rate of ingestion, the failures, and the readers' answers."""

    rate: float
    seconds: float
    lost: int
    locked: int
    restarts: int
    cores: float  # that what answers has had
    readers: Readers

    def answers(self, path: str) -> float:
        """In a second."""
        return self.readers.served(path) / self.seconds

    @property
    def summary(self) -> str:
        longest = max(self.readers.longest.values(), default=0.0)
        return (
            f"{self.rate:,.0f} releases/s; {self.cores:.2f} cores answer: densities "
            f"{self.answers(DENSITY):.2f}/s, files {self.answers(FILE):.2f}/s, longest wait "
            f"{longest:.1f} s"
        )


class Flood:
    """The same releases for every turn, each into a database of its own."""

    def __init__(self, folder: Path, port: int, quick: bool) -> None:
        self._folder, self._port, self._turns = folder, port, 0
        less = QUICK if quick else 1
        air = of_fleet(DEVICES, STORED_WINDOWS + AIR_WINDOWS // less, ["air"])
        first = DEVICES * STORED_WINDOWS
        self._stored, air = air[:first], air[first:]
        self.messages = mixed(air, of_fleet(DEVICES, LOCKERS_WINDOWS // less, ["lockers"]))

    def turn(self, priority: str | None, paths: Sequence[str]) -> Turn:
        """`priority`: of what answers, as `serving` has it."""
        self._turns += 1
        with serving(self._folder / f"turn-{self._turns}", self._port, priority) as site:
            site.fill(self._stored)
            with reading(site, paths) as readers:
                before = busy_seconds(site.web_pid)
                seconds = site.fill(self.messages)
                cores = (busy_seconds(site.web_pid) - before) / seconds
            rate, locked = len(self.messages) / seconds, site.log.count("cannot write")
            gone = lost(site, self.messages)
            return Turn(rate, seconds, gone, locked, restarts(site), cores, readers)


def mixed(few: Messages, many: Messages) -> Messages:
    """Both, the few spread evenly among the many."""
    placed = [((i + 0.5) / len(each), m) for each in (few, many) for i, m in enumerate(each)]
    return [message for _, message in sorted(placed, key=lambda pair: pair[0])]


def run(folder: Path, port: int, quick: bool) -> list[Row]:
    """The best of each kind counts: what else the machine does can only take away."""
    flood, kinds = Flood(folder, port, quick), _kinds(quick)
    turns: dict[str, list[Turn]] = {name: [] for name in kinds}
    for _ in range(1 if quick else ROUNDS):
        for name, (priority, paths) in kinds.items():
            turns[name].append(flood.turn(priority, paths))
    best = {name: max(found, key=lambda turn: turn.rate) for name, found in turns.items()}
    alone, ours = best.pop("alone"), best.pop("ours")
    with_readers = [turn for name in turns if name != "alone" for turn in turns[name]]
    rows = [*_failures(with_readers, len(flood.messages)), *_of_ours(alone, ours)]
    for name, turn in best.items():
        detail = {"density": turn.answers(DENSITY), "files": turn.answers(FILE)}
        title = f"{name}, ingest with two readers"
        rows.append(Row(title, turn.rate / alone.rate, "x alone", note=turn.summary, detail=detail))
    return rows


def _kinds(quick: bool) -> dict[str, tuple[str | None, list[str]]]:
    """The options of the HTTP process, and the readers' requests, by name."""
    both = [DENSITY, FILE]
    others = {f"niceness {n}": (str(n), both) for n in OTHER_NICENESSES}
    if not quick:
        others[f"niceness {NICENESS}, batch"] = (f"{NICENESS} batch", both)
    return {"alone": (None, []), "ours": (None, both), **others}


def _failures(turns: Sequence[Turn], releases: int) -> list[Row]:
    """Of all turns together."""
    answers = sum((turn.readers.answers for turn in turns), Counter[tuple[str, int]]())
    failed = sum(n for (_, status), n in answers.items() if status not in (200, 503))
    served = sum(n for (_, status), n in answers.items() if status == 200)
    name, of = "two readers and a fleet", f"of {len(turns) * releases:,}"
    note = f"{served:,} answers"
    return [
        at_most(f"{name}, releases lost", sum(turn.lost for turn in turns), of, 0),
        at_most(f"{name}, database locked", sum(turn.locked for turn in turns), "", 0),
        at_most(f"{name}, failures", failed + sum(turn.restarts for turn in turns), "", 0, note),
    ]


def _of_ours(alone: Turn, ours: Turn) -> list[Row]:
    name = "two readers and a fleet"
    note = f"niceness {NICENESS}: {ours.summary}; {alone.rate:,.0f} releases/s alone"
    waited = f"for a density of what changes all the while; the flood took {ours.seconds:.1f} s"
    detail = {"density": ours.answers(DENSITY), "files": ours.answers(FILE)}
    return [
        Row(f"{name}, longest wait", max(ours.readers.longest.values()), "s", note=waited),
        Row(f"{name}, ingest", ours.rate / alone.rate, "x alone", note=note, detail=detail),
    ]
