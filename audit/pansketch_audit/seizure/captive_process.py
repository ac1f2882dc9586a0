"""A captive program: fed line by line, then seized with its memory, files and sent bytes.

A seizure stops the process and copies every readable page of its memory. It also copies its files,
its log and the bytes that its peer has received.
"""

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from pansketch_audit.seizure.mqtt_recorder import Recorder
from pansketch_audit.seizure.process_memory import Bytes, Scanner, process_memory

Place = Literal["memory", "disk", "log", "wire"]
ROOT = Path(__file__).resolve().parents[3]
DEADLINE_SECONDS = 300.0  # Far beyond what a busy machine needs.


@dataclass(frozen=True)
class Sighting:
    """A reading that was found: its number in the order of feeding, in which form, and where."""

    place: Place
    reading: int
    form: str
    where: str


@dataclass(frozen=True)
class Snapshot:
    """One search of one process. `last`: the number of the reading that it was given last.

    `unread`: memory that could not be read, and the reasons.
    """

    moment: str
    last: int
    searched_bytes: int
    sightings: tuple[Sighting, ...]
    unread: tuple[str, ...]


@dataclass(frozen=True)
class Captive:
    """A running process, the folder that holds its files/ and its log, and its peer."""

    process: subprocess.Popen[bytes]
    folder: Path
    recorder: Recorder


@contextmanager
def running(command: Sequence[str], folder: Path, recorder: Recorder) -> Iterator[Captive]:
    """Starts a program in `folder`/files, and kills it at the end."""
    files, log = folder / "files", folder / "log"
    files.mkdir(parents=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "TMPDIR": str(files),
        "HOME": str(files),
    }
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*until_our_end(), *command],
            cwd=files,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            bufsize=0,
        ) as process,
    ):
        try:
            yield Captive(process, folder, recorder)
        finally:
            process.kill()


def until_our_end() -> list[str]:
    """Begins a command of Python that the kernel kills when this process ends."""
    return [sys.executable, "-m", "pansketch_fleet.child_process", str(os.getpid()), sys.executable]


def until(captive: Captive, happened: Callable[[], bool], what: str) -> None:
    """Waits for something. Raises RuntimeError when the process ends first, or after five
    minutes."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not happened():
        if captive.process.poll() is not None:
            raise RuntimeError(f"the program held captive has ended before {what}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited too long for {what}")
        time.sleep(0.0002)


def feed(captive: Captive, lines: Sequence[bytes], seconds: float = 0.0) -> None:
    """Writes lines to the program one at a time: each is taken before the next is written."""
    pipe = captive.process.stdin
    assert pipe is not None
    begun = time.monotonic()
    for number, line in enumerate(lines):
        pipe.write(line)
        until(captive, lambda: not _waiting(pipe.fileno()), "it had read its input")
        while time.monotonic() < begun + seconds * number / len(lines):
            time.sleep(0.0005)
    settle(captive)


def settle(captive: Captive) -> None:
    """Waits until every thread sleeps, twice in a row: what was taken has been absorbed."""
    for _ in range(2):
        time.sleep(0.05)
        until(captive, lambda: _sleeps(captive.process.pid), "it came to rest")


def take_snapshot(captive: Captive, scanner: Scanner, moment: str, last: int) -> Snapshot:
    """Seizes the process as it stands, with its files, its log and what it has sent."""
    sightings: dict[tuple[Place, int, str], Sighting] = {}
    unread: list[str] = []
    searched = 0
    for place, name, content in _seized(captive):
        if content is None:
            unread.append(name)
            continue
        searched += len(content)
        for hit in scanner.search(content):
            found = Sighting(place, hit.reading, hit.form, f"{name}+{hit.offset:#x}")
            sightings.setdefault((place, hit.reading, hit.form), found)
    return Snapshot(moment, last, searched, tuple(sightings.values()), tuple(unread))


def _seized(captive: Captive) -> Iterator[tuple[Place, str, Bytes | None]]:
    yield from _memory(captive)
    for path in sorted(p for p in (captive.folder / "files").rglob("*") if p.is_file()):
        yield "disk", path.name, np.frombuffer(path.read_bytes(), np.uint8)
    yield "log", "log", np.frombuffer((captive.folder / "log").read_bytes(), np.uint8)
    yield "wire", "wire", np.frombuffer(bytes(captive.recorder.raw), np.uint8)


def _memory(captive: Captive) -> list[tuple[Place, str, Bytes | None]]:
    pid = captive.process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        return [("memory", region.name, region.content) for region in process_memory(pid)]
    except OSError as error:
        reason = f"{error.strerror}; the audit needs root, or CAP_SYS_PTRACE"
        return [("memory", f"the memory of the process ({reason})", None)]
    finally:
        os.kill(pid, signal.SIGCONT)


def _waiting(pipe: int) -> int:
    """Bytes in a pipe that the reader has not consumed yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def _sleeps(pid: int) -> bool:
    stats = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(stat.read_text().rpartition(") ")[2][0] == "S" for stat in stats)
