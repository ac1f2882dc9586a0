"""The programs of a run, restarted after an unexpected end."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from testbed.notify_socket import ProgramTimeout
from testbed.program import END_SECONDS, Program

PAUSE_SECONDS = 1.0  # Delay before the restart of a program that ended unexpectedly.
POLL_SECONDS = 0.1
LINES_BEFORE = 8  # lines kept before the last one: a program may log several causes


@dataclass(frozen=True)
class End:
    """The end of a process: its exit code, its last line, and some lines before that. `ours`: the
    run ended it."""

    program: str
    code: int
    last_line: str
    ours: bool
    lines_before: str = ""


@dataclass(eq=False)
class Service:
    """A program, which may be started many times.

    `after`: called after each end of its process, before the next start. `on_line`: called with
    each whole line that it logs. `lane`: a thread holds it while it starts or ends the program.
    `reads`: its standard input is a pipe. `retired`: it is never started again.
    """

    name: str
    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    reads: bool = False
    after: Callable[[], object] = lambda: None
    on_line: Callable[[str], object] = lambda line: None
    lane: threading.RLock = field(default_factory=threading.RLock)
    ends: list[End] = field(default_factory=list)
    wanted: bool = False
    retired: bool = False
    program: Program | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log" / f"{self.name}.log"

    @property
    def running(self) -> bool:
        return self.pid is not None

    @property
    def pid(self) -> int | None:
        """Of its process; None while there is none."""
        program = self.program
        alive = program is not None and program.process.poll() is None
        return program.process.pid if program is not None and alive else None

    def start(self) -> None:
        """Starts it, in a process group of its own, unless it runs."""
        with self.lane:
            if self.retired or self.running:
                return
            self.wanted = True
            self.program = Program(
                self.command,
                self.log,
                folder=self.folder,
                environment=self.environment,
                on_line=self.on_line,
                stdin=subprocess.PIPE if self.reads else subprocess.DEVNULL,
                start_new_session=True,
            )
            if self.program.process.stdin is not None:
                os.set_blocking(self.program.process.stdin.fileno(), False)

    def end(self, number: int = signal.SIGKILL, group: bool = False) -> None:
        """Sends the signal and waits for the end; one that does not end is killed. It stays down
        until `start`."""
        with self.lane:
            self.wanted = False
            if self.program is None:
                return
            pid = self.pid
            if pid is not None:
                with suppress(ProcessLookupError):
                    (os.killpg if group else os.kill)(pid, number)
                with suppress(ProgramTimeout):
                    self.program.wait(END_SECONDS)
            self._note(self.program, ours=pid is not None)

    def signal(self, number: int) -> None:
        with self.lane:
            if self.program is not None:
                self.program.process.send_signal(number)

    def revive(self) -> None:
        """Restart the program after an unexpected end."""
        if not self.wanted or self.running or not self.lane.acquire(blocking=False):
            return
        try:
            if self.wanted and self.program is not None and not self.running:
                self._note(self.program, ours=False)
                time.sleep(PAUSE_SECONDS)
                self.start()
        finally:
            self.lane.release()

    def write(self, line: bytes) -> None:
        """To its standard input, if it takes it."""
        program = self.program
        if program is not None and program.process.stdin is not None:
            with suppress(OSError, ValueError):
                os.write(program.process.stdin.fileno(), line)

    def _note(self, program: Program, ours: bool) -> None:
        program.close()
        *before, last = program.output.splitlines() or [""]
        lines = "\n".join(before[-LINES_BEFORE:])
        self.ends.append(End(self.name, program.process.returncode, last, ours, lines))
        self.program = None
        self.after()


class Supervisor:
    """Watches over services from `__enter__` on, and leaves none of them behind."""

    def __init__(self) -> None:
        self.services: list[Service] = []
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Supervisor":
        return self

    def add(self, service: Service) -> Service:
        """Looks after it from now on."""
        self.services.append(service)
        thread = threading.Thread(target=self._watch, args=(service,), daemon=True)
        self._threads.append(thread)
        thread.start()
        return service

    def _watch(self, service: Service) -> None:
        while not self._stop.wait(POLL_SECONDS):
            service.revive()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for service in self.services:
            service.retired, service.wanted = True, False
            program = service.program
            if program is not None:
                with suppress(ProcessLookupError):
                    os.killpg(program.process.pid, signal.SIGKILL)
        for thread in self._threads:
            thread.join(END_SECONDS)
        for service in self.services:  # The process that was just restarted.
            service.end(signal.SIGKILL, group=True)
