"""Events of a run that another process of the host can see, or that stay in this process.

Log records of every level, output on the standard streams, and operations on files, sockets and
programs outside of the agent's state folder. The operations are audit events of the interpreter
(PEP 578), so no library that the agent calls can hide them.
"""

import fcntl
import logging
import os
import resource
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pansketch_agent.mqtt.events import Publication

OPERATIONS = ("open", "os.", "socket.", "subprocess.", "shutil.", "syslog.", "sqlite3.")
IMPORTED = (".py", ".pyc", ".so")  # A module that is first needed in this run is read then.
STREAMS = (1, 2)
MAX_FIRST = 512  # Of the agent's descriptors; `select` takes none above 1,023.

Event = tuple[int, str, object]

_recording: list["ProcessEvents"] = []  # The run whose operations are recorded now, or none.


class ProcessEvents(logging.Handler):
    """Everything that one run shows, in its order.

    Args:
        state: the agent's folder. Its files are compared as a whole, so operations on them are
            left out.

    Attributes:
        step: the step of the history that the run has come to.
        recorded: the events: step, kind and content.
    """

    def __init__(self, state: Path) -> None:
        super().__init__()
        self.step = 0
        self.recorded: list[Event] = []
        self._state = os.path.normpath(state)
        self._others = _other_threads()
        _watch_operations()

    def note(self, kind: str, content: object) -> None:
        self.recorded.append((self.step, kind, content))

    def emit(self, record: logging.LogRecord) -> None:
        self.note("log", f"{record.levelname} {record.getMessage()}")

    @contextmanager
    def record(self) -> Iterator[None]:
        """The code inside is the agent's: its operations and its output are events."""
        with tempfile.TemporaryFile() as file, _redirected(file.fileno()):
            _recording.append(self)
            try:
                yield
            finally:
                _recording.clear()
                sys.stdout.flush()
                sys.stderr.flush()
                file.seek(0)
                if output := file.read():
                    self.note("output", output)

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Log records of all libraries are events, also those that a user does not ask for.

        Files that are opened in this context get descriptors of their own, see `_own_descriptors`.
        """
        root = logging.getLogger()
        level, handlers = root.level, root.handlers[:]
        root.handlers[:] = [self]
        root.setLevel(logging.DEBUG)
        try:
            with _own_descriptors():
                yield
        finally:
            root.setLevel(level)
            root.handlers[:] = handlers

    def operation(self, name: str, arguments: tuple[object, ...]) -> None:
        """An audit event. Numbers are descriptors, and addresses of objects; texts are paths."""
        if threading.get_ident() in self._others:
            return
        texts = [os.fsdecode(each) for each in arguments if isinstance(each, str | bytes)]
        others = [text for text in texts if not self._is_inside(text)]
        # A mode beside a path is none, and a file may be moved out of the folder.
        outside = len(others) == len(texts) or any(os.sep in text for text in others)
        if outside and not any(text.endswith(IMPORTED) for text in texts):
            self.note(f"operation {name}", others)

    def _is_inside(self, path: str) -> bool:
        return f"{os.path.normpath(path)}{os.sep}".startswith(f"{self._state}{os.sep}")


@dataclass
class RecordingBroker:
    """Takes everything and acknowledges it at the next tick."""

    events: ProcessEvents
    unanswered: list[Publication] = field(default_factory=list)
    packets: int = 0

    def send(self, stream: str, payload: bytes) -> Publication:
        self.packets += 1
        publication = Publication(self.packets, stream)
        self.events.note(f"release of {stream}", payload)
        self.unanswered.append(publication)
        return publication

    def report(self, health: object) -> None:
        self.events.note("health", repr(health))

    def change_status(self, *statuses: object) -> None:
        self.events.note("status", repr(statuses))


@contextmanager
def _own_descriptors() -> Iterator[None]:
    """The descriptors of files that the agent opens follow from what it has opened before.

    The kernel gives the lowest free number, and other parts of this process may open and close
    files meanwhile. So each descriptor is moved to numbers that nothing else uses.
    """
    first = min(MAX_FIRST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
    opened = os.open
    others = _other_threads()

    def open_apart(*arguments: Any, **named: Any) -> int:
        handle = opened(*arguments, **named)
        if threading.get_ident() in others:
            return handle
        try:
            return fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, first)
        finally:
            os.close(handle)

    with patch.object(os, "open", open_apart):
        yield


def _other_threads() -> set[int | None]:
    """Threads of other parts of this process; the agent's own would start later."""
    return {each.ident for each in threading.enumerate()} - {threading.get_ident()}


@contextmanager
def _redirected(handle: int) -> Iterator[None]:
    """Standard output and standard error, of Python and of the process, go to a file."""
    kept = [os.dup(stream) for stream in STREAMS]
    try:
        with (
            os.fdopen(os.dup(handle), "w", buffering=1) as text,
            redirect_stdout(text),
            redirect_stderr(text),
        ):
            for stream in STREAMS:
                os.dup2(handle, stream)
            yield
    finally:
        for stream, copy in zip(STREAMS, kept, strict=True):
            os.dup2(copy, stream)
            os.close(copy)


def _watch_operations() -> None:
    """Once in a process: an audit hook cannot be removed."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_on_audit_event)


_hooked: list[bool] = []


def _on_audit_event(name: str, arguments: tuple[object, ...]) -> None:
    if _recording and name.startswith(OPERATIONS):
        (run,) = _recording
        run.operation(name, arguments)
