"""A child process: demo, chaos, benchmarks and tests start it, read its output and stop it."""

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
from testbed.notify_socket import NotifySocket, ProgramEnded, ProgramTimeout

ROOT = Path(__file__).resolve().parents[1]
MAX_SECONDS = 180.0  # Only a hanging program needs so long, also on a busy machine.
END_SECONDS = 15.0
# Interval between polls: first and maximum. A long wait leaves the core to the program.
POLL_SECONDS, MAX_POLL_SECONDS = 0.02, 0.05
CHUNK_BYTES = 65536


class Program:
    """A process from its start to its end; it never outlives the process that started it.

    Attributes:
        process: the process.
        log: the file to which all its output is appended.
        notified: the socket for its notifications to a service manager.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        folder: Path = ROOT,
        environment: Mapping[str, str] | None = None,
        on_line: Callable[[str], object] = lambda line: None,
        stdout: int | None = None,
        **options: Any,
    ) -> None:
        """Start the process.

        Args:
            command: the program and its arguments.
            log: the file to which all its output is appended.
            folder: its working directory.
            environment: variables in addition to those of this process.
            on_line: called with each whole line that it logs.
            stdout: None logs its standard output too; any other value goes to `subprocess.Popen`.
            options: further arguments of `subprocess.Popen`.

        Raises:
            OSError: the program does not exist or cannot be started.
        """
        self.log, self.notified, self._on_line = log, NotifySocket(), on_line
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
        self.notified.watch(self.process, lambda: self.output)
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
    def output(self) -> str:
        """The output logged so far; complete once the process has ended."""
        self.ended()
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[self._before :].decode(errors="replace")

    def wait_for_output(self, text: str, seconds: float = MAX_SECONDS) -> None:
        """Return once the output contains the text. Raises ProgramEnded, ProgramTimeout."""
        self.until(lambda: text in self.output, repr(text), seconds)

    def wait_until_ready(self, seconds: float = MAX_SECONDS) -> None:
        """Return once it is ready, also without a broker. Raises ProgramEnded, ProgramTimeout."""
        self.notified.wait_until_ready(seconds)

    def wait_until_connected(self, times: int = 1, seconds: float = MAX_SECONDS) -> None:
        """Return once it has subscribed at the broker for the `times`-th time since its start.

        Raises ProgramEnded, ProgramTimeout."""
        self.notified.wait_until_connected(seconds, times)

    def until(
        self, happened: Callable[[], object], what: str, seconds: float = MAX_SECONDS
    ) -> None:
        """Return once `happened()` is true. Raises ProgramEnded, ProgramTimeout."""
        deadline, pause = time.monotonic() + seconds, POLL_SECONDS
        while not happened():
            if self.ended() and not happened():
                raise ProgramEnded(f"it ended before {what}: {self.output}")
            if time.monotonic() > deadline:
                raise ProgramTimeout(f"no {what} in {seconds:.0f} s, but: {self.output}")
            time.sleep(pause)
            pause = min(1.2 * pause, MAX_POLL_SECONDS)

    def ended(self) -> bool:
        """Return True if the process has ended; its whole output is in the log then."""
        if self.process.poll() is None:
            return False
        self._listener.join(END_SECONDS)  # A child of the process may hold the pipe open.
        return True

    def wait(self, seconds: float = MAX_SECONDS) -> int:
        """Wait for the end of the process and return its exit code. Raises ProgramTimeout."""
        try:
            code = int(self.process.wait(seconds))
        except subprocess.TimeoutExpired:
            raise ProgramTimeout(f"it did not end in {seconds:.0f} s: {self.output}") from None
        self.ended()
        return code

    def stop(self, number: int = signal.SIGTERM, seconds: float = MAX_SECONDS) -> int:
        """Send the signal, wait, and return the exit code. Raises ProgramTimeout."""
        self.process.send_signal(number)
        return self.wait(seconds)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the process by SIGSTOP for the duration of the block."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def close(self, grace_seconds: float = 0.0) -> None:
        """End a running process: SIGTERM if `grace_seconds` is positive, then SIGKILL."""
        if grace_seconds and not self.ended():
            with suppress(ProgramTimeout):
                self.stop(seconds=grace_seconds)
        self.process.kill()
        self.wait()
        self.notified.close()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None and pipe is not self._logged:
                with suppress(OSError):
                    pipe.close()

    def _listen(self) -> None:
        """Append the output to the log here: a file limit of the process must not truncate it."""
        begun = b""
        with self.log.open("ab", buffering=0) as log, self._logged as pipe:
            while content := os.read(pipe.fileno(), CHUNK_BYTES):
                log.write(content)
                *lines, begun = (begun + content).split(b"\n")
                for line in lines:
                    self._on_line(line.decode(errors="replace"))
