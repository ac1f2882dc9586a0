"""The ledger's lines, and what they say each stream has spent: integers of micro-epsilon.

One line a release: `debit SEQUENCE STREAM START END MICRO_EPSILON CRC`. A line `torn CRC` stands
where a power cut tore one: it is counted as a release of every stream, made by none.
"""

import re
from binascii import crc32
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

HEADER = "pansketch-ledger 1"
TORN = "torn"
DAY_SECONDS = 86400
MOST_LINE_BYTES = 4096
_DEBIT = re.compile(r"debit (\d{1,18}) ([a-z0-9-]{1,64}) (-?\d{1,18}) (-?\d{1,18}) (\d{1,18})")


class LedgerError(Exception):
    """The ledger cannot be read or written, one line with what to do. Nothing may be published."""


def day_of(end: int) -> int:
    """The UTC day of a window that ends at `end`: that of its last second, in days since 1970."""
    return (end - 1) // DAY_SECONDS


@dataclass(frozen=True)
class Account:
    """Where one stream stands: its last sequence number and window, and what was spent.

    `first_start`: start of its first window. `releases`: how many were debited. `window_micro`: the
    last debit. `highest_micro`: the largest. `day_micro`: all of the day `day`, which is the last
    one's. `busiest_micro`: all of the day that cost most, `busiest_day`.
    """

    sequence: int = 0
    until: int = 0
    window_seconds: int = 0
    first_start: int = 0
    releases: int = 0
    window_micro: int = 0
    highest_micro: int = 0
    lifetime_micro: int = 0
    day: int = 0
    day_micro: int = 0
    busiest_day: int = 0
    busiest_micro: int = 0

    def on(self, day: int) -> int:
        """Micro-epsilon spent on a day that is not before the last one spent on."""
        return self.day_micro if day == self.day else 0

    def debited(self, start: int, end: int, micro: int) -> "Account":
        """One release further."""
        first = self.first_start if self.releases else start
        return replace(
            self._spent(end, end - start, micro), first_start=first, releases=self.releases + 1
        )

    def lost(self) -> "Account":
        """One sequence number and one window further, paid for and used by nobody."""
        if not self.window_seconds:
            return replace(self, sequence=self.sequence + 1)
        return self._spent(self.until + self.window_seconds, self.window_seconds, self.window_micro)

    def _spent(self, end: int, window_seconds: int, micro: int) -> "Account":
        day = day_of(end)
        day_micro = self.on(day) + micro
        busiest = max((day_micro, day), (self.busiest_micro, self.busiest_day))
        return replace(
            self,
            sequence=self.sequence + 1,
            until=end,
            window_seconds=window_seconds,
            window_micro=micro,
            highest_micro=max(micro, self.highest_micro),
            lifetime_micro=self.lifetime_micro + micro,
            day=day,
            day_micro=day_micro,
            busiest_day=busiest[1],
            busiest_micro=busiest[0],
        )


class Book:
    """The accounts of all streams. `torn`: how many lines power cuts have torn."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.torn = 0

    def account(self, stream: str) -> Account:
        """Where a stream stands; sequence numbers that a torn line may have used count as used."""
        return self.accounts.get(stream, Account(sequence=self.torn))

    def may_debit(self, stream: str, start: int, end: int) -> bool:
        """Whether the window [start, end) comes after all that were debited."""
        return self.account(stream).until <= start < end

    def debit(self, stream: str, start: int, end: int, micro: int) -> None:
        self.accounts[stream] = self.account(stream).debited(start, end, micro)

    def note_torn(self) -> None:
        self.torn += 1
        self.accounts = {name: account.lost() for name, account in self.accounts.items()}

    def take(self, text: str) -> bool:
        """Notes what a line after the first says; False when it cannot stand here."""
        if text == TORN:
            self.note_torn()
            return True
        match = _DEBIT.fullmatch(text)
        if match is None:
            return False
        stream, start, end = match[2], int(match[3]), int(match[4])
        following = self.account(stream).sequence + 1
        if int(match[1]) != following or not self.may_debit(stream, start, end):
            return False
        self.debit(stream, start, end, int(match[5]))
        return True


def read_book(path: Path) -> tuple[Book, int]:
    """The accounts, and the bytes up to the end of the last sound line; a torn one may follow.

    Raises LedgerError when a line is damaged, OSError when the file cannot be read.
    """
    book = Book()
    sound_bytes = torn = 0
    for number, raw in _lines(path):
        text = _text(raw)
        if torn or (text is None and number == 1):
            raise damaged(path, torn or number)
        if text is None:
            torn = number
            continue
        if not (text == HEADER if number == 1 else book.take(text)):
            raise damaged(path, number)
        sound_bytes += len(raw)
    if not sound_bytes:
        raise damaged(path, 1)
    return book, sound_bytes


def line(text: str) -> bytes:
    """A line as it stands in the file."""
    return f"{text} {crc32(text.encode()):08x}\n".encode()


def damaged(path: Path, number: int) -> LedgerError:
    return LedgerError(
        f"{path}:{number}: the ledger is damaged, nothing is published; restore it, "
        "or give the device a new name (agent.device) so that no window is released twice"
    )


def unusable(path: Path, error: OSError) -> LedgerError:
    reason = error.strerror or str(error)
    return LedgerError(
        f"{path}: cannot be used ({reason}) and nothing is published; free the disk, or "
        "let the agent write there"
    )


def _text(raw: bytes) -> str | None:
    """What a line says, or None when it is torn or damaged."""
    text = raw.decode("ascii", "replace").rpartition(" ")[0]
    return text if raw == line(text) else None


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines of at most MOST_LINE_BYTES each."""
    with path.open("rb") as file:
        yield from enumerate(iter(lambda: file.readline(MOST_LINE_BYTES), b""), 1)
