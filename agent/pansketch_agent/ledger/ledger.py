"""The ledger: what was ever spent, written before it is spent. Append-only, checked, never guessed.

A new ledger makes itself an incarnation, random bytes that its releases bear: those of a device
whose ledger was lost are not mistaken for the earlier ones. A stream's numbers have no gap and its
windows only go forward, so a line that is gone or moved shows. A power cut may tear the last line
only. Nobody can know what it said, so a line `torn` takes its place, and every stream gives up one
sequence number and one window with it. Whatever else is wrong stops publishing.

A ledger of more than MAX_LINES lines is compacted: another file, whole and on disk, takes its
place, and says the same of every stream. A crash leaves the one or the other.
"""

import os
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from pansketch.privacy import MICRO
from pansketch_agent.host.durable_files import UNFINISHED, replace_file, replacing, sync_folder
from pansketch_agent.ledger.accounts import (
    HEADER,
    TORN,
    Account,
    Accounts,
    LedgerError,
    day_of,
    line,
    read_book,
    unusable,
)
from pansketch_agent.ledger.state_folder import check_own, hold

__all__ = ["DailyCapError", "Ledger", "LedgerError"]

INCARNATION_BYTES = 8
MAX_LINES = 4096  # About 250 kB, read in a fraction of a second on a small board.


class DailyCapError(Exception):
    """One more window would cost the stream more than a day may; the text says what to do."""


class Ledger:
    """The device's ledger in the folder `state`, held by one process. Safe for several threads.

    Raises LedgerError when another process holds it or a line of it is damaged.
    """

    def __init__(self, state: Path) -> None:
        self.path = state / "ledger"
        self._mutex = threading.Lock()
        self._book = Accounts()
        self._broken = False
        self._compact_at = MAX_LINES
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            check_own(state)
            self._lock = hold(state)
        except OSError as error:
            raise unusable(self.path, error) from None
        try:
            self._recover()
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            self._compact()
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

    @property
    def incarnation(self) -> bytes:
        """What its releases bear from now on."""
        return bytes.fromhex(self._book.incarnation)

    def knows(self, incarnation: bytes) -> bool:
        """Whether releases of this incarnation are its own, or were adopted."""
        return incarnation.hex() in self._book.histories

    def spent(self, stream: str) -> Account:
        """Where a stream stands."""
        return self._book.account(stream)

    def debit(
        self, micro: Mapping[str, int], start: int, end: int, cap_micro: int | None = None
    ) -> dict[str, int]:
        """Spends micro-epsilon on the window [start, end) of one stream, or of all sketches of one
        source together, and returns their sequence numbers.

        Written at once, and on disk before it returns. Raises LedgerError when it cannot be, and
        from then on always; DailyCapError, with nothing spent, when the day of the window would
        cost over `cap_micro` in all of them together.
        """
        with self._mutex:
            if self._broken or not all(self._book.may_debit(each, start, end) for each in micro):
                raise LedgerError(f"{self.path}: refuses the debit; restart the agent")
            spent = sum(self.spent(each).on(day_of(end)) + micro[each] for each in micro)
            if cap_micro is not None and spent > cap_micro:
                raise DailyCapError(
                    f"stopped at its daily cap of epsilon {cap_micro / MICRO:g}, nothing more is "
                    "released; raise privacy.daily_cap or lengthen the window, then restart"
                )
            sequences = {each: self.spent(each).sequence + 1 for each in micro}
            self._append(*(f"debit {sequences[s]} {s} {start} {end} {micro[s]}" for s in micro))
            for each in micro:
                self._book.debit(each, start, end, micro[each])
            self._compact()
            return sequences

    def adopt(
        self, stream: str, incarnation: bytes, windows: int, of_the_day: int, until: int, micro: int
    ) -> None:
        """Counts windows that the collector knows and this ledger does not (see
        `pansketch_agent.ledger.accounts`): they are on disk before it returns, and no window before
        `until` is debited any more. Releases bear another incarnation from then on. Raises
        LedgerError when the disk refuses."""
        with self._mutex:
            if self.spent(stream).releases:
                self._renew()
            name = incarnation.hex()
            self._append(f"adopted {stream} {name or '-'} {windows} {of_the_day} {until} {micro}")
            self._book.adopt(stream, name, windows, of_the_day, until, micro)

    def _renew(self) -> None:
        incarnation = _incarnation()
        self._append(f"incarnation {incarnation}")
        self._book.become(incarnation)

    def _append(self, *texts: str) -> None:
        if self._broken:
            raise LedgerError(f"{self.path}: refuses the entry; restart the agent")
        content = b"".join(map(line, texts))
        try:
            if os.write(self._file, content) != len(content):
                raise OSError("the disk is full")
            os.fsync(self._file)
        except OSError as error:
            self._broken = True
            raise unusable(self.path, error) from None
        self._book.lines += len(texts)

    def _compact(self) -> None:
        """Puts a summary in the place of a long file. Where the disk refuses, the long one stays.

        Raises LedgerError, from then on always, where it is not known which of the two is on disk.
        """
        if self._book.lines <= self._compact_at:
            return
        lines = [*map(line, self._book.summary())]
        try:
            with replacing(self.path) as file:
                file.write(b"".join(lines))
            self._book.lines = len(lines)
        except OSError:
            return
        finally:
            self._compact_at = self._book.lines + MAX_LINES
        try:
            os.close(self._file)
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            sync_folder(self.path.parent)
        except OSError as error:
            self._broken = True
            raise unusable(self.path, error) from None

    def _recover(self) -> None:
        """Reads the file, or makes an empty one, and repairs a torn end."""
        for unfinished in self.path.parent.glob(f"*{UNFINISHED}"):
            unfinished.unlink()
        if not self.path.exists():
            replace_file(self.path, line(f"{HEADER} {_incarnation()}"))
        self._book, sound_bytes = read_book(self.path)
        if sound_bytes < self.path.stat().st_size:
            replace_file(self.path, self.path.read_bytes()[:sound_bytes] + line(TORN))
            self._book.note_torn()


def _incarnation() -> str:
    return secrets.token_hex(INCARNATION_BYTES)
