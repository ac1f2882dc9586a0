"""The agent's resident memory and start, each measured in a process of its own."""

import re
import socket
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness.result import MeasurementFailed, Row, at_most
from benchmarks.performance import long_run
from pansketch_fleet.child_process import run_child
from pansketch_fleet.config.loader import load_agent
from testbed.local_fleet import CONFIG
from testbed.program import ROOT, Program

# The agent's own memory. Interpreter and NumPy differ by 5 MiB between releases.
OWN_MIB, GROWTH_MIB = 20, 0.5
MIB = 2**20
WINDOWS_OFFLINE, OFFLINE_WINDOW = 1000, "35h"  # of the 35,064 hours that a station has
OFFLINE_SECONDS = 120.0

RESIDENT = """
def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))
"""
BARE = RESIDENT + "print(resident())"
LIBRARIES = "import numpy, ssl" + RESIDENT + "print(resident())"
DEPENDENCIES = (
    "import numpy, paho.mqtt.client, msgpack, yaml, msgspec" + RESIDENT + "print(resident())"
)
IMPORTS = f"""
from time import perf_counter
started = perf_counter()
import pansketch_agent.__main__
seconds = perf_counter() - started
{RESIDENT}
print(seconds, resident())
"""
# Readings come in blocks, as a replay yields them, into one buffer; no generator of numpy's.
ABSORBS = f"""
import pansketch_agent.__main__
import numpy as np
from time import process_time
from pansketch_agent.sources.replay import BLOCK_ROWS
from pansketch_fleet.child_process import run_child
from pansketch_fleet.config.loader import load_agent
from pansketch import os_entropy
{RESIDENT}
sketch = load_agent("config.yaml", {{}}).streams[0].spec.start(os_entropy())
started = resident()
attributes = sketch._spec.domain.attributes
rows, steps = np.zeros((BLOCK_ROWS, len(attributes))), np.arange(BLOCK_ROWS, dtype=float)
sizes, absorbed, busy = [], 0, 0.0
while absorbed < 1_000_000:
    for column, attribute in enumerate(attributes):
        span = attribute.highest - attribute.origin
        turn = 0.6180339887 ** (1 + column)
        np.multiply(np.modf((steps + absorbed) * turn)[0], span, out=rows[:, column])
        rows[:, column] += attribute.origin
    before = process_time()
    sketch.update_many(rows)
    busy += process_time() - before
    absorbed += BLOCK_ROWS
    sizes.append(resident())
print(started, sizes[len(sizes) // 10], sizes[-1], max(sizes), busy * 1_000_000 / absorbed)
"""


def run(quick: bool) -> list[Row]:
    repeats = 2 if quick else 5
    ((bare,),) = _runs(BARE, 1)
    ((libraries,),) = _runs(LIBRARIES, 1)
    ((dependencies,),) = _runs(DEPENDENCIES, 1)
    imports = _runs(IMPORTS, repeats)
    started, early, late, most, busy = _runs(ABSORBS, 1)[0]
    return [
        Row("bare Python", bare, "MiB"),
        Row("with NumPy and TLS", libraries, "MiB"),
        Row("with the agent's dependencies", dependencies, "MiB"),
        Row("agent imported", min(run[1] for run in imports), "MiB"),
        Row("agent with a sketch of the default configuration", started, "MiB"),
        Row("after a million readings, highest", most, "MiB"),
        at_most(
            "the same, beside an interpreter with NumPy and TLS", most - libraries, "MiB", OWN_MIB
        ),
        at_most(
            "growth from 100,000 to a million readings", late - early, "MiB", GROWTH_MIB, "flat"
        ),
        Row("a million readings of the default configuration", busy, "CPU s"),
        Row("import of the agent", min(run[0] for run in imports), "s"),
        _offline(),
        *long_run.run(quick),
    ]


def _offline() -> Row:
    """A real agent that never reaches a broker and keeps a thousand windows for later."""
    profile = load_agent(CONFIG, {}).profile
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        text = CONFIG.read_text(encoding="utf-8").replace("data/", f"{ROOT}/data/")
        config.write_text(text.replace("window: 30d", f"window: {OFFLINE_WINDOW}"), "utf-8")
        waiting, most = _kept_offline(config, Path(folder))
    if waiting < WINDOWS_OFFLINE:
        raise MeasurementFailed(f"footprint: the outbox kept {waiting} releases")
    allowed = profile.process_memory_bytes / MIB
    note = f"{waiting:,} releases in the outbox; process_memory of {profile.name}"
    return at_most("offline for a thousand windows, highest", most, "MiB", allowed, note)


def _kept_offline(config: Path, folder: Path) -> tuple[int, float]:
    """(releases in the outbox at the end, highest resident memory in MiB) of an agent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # A port on which nothing accepts: the connection is made and never answered.
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        environment = {"BROKER": address, "VAR": str(folder / "var")}
        words = [
            sys.executable,
            "-m",
            "pansketch_agent",
            "run",
            "--drain",
            "0",
            "--config",
            str(config),
        ]
        with Program(words, folder / "log", environment=environment) as agent:
            most, deadline = 0.0, time.monotonic() + OFFLINE_SECONDS
            while not agent.ended():
                if time.monotonic() > deadline:
                    agent.process.kill()
                most = max(most, _highest(agent.process.pid))
                time.sleep(0.05)
            output = agent.output
    found = re.search(r"\(releases: (\d+)\)\s*$", output)
    if found is None:
        raise MeasurementFailed(f"footprint: the agent ended otherwise: {output[-200:]}")
    return int(found[1]), most


def _highest(pid: int) -> float:
    """The highest resident memory of a process so far, in MiB; 0 when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+)", status)
    return int(found[1]) / 1024 if found else 0.0


def _runs(program: str, repeats: int) -> list[list[float]]:
    """The output of a cold process, several times over. Raises MeasurementFailed."""
    return [_numbers(program) for _ in range(repeats)]


def _numbers(program: str) -> list[float]:
    done = run_child([sys.executable, "-c", program], cwd=ROOT, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise MeasurementFailed(f"footprint: the measured process failed: {' '.join(last)}")
    return [float(number) for number in done.stdout.split()]
