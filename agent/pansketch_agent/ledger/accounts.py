"""The ledger's lines, and the epsilon that each stream has spent, in integers of micro-epsilon.

One line for each release: `debit SEQUENCE STREAM START END MICRO_EPSILON CRC`. A line `torn CRC`
replaces a line that a power cut tore. It counts as a release of every stream, though none made it.

The header names the ledger's incarnation, 8 random bytes in each of its releases: `pansketch-ledger
2 INCARNATION CRC`. A line `incarnation INCARNATION CRC` changes it. A line `adopted STREAM
INCARNATION WINDOWS OF_THE_DAY UNTIL MICRO_EPSILON CRC` records WINDOWS windows that only the
collector knew. The last one ended at UNTIL; OF_THE_DAY of them were on its day. They count as
releases of MICRO_EPSILON each.

A long ledger is compacted into a summary. It has the header, a line `torn` for each one so far, and
a line `history INCARNATION CRC` for each known incarnation. A line `account STREAM NUMBERS CRC` for
each stream follows, with the fields of `Account` in their order. The last line, `summary LINES
CRC`, states the number of `history` and `account` lines.
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
    """The ledger cannot be read or written, so nothing may be published. One line, with the fix."""


def day_of(end: int) -> int:
    """Return the UTC day of a window that ends at `end`: of its last second, in days since 1970."""
    return (end - 1) // DAY_SECONDS


class Account(NamedTuple):
    """The state of one stream: its last sequence number and window, and its spent epsilon.

    `first_start`: start of its first window. `releases`: the number of debits. `adopted`: windows
    that only the collector knew; all sums include them. `window_micro`: the last debit;
    `highest_micro`: the largest. `day_micro`: of the last day, `day`; `busiest_micro`: of the most
    expensive, `busiest_day`.
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
    def is_empty(self) -> bool:
        """True if no release is known."""
        return not self.releases and not self.adopted

    def spent_on(self, day: int) -> int:
        """Return the micro-epsilon spent on a day, which is not before the account's last one."""
        return self.day_micro if day == self.day else 0

    def debited(self, start: int, end: int, micro: int) -> "Account":
        """Return the account after one more release."""
        first = self.first_start if self.releases else start
        spent = self._spent(end, end - start, micro)
        return spent._replace(first_start=first, releases=self.releases + 1)

    def with_lost_window(self) -> "Account":
        """Return the account after a torn line: one sequence number and one window are spent
        unused.
        """
        if not self.window_seconds:
            return self._replace(sequence=self.sequence + 1)
        return self._spent(self.until + self.window_seconds, self.window_seconds, self.window_micro)

    def with_adopted(self, windows: int, of_the_day: int, until: int, micro: int) -> "Account":
        """Return the account after `windows` more releases of `micro`, the last until `until`."""
        charged = self._charged(max(until, self.until), of_the_day * micro, micro if windows else 0)
        rest = (windows - of_the_day) * micro
        lifetime_micro = charged.lifetime_micro + rest
        return charged._replace(adopted=self.adopted + windows, lifetime_micro=lifetime_micro)

    def _spent(self, end: int, window_seconds: int, micro: int) -> "Account":
        charged = self._charged(end, micro, micro)
        following = self.sequence + 1
        return charged._replace(
            sequence=following, window_seconds=window_seconds, window_micro=micro
        )

    def _charged(self, end: int, micro: int, each_micro: int) -> "Account":
        """Charge `micro` on the day of a window that ends at `end`, at most `each_micro` for a
        window.
        """
        day = day_of(end)
        day_micro = self.spent_on(day) + micro
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
    """The accounts of all streams, `by_stream`. `torn`: the number of torn lines. `incarnation`: in
    hexadecimal digits; `histories`: the known ones, its own and adopted.
    """

    def __init__(self) -> None:
        self.by_stream: dict[str, Account] = {}
        self.torn = 0
        self.incarnation = ""
        self.histories: set[str] = set()
        self.lines = 0
        self._summary_lines = 0  # Lines of a summary that has not ended.

    @property
    def is_complete(self) -> bool:
        """True if the ledger may end here: a summary must be complete."""
        return self.lines > 0 and not self._summary_lines

    def summary(self) -> Iterator[str]:
        """Yield the lines of a summary."""
        yield f"{HEADER} {self.incarnation}"
        yield from [TORN] * self.torn
        histories = [f"history {name or '-'}" for name in sorted(self.histories)]
        accounts = [
            f"account {stream} {' '.join(map(str, account))}"
            for stream, account in sorted(self.by_stream.items())
        ]
        yield from histories
        yield from accounts
        yield f"summary {len(histories) + len(accounts)}"

    def account(self, stream: str) -> Account:
        """Return a stream's account; a new one starts after the numbers that torn lines may have
        used.
        """
        found = self.by_stream.get(stream)
        return Account(sequence=self.torn) if found is None else found

    def may_debit(self, stream: str, start: int, end: int) -> bool:
        """Return whether the window [start, end) follows all debited ones."""
        return self.account(stream).until <= start < end

    def debit(self, stream: str, start: int, end: int, micro: int) -> None:
        self.by_stream[stream] = self.account(stream).debited(start, end, micro)
        self.histories.add(self.incarnation)

    def set_incarnation(self, incarnation: str) -> None:
        """Use this incarnation for later releases."""
        self.incarnation = incarnation
        self.histories.add(incarnation)

    def adopt(
        self, stream: str, incarnation: str, windows: int, of_the_day: int, until: int, micro: int
    ) -> None:
        """Count windows that the collector knows, the last ones of `incarnation`."""
        account = self.account(stream).with_adopted(windows, of_the_day, until, micro)
        self.by_stream[stream] = account
        self.histories.add(incarnation)

    def note_torn(self) -> None:
        self.torn += 1
        self.by_stream = {
            name: account.with_lost_window() for name, account in self.by_stream.items()
        }

    def read_header(self, text: str) -> bool:
        """Apply the first line; return False if it is no header."""
        self.lines = 1
        match = _HEADER.fullmatch(text)
        if match is not None:
            self.set_incarnation(match[1])
        return match is not None

    def read_line(self, text: str) -> bool:
        """Apply a line after the first; return False if it is not valid here."""
        self.lines += 1
        if match := _DEBIT.fullmatch(text):
            return not self._summary_lines and self._read_debit(match)
        if match := _SUMMARY.fullmatch(text):
            whole = int(match[1]) == self._summary_lines > 0
            self._summary_lines = 0
            return whole
        if match := _HISTORY.fullmatch(text):
            self._summary_lines += 1
            self.histories.add(match[1].strip("-"))
            return True
        if match := _ACCOUNT.fullmatch(text):
            self._summary_lines += 1
            known = match[1] in self.by_stream
            self.by_stream[match[1]] = Account(*map(int, match[2].split()))
            return not known
        if self._summary_lines:
            return False
        if text == TORN:
            self.note_torn()
            return True
        if match := _INCARNATION.fullmatch(text):
            self.set_incarnation(match[1])
            return True
        if match := _ADOPTED.fullmatch(text):
            windows, of_the_day, until, micro = map(int, match.groups()[2:])
            self.adopt(match[1], match[2].strip("-"), windows, of_the_day, until, micro)
            return of_the_day <= windows
        return False

    def _read_debit(self, match: re.Match[str]) -> bool:
        stream, start, end = match[2], int(match[3]), int(match[4])
        following = self.account(stream).sequence + 1
        if int(match[1]) != following or not self.may_debit(stream, start, end):
            return False
        self.debit(stream, start, end, int(match[5]))
        return True


def read_accounts(path: Path) -> tuple[Accounts, int]:
    """Return the accounts, and the bytes up to the end of the last valid line; a torn one may
    follow.

    Raises LedgerError when a line is damaged, OSError when the file cannot be read.
    """
    accounts = Accounts()
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
        if not (accounts.read_header(text) if number == 1 else accounts.read_line(text)):
            raise damaged(path, number)
        sound_bytes += len(raw)
    if not accounts.is_complete:
        raise damaged(path, max(1, accounts.lines))
    return accounts, sound_bytes


def line(text: str) -> bytes:
    """Return a line as the file has it, with its checksum."""
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
    """Return the text of a line, or None if it is torn or damaged."""
    text = raw.decode("ascii", "replace").rpartition(" ")[0]
    return text if raw == line(text) else None


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines, of at most MAX_LINE_BYTES each."""
    with path.open("rb") as file:
        yield from enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1)
