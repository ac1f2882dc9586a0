"""The harness runs one input through one target and checks the properties of the target.

A run raises only the target's documented errors. Each is one printable line of bounded length. No
error and no log line holds a part of a secret input. The size of the input bounds memory and work.
"""

import gc
import logging
import re
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from testbed.fuzz.harness.target import Broken, Run, Target, require

MAX_SAID = 2000  # characters of an error
MAX_KEPT = 32 << 20  # bytes that all inputs together may leave behind: what is made once
ALONE_SECONDS = 60.0
MARKS = (b"271828", b"badge-of-ada")  # stand in the seeds of secret targets, as reading and as key
TAKEN = "taken"
# Long enough that they do not come up in a text by chance.
_DIGITS = re.compile(rb"[0-9]{6,}")


class _TooLong(BaseException):
    """Ends a run of too many steps; not an Exception, so that no handler of a target catches it."""


class _Handler(logging.Handler):
    """Keeps what is logged during one run."""

    def __init__(self) -> None:
        super().__init__()
        self.logged: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.logged.append(record.getMessage())


class Watch:
    """A target, open in `folder`. `count_steps`: also bounds the work, which is slow.

    Call it within `watching()`.
    """

    def __init__(self, target: Target, folder: Path, count_steps: bool = False) -> None:
        self._target, self._count_steps = target, count_steps
        self._run = target.open(folder)
        self._handler = _Handler()
        for data in target.seeds():  # Objects created once are not the cost of an input.
            with suppress(Exception):
                self._run(data)
        self._before, _ = tracemalloc.get_traced_memory()

    def __call__(self, data: bytes) -> str:
        """TAKEN, or the name of the documented error that was raised. Raises Broken."""
        most = self._target.memory.at(len(data))
        outcome, errors, taken = self._measured(data)
        if taken > most:
            # The trace covers all threads and objects that are created once. An expensive input is
            # expensive again, alone. The next check finds memory that the target retains.
            with _alone():
                outcome, errors, again = self._measured(data)
            taken = min(taken, again)
        require(taken <= most, f"{taken} bytes of memory, above the bound of {most}")
        self._check_kept()
        self._check_texts(data, errors)
        return outcome

    def _measured(self, data: bytes) -> tuple[str, list[str], int]:
        """The outcome, the texts of errors and logs, and the maximum bytes of memory."""
        self._handler.logged.clear()
        logging.getLogger().addHandler(self._handler)
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        try:
            outcome, errors = self._outcome(data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            logging.getLogger().removeHandler(self._handler)
        return outcome, errors, peak - before

    def _outcome(self, data: bytes) -> tuple[str, list[str]]:
        try:
            if self._count_steps:
                _counted(self._run, data, self._target.steps.at(len(data)))
            else:
                self._run(data)
        except self._target.errors as error:
            return type(error).__name__, [*_chain(error)]
        except Broken:
            raise
        except Exception as error:
            raise Broken(f"{type(error).__name__} is none of its errors") from error
        return TAKEN, []

    def _check_kept(self) -> None:
        """The memory that stays after one input, or grows over many."""
        if tracemalloc.get_traced_memory()[0] - self._before > MAX_KEPT:
            gc.collect()
            kept = tracemalloc.get_traced_memory()[0] - self._before
            require(kept <= MAX_KEPT, f"{kept} bytes are kept of this input and those before it")

    def _check_texts(self, data: bytes, errors: list[str]) -> None:
        for text in errors[:1] + self._handler.logged:
            require(text.isprintable(), "an error or a log line that is not one printable line")
            require(len(text) <= MAX_SAID, f"an error or a log line of {len(text)} characters")
        if self._target.secret:
            open_part = self._target.public(data)
            for text in errors + self._handler.logged:
                require(
                    not shown(data, open_part, text),
                    "something of the input stands in an error or log",
                )


@contextmanager
def watching() -> Iterator[None]:
    """Trace memory, and send log records to the harness only."""
    root, level = logging.getLogger(), logging.getLogger().level
    silent, traced = logging.NullHandler(), tracemalloc.is_tracing()
    root.addHandler(silent)
    root.setLevel(logging.INFO)
    if not traced:
        tracemalloc.start()
    try:
        yield
    finally:
        if not traced:
            tracemalloc.stop()
        root.setLevel(level)
        root.removeHandler(silent)


@contextmanager
def _alone() -> Iterator[None]:
    """Free unreachable objects first, and keep other threads from running meanwhile."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(ALONE_SECONDS)
    try:
        gc.collect()  # Long enough for a waiting thread to run first.
        yield
    finally:
        sys.setswitchinterval(interval)


def shown(data: bytes, public: bytes, text: str) -> bool:
    """True if a text holds a mark, or a longer number, of the input beside its public part."""
    words = {mark for mark in MARKS if mark in data}.union(_DIGITS.findall(data))
    return any(word.decode("ascii") in text for word in words if word not in public)


def _chain(error: BaseException | None) -> Iterator[str]:
    """The texts of an error and of those that a traceback would show before it."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _counted(run: Run, data: bytes, most: int) -> None:
    """Runs it. Raises Broken after more than `most` lines of Python."""
    count = 0

    def step(_frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal count
        count += 1
        if count > most:
            raise _TooLong
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        run(data)
    except _TooLong:
        raise Broken(f"more than {most} steps") from None
    finally:
        sys.settrace(before)
