"""Seizure of a running agent: after marked readings, what do its memory, disk, log and wire hold?

It is searched for every reading in every form, and for as many decoys that it was never given. Only
the reading in flight may be found. The same search must find that one while its line is incomplete,
and numbers planted in another process. It must also find readings that leaky programs kept, wrote,
logged and sent.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pansketch import HierarchySpec
from pansketch_audit.seizure.agent_process import IN_FLIGHT, SPEC, WINDOWS, Run, run_agent
from pansketch_audit.seizure.captive_process import Place, feed, running, take_snapshot
from pansketch_audit.seizure.marked_readings import (
    FloatArray,
    forms_of,
    json_lines,
    marked_readings,
)
from pansketch_audit.seizure.mqtt_recorder import Recorder
from pansketch_audit.seizure.process_memory import Scanner

LEAKED_READINGS = 200
LEAKY = """\
import json, socket, sys
way, kept = sys.argv[1], []
wire, file = socket.create_connection(("127.0.0.1", int(sys.argv[2]))), open("leak", "w")
for line in sys.stdin:
    values = list(json.loads(line).values())
    if way == "memory":
        kept.append(values)
    if way == "disk":
        print(*values, file=file, flush=True)
    if way == "log":
        print(*values, flush=True)
    if way == "wire":
        wire.sendall(line.encode())
"""
PLANTED = "import sys; kept = sys.stdin.buffer.read(int(sys.argv[1])); sys.stdin.buffer.read()"


def finds_planted(folder: Path, markers: FloatArray, spec: HierarchySpec) -> bool:
    """Return whether every form is found at each of eight alignments in another process's
    memory."""
    forms = forms_of(markers, spec)
    blob, expected = bytearray(), set()
    for number, (name, rows) in enumerate(forms.items()):
        for shift in range(8):
            reading = (8 * number + shift) % len(rows)
            blob += bytes((shift - len(blob)) % 8) + rows[reading].tobytes()
            expected.add((name, reading))
    with (
        Recorder() as peer,
        running(["-c", PLANTED, str(len(blob))], folder / "planted", peer) as p,
    ):
        feed(p, [bytes(blob)])
        seen = take_snapshot(p, Scanner(forms), "planted", 0)
    return expected <= {(s.form, s.reading) for s in seen.sightings if s.place == "memory"}


def catches_leak(folder: Path, way: Place, markers: FloatArray, scanner: Scanner) -> bool:
    """Return whether every reading of a leaky program is found where it leaks to."""
    with Recorder() as peer, running(["-c", LEAKY, way, str(peer.port)], folder / way, peer) as p:
        feed(p, json_lines(markers[:LEAKED_READINGS]))
        seen = take_snapshot(p, scanner, f"leak to {way}", LEAKED_READINGS - 1)
    found = {s.reading for s in seen.sightings if s.place == way}
    return set(range(min(LEAKED_READINGS, len(markers)))) <= found


LEAKS: tuple[Place, ...] = ("memory", "disk", "log", "wire")
MANY = 5_000
READINGS_PER_SECOND = 500
NOTES = (
    "a form with too few bits of its own (float32, 32-bit integers) is found beside its neighbour",
    "a number in text is found with ten decimals, not when it is rounded to fewer",
    "counters and cells of few bits tell no reading from another and are not looked for",
    "a replayed file is raw data on the device's own disk; only what was absorbed is looked for",
    "not so: a replayed gzip file (40 KiB of its text stay), a replay without a speed (blocks)",
    "readings that wait in the kernel's pipe are not in the agent",
)


@dataclass(frozen=True)
class PositiveControl:
    """Something that must be found, and whether it was."""

    what: str
    caught: bool


@dataclass(frozen=True)
class Seizure:
    """The findings of the seizures. `chance`: probability of one chance hit in random bytes."""

    readings: int
    forms: tuple[str, ...]
    runs: tuple[Run, ...]
    controls: tuple[PositiveControl, ...]
    chance: float
    seconds: float
    notes: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return all(run.holds for run in self.runs) and all(c.caught for c in self.controls)

    def __str__(self) -> str:
        missed = [control.what for control in self.controls if not control.caught]
        parts = [_summary(run) for run in self.runs]
        if missed:
            parts.append(f"not caught: {', '.join(missed)}")
        caught = f"{len(self.controls) - len(missed)} of {len(self.controls)} controls caught"
        return "; ".join([*parts, f"{len(self.forms)} forms", caught])


def seize(readings: int = 10_000, sources: tuple[str, ...] | None = None) -> Seizure:
    """Feeds a running agent `readings` marked readings from each source and seizes it.

    `sources`: "stdin" and "replay"; the second one is left out below MANY readings. 10,000 readings
    take a minute, 1,000 about ten seconds. Raises ValueError for more than MAX_MARKED / 2.
    """
    begun = time.monotonic()
    markers = marked_readings(2 * readings)
    scanner = Scanner(forms_of(markers, SPEC))
    fed = markers[:readings]
    window_seconds = max(1, readings // (WINDOWS * READINGS_PER_SECOND))
    wanted = sources or (("stdin", "replay") if readings >= MANY else ("stdin",))
    with TemporaryDirectory() as name:
        folder = Path(name)
        runs = [run_agent(s, folder / s, fed, scanner, window_seconds) for s in wanted]
        controls = [
            *(PositiveControl(IN_FLIGHT, _in_flight(run)) for run in runs if run.source == "stdin"),
            PositiveControl(
                "every form at every alignment", finds_planted(folder, markers[:1000], SPEC)
            ),
            *(
                PositiveControl(f"a leak to {w}", catches_leak(folder, w, fed, scanner))
                for w in LEAKS
            ),
        ]
    searched = sum(snapshot.searched_bytes for run in runs for snapshot in run.snapshots)
    return Seizure(
        readings,
        scanner.names,
        tuple(runs),
        tuple(controls),
        searched * scanner.needles / 2**64,
        time.monotonic() - begun,
        NOTES,
    )


def _summary(run: Run) -> str:
    if run.problem or run.unread:
        return f"{run.source}: {run.problem or f'not read: {run.unread[0]}'}"
    old = len({sighting.reading for sighting in run.leaks})
    seen = f"{run.readings} readings, {old} found that should be gone"
    looked = f"{run.source}: {seen} in {len(run.snapshots)} looks"
    return f"{looked}, but {run.idle}" if run.idle else looked


def _in_flight(run: Run) -> bool:
    return any(
        snapshot.moment == IN_FLIGHT
        and {(s.place, s.reading) for s in snapshot.sightings} == {("memory", snapshot.last)}
        for snapshot in run.snapshots
    )
