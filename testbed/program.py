"""A program as a process: how demo, chaos, benchmarks and tests start it, hear it and end it."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pansketch_fleet.child_process import Child
from testbed.notify_socket import NotifySocket, NotSaid, ProgramEnded

ROOT = Path(__file__).resolve().parents[1]
MAX_SECONDS = 180.0  # Only what hangs takes so long, also on a busy machine.
END_SECONDS = 15.0
# Between two looks: first and at most. Whoever waits long leaves the core to the program.
LOOK_SECONDS, SELDOM_SECONDS = 0.02, 0.05
CHUNK_BYTES = 65536


class Program:
    """A process from its start to its end; none outlives the process that has started it.

    Attributes:
        process: the process.
        log: the file that all its output is appended to.
        notified: what it tells its service manager.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        folder: Path = ROOT,
        environment: Mapping[str, str] | None = None,
        hears: Callable[[str], object] = lambda line: None,
        stdout: int | None = None,
        **options: Any,
    ) -> None:
        """Starts it.

        Args:
            command: the program and its arguments.
            log: the file that all its output is appended to.
            folder: where it starts.
            environment: variables beside those of this process.
            hears: called with each whole line that it logs.
            stdout: None: its standard output is logged too; else as `subprocess.Popen` takes it.
            options: further ones of `subprocess.Popen`.

        Raises:
            OSError: there is no such program.
        """
        self.log, self.notified, self._hears = log, NotifySocket(), hears
        self._before = log.stat().st_size if log.exists() else 0
        known = {"PYTHONPATH": str(ROOT), **self.notified.environment, **(environment or {})}
        try:
            self.process = Child(
                command,
                cwd=folder,
                env={**os.environ, **known},
                stdout=subprocess.PIPE if stdout is None else stdout,
                stderr=subprocess.STDOUT if stdout is None else subprocess.PIPE,
                **{"stdin": subprocess.DEVNULL, **options},
            )
        except OSError:
            self.notified.close()
            raise
        self.notified.watch(self.process, lambda: self.said)
        logged = self.process.stdout if stdout is None else self.process.stderr
        assert logged is not None
        self._logged = logged
        self._listener = threading.Thread(target=self._listen, name="log", daemon=True)
        self._listener.start()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.close(END_SECONDS)

    @property
    def said(self) -> str:
        """What it has logged so far; all of it once it has ended."""
        self.ended()
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[self._before :].decode(errors="replace")

    def says(self, text: str, seconds: float = MAX_SECONDS) -> None:
        """Returns when it has logged the text. Raises ProgramEnded, NotSaid."""
        self.until(lambda: text in self.said, repr(text), seconds)

    def starts(self, seconds: float = MAX_SECONDS) -> None:
        """Returns when it is ready, also without a broker. Raises ProgramEnded, NotSaid."""
        self.notified.wait_until_ready(seconds)

    def connects(self, times: int = 1, seconds: float = MAX_SECONDS) -> None:
        """Returns when it has its subscriptions at the broker, as often since its start. Raises
        ProgramEnded, NotSaid."""
        self.notified.wait_until_connected(seconds, times)

    def until(
        self, happened: Callable[[], object], what: str, seconds: float = MAX_SECONDS
    ) -> None:
        """Returns when this has happened while it runs. Raises ProgramEnded, NotSaid."""
        deadline, pause = time.monotonic() + seconds, LOOK_SECONDS
        while not happened():
            if self.ended() and not happened():
                raise ProgramEnded(f"it ended before {what}: {self.said}")
            if time.monotonic() > deadline:
                raise NotSaid(f"no {what} in {seconds:.0f} s, but: {self.said}")
            time.sleep(pause)
            pause = min(1.2 * pause, SELDOM_SECONDS)

    def ended(self) -> bool:
        """Whether it has, and all that it said is in the log."""
        if self.process.poll() is None:
            return False
        self._listener.join(END_SECONDS)  # What it has started may hold the pipe.
        return True

    def ends(self, seconds: float = MAX_SECONDS) -> int:
        """Its exit code, when it has ended. Raises NotSaid."""
        try:
            code = int(self.process.wait(seconds))
        except subprocess.TimeoutExpired:
            raise NotSaid(f"it did not end in {seconds:.0f} s: {self.said}") from None
        self.ended()
        return code

    def stop(self, number: int = signal.SIGTERM, seconds: float = MAX_SECONDS) -> int:
        """Sends the signal, and returns its exit code when it has ended. Raises NotSaid."""
        self.process.send_signal(number)
        return self.ends(seconds)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The process stands still meanwhile."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def close(self, patience_seconds: float = 0.0) -> None:
        """Ends it if it runs: by SIGTERM, if it has so long, and then by SIGKILL."""
        if patience_seconds and not self.ended():
            with suppress(NotSaid):
                self.stop(seconds=patience_seconds)
        self.process.kill()
        self.ends()
        self.notified.close()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None and pipe is not self._logged:
                with suppress(OSError):
                    pipe.close()

    def _listen(self) -> None:
        """Writes down what it says: a limit on its own files must not stop that."""
        begun = b""
        with self.log.open("ab", buffering=0) as log, self._logged as pipe:
            while content := os.read(pipe.fileno(), CHUNK_BYTES):
                log.write(content)
                *lines, begun = (begun + content).split(b"\n")
                for line in lines:
                    self._hears(line.decode(errors="replace"))
