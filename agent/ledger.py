"""The ledger: what was ever spent, written before it is spent. Append-only, checked, never guessed.

One line a release: `debit SEQUENCE STREAM START END MICRO_EPSILON CRC`. A stream's numbers have no
gap and its windows only go forward, so a line that is gone or moved shows. A power cut may tear the
last line only. Nobody can know what it said, so a line `torn CRC` takes its place, and every stream
gives up one sequence number and one window with it. Whatever else is wrong stops publishing.
"""

import fcntl
import os
import re
import threading
from binascii import crc32
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from agent.files import replace_file, sync_folder

HEADER = "pansketch-ledger 1"
MOST_LINE_BYTES = 4096
_DEBIT = re.compile(r"debit (\d{1,18}) ([a-z0-9-]{1,64}) (-?\d{1,18}) (-?\d{1,18}) (\d{1,18})")


class LedgerError(Exception):
    """The ledger cannot be read or written, one line with what to do. Nothing may be published."""


@dataclass(frozen=True)
class Spent:
    """A stream's last sequence number, and the end and length of its last window."""

    sequence: int = 0
    until: int = 0
    window_seconds: int = 0

    def lost(self) -> "Spent":
        """One sequence number and one window further, used by nobody."""
        return Spent(self.sequence + 1, self.until + self.window_seconds, self.window_seconds)


class Ledger:
    """The device's ledger in the folder `state`, held by one process. Safe for several threads.

    Raises LedgerError when another process holds it or a line of it is damaged.
    """

    def __init__(self, state: Path) -> None:
        self.path = state / "ledger"
        self._mutex = threading.Lock()
        self._streams: dict[str, Spent] = {}
        self._torn = 0
        self._broken = False
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = _hold(state / "lock")
        except OSError as error:
            raise self._unusable(error) from None
        try:
            self._recover()
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            os.close(self._lock)
            raise self._unusable(error) from None
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
        return self._torn > 0

    def spent(self, stream: str) -> Spent:
        """Where a stream stands; sequence numbers that a torn line may have used count as used."""
        return self._streams.get(stream, Spent(sequence=self._torn))

    def debit(self, stream: str, start: int, end: int, epsilon_micro: int) -> int:
        """Spends `epsilon_micro` on the window [start, end) and returns its sequence number.

        On disk before it returns. Raises LedgerError when it cannot be, and from then on always.
        """
        with self._mutex:
            last = self.spent(stream)
            if self._broken or start < last.until or end <= start:
                raise LedgerError(f"{self.path}: refuses the debit; restart the agent")
            sequence = last.sequence + 1
            text = f"debit {sequence} {stream} {start} {end} {epsilon_micro}"
            self._append(text)
            self._streams[stream] = Spent(sequence, end, end - start)
            return sequence

    def _append(self, text: str) -> None:
        line = _line(text)
        try:
            if os.write(self._file, line) != len(line):
                raise OSError("the disk is full")
            os.fsync(self._file)
        except OSError as error:
            self._broken = True
            raise self._unusable(error) from None

    def _recover(self) -> None:
        """Reads the file, or makes an empty one, and repairs a torn end."""
        if not self.path.exists():
            replace_file(self.path, _line(HEADER))
            return
        sound_bytes = self._read()
        if sound_bytes < self.path.stat().st_size:
            replace_file(self.path, self.path.read_bytes()[:sound_bytes] + _line("torn"))
            self._note_torn()

    def _read(self) -> int:
        """Takes every line; returns the bytes up to the end of the last sound one."""
        sound_bytes = torn = 0
        for number, raw in _lines(self.path):
            text = _text(raw)
            if torn or (text is None and number == 1):
                raise self._damaged(torn or number)
            if text is None:
                torn = number
            else:
                self._take(number, text)
                sound_bytes += len(raw)
        if not sound_bytes:
            raise self._damaged(1)
        return sound_bytes

    def _take(self, number: int, text: str) -> None:
        if number == 1:
            if text != HEADER:
                raise self._damaged(number)
        elif text == "torn":
            self._note_torn()
        elif match := _DEBIT.fullmatch(text):
            sequence, start, end = int(match[1]), int(match[3]), int(match[4])
            last = self.spent(match[2])
            if sequence != last.sequence + 1 or start < last.until or end <= start:
                raise self._damaged(number)
            self._streams[match[2]] = Spent(sequence, end, end - start)
        else:
            raise self._damaged(number)

    def _note_torn(self) -> None:
        self._torn += 1
        self._streams = {name: spent.lost() for name, spent in self._streams.items()}

    def _damaged(self, line: int) -> LedgerError:
        return LedgerError(
            f"{self.path}:{line}: the ledger is damaged, nothing is published; restore it, "
            "or give the device a new name (agent.device) so that no window is released twice"
        )

    def _unusable(self, error: OSError) -> LedgerError:
        reason = error.strerror or str(error)
        return LedgerError(
            f"{self.path}: cannot be used ({reason}) and nothing is published; free the disk, or "
            "let the agent write there"
        )


def _line(text: str) -> bytes:
    return f"{text} {crc32(text.encode()):08x}\n".encode()


def _text(raw: bytes) -> str | None:
    """What a line says, or None when it is torn or damaged."""
    text = raw.decode("ascii", "replace").rpartition(" ")[0]
    return text if raw == _line(text) else None


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines of at most MOST_LINE_BYTES each."""
    with path.open("rb") as file:
        yield from enumerate(iter(lambda: file.readline(MOST_LINE_BYTES), b""), 1)


def _hold(path: Path) -> int:
    """Locks the state folder for this process. Raises LedgerError when another one has it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise LedgerError(
            f"{path}: another agent is running with this state; stop it, or give this one its own "
            "agent.state"
        ) from None
    sync_folder(path.parent)
    return lock
