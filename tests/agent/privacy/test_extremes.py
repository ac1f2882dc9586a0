"""No reading changes a line of the log: each source and each family of sketch, in the agent's own
process.
"""

import json
import re
import sys
import time
from contextlib import contextmanager, suppress

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

EXTREMES = (
    *("1.7976931348623157e308", "-1.7976931348623157e308", "1e304", "-1e304", "5e-324", "-5e-324"),
    *("2.2e-308", "-0.0", "1e400", "-1e400", "1e-400", "NaN", "Infinity", "-Infinity"),
    *("9" * 400, "-" + "9" * 400, "9" * 5000, str(2**63), str(2**64), "-1", "1_0", "0x1p1023"),
    *('"inf"', '"nan"', '"1e400"', '"\\ud800"', '"' + "x" * 300 + '"', '""', "null", "true"),
    *("[]", "{}", "[1e400]", "[" * 2000, "\\", ""),
)
ORDINARY = ("11.5",)
LINE = '{{"temp": {0}, "flow": {0}, "angle": {0}, "tag": {0}}}'
ATTRIBUTES = """
    attributes:
      temp: {low: -40, high: 60}
      flow: {low: 0, high: 1000000, scale: log}
      angle: {low: 0, high: 360, cyclic: true}"""
TAGS = "\n    key: tag"
FAMILIES = {
    "hierarchy": (ATTRIBUTES, "{type: hierarchy, depth: 24, k: 4, width: 8, rows: 1}"),
    "views": (ATTRIBUTES, "{type: views}"),
    "cells": (ATTRIBUTES, "{type: cells, depth: 18, width: 64, rows: 2}"),
    "rff": (ATTRIBUTES, "{type: moments, features: rff, m: 4}"),
    "race": (ATTRIBUTES, "{type: moments, features: race, rows: 4, width: 4}"),
    "hist": (ATTRIBUTES, "{type: moments, features: hist, bins: 4}"),
    "universe": (TAGS, "{type: distinct, universe: 50}"),
    "texts": (TAGS, "{type: distinct, expected_keys: 50, release: bitmap}"),
}
WINDOWS = 2


def configure(device, source: str, families, window: str = "1s") -> None:
    head = "fleet: testing\nmqtt: {url: mqtt://127.0.0.1:1}\nagent: {device: dev-1}\nstreams:"
    for name in families:
        about, sketch = FAMILIES[name]
        head += f"\n  {name}:\n    source: {source}\n    window: {window}\n"
        head += f"    privacy: {{epsilon: 4}}{about}\n    sketches: [{sketch}]"
    device.config.write_text(head)


def lines_of(values) -> list[str]:
    """Each value in every attribute, then in one beside ordinary ones."""
    alone = [LINE.format("1.5").replace('"temp": 1.5', f'"temp": {value}') for value in values]
    return [line for line in (*map(LINE.format, values), *alone) if "\n" not in line]


def log_of(device, until, families, feed) -> set[str]:
    """The log of a live agent while `feed` gives it readings, up to WINDOWS windows of each."""
    agent = device.start("run", "--drain", "0")

    def released() -> bool:
        assert agent.process.poll() is None, agent.output
        with suppress(BrokenPipeError):
            feed(agent)
        done = [line[1] for line in device.ledger()] if (device.state / "ledger").exists() else []
        return all(done.count(name) >= WINDOWS for name in families)

    until(released, f"{WINDOWS} windows of each stream")
    agent.stop()
    return normal(agent.output)


def normal(said: str) -> set[str]:
    """The lines without figures: their times and how many windows there were are the clock's."""
    lines = re.sub(r"[0-9]+", "#", said).splitlines()
    # These depend on the machine, and on when the broker was asked for.
    around = ("running without protection of", "no broker", "listening to")
    return {line for line in lines if not any(words in line for words in around)}


def compared(device, tmp_path, make) -> None:
    """Asserts that the logs with no reading, ordinary ones and extreme ones are alike."""
    logs = []
    for number, values in enumerate(((), ORDINARY, EXTREMES)):
        each = type(device)(tmp_path / f"d{number}", device.started)
        each.folder.mkdir()
        logs.append(make(each, lines_of(values)))
    assert logs[0] == logs[1] == logs[2]
    assert any("is in the outbox" in line for line in logs[0])


SPEAK = """
import pathlib, time
lines = pathlib.Path(__file__).with_name("lines").read_text()
while True:
    print(lines, flush=True)
    time.sleep(0.2)
"""


@pytest.mark.parametrize("family", ["hierarchy", "rff", "texts"])
def test_standard_input(device, until, tmp_path, family):
    def made(each, lines):
        configure(each, "{type: stdin}", [family])

        def feed(agent) -> None:
            agent.process.stdin.writelines(line + "\n" for line in lines)
            agent.process.stdin.flush()
            time.sleep(0.05)

        return log_of(each, until, [family], feed)

    compared(device, tmp_path, made)


def test_a_program(device, until, tmp_path):
    def made(each, lines):
        (each.folder / "lines").write_text("".join(line + "\n" for line in lines))
        (each.folder / "speak.py").write_text(SPEAK)
        command = json.dumps([sys.executable, str(each.folder / "speak.py")])
        configure(each, f"{{type: exec, command: {command}}}", FAMILIES)
        return log_of(each, until, FAMILIES, lambda agent: None)

    compared(device, tmp_path, made)


def test_a_topic(device, broker, until, tmp_path):
    def made(each, lines):
        configure(each, f"{{type: mqtt, topic: home/air, url: '{broker.url}'}}", FAMILIES)
        with publisher(broker.port) as client:

            def feed(agent) -> None:
                for line in lines:
                    client.publish("home/air", line, 0)
                time.sleep(0.05)

            return log_of(each, until, FAMILIES, feed)

    compared(device, tmp_path, made)


@contextmanager
def publisher(port: int):
    client = Client(CallbackAPIVersion.VERSION2, client_id="speaker")
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def test_a_replay(device, tmp_path):
    def made(each, lines):
        values = [re.match(r'{"temp": (.*), "flow"', line)[1] for line in lines]
        rows = [f'2024-01-01T01:00:00Z,"{v.strip(chr(34))}",1.5,1.5,"{v}"' for v in values]
        first, last = (f"2024-01-01T0{hour}:30:00Z,1,1,1,1" for hour in (0, 2))
        text = "\n".join(["time,temp,flow,angle,tag", first, *rows, last, ""])
        (each.folder / "rows.csv").write_text(text)
        configure(each, "{type: replay, path: rows.csv}", FAMILIES, "1h")
        agent = each.start("run", "--drain", "0")
        agent.wait()
        return normal(agent.output)

    compared(device, tmp_path, made)


NOISY = """
import sys, warnings
import numpy as np
from pansketch_agent.__main__ import main
from pansketch_agent.windows.window import Windows

absorb = Windows.absorb

def noisy(self, *given):
    warnings.warn("a reading has come")
    np.float64(1e308) * given[-1].size * 10
    np.array([1e308]) * 10
    absorb(self, *given)

Windows.absorb = noisy
sys.exit(main(sys.argv[1:]))
"""


def test_a_warning_that_a_reading_brings_about_is_in_no_log(device):
    """The second line of defence, for unforeseen arithmetic."""
    device.configure()
    agent = device.start("run", "--drain", "0", program=("-c", NOISY))
    agent.wait()
    assert "is in the outbox" in agent.output
    assert "Warning" not in agent.output
    assert "a reading has come" not in agent.output


def test_a_line_of_a_reading_would_be_seen(device):
    """The control: the same program, whose reading is printed."""
    device.configure()
    program = NOISY.replace("warnings.warn(", "sys.stderr.write(")
    agent = device.start("run", "--drain", "0", program=("-c", program))
    agent.wait()
    assert "a reading has come" in agent.output
