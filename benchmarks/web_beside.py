"""Two readers beside a fleet that sends as fast as it can, for several priorities of what answers.

One reader asks for a density of a stream that changes all the while, the other one draws files.
Both are wanted: that little of the rate of the taking in is lost, and that readers get answers.
`serve` starts what answers with the niceness `collector.web.__main__.NICENESS`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.ingest import Messages
from benchmarks.row import Row, at_most
from benchmarks.web_load import DENSITY, SAMPLE, ends, lost
from benchmarks.web_reading import Readers, reading
from benchmarks.web_site import busy_seconds, of_fleet, serving
from collector.web.__main__ import NICENESS

OTHER_NICENESSES = (0, 10)
FILE = SAMPLE + "20000"
DEVICES, STORED_WINDOWS = 12, 10
ROUNDS = 2
# Windows of each device; the flood lasts some seconds.
AIR_WINDOWS, LOCKERS_WINDOWS, QUICK = 80, 4_000, 6


@dataclass(frozen=True)
class Turn:
    """One flood: what was taken in in a second, what failed, and what the readers got."""

    rate: float
    seconds: float
    lost: int
    locked: int
    ends: int
    cores: float  # that what answers has had
    readers: Readers

    def answers(self, path: str) -> float:
        """In a second."""
        return self.readers.served(path) / self.seconds

    @property
    def said(self) -> str:
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
            return Turn(rate, seconds, gone, locked, ends(site), cores, readers)


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
        rows.append(Row(title, turn.rate / alone.rate, "x alone", note=turn.said, detail=detail))
    return rows


def _kinds(quick: bool) -> dict[str, tuple[str | None, list[str]]]:
    """How what answers is started, and what the readers ask, by name."""
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
        at_most(f"{name}, failures", failed + sum(turn.ends for turn in turns), "", 0, note),
    ]


def _of_ours(alone: Turn, ours: Turn) -> list[Row]:
    name = "two readers and a fleet"
    note = f"niceness {NICENESS}: {ours.said}; {alone.rate:,.0f} releases/s alone"
    waited = f"for a density of what changes all the while; the flood took {ours.seconds:.1f} s"
    detail = {"density": ours.answers(DENSITY), "files": ours.answers(FILE)}
    return [
        Row(f"{name}, longest wait", max(ours.readers.longest.values()), "s", note=waited),
        Row(f"{name}, ingest", ours.rate / alone.rate, "x alone", note=note, detail=detail),
    ]
