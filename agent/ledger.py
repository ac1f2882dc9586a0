"""The ledger: what was ever spent, written before it is spent. Append-only, checked, never guessed.

A stream's numbers have no gap and its windows only go forward, so a line that is gone or moved
shows. A power cut may tear the last line only. Nobody can know what it said, so a line `torn` takes
its place, and every stream gives up one sequence number and one window with it. Whatever else is
wrong stops publishing.
"""

import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from agent.book import HEADER, TORN, Account, Book, LedgerError, day_of, line, read_book, unusable
from agent.files import replace_file, sync_folder

__all__ = ["DailyCapError", "Ledger", "LedgerError", "holder"]

MICRO = 1_000_000


class DailyCapError(Exception):
    """One more window would cost the stream more than a day may; the text says what to do."""


class Ledger:
    """The device's ledger in the folder `state`, held by one process. Safe for several threads.

    Raises LedgerError when another process holds it or a line of it is damaged.
    """

    def __init__(self, state: Path) -> None:
        self.path = state / "ledger"
        self._mutex = threading.Lock()
        self._book = Book()
        self._broken = False
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = _hold(state / "lock")
        except OSError as error:
            raise unusable(self.path, error) from None
        try:
            self._recover()
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            os.close(self._lock)
            raise unusable(self.path, error) from None
        except LedgerError:
            os.close(self._lock)
            raise

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)
        os.close(self._lock)

    @property
    def torn(self) -> bool:
        """Whether a power cut ever tore a line of this ledger."""
        return self._book.torn > 0

    def spent(self, stream: str) -> Account:
        """Where a stream stands."""
        return self._book.account(stream)

    def debit(
        self, stream: str, start: int, end: int, epsilon_micro: int, cap_micro: int | None = None
    ) -> int:
        """Spends `epsilon_micro` on the window [start, end) and returns its sequence number.

        On disk before it returns. Raises LedgerError when it cannot be, and from then on always;
        DailyCapError, with nothing spent, when the day of the window would cost over `cap_micro`.
        """
        with self._mutex:
            last = self.spent(stream)
            if self._broken or not self._book.may_debit(stream, start, end):
                raise LedgerError(f"{self.path}: refuses the debit; restart the agent")
            if cap_micro is not None and last.on(day_of(end)) + epsilon_micro > cap_micro:
                raise DailyCapError(
                    f"stopped at its daily cap of epsilon {cap_micro / MICRO:g}, nothing more is "
                    "released; raise privacy.daily_cap or lengthen the window, then restart"
                )
            sequence = last.sequence + 1
            self._append(f"debit {sequence} {stream} {start} {end} {epsilon_micro}")
            self._book.debit(stream, start, end, epsilon_micro)
            return sequence

    def _append(self, text: str) -> None:
        content = line(text)
        try:
            if os.write(self._file, content) != len(content):
                raise OSError("the disk is full")
            os.fsync(self._file)
        except OSError as error:
            self._broken = True
            raise unusable(self.path, error) from None

    def _recover(self) -> None:
        """Reads the file, or makes an empty one, and repairs a torn end."""
        if not self.path.exists():
            replace_file(self.path, line(HEADER))
            return
        self._book, sound_bytes = read_book(self.path)
        if sound_bytes < self.path.stat().st_size:
            replace_file(self.path, self.path.read_bytes()[:sound_bytes] + line(TORN))
            self._book.note_torn()


def holder(state: Path) -> int | None:
    """The process id of the agent that runs with this state folder, None when none does.

    Raises OSError when the folder cannot be read.
    """
    try:
        lock = os.open(state / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with suppress(ValueError):
            return int(os.pread(lock, 32, 0))
    finally:
        os.close(lock)
    return None


def _hold(path: Path) -> int:
    """Locks the state folder for this process. Raises LedgerError when another one has it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, b"%d\n" % os.getpid(), 0)
    except BlockingIOError:
        os.close(lock)
        raise LedgerError(
            f"{path}: another agent is running with this state; stop it, or give this one its own "
            "agent.state"
        ) from None
    except OSError:
        os.close(lock)
        raise
    sync_folder(path.parent)
    return lock
