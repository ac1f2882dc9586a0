"""The agent's resident memory and start, each measured in a process of its own."""

import subprocess
import sys

from benchmarks.row import Row, at_most
from demo.fleet import ROOT

RESIDENT_MIB, GROWTH_MIB = 48, 0.5

RESIDENT = """
def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))
"""
BARE = RESIDENT + "print(resident())"
DEPENDENCIES = (
    "import numpy, paho.mqtt.client, msgpack, yaml, msgspec" + RESIDENT + "print(resident())"
)
IMPORTS = f"""
from time import perf_counter
started = perf_counter()
import agent.__main__
seconds = perf_counter() - started
{RESIDENT}
print(seconds, resident())
"""
# Readings come in blocks, as a replay yields them, into one buffer; no generator of numpy's.
ABSORBS = f"""
import agent.__main__
import numpy as np
from agent.sources.replay import BLOCK_ROWS
from fleet.config import load
from pansketch import os_entropy
{RESIDENT}
sketch = load("config.yaml", "agent", {{}}).streams[0].spec.start(os_entropy())
started = resident()
rows, steps = np.zeros((BLOCK_ROWS, 2)), np.arange(BLOCK_ROWS, dtype=float)
sizes, absorbed = [], 0
while absorbed < 1_000_000:
    for column, (low, span, turn) in enumerate([(-40, 100, 0.6180339887), (0, 1000, 0.7548776662)]):
        np.multiply(np.modf((steps + absorbed) * turn)[0], span, out=rows[:, column])
        rows[:, column] += low
    sketch.update_many(rows)
    absorbed += BLOCK_ROWS
    sizes.append(resident())
print(started, sizes[len(sizes) // 10], sizes[-1], max(sizes))
"""


class MeasurementFailed(Exception):
    """A process that was to be measured failed; the text says how it ended."""


def run(quick: bool) -> list[Row]:
    repeats = 2 if quick else 5
    ((bare,),) = _runs(BARE, 1)
    ((dependencies,),) = _runs(DEPENDENCIES, 1)
    imports = _runs(IMPORTS, repeats)
    started, early, late, most = _runs(ABSORBS, 1)[0]
    return [
        Row("bare Python", bare, "MiB"),
        Row("with the agent's dependencies", dependencies, "MiB"),
        Row("agent imported", min(run[1] for run in imports), "MiB"),
        Row("agent with a sketch of the default configuration", started, "MiB"),
        at_most("after a million readings, highest", most, "MiB", RESIDENT_MIB),
        at_most(
            "growth from 100,000 to a million readings", late - early, "MiB", GROWTH_MIB, "flat"
        ),
        Row("import of the agent", min(run[0] for run in imports), "s"),
    ]


def _runs(program: str, repeats: int) -> list[list[float]]:
    """What a cold process prints, several times over. Raises MeasurementFailed."""
    return [_numbers(program) for _ in range(repeats)]


def _numbers(program: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise MeasurementFailed(f"footprint: the measured process failed: {' '.join(last)}")
    return [float(number) for number in done.stdout.split()]
