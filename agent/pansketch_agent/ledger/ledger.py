"""The privacy ledger: append-only and checked; each debit is on disk before its epsilon is spent.

A new ledger draws an incarnation, random bytes in each of its releases. So releases after a loss of
the ledger are not mistaken for earlier ones. The sequence numbers of a stream have no gap and its
windows only advance, so a missing or moved line is detected. A power cut can tear the last line
only. Its content is unknown, so a line `torn` replaces it, and every stream loses one sequence
number and one window. Any other damage stops publishing.

A ledger of more than MAX_LINES lines is compacted. A new file with the same accounts replaces it
once it is complete and on disk. A crash leaves one of the two.
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
    read_accounts,
    unusable,
)
from pansketch_agent.ledger.state_folder import check_own, lock_folder

__all__ = ["DailyCapError", "Ledger", "LedgerError"]

INCARNATION_BYTES = 8
MAX_LINES = 4096  # About 250 kB, read in a fraction of a second on a small board.


class DailyCapError(Exception):
    """One more window would exceed the daily cap of the stream; the text has the fix."""


class Ledger:
    """The device's ledger in the folder `state`, locked by one process. Safe for several threads.

    Raises LedgerError when another process has the lock or a line is damaged.
    """

    def __init__(self, state: Path) -> None:
        self.path = state / "ledger"
        self._mutex = threading.Lock()
        self._accounts = Accounts()
        self._broken = False
        self._compact_at = MAX_LINES
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            check_own(state)
            self._lock = lock_folder(state)
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
        """True if a power cut ever tore a line of this ledger."""
        return self._accounts.torn > 0

    @property
    def incarnation(self) -> bytes:
        """The incarnation of its next releases, 8 bytes."""
        return bytes.fromhex(self._accounts.incarnation)

    def knows(self, incarnation: bytes) -> bool:
        """Return whether an incarnation is its own, or was adopted."""
        return incarnation.hex() in self._accounts.histories

    def spent(self, stream: str) -> Account:
        """Return the account of a stream."""
        return self._accounts.account(stream)

    def debit(
        self, micro: Mapping[str, int], start: int, end: int, cap_micro: int | None = None
    ) -> dict[str, int]:
        """Debit the window [start, end) of a stream, or of all sketches of one source together.

        Returns their sequence numbers; the debits are on disk before it returns. Raises LedgerError
        when the disk refuses, and always afterwards. Raises DailyCapError, without a debit, when
        the window's day would exceed `cap_micro` in all of them together.
        """
        with self._mutex:
            if self._broken or not all(
                self._accounts.may_debit(each, start, end) for each in micro
            ):
                raise LedgerError(f"{self.path}: refuses the debit; restart the agent")
            spent = sum(self.spent(each).spent_on(day_of(end)) + micro[each] for each in micro)
            if cap_micro is not None and spent > cap_micro:
                raise DailyCapError(
                    f"stopped at its daily cap of epsilon {cap_micro / MICRO:g}, nothing more is "
                    "released; raise privacy.daily_cap or lengthen the window, then restart"
                )
            sequences = {each: self.spent(each).sequence + 1 for each in micro}
            self._append(*(f"debit {sequences[s]} {s} {start} {end} {micro[s]}" for s in micro))
            for each in micro:
                self._accounts.debit(each, start, end, micro[each])
            self._compact()
            return sequences

    def adopt(
        self, stream: str, incarnation: bytes, windows: int, of_the_day: int, until: int, micro: int
    ) -> None:
        """Count windows that the collector knows and this ledger does not (see `accounts`).

        They are on disk before it returns, and no window before `until` can be debited any more.
        Later releases have another incarnation. Raises LedgerError when the disk refuses.
        """
        with self._mutex:
            if self.spent(stream).releases:
                self._renew()
            name = incarnation.hex()
            self._append(f"adopted {stream} {name or '-'} {windows} {of_the_day} {until} {micro}")
            self._accounts.adopt(stream, name, windows, of_the_day, until, micro)

    def _renew(self) -> None:
        incarnation = _incarnation()
        self._append(f"incarnation {incarnation}")
        self._accounts.set_incarnation(incarnation)

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
        self._accounts.lines += len(texts)

    def _compact(self) -> None:
        """Replace a long file by a summary. If the disk refuses, the long file stays.

        Raises LedgerError, and always afterwards, if it is unknown which of the two is on disk.
        """
        if self._accounts.lines <= self._compact_at:
            return
        lines = [*map(line, self._accounts.summary())]
        try:
            with replacing(self.path) as file:
                file.write(b"".join(lines))
            self._accounts.lines = len(lines)
        except OSError:
            return
        finally:
            self._compact_at = self._accounts.lines + MAX_LINES
        try:
            before = self._file
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            os.close(before)
            sync_folder(self.path.parent)
        except OSError as error:
            self._broken = True
            raise unusable(self.path, error) from None

    def _recover(self) -> None:
        """Read the file, or create one, and repair a torn end."""
        for unfinished in self.path.parent.glob(f"*{UNFINISHED}"):
            unfinished.unlink()
        if not self.path.exists():
            replace_file(self.path, line(f"{HEADER} {_incarnation()}"))
        self._accounts, sound_bytes = read_accounts(self.path)
        if sound_bytes < self.path.stat().st_size:
            replace_file(self.path, self.path.read_bytes()[:sound_bytes] + line(TORN))
            self._accounts.note_torn()


def _incarnation() -> str:
    return secrets.token_hex(INCARNATION_BYTES)
