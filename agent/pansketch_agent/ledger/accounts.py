"""The ledger's lines, and what they say each stream has spent: integers of micro-epsilon.

One line a release: `debit SEQUENCE STREAM START END MICRO_EPSILON CRC`. A line `torn CRC` stands
where a power cut tore one: it is counted as a release of every stream, made by none.

The header names the ledger's incarnation, 8 random bytes that every release bears:
`pansketch-ledger 2 INCARNATION CRC`. A line `incarnation INCARNATION CRC` gives it another one. A
line `adopted STREAM INCARNATION WINDOWS OF_THE_DAY UNTIL MICRO_EPSILON CRC` stands where the
collector knew WINDOWS windows, the last of which ended at UNTIL, that this ledger did not;
OF_THE_DAY of them on that one's day. They are counted as releases of MICRO_EPSILON each.

A long ledger is compacted into a summary: the header, a line `torn` for each one so far, a line
`history INCARNATION CRC` for each incarnation it knows, a line `account STREAM NUMBERS CRC` for
each stream, the numbers being the fields of `Account` in their order, and `summary LINES CRC`,
which says how many lines of the last two kinds there are.
"""

import re
from binascii import crc32
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HEADER = "pansketch-ledger 2"
TORN = "torn"
DAY_SECONDS = 86400
MAX_LINE_BYTES = 4096
_DEBIT = re.compile(r"debit (\d{1,18}) ([a-z0-9-]{1,64}) (-?\d{1,18}) (-?\d{1,18}) (\d{1,18})")
_HEADER = re.compile(rf"{HEADER} ([0-9a-f]{{16}})")
_OTHER = re.compile(r"pansketch-ledger (?!2\b)(\d{1,9})(?: .*)?")
_INCARNATION = re.compile(r"incarnation ([0-9a-f]{16})")
_ADOPTED = re.compile(
    r"adopted ([a-z0-9-]{1,64}) (-|[0-9a-f]{16}) (\d{1,18}) (\d{1,18}) (\d{1,18}) (\d{1,18})"
)


class LedgerError(Exception):
    """The ledger cannot be read or written, one line with what to do. Nothing may be published."""


def day_of(end: int) -> int:
    """The UTC day of a window that ends at `end`: that of its last second, in days since 1970."""
    return (end - 1) // DAY_SECONDS


class Account(NamedTuple):
    """Where one stream stands: its last sequence number and window, and what was spent.

    `first_start`: start of its first window. `releases`: how many were debited. `adopted`: how many
    the collector knew beside those; they count in all sums. `window_micro`: the
    last debit. `highest_micro`: the largest. `day_micro`: all of the day `day`, which is the last
    one's. `busiest_micro`: all of the day that cost most, `busiest_day`.
    """

    sequence: int = 0
    until: int = 0
    window_seconds: int = 0
    first_start: int = 0
    releases: int = 0
    adopted: int = 0
    window_micro: int = 0
    highest_micro: int = 0
    lifetime_micro: int = 0
    day: int = 0
    day_micro: int = 0
    busiest_day: int = 0
    busiest_micro: int = 0

    @property
    def young(self) -> bool:
        """Whether nothing is known of any release."""
        return not self.releases and not self.adopted

    def on(self, day: int) -> int:
        """Micro-epsilon spent on a day that is not before the last one spent on."""
        return self.day_micro if day == self.day else 0

    def debited(self, start: int, end: int, micro: int) -> "Account":
        """One release further."""
        first = self.first_start if self.releases else start
        spent = self._spent(end, end - start, micro)
        return spent._replace(first_start=first, releases=self.releases + 1)

    def lost(self) -> "Account":
        """One sequence number and one window further, paid for and used by nobody."""
        if not self.window_seconds:
            return self._replace(sequence=self.sequence + 1)
        return self._spent(self.until + self.window_seconds, self.window_seconds, self.window_micro)

    def knowing(self, windows: int, of_the_day: int, until: int, micro: int) -> "Account":
        """As if `windows` more releases of so much had been debited, `of_the_day` of them on the
        day of the last one, which ended at `until`."""
        paid = self._paid(max(until, self.until), of_the_day * micro, micro if windows else 0)
        rest = (windows - of_the_day) * micro
        lifetime_micro = paid.lifetime_micro + rest
        return paid._replace(adopted=self.adopted + windows, lifetime_micro=lifetime_micro)

    def _spent(self, end: int, window_seconds: int, micro: int) -> "Account":
        paid = self._paid(end, micro, micro)
        following = self.sequence + 1
        return paid._replace(sequence=following, window_seconds=window_seconds, window_micro=micro)

    def _paid(self, end: int, micro: int, each_micro: int) -> "Account":
        """`micro` paid on the day of a window that ends at `end`, at most `each_micro` a window."""
        day = day_of(end)
        day_micro = self.on(day) + micro
        busiest = max((day_micro, day), (self.busiest_micro, self.busiest_day))
        return self._replace(
            until=end,
            highest_micro=max(each_micro, self.highest_micro),
            lifetime_micro=self.lifetime_micro + micro,
            day=day,
            day_micro=day_micro,
            busiest_day=busiest[1],
            busiest_micro=busiest[0],
        )


_HISTORY = re.compile(r"history (-|[0-9a-f]{16})")
_ACCOUNT = re.compile(rf"account ([a-z0-9-]{{1,64}})((?: -?\d{{1,24}}){{{len(Account._fields)}}})")
_SUMMARY = re.compile(r"summary (\d{1,18})")


class Accounts:
    """The accounts of all streams. `torn`: how many lines power cuts have torn. `incarnation`: in
    hexadecimal digits. `histories`: the incarnations
    whose releases it knows of, its own and adopted ones.
    """

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.torn = 0
        self.incarnation = ""
        self.histories: set[str] = set()
        self.lines = 0
        self._summed = 0  # Lines of a summary that has not ended.

    @property
    def sound(self) -> bool:
        """Whether it may end here: a summary must be whole."""
        return self.lines > 0 and not self._summed

    def summary(self) -> Iterator[str]:
        """The lines that say all of it."""
        yield f"{HEADER} {self.incarnation}"
        yield from [TORN] * self.torn
        histories = [f"history {name or '-'}" for name in sorted(self.histories)]
        accounts = [
            f"account {stream} {' '.join(map(str, account))}"
            for stream, account in sorted(self.accounts.items())
        ]
        yield from histories
        yield from accounts
        yield f"summary {len(histories) + len(accounts)}"

    def account(self, stream: str) -> Account:
        """Where a stream stands; sequence numbers that a torn line may have used count as used."""
        found = self.accounts.get(stream)
        return Account(sequence=self.torn) if found is None else found

    def may_debit(self, stream: str, start: int, end: int) -> bool:
        """Whether the window [start, end) comes after all that were debited."""
        return self.account(stream).until <= start < end

    def debit(self, stream: str, start: int, end: int, micro: int) -> None:
        self.accounts[stream] = self.account(stream).debited(start, end, micro)
        self.histories.add(self.incarnation)

    def become(self, incarnation: str) -> None:
        """Releases bear this incarnation from here on."""
        self.incarnation = incarnation
        self.histories.add(incarnation)

    def adopt(
        self, stream: str, incarnation: str, windows: int, of_the_day: int, until: int, micro: int
    ) -> None:
        """Windows that the collector knows, the last ones of `incarnation`."""
        account = self.account(stream).knowing(windows, of_the_day, until, micro)
        self.accounts[stream] = account
        self.histories.add(incarnation)

    def note_torn(self) -> None:
        self.torn += 1
        self.accounts = {name: account.lost() for name, account in self.accounts.items()}

    def begin(self, text: str) -> bool:
        """Notes what the first line says; False when it cannot stand there."""
        self.lines = 1
        match = _HEADER.fullmatch(text)
        if match is not None:
            self.become(match[1])
        return match is not None

    def take(self, text: str) -> bool:
        """Notes what a line after the first says; False when it cannot stand here."""
        self.lines += 1
        if match := _DEBIT.fullmatch(text):
            return not self._summed and self._take_debit(match)
        if match := _SUMMARY.fullmatch(text):
            whole = int(match[1]) == self._summed > 0
            self._summed = 0
            return whole
        if match := _HISTORY.fullmatch(text):
            self._summed += 1
            self.histories.add(match[1].strip("-"))
            return True
        if match := _ACCOUNT.fullmatch(text):
            self._summed += 1
            known = match[1] in self.accounts
            self.accounts[match[1]] = Account(*map(int, match[2].split()))
            return not known
        if self._summed:
            return False
        if text == TORN:
            self.note_torn()
            return True
        if match := _INCARNATION.fullmatch(text):
            self.become(match[1])
            return True
        if match := _ADOPTED.fullmatch(text):
            windows, of_the_day, until, micro = map(int, match.groups()[2:])
            self.adopt(match[1], match[2].strip("-"), windows, of_the_day, until, micro)
            return of_the_day <= windows
        return False

    def _take_debit(self, match: re.Match[str]) -> bool:
        stream, start, end = match[2], int(match[3]), int(match[4])
        following = self.account(stream).sequence + 1
        if int(match[1]) != following or not self.may_debit(stream, start, end):
            return False
        self.debit(stream, start, end, int(match[5]))
        return True


def read_book(path: Path) -> tuple[Accounts, int]:
    """The accounts, and the bytes up to the end of the last sound line; a torn one may follow.

    Raises LedgerError when a line is damaged, OSError when the file cannot be read.
    """
    book = Accounts()
    sound_bytes = torn = 0
    for number, raw in _lines(path):
        text = _text(raw)
        if torn or (text is None and number == 1):
            raise damaged(path, torn or number)
        if text is None:
            torn = number
            continue
        if number == 1 and (other := _OTHER.fullmatch(text)):
            raise LedgerError(
                f"{path}: is a ledger of version {other[1]}, and this agent reads 2; nothing "
                "is published; use the version that made it"
            )
        if not (book.begin(text) if number == 1 else book.take(text)):
            raise damaged(path, number)
        sound_bytes += len(raw)
    if not book.sound:
        raise damaged(path, max(1, book.lines))
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
    """Numbered lines of at most MAX_LINE_BYTES each."""
    with path.open("rb") as file:
        yield from enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1)
