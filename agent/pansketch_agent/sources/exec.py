"""Exec: a program that prints JSON, one object a line, and runs as long as the agent does.

When it ends, the agent restarts it with exponential backoff. It has no standard input. Its standard
error is discarded, because it may contain values. It is killed with the agent. Its pipe holds one
page, so output that the agent has not read yet stays in the program.
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
from pansketch_agent.sources.decoders import RecordDecoder
from pansketch_agent.sources.readings import Readings, SourceError
from pansketch_fleet.backoff import Backoff
from pansketch_fleet.child_process import Child

PIPE_BYTES = 4096
MAX_BYTES_PER_SECOND = 256 * 1024
MIN_DELAY_SECONDS, MAX_DELAY_SECONDS = 1.0, 60.0
HEALTHY_SECONDS = 60.0  # After so long a run, the delay before a restart is the shortest one again.
EXIT_SECONDS = 2.0
# The agent's own; a program with them could notify systemd for the agent.
RESERVED_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


def check(command: tuple[str, ...]) -> None:
    """Raise SourceError for a program that does not exist, or must not be run."""
    if shutil.which(command[0]) is None:
        raise SourceError(f"there is no program {command[0]}; install it, or correct the command")


def lines(
    command: tuple[str, ...],
    decoder: RecordDecoder,
    clock: Clock,
    stop: threading.Event,
    uniform: Callable[[], float],
    report: Callable[[str], None],
) -> Iterator[Readings]:
    """Yield the program's output until `stop` is set. `uniform`: draws from [0, 1), for jitter.

    `report` receives the ends of the program. When and how often it ends may be data, and is in no
    log.
    """
    backoff = Backoff(MIN_DELAY_SECONDS, MAX_DELAY_SECONDS, 0.5, uniform)
    delays = backoff.delays()
    while not stop.is_set():
        started = clock.monotonic()
        ended = yield from _once(command, decoder, clock, stop)
        if stop.is_set():  # The agent itself has ended the program.
            return
        if clock.monotonic() - started >= HEALTHY_SECONDS:
            delays = backoff.delays()
        report(f"{ended}; it is started again each time, with pauses")
        clock.wait(stop, next(delays))


def _once(
    command: tuple[str, ...], decoder: RecordDecoder, clock: Clock, stop: threading.Event
) -> Generator[Readings, None, str]:
    """Run the program once, and return how it ended."""
    try:
        child = _start(command)
    except OSError as error:
        return f"{command[0]} cannot be started ({error.strerror})"
    assert child.stdout is not None
    with child.stdout as pipe:
        try:
            yield from stdin.lines(pipe.fileno(), decoder, clock, stop, MAX_BYTES_PER_SECOND)
        finally:
            _end(child)
    status = child.returncode
    how = f"exit status {status}" if status >= 0 else f"signal {-status}"
    return f"{command[0]} has ended ({how})"


def _start(command: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    """Start the program as leader of its own session. Raises OSError."""
    child = Child(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env={name: value for name, value in os.environ.items() if name not in RESERVED_VARIABLES},
        start_new_session=True,
    )
    assert child.stdout is not None
    with suppress(OSError):
        fcntl.fcntl(child.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return child


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Terminate the program and its descendants, and kill those that do not end."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(EXIT_SECONDS)
            return
