"""Exec: a program that prints JSON, its restarts, its end with the agent, and paths into JSON."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from pansketch import Attribute, Domain
from pansketch_agent.__main__ import main
from pansketch_agent.host.clock import Clock
from pansketch_agent.runtime.stream_builder import open_source
from pansketch_agent.sources import exec as child
from pansketch_agent.sources.decoders import ReadingDecoder
from pansketch_agent.sources.readings import NO_KEY
from pansketch_fleet.config.loader import ConfigError, load_agent
from pansketch_fleet.sections.sources.json_paths import path_text

DOMAIN = Domain((Attribute("temp", -40, 60), Attribute("wind", categories=("calm", "N", "NO"))))
FORM = ReadingDecoder(DOMAIN)
LINE = '{"temp": 1.5, "wind": "N"}'


class WaitRecorder:
    """A clock that moves only when a caller waits; it stops a caller after enough waits.

    A wait shorter than `shortest` counts for nothing.
    """

    def __init__(self, stop: threading.Event, max_waits: int, shortest: float = 0.4) -> None:
        self.at, self.waits, self._shortest = 1000.0, [], shortest
        self._stop, self._max_waits = stop, max_waits
        self.said: list[str] = []  # by the source

    def clock(self) -> Clock:
        return Clock(lambda: self.at, lambda: self.at, self.wait)

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self.at += seconds
        self.waits += [seconds] * (seconds >= self._shortest)
        if len(self.waits) >= self._max_waits:
            self._stop.set()
        return stop.is_set()


def printed(
    program: str, max_waits: int, jitter: float = 0.5, decoder=FORM, shortest: float = 0.4
) -> tuple[list[list[float]], WaitRecorder]:
    """The rows of a Python program that is run until it has been waited for often enough."""
    stop = threading.Event()
    recorder, rows = WaitRecorder(stop, max_waits, shortest), []
    command = (sys.executable, "-c", program)
    for readings in child.lines(
        command, decoder, recorder.clock(), stop, lambda: jitter, recorder.said.append
    ):
        rows += readings.rows.tolist()
    return rows, recorder


def test_what_a_program_prints_becomes_readings():
    rows, _ = printed(f"print('{LINE}', 'x', '{LINE}', sep=chr(10))", 1)
    assert rows == [[1.5, 1.0], [1.5, 1.0]]


def test_a_program_that_ends_is_started_again_with_exponential_backoff():
    _, recorder = printed("", 8)
    assert recorder.waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    _, early = printed("", 3, jitter=0.0)
    assert early.waits == [0.5, 1.0, 2.0]


def test_a_long_life_is_followed_by_a_short_pause():
    stop = threading.Event()
    recorder = WaitRecorder(stop, 6)
    moments = iter([0.0, 1.0, 1.0, 2.0, 2.0, 2.0 + child.HEALTHY_SECONDS, 90.0, 91.0])
    clock = Clock(lambda: 0.0, lambda: next(moments, 100.0), recorder.wait)
    command = (sys.executable, "-c", "")
    assert not list(child.lines(command, FORM, clock, stop, lambda: 0.5, recorder.said.append))
    assert recorder.waits[:5] == [1.0, 2.0, 1.0, 2.0, 4.0]


def test_only_the_way_it_ended_is_reported_and_not_in_the_log(caplog):
    program = f"import sys; print('{LINE}'); print('secret 17.25', file=sys.stderr); sys.exit(3)"
    rows, recorder = printed(program, 5)
    assert rows
    said = f"{sys.executable} has ended (exit status 3); it is started again each time, with pauses"
    assert recorder.said == [said] * 5
    assert not caplog.records


@pytest.mark.parametrize(
    ("program", "words"),
    [("import os; os.kill(os.getpid(), 9)", "signal 9"), ("import sys; sys.exit(0)", "status 0")],
)
def test_how_a_program_ends(program, words):
    _, recorder = printed(program, 2)
    assert all(words in text for text in recorder.said)


def test_an_end_with_the_agent_is_not_reported():
    """Negative control: a program that exits."""
    stop, recorder = threading.Event(), WaitRecorder(threading.Event(), 1)
    program = f"import time; print('{LINE}', flush=True); time.sleep(600)"
    command = (sys.executable, "-c", program)
    for _ in child.lines(command, FORM, recorder.clock(), stop, lambda: 0.5, recorder.said.append):
        stop.set()
    assert recorder.said == []
    assert len(printed("", 1)[1].said) == 1


def test_a_program_that_is_not_there_is_tried_again():
    stop = threading.Event()
    recorder = WaitRecorder(stop, 3)
    command = ("/no/such/program",)
    clock = recorder.clock()
    assert not list(child.lines(command, FORM, clock, stop, lambda: 0.5, recorder.said.append))
    assert recorder.waits == [1.0, 2.0, 4.0]
    assert all("/no/such/program cannot be started (No such file" in text for text in recorder.said)


@pytest.mark.parametrize("line", [LINE, "", "garbage " * 10])
def test_a_flood_is_taken_at_a_bounded_pace(line):
    max_waits = 60
    program = f"import sys\nwhile True: sys.stdout.write('{line}' + chr(10))"
    rows, recorder = printed(program, max_waits, shortest=0)
    assert len(recorder.waits) >= max_waits
    assert bool(rows) == (line == LINE)
    max_bytes = sum(recorder.waits) * child.MAX_BYTES_PER_SECOND + child.stdin.MAX_LINE_BYTES
    assert len(rows) * len(line) <= max_bytes


def test_its_pipe_holds_one_page():
    """Negative control: a pipe as the system makes it holds more."""
    ours = child._start((sys.executable, "-c", "import time; time.sleep(60)"))
    reader, writer = os.pipe()
    try:
        assert held(ours.stdout.fileno()) == child.PIPE_BYTES < held(reader)
    finally:
        child._end(ours)
        ours.stdout.close()
        os.close(reader)
        os.close(writer)
    assert ours.returncode == -signal.SIGTERM


def held(handle: int) -> int:
    return child.fcntl.fcntl(handle, child.fcntl.F_GETPIPE_SZ)


def test_a_program_that_will_not_end_is_killed(monkeypatch):
    monkeypatch.setattr(child, "EXIT_SECONDS", 0.2)
    program = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1); time.sleep(60)"
    stubborn = child._start((sys.executable, "-uc", program))
    assert stubborn.stdout.read(1) == b"1"
    child._end(stubborn)
    stubborn.stdout.close()
    assert stubborn.returncode == -signal.SIGKILL


def test_it_does_not_speak_for_the_agent(monkeypatch):
    for name in child.RESERVED_VARIABLES:
        monkeypatch.setenv(name, "9")
    decoder = ReadingDecoder(Domain((Attribute("found", 0, 9),)))
    count = f"sum(name in os.environ for name in {child.RESERVED_VARIABLES!r})"
    rows, _ = printed(
        f"import os, json; print(json.dumps(dict(found={count})))", 1, decoder=decoder
    )
    assert rows == [[0.0]]


def test_a_program_may_print_keys(device):
    device.configure(source="{type: stdin}")
    lines = [json.dumps({"tag": {"id": key}}) for key in (4, "7", "x", 12, [4])]
    (device.folder / "keys").write_text("\n".join([*lines, "5", ""]))
    program = f"print(open({str(device.folder / 'keys')!r}).read())"
    words = json.dumps([sys.executable, "-c", program])
    exec_source = f"{{type: exec, command: {words}, paths: {{badge: tag.id}}}}"
    text = device.config.read_text().replace("{type: stdin}", exec_source)
    sketch = "    key: badge\n    sketches: [{type: distinct, universe: 9}]\n"
    text = text.replace("unit: reading", "unit: key")
    device.config.write_text(text[: text.index("    attributes:")] + sketch)
    stream = load_agent(device.config, {}).streams[0]
    stop, keys = threading.Event(), []
    recorder = WaitRecorder(stop, 1)
    for readings in open_source(stream, recorder.clock(), stop, Path("/"), lambda: 0.5, print):
        keys += readings.rows.tolist()
    assert keys == [4, 7, *[NO_KEY] * 3]


def configured(device, source: str):
    device.configure(source=source)
    return load_agent(device.config, {})


def test_a_configured_command_and_its_paths(device, capsys):
    paths = "{temp: sensor.temp, wind: .}"
    source = f"{{type: exec, command: [{sys.executable}, -c, 7], paths: {paths}}}"
    found = configured(device, source).streams[0].source
    assert found.command == (sys.executable, "-c", "7")
    assert found.paths == {"temp": ("sensor", "temp"), "wind": ()}
    assert [path_text(steps) for steps in found.paths.values()] == ["sensor.temp", "."]
    assert main(["print-config", "--config", str(device.config)]) == 0
    out = capsys.readouterr().out
    assert "streams.air.source.command[1]" in out
    assert "streams.air.source.paths.temp" in out
    assert main(["validate", "--config", str(device.config)]) == 0
    assert f"JSON lines that {sys.executable} prints" in capsys.readouterr().out


def test_a_relative_program_lies_beside_the_configuration(device):
    found = configured(device, "{type: exec, command: [bin/read]}").streams[0].source
    assert found.command == (str(device.folder / "bin/read"),)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{type: exec}", "source.command: is missing"),
        ("{type: exec, command: []}", "is no command; write a list"),
        ("{type: exec, command: rtl_433}", "is text; write a list"),
        ("{type: exec, command: [x], paths: {temp: a..b}}", "paths.temp: is no path; write names"),
        ("{type: exec, command: [x], paths: {tmp: a}}", "paths.tmp: is not what this stream is"),
    ],
)
def test_what_is_no_command_or_path_is_refused(device, source, words):
    with pytest.raises(ConfigError) as refused:
        configured(device, source)
    assert words in str(refused.value)


def test_a_missing_program_is_named_with_the_fix(device, capsys):
    configured(device, "{type: exec, command: [no-such-program-here]}")
    assert main(["validate", "--config", str(device.config)]) == 2
    err = capsys.readouterr().err
    assert "streams.air.source.command: there is no program no-such-program-here; install" in err


PROGRAM = """\
import os, sys, time
open("child", "w").write(str(os.getpid()))
print('{"temp": 1.5, "wind": "N"}', flush=True)
time.sleep(600)
"""


def child_of(device, until, url: str):
    """An agent with a program that runs, and the program's process id."""
    (device.folder / "program.py").write_text(PROGRAM)
    source = f"{{type: exec, command: [{sys.executable}, program.py]}}"
    device.configure(url, source=source)
    agent = device.start("run")
    note = device.folder / "child"
    until(lambda: note.exists() and note.read_text(), "the program has started")
    return agent, Path("/proc") / note.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_ends_with_the_agent(device, broker, until, number):
    agent, process = child_of(device, until, broker.url)
    assert process.exists()
    agent.stop(number)
    until(lambda: not process.exists() or is_dead(process), "the program has ended")


def is_dead(process: Path) -> bool:
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
