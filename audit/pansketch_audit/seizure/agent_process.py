"""The agent under seizure, as on a device: fed by a source, seized several times while it runs.

Its hierarchy is so deep that the path of a reading is nearly unique and can be looked for.
"""

import json
import subprocess
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from pansketch import Attribute, Domain, HierarchySpec, Privacy, WireError, decode, read_header
from pansketch_audit.seizure.captive_process import (
    ROOT,
    Captive,
    Sighting,
    Snapshot,
    feed,
    running,
    settle,
    take_snapshot,
    until,
    until_our_end,
)
from pansketch_audit.seizure.marked_readings import FloatArray, json_lines
from pansketch_audit.seizure.mqtt_recorder import Recorder
from pansketch_audit.seizure.process_memory import Scanner

# Epsilon decides nothing about what is kept. At the largest one hundreds of releases, as of a slow
# machine, count their readings almost exactly, with all their noise.
SPEC = HierarchySpec(
    Domain([Attribute("temp", -40, 60, "degC"), Attribute("pm25", 0, 1000, scale="log")]),
    Privacy(epsilon=100.0),
    depth=48,
    k=512,
    width=1024,
    rows=1,
    fanout=8,
    # The programs' own choice for this fleet and stream; another one would show at `decode`.
    hash_key=int.from_bytes(
        blake2b(b"audit/air", digest_size=8, person=b"pansketch-stream").digest(), "big"
    ),
)
CONFIG = """\
fleet: audit
mqtt: {{url: "mqtt://127.0.0.1:{port}"}}
agent: {{device: seized, profile: pi-zero-2w, state: files/state}}
streams:
  air:
    source: {source}
    window: {window}s
    privacy: {{epsilon: 100.0, unit: reading, intrusion: silent}}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      pm25: {{low: 0, high: 1000, scale: log}}
    sketch: {{depth: 48, k: 512, width: 1024, rows: 1, fanout: 8}}
"""
MAX_BATCH = 5  # Lines that an agent reads at once, in the first half of standard input.
WINDOWS = 4  # that the feeding of the readings is spread over
REPLAY_BEGIN = 1_700_000_000
IN_FLIGHT = "while the last reading arrives"


@dataclass(frozen=True)
class Run:
    """One agent under seizure. `counted`: the readings that it absorbed, by its releases, all noise
    included.

    `problem`: why the run showed nothing, or empty.
    """

    source: str
    readings: int
    counted: int
    releases: int
    snapshots: tuple[Snapshot, ...]
    problem: str = ""

    @property
    def leaks(self) -> tuple[Sighting, ...]:
        """Hits that are leaks: all but the last reading in memory."""
        return tuple(
            sighting
            for snapshot in self.snapshots
            for sighting in snapshot.sightings
            if (sighting.place, sighting.reading) != ("memory", snapshot.last)
        )

    @property
    def unread(self) -> tuple[str, ...]:
        """Memory that the snapshots could not read."""
        return tuple(name for snapshot in self.snapshots for name in snapshot.unread)

    @property
    def idle(self) -> str:
        """Why the agent was not at work, so that finding nothing shows nothing; empty if it was."""
        if self.releases > 1 and self.counted > self.readings / 2:
            return ""
        return f"{self.counted} of {self.readings} readings counted in {self.releases} releases"

    @property
    def holds(self) -> bool:
        searched = self.snapshots and not self.problem and not self.unread
        return bool(searched and not self.idle and not self.leaks)


def run_agent(
    source: str,
    folder: Path,
    markers: FloatArray,
    scanner: Scanner,
    window_seconds: int,
    program: Sequence[str] = ("-m", "pansketch_agent"),
) -> Run:
    """Feeds float64[n, 2] from `source` ("stdin" or "replay") over WINDOWS windows. Never raises
    for what the agent does: see `problem`.
    """
    snapshots: list[Snapshot] = []
    counted, problem = 0, ""
    folder.mkdir()
    with Recorder() as recorder:
        config = _configured(folder, source, markers, recorder.port, window_seconds)
        with running([*program, "run", "--config", str(config)], folder, recorder) as agent:
            try:
                until(agent, lambda: bool(recorder.published), "it had published a message")
                snapshots += SOURCES[source](scanner, agent, markers, window_seconds)
                counted = _counted(folder)
            except (RuntimeError, OSError, WireError) as error:
                last_line = (folder / "log").read_text().splitlines()[-1:]
                problem = "; ".join([str(error), *last_line])
    sent = len(_releases(folder))
    return Run(source, len(markers), counted, sent, tuple(snapshots), problem)


def _counted(folder: Path) -> int:
    return sum(int(decode(payload, SPEC).counters[0]) for payload in _releases(folder))


def _by_stdin(
    scanner: Scanner, agent: Captive, markers: FloatArray, window_seconds: int
) -> Iterator[Snapshot]:
    lines = json_lines(markers)
    half, last = len(lines) // 2, len(lines) - 1
    seconds = WINDOWS * window_seconds / 2
    feed(agent, _in_batches(lines[:half]), seconds)
    yield take_snapshot(agent, scanner, "half way", half - 1)
    feed(agent, lines[half:last], seconds)
    feed(agent, [lines[last][:-1]])
    yield take_snapshot(agent, scanner, IN_FLIGHT, last)
    feed(agent, [b"\n"])
    yield take_snapshot(agent, scanner, "after the last reading", last)
    before = len(_releases(agent.folder))
    until(agent, lambda: len(_releases(agent.folder)) > before, "its next release")
    settle(agent)
    yield take_snapshot(agent, scanner, "after the next release", last)


def _in_batches(lines: Sequence[bytes]) -> list[bytes]:
    """The lines, one to five of them joined: how NumPy treats a reading depends on its batch."""
    batches: list[bytes] = []
    begin = 0
    while begin < len(lines):
        end = begin + 1 + len(batches) % MAX_BATCH
        batches.append(b"".join(lines[begin:end]))
        begin = end
    return batches


def _by_replay(
    scanner: Scanner, agent: Captive, markers: FloatArray, window_seconds: int
) -> Iterator[Snapshot]:
    over = REPLAY_BEGIN + len(markers)

    def reached() -> bool:
        ends = [read_header(payload).windows[0].end for payload in _releases(agent.folder)]
        return any(end >= over - 1 for end in ends)

    until(agent, reached, "its last release")
    settle(agent)
    yield take_snapshot(agent, scanner, "after all rows", len(markers) - 1)


SOURCES: dict[str, Callable[[Scanner, Captive, FloatArray, int], Iterator[Snapshot]]] = {
    "stdin": _by_stdin,
    "replay": _by_replay,
}


def _configured(
    folder: Path, source: str, markers: FloatArray, port: int, window_seconds: int
) -> Path:
    config = folder / "config.yaml"
    described, window = "{type: stdin}", window_seconds
    if source == "replay":
        window = -(-len(markers) // WINDOWS)
        described = f"{{type: replay, path: rows.csv, speed: {window / window_seconds}}}"
        (folder / "rows.csv").write_text(_csv(markers, window))
    config.write_text(CONFIG.format(port=port, source=described, window=window))
    return config


def _csv(markers: FloatArray, window: int) -> str:
    """A row a second, the last one in another window, and rows that the agent waits for."""
    over = REPLAY_BEGIN + len(markers)
    times = [
        *range(REPLAY_BEGIN, over - 1),
        over + window,
        *range(over + 10**8, over + 10**8 + 999),
    ]
    rows = [f"{a!r},{b!r}" for a, b in markers.tolist()]
    rows += ["0.5,0.5"] * (len(times) - len(rows))
    lines = [f"{at},{row}\n" for at, row in zip(times, rows, strict=True)]
    return "".join(["time,temp,pm25\n", *lines])


def _releases(folder: Path) -> list[bytes]:
    """The queued releases in the agent's outbox, as its own program exports them. Raises
    RuntimeError."""
    command = ["-m", "pansketch_agent", "outbox", "export", "--config", str(folder / "config.yaml")]
    done = subprocess.run([*until_our_end(), *command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return [b64decode(json.loads(line)["payload"]) for line in done.stdout.splitlines() if line]
