"""Leaks that are outside of the guarantee: each counts readings exactly, without noise.

The threat model of docs/explanation/privacy.md names these tests in its rows "not guaranteed". If
one fails, a system no longer leaks, and its row must be corrected.
"""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from pansketch import Attribute, Domain, HierarchySpec, Privacy, os_entropy
from pansketch_agent.sources.decoders import decoder_for

LINE = '{"temp": 21.5, "wind": "N"}\n'
# Dumpable, so that its own user, and not root alone, may read what the kernel counts of it.
DUMPABLE = """
import sys
from pansketch_agent.host import hardening
from pansketch_agent.__main__ import main
hardening.forbid_dumps = list
sys.exit(main(sys.argv[1:]))
"""


def counted(pid: int) -> dict[str, int]:
    """The kernel's counters of a process."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def test_the_kernel_counts_the_bytes_that_an_agent_has_read(device, until):
    device.configure(source="{type: stdin}", window="3650d")
    # Before it is ready it draws the noise that its windows begin with.
    agent = device.start("run", program=("-c", DUMPABLE))
    agent.wait_until_ready()
    assert agent.process.stdin is not None
    before = counted(agent.process.pid)["rchar"]
    for readings in (20, 1):
        agent.process.stdin.write(LINE * readings)
        agent.process.stdin.flush()
        wanted = before + len(LINE) * readings
        until(lambda wanted=wanted: counted(agent.process.pid)["rchar"] >= wanted, "the readings")
        assert counted(agent.process.pid)["rchar"] == wanted, (
            "20 readings and 21 differ by one line"
        )
        before = wanted
    assert agent.stop() == 0


class DictObject(ctypes.Structure):
    """The beginning of a dict in CPython, up to the number of its last change."""

    _fields_ = [
        ("references", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("used", ctypes.c_ssize_t),
        ("version", ctypes.c_uint64),
    ]


def dict_version() -> int:
    """The number that the interpreter gives to the change of a dict that is made now."""
    made = {}
    made["a"] = 1
    return DictObject.from_address(id(made)).version


@pytest.fixture
def changes(device):
    """Return how far so many readings advance the interpreter's number."""
    decoder = decoder_for(device.configure(source="{type: stdin}").streams[0])
    line, rows = memoryview(LINE.encode()), decoder.empty(1)

    def run(readings: int) -> int:
        before = dict_version()
        for _ in range(readings):
            decoder.decode_line(line, rows, 0)
        return dict_version() - before

    return run


def test_the_interpreter_counts_the_dicts_that_readings_were_parsed_into(changes):
    changes(1)
    none, one, two = changes(0), changes(1), changes(2)
    assert two - one == one - none > 0
    assert changes(101) - changes(100) == one - none, "100 readings and 101 differ by one reading"


def test_two_snapshots_of_one_window_show_what_arrived_between_them():
    spec = HierarchySpec(
        Domain([Attribute("x", low=0, high=8)]),
        Privacy(epsilon=0.01),
        depth=3,
        k=8,
        width=8,
        rows=1,
        fanout=2,
    )
    sketch = spec.start(os_entropy())
    sketch.update_many(np.array([[1.5]] * 5))
    first = sketch._counters.copy()
    sketch.update_many(np.array([[6.5]] * 3))
    difference = sketch._counters - first
    assert set(difference.tolist()) == {0, 3}, "exact, under noise of a scale of hundreds"
    assert first.std() > 10
