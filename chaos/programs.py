"""The programs of the fleet as processes, started again whenever they end by themselves."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PAUSE_SECONDS = 1.0  # Before a program that has ended by itself is started again.
LOOK_SECONDS = 0.1
END_SECONDS = 15.0
CHUNK_BYTES = 65536


@dataclass(frozen=True)
class End:
    """How a process ended: its exit code, the last line that it said, and whether we ended it."""

    program: str
    code: int
    said: str
    ours: bool


@dataclass(eq=False)
class Program:
    """One program. `after`: called whenever its process has ended, before there is another one.

    `lane`: held by whoever starts or ends it. `reads`: it has a pipe as its standard input.
    `retired`: it is never started again.
    """

    name: str
    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    reads: bool = False
    after: Callable[[], object] = lambda: None
    lane: threading.RLock = field(default_factory=threading.RLock)
    ends: list[End] = field(default_factory=list)
    wanted: bool = False
    retired: bool = False
    process: "subprocess.Popen[bytes] | None" = None
    _listener: threading.Thread | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log" / f"{self.name}.log"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Starts it, in a process group of its own, unless it runs."""
        with self.lane:
            if self.retired or self.running:
                return
            self.wanted = True
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdin=subprocess.PIPE if self.reads else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            if self.process.stdin is not None:
                os.set_blocking(self.process.stdin.fileno(), False)
            self._listener = threading.Thread(target=self._listen, daemon=True)
            self._listener.start()

    def end(self, number: int = signal.SIGKILL, group: bool = False) -> None:
        """Sends the signal and waits for the end; one that does not end is killed. It stays down
        until `start`."""
        with self.lane:
            self.wanted = False
            if self.process is None:
                return
            ours = self.running
            if ours:
                with suppress(ProcessLookupError):
                    (os.killpg if group else os.kill)(self.process.pid, number)
                self._wait()
            self._note(ours)

    def signal(self, number: int) -> None:
        with self.lane:
            if self.running and self.process is not None:
                self.process.send_signal(number)

    def revive(self) -> None:
        """Starts it again where it has ended by itself."""
        if not self.wanted or self.running or not self.lane.acquire(blocking=False):
            return
        try:
            if self.wanted and self.process is not None and not self.running:
                self._note(ours=False)
                time.sleep(PAUSE_SECONDS)
                self.start()
        finally:
            self.lane.release()

    def write(self, line: bytes) -> None:
        """To its standard input, if it takes it."""
        process = self.process
        if process is not None and process.stdin is not None:
            with suppress(OSError, ValueError):
                os.write(process.stdin.fileno(), line)

    def _listen(self) -> None:
        """Writes down what it says: a limit on its own files must not stop that."""
        process = self.process
        assert process is not None
        assert process.stdout is not None
        with self.log.open("ab", buffering=0) as log, process.stdout as said:
            while content := os.read(said.fileno(), CHUNK_BYTES):
                log.write(content)

    def _wait(self) -> None:
        assert self.process is not None
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _note(self, ours: bool) -> None:
        assert self.process is not None
        if self.process.stdin is not None:
            self.process.stdin.close()
        if self._listener is not None:
            self._listener.join(END_SECONDS)
        lines = self.log.read_text(errors="replace").splitlines() or [""]
        self.ends.append(End(self.name, self.process.wait(), lines[-1], ours))
        self.process = None
        self.after()


class Keeper:
    """Watches over programs from `__enter__` on, and leaves none of them behind."""

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Keeper":
        return self

    def add(self, program: Program) -> Program:
        """Looks after it from now on."""
        self.programs.append(program)
        thread = threading.Thread(target=self._watch, args=(program,), daemon=True)
        self._threads.append(thread)
        thread.start()
        return program

    def _watch(self, program: Program) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            program.revive()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for program in self.programs:
            program.retired, program.wanted = True, False
            process = program.process
            if process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        for thread in self._threads:
            thread.join(END_SECONDS)
        for program in self.programs:  # One that was just started anew.
            program.end(signal.SIGKILL, group=True)
