"""An agent of many windows, or of many streams: the start of a long ledger, and resident memory.

Each is measured in its own process. A replacement of the network acknowledges at once, and nothing
is forced to disk, so that 10^5 windows take minutes.
"""

import re
import sys
import tempfile
from pathlib import Path

from benchmarks.harness.result import Row, at_most
from pansketch_fleet.child_process import run_child
from testbed.notify_socket import ProgramEnded, ProgramTimeout
from testbed.program import ROOT, Program

LEDGER_LINES, WINDOWS, STREAMS = 100_000, 100_000, 100
WARM_WINDOWS = 4_000  # Until then caches and heaps find their sizes.
STREAMS_MIB, GROWTH_MIB, STARTED_SECONDS = 120, 0.5, 120.0

LEDGER = """
import sys
from pathlib import Path
from time import process_time
from pansketch_agent.ledger.accounts import line
from pansketch_agent.ledger.ledger import Ledger
state = Path(sys.argv[1])
Ledger(state).__exit__(None, None, None)
with (state / "ledger").open("ab") as file:
    for number in range(1, int(sys.argv[2]) + 1):
        start = 3600 * number
        file.write(line(f"debit {number} air {start} {start + 3600} 1000000"))
for _ in range(2):
    started = process_time()
    with Ledger(state):
        print(process_time() - started)
"""
GROWTH = """
import gc, os, sys, threading
from pathlib import Path
os.fsync = lambda handle: None
from pansketch_agent.host import hardening
hardening.tune_allocator()
from pansketch_agent.runtime.stream_builder import StreamBuilder
from pansketch_agent.host.clock import Clock
from pansketch_agent.delivery.delivery import Delivery
from pansketch_agent.status.health import HealthSchedule, HealthCollector
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.host.hardening import MemoryProtection
from pansketch_agent.outbox.outbox import Outbox
from pansketch_fleet.config.loader import load_agent
from pansketch_fleet.protocol.messages import Ack, digest
from pansketch import os_entropy, peek

def resident():
    gc.collect()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))

folder, warm, windows = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
config = load_agent(folder / "config.yaml", {})
(stream,) = config.streams
now, sent, sizes = [1.7e9], [], []

def send(name, payload):
    sent.append(payload)
    return len(sent)

with Ledger(folder / "state") as ledger:
    clock = Clock(lambda: now[0], lambda: now[0], lambda *_: True, lambda: True)
    outbox = Outbox(folder / "state/outbox", 10**7)
    builder = StreamBuilder("testing", "dev", ledger, outbox, clock, threading.Event(), False, None)
    work = builder.build((stream,), os_entropy())
    memory = MemoryProtection("", Path("/"))
    delivery = Delivery(outbox, send, lambda: 0.5, wall_clock=lambda: now[0])
    health = HealthCollector(config, "s", clock, ledger, outbox, memory)
    reports = HealthSchedule("dev", health, lambda health: None)
    delivery.connected(now[0])
    for window in range(windows + 1):
        work.tick(clock)
        outbox.persist_overdue(now[0])
        reports.step(now[0])
        delivery.step(now[0])
        for message, payload in enumerate(sent, 1):
            delivery.publish_acknowledged(message, "")
            label = peek(payload).windows[0]
            ack = Ack(label.stream, label.sequence, digest(payload), "stored")
            delivery.acknowledged(ack)
        sent.clear()
        now[0] += stream.window_seconds
        if window in (warm, windows):
            sizes.append(resident())
    assert not work.failure and not len(outbox), work.failure
print(*sizes)
"""
HEAD = """\
fleet: bench
mqtt: {url: "mqtt://127.0.0.1:1"}
agent: {device: dev, state: var, profile: pi-zero-2w}
streams:
"""
STREAM = """\
  s{number}:
    source: {source}
    window: 1h
    privacy: {{epsilon: 1.0}}
    attributes: {{temp: {{low: -40, high: 60}}}}
"""


class LongRunFailed(Exception):
    """A measured process failed; the text is its last line."""


def run(quick: bool) -> list[Row]:
    windows = 2 * WARM_WINDOWS if quick else WINDOWS
    with tempfile.TemporaryDirectory() as folder:
        first, again = map(float, _run(LEDGER, Path(folder) / "ledger", LEDGER_LINES))
        _configure(Path(folder), 1, "{type: stdin}")
        early, late = map(float, _run(GROWTH, Path(folder), WARM_WINDOWS, windows))
    with tempfile.TemporaryDirectory() as folder:
        highest = _of_streams(Path(folder))
    grown, counted = late - early, windows - WARM_WINDOWS
    each = f"{grown * 2**20 / counted:.1f} B a window"
    return [
        Row(f"first start with {LEDGER_LINES:,} ledger lines", first, "CPU s", note="compacts it"),
        Row("every later start with this ledger", again, "CPU s"),
        at_most(f"growth over {counted:,} windows", grown, "MiB", GROWTH_MIB, each),
        at_most(f"agent of {STREAMS} streams, highest", highest, "MiB", STREAMS_MIB),
    ]


def _configure(folder: Path, streams: int, source: str) -> None:
    parts = [STREAM.format(number=number, source=source) for number in range(streams)]
    (folder / "config.yaml").write_text(HEAD + "".join(parts), "utf-8")


def _run(program: str, folder: Path, *counts: int) -> list[str]:
    words = [sys.executable, "-c", program, str(folder), *map(str, counts)]
    done = run_child(words, cwd=ROOT, text=True)
    if done.returncode:
        raise LongRunFailed(" ".join(done.stderr.strip().splitlines()[-1:]))
    return str(done.stdout).split()


def _of_streams(folder: Path) -> float:
    """The highest resident memory, in MiB, of an agent whose streams absorb a batch each and then
    wait for their collector."""
    rows = "".join(f"{1704067200 + 60 * minute},{minute % 40}\n" for minute in range(1000))
    (folder / "rows.csv").write_text(f"time,temp\n{rows}", "utf-8")
    _configure(folder, STREAMS, "{type: replay, path: rows.csv}")
    words = [sys.executable, "-m", "pansketch_agent", "run"]
    with Program(words, folder / "log", folder=folder) as agent:
        try:
            agent.wait_for_output("waiting for the collector", STARTED_SECONDS)
        except (ProgramTimeout, ProgramEnded) as error:
            raise LongRunFailed(str(error)[-200:]) from error
        status = Path(f"/proc/{agent.process.pid}/status").read_text("ascii")
    found = re.search(r"VmHWM:\s+(\d+)", status)
    assert found is not None
    return int(found[1]) / 1024
