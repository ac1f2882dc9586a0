"""Exec: a program that prints JSON, one object a line, and runs for as long as the agent does.

When it ends it is started again, after pauses that grow. It has no standard input, its errors go
nowhere (they may hold values), and it is killed with the agent. Its pipe holds one page, so what it
prints faster than the agent takes waits in the program, not here.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress

from pansketch_agent.host.clock import Clock
from pansketch_agent.sources import stdin
from pansketch_agent.sources.decoders import RecordForm
from pansketch_agent.sources.readings import Readings, SourceError
from pansketch_fleet.backoff import Backoff
from pansketch_fleet.child_process import Child

PIPE_BYTES = 4096
MAX_BYTES_PER_SECOND = 256 * 1024
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 60.0
HEALTHY_SECONDS = 60.0  # A program that has run so long is started again after the shortest pause.
PATIENCE_SECONDS = 2.0
# The agent's own; a program that used them would speak for the agent.
OURS = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


def check(command: tuple[str, ...]) -> None:
    """Raises SourceError for a program that is not there, or must not be run."""
    if shutil.which(command[0]) is None:
        raise SourceError(f"there is no program {command[0]}; install it, or correct the command")


def lines(
    command: tuple[str, ...],
    form: RecordForm,
    clock: Clock,
    stop: threading.Event,
    chance: Callable[[], float],
    say: Callable[[str], None],
) -> Iterator[Readings]:
    """What the program prints, until `stop` is set. `chance`: uniform in [0, 1), for jitter. `say`
    is told of its ends: when and how often a program ends may be data, and is in no log.
    """
    backoff = Backoff(MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS, 0.5, chance)
    pauses = backoff.pauses()
    while not stop.is_set():
        begun = clock.monotonic()
        ended = yield from _once(command, form, clock, stop)
        if clock.monotonic() - begun >= HEALTHY_SECONDS:
            pauses = backoff.pauses()
        say(f"{ended}; it is started again each time, with pauses")
        clock.wait(stop, next(pauses))


def _once(
    command: tuple[str, ...], form: RecordForm, clock: Clock, stop: threading.Event
) -> Generator[Readings, None, str]:
    """One life of the program; returns how it ended."""
    try:
        child = _start(command)
    except OSError as error:
        return f"{command[0]} cannot be started ({error.strerror})"
    assert child.stdout is not None
    with child.stdout as pipe:
        try:
            yield from stdin.lines(pipe.fileno(), form, clock, stop, MAX_BYTES_PER_SECOND)
        finally:
            _end(child)
    status = child.returncode
    how = f"exit status {status}" if status >= 0 else f"signal {-status}"
    return f"{command[0]} has ended ({how})"


def _start(command: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    """The program, leader of a session of its own. Raises OSError."""
    child = Child(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env={name: value for name, value in os.environ.items() if name not in OURS},
        start_new_session=True,
    )
    assert child.stdout is not None
    with suppress(OSError):
        fcntl.fcntl(child.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return child


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Asks the program and what it has started to end, and kills what does not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(PATIENCE_SECONDS)
            return
