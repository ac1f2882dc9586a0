"""Programs that start others are ended or killed at any moment, and leave nothing behind.

All that a program starts, and what those start, has the mark of a test in its environment.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from pansketch_fleet.child_process import Child
from testbed.embedded_broker import free_port
from tests.waiting import until

REPOSITORY = Path(__file__).resolve().parents[2]
MAX_SECONDS = 120.0
MARK = "LEFT_BEHIND_BY"
CAPTIVE = """
import sys, time
from pathlib import Path
from pansketch_audit.seizure.captive_process import running
from pansketch_audit.seizure.mqtt_recorder import Recorder
with Recorder() as recorder, running(["-c", "import time; time.sleep(600)"], Path("run"), recorder):
    time.sleep(600)
"""
WORKERS = """
from pansketch_audit.report import run_audit
if __name__ == "__main__":
    run_audit(quick=True, on_finding=lambda *_: None)
"""


def marked(mark: str) -> dict[int, str]:
    """The living processes with the mark, by their ids: what each of them runs."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(folder.name)] = words
        except OSError:  # It has ended, or is a zombie, which has no environment any more.
            continue
    return found


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen, str]]]:
    """Starts a marked program; the mark and the process. A test run that was started by nohup
    ignores SIGHUP, which what it starts would inherit, and rightly ignore as well."""
    marks, started = [], []

    def start(*words: str, cwd: Path = REPOSITORY):
        marks.append(uuid4().hex)
        process = subprocess.Popen(
            ["env", "--default-signal=HUP", sys.executable, *words],
            cwd=cwd,
            env={**os.environ, MARK: marks[-1], "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append(process)
        return process, marks[-1]

    yield start
    for mark in marks:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
    for process in started:
        process.wait()


def runs(mark: str, *parts: str) -> bool:
    """True if a process runs for each of the parts of command lines."""
    lines = marked(mark).values()
    return all(any(part in line for line in lines) for part in parts)


def ended_by(process: subprocess.Popen, mark: str, number: int) -> None:
    """The program gets the signal; then nothing with its mark is left."""
    process.send_signal(number)
    process.wait(MAX_SECONDS)
    until(lambda: not marked(mark), lambda: marked(mark))


MOMENTS = {
    "its broker starts": ("-m testbed.embedded_broker",),
    "its collector answers": ("-m pansketch_collector serve", "-m pansketch_collector.http"),
    "its agents run": ("-m pansketch_collector.http", "-m pansketch_agent run"),
}


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGHUP, "its broker starts"),
        (signal.SIGTERM, "its collector answers"),
        (signal.SIGTERM, "its agents run"),
        (signal.SIGKILL, "its broker starts"),
        (signal.SIGKILL, "its agents run"),
    ],
)
def test_a_demo_leaves_nothing(begin, tmp_path, number, moment):
    http = f"127.0.0.1:{free_port()}"
    words = ("--short", "--keep", "--http", http, "--out", str(tmp_path / "demo"))
    process, mark = begin("-m", "demo", *words)
    until(lambda: runs(mark, *MOMENTS[moment]), lambda: marked(mark))
    ended_by(process, mark, number)


def test_the_demo_s_broker_answers_while_the_demo_does_not(begin, tmp_path):
    """As when a picture is drawn, which holds Python's lock for seconds."""
    process, mark = begin("-m", "demo", "--short", "--keep", "--out", str(tmp_path / "demo"))
    until(
        lambda: runs(mark, "-m pansketch_collector serve", "-m pansketch_agent run"),
        lambda: marked(mark),
    )
    os.kill(process.pid, signal.SIGSTOP)
    (line,) = [line for line in marked(mark).values() if "testbed.embedded_broker" in line]
    assert mqtt_answers(int(line.split()[-1]))
    os.kill(process.pid, signal.SIGCONT)
    ended_by(process, mark, signal.SIGTERM)


def mqtt_answers(port: int) -> bool:
    hello = b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04left"
    with socket.create_connection(("127.0.0.1", port), MAX_SECONDS) as client:
        client.sendall(hello)
        return client.recv(4) == b"\x20\x02\x00\x00"


@pytest.mark.needs("mosquitto", "openssl", "libfaketime")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_a_chaos_run_leaves_nothing(begin, tmp_path, number):
    words = ("--devices", "2", "--windows", "500", "--faults", "40", "--out", str(tmp_path / "run"))
    process, mark = begin("-m", "testbed.chaos", *words)
    log = tmp_path / "run/log/dev-02.log"
    until(lambda: log.exists() and "is in the outbox" in log.read_text(), lambda: marked(mark))
    assert runs(mark, "mosquitto", "-m pansketch_collector", "-m pansketch_agent")
    ended_by(process, mark, number)


@pytest.mark.needs("mosquitto")
def test_a_test_run_that_is_killed_leaves_nothing(begin):
    tests = ("tests/system/test_fleet.py", "-k", "mosquitto")
    process, mark = begin("-m", "pytest", "-n", "0", *tests)
    until(
        lambda: runs(mark, "mosquitto", "-m pansketch_collector", "-m pansketch_agent"),
        lambda: marked(mark),
    )
    ended_by(process, mark, signal.SIGKILL)


def test_an_audit_that_is_killed_leaves_neither_captive_nor_workers(begin, tmp_path):
    process, mark = begin("-c", CAPTIVE, cwd=tmp_path)
    until(lambda: runs(mark, "time.sleep(600)") and len(marked(mark)) == 2, lambda: marked(mark))
    ended_by(process, mark, signal.SIGKILL)
    (tmp_path / "workers.py").write_text(WORKERS)
    process, mark = begin("workers.py", cwd=tmp_path)
    until(lambda: runs(mark, "spawn_main", "-m pansketch_agent"), lambda: marked(mark))
    ended_by(process, mark, signal.SIGKILL)


def test_what_is_left_would_be_found(begin):
    """Negative control: a program that is started as usual outlives the one that started it."""
    process, mark = begin("-c", "import subprocess; subprocess.Popen(['sleep', '600'])")
    assert process.wait(MAX_SECONDS) == 0
    assert list(marked(mark).values()) == ["sleep 600 "]


def test_the_thread_that_starts_a_program_may_end_before_it(tmp_path):
    """The kernel's signal follows the thread that forked: it is one that stays."""
    started = []
    thread = threading.Thread(target=lambda: started.append(Child(["sleep", "600"])))
    thread.start()
    thread.join()
    (child,) = started
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.5)
    child.kill()
    child.wait()
