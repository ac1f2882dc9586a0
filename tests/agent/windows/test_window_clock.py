"""Of a live stream the clock alone ends windows: no moment that is seen depends on a reading."""

import json
import logging
import re
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

from pansketch import decode, os_entropy
from pansketch_agent.host.clock import Clock
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Outbox
from pansketch_agent.runtime.stream_builder import StreamBuilder
from pansketch_agent.sources.readings import Readings
from pansketch_fleet.config.loader import load_agent
from pansketch_fleet.sections.time_slots import MICROSECONDS, slots_of

BEGIN, WINDOW = 1_704_067_200.0, 10
PRIVACY = {
    "reading": "{epsilon: 100}",
    "span": "{epsilon: 100, unit: {span: 5s, max_readings: 5}}",
}


class Script:
    """A live stream under a fake clock: at each moment a tick or some readings.

    It reads the disk and the log after each of them.
    """

    def __init__(self, device, folder: str, privacy: str) -> None:
        config = device.configure(source="{type: stdin}", window=f"{WINDOW}s", privacy=privacy)
        self.stream, self.state = config.streams[0], device.folder / folder
        self.now, self.seen = BEGIN, []
        self.clock = Clock(lambda: self.now, lambda: self.now - BEGIN + 1000, lambda *_: True)

    def limits(self, steps) -> list[dict]:
        """The state of the stream's limiter after each step; the rest is the same."""
        held = []
        with Ledger(self.state) as ledger:
            outbox = Outbox(self.state / "outbox", 10**7)
            builder = StreamBuilder(
                "testing", "dev-1", ledger, outbox, self.clock, threading.Event(), False, None
            )
            self.now = BEGIN - 1000
            work = builder.build((self.stream,), os_entropy())

            def source():
                for self.now, what in sorted(steps, key=lambda step: step[0]):
                    if what == "tick":
                        work.tick(self.clock)
                    elif what:
                        yield Readings(np.full(what, self.now), np.ones((what, 2)))
                    held.append(vars(work._limiter) | {"rest": (work._index, work._message)})

            work.run(source(), self.clock, threading.Event())
            outbox.close()
        return held

    def run(self, steps, ends_at: float | None = None, broken: bool = False) -> list[tuple]:
        """The disk and the log at each moment. `steps`: (moment, "tick" or how many readings)."""
        handler = logging.Handler()
        handler.emit = lambda record: self.seen.append((self.now, record.getMessage()))
        logger = logging.getLogger("pansketch_agent")
        logger.setLevel("INFO")
        logger.addHandler(handler)
        try:
            with Ledger(self.state) as ledger:
                self._play(ledger, sorted(steps, key=lambda step: step[0]), ends_at, broken)
        finally:
            logger.removeHandler(handler)
        return self.seen

    def _play(self, ledger, steps, ends_at, broken) -> None:
        outbox = Outbox(self.state / "outbox", 10**7)
        builder = StreamBuilder(
            "testing", "dev-1", ledger, outbox, self.clock, threading.Event(), False, None
        )
        work = builder.build((self.stream,), os_entropy())
        early = [step for step in steps if ends_at is None or step[0] <= ends_at]

        def look() -> None:
            names = [key.filename for key in outbox.queued()]
            self.seen.append((self.now, len(ledger.path.read_bytes()), names, work.failure))

        def source():
            for self.now, what in early:
                if what == "tick":
                    work.tick(self.clock)
                elif what:
                    yield Readings(np.full(what, self.now), np.ones((what, 2)))
                look()
            if broken:
                raise ValueError("a reading that breaks it")

        work.run(source(), self.clock, threading.Event())
        look()
        for self.now, what in steps[len(early) :]:
            if what == "tick":
                work.tick(self.clock)
            look()
        outbox.close()
        self.counts = {
            key.sequence: int(decode(outbox.read(key), self.stream.spec).counters[0])
            for key in outbox.queued()
        }


def ticks(until: float = 5 * WINDOW) -> list[tuple[float, str]]:
    """Every 0.2 s, at moments that are not the windows' own."""
    return [(BEGIN + 0.13 + n / 5, "tick") for n in range(int(5 * until))]


# Right after a window's end and before the tick that sees it; and well inside one.
MOMENTS = [BEGIN + n * WINDOW + d for n in (1, 2, 4) for d in (0.0, 0.001, 0.12, 0.5, 3.7)]


@pytest.mark.parametrize("unit", PRIVACY)
def test_every_moment_is_the_same_with_and_without_readings(device, unit):
    schedule = device.configure(window=f"{WINDOW}s").streams[0]
    assert schedule.window_seconds == WINDOW
    seen = []
    for folder, count in (("without", 0), ("with", 1), ("many", 50)):
        script = Script(device, folder, PRIVACY[unit])
        seen.append(script.run([*ticks(), *((at, count) for at in MOMENTS)]))
    assert seen[0] == seen[1] == seen[2]
    assert sum("is in the outbox" in str(entry[1]) for entry in seen[0]) == 4


def test_a_reading_between_the_end_and_the_tick_is_counted_once(device):
    """In the window that was open; noise of scale 2 a level is off by 60 with chance below 1e-6."""
    script = Script(device, "state", PRIVACY["reading"])
    script.run([*ticks(), (BEGIN + WINDOW + 0.1, 900)])
    counts = [round(count / 900) for count in script.counts.values()]
    assert sorted(counts) == [0, 0, 0, 1]


@pytest.mark.parametrize("broken", [False, True], ids=["ends", "fails"])
def test_the_moment_of_a_source_s_end_is_revealed_by_nothing(device, broken):
    """Seen is the window in which it ended, and no more."""
    seen = []
    for folder, at in (("early", 21.0), ("late", 29.9)):
        script = Script(device, folder, PRIVACY["reading"])
        moments = [(BEGIN + at, 0) for at in (21.0, 29.9)]
        seen.append(script.run([*ticks(), *moments], BEGIN + at, broken))
        looks = [entry for entry in seen[-1] if len(entry) > 2]
        assert bool(looks[-1][-1]) == broken
    keep = [[entry for n, entry in enumerate(each) if entry not in each[:n]] for each in seen]
    assert keep[0] == keep[1]
    last = [entry for entry in keep[0] if len(entry) == 2][-1]
    assert ("stopped by ValueError" if broken else "the source has ended") in last[1]


LONG = "{epsilon: 1, unit: {span: 8h, max_readings: 3, open: 10s}}"


@pytest.mark.parametrize("count", [1, 50])
def test_a_seizure_after_the_open_part_finds_no_bit_of_a_reading(device, count):
    """A slot of four hours with a reading in its first ten seconds.

    The worker's state is compared at each tick after them, except for the sketch, whose numbers are
    noise.
    """
    states = []
    for folder, readings in (("without", 0), ("with", count)):
        script = Script(device, folder, LONG)
        slot = slots_of(script.stream)
        begin = 2 * slot.length / MICROSECONDS  # in the clock that no one can set
        moments = [begin + after for after in (1.0, 5.0, 10.2, 10.4, 7000.0, 14000.0)]
        steps = [(BEGIN - 1000 + at, "tick") for at in moments]
        states.append(script.limits([*steps, (BEGIN - 1000 + begin + 5.1, readings)]))
    without, with_it = states
    assert with_it[:2] == without[:2]
    assert with_it[2] != without[2], "the control: in the open part there is one"
    assert with_it[3:] == without[3:]


def test_a_source_that_is_polled_has_no_limiter(device):
    source = "{type: hwmon, sensors: {temp: a, wind: b}}"
    device.configure(source=source, privacy=PRIVACY["span"])
    text = device.config.read_text().replace("{categories: [calm, N, NO]}", "{low: 0, high: 1}")
    device.config.write_text(text)
    (stream,) = load_agent(device.config, {}).streams
    clock = Clock(lambda: BEGIN, lambda: 1000.0, lambda *_: True)
    with Ledger(device.state) as ledger:
        outbox = Outbox(device.state / "outbox", 10**7)
        builder = StreamBuilder(
            "testing", "dev-1", ledger, outbox, clock, threading.Event(), False, None
        )
        assert builder.build((stream,), os_entropy())._limiter is None
        outbox.close()


SPY = """
import sys, threading
from pansketch_agent.ledger import ledger
from pansketch_agent.__main__ import main

debit = ledger.Ledger.debit

def spied(self, *given):
    print("debit by", threading.current_thread().name, file=sys.stderr)
    return debit(self, *given)

ledger.Ledger.debit = spied
sys.exit(main(sys.argv[1:]))
"""


def test_no_reading_ends_a_window_of_the_real_agent(device, until):
    """It is given one after another, so that many come right after a window's end."""
    device.configure(source="{type: stdin}", window="1s")
    agent = device.start("run", "--drain", "0", program=("-c", SPY))

    def debited() -> bool:
        with suppress(BrokenPipeError):
            agent.process.stdin.write('{"temp": 11.5, "wind": "N"}\n')
            agent.process.stdin.flush()
        return agent.output.count("debit by") >= 4

    until(debited, "four windows")
    agent.stop()
    assert set(re.findall("debit by (.*)", agent.output)) == {"MainThread"}


def test_a_program_s_end_is_logged_when_its_window_is_over(device, until):
    """Once, until it ends in another way."""
    (device.folder / "speak.py").write_text("raise SystemExit(3)")
    command = json.dumps([sys.executable, str(device.folder / "speak.py")])
    device.configure(source=f"{{type: exec, command: {command}}}", window="2s")
    agent = device.start("run", "--drain", "0")
    until(lambda: agent.output.count("is in the outbox") >= 3, "three windows")
    (device.folder / "speak.py").write_text("raise SystemExit(4)")
    agent.wait_for_output("exit status 4")
    agent.stop()
    lines = [line for line in agent.output.splitlines() if "air: " in line]
    told = [n for n, line in enumerate(lines) if "has ended" in line]
    assert [line.partition("status ")[2][:1] for line in lines if "has ended" in line] == ["3", "4"]
    assert all("is in the outbox" in lines[n - 1] for n in told)
