"""Replay: the rows of a CSV file (plain or gzip), each at its own time.

The column `time` holds ISO 8601 (UTC unless it says otherwise) or unix seconds. A row without a
readable time is left out. With a speed the rows come one at a time, paced by the clock, the file is
read in sips, and what parsing leaves is overwritten, so that nothing keeps a row that was absorbed
before the last one. Of a gzip file the decompressor keeps the last 40 KiB of text; of a file
without a speed the blocks linger.
"""

import csv
import gzip
import io
import threading
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from math import nan
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import numpy as np

from pansketch_agent.host.clock import Clock
from pansketch_agent.sources.decoders import RecordForm
from pansketch_agent.sources.readings import MAX_NAMES, Readings, SourceError, check_offered
from pansketch_fleet.errors import one_line

TIME = "time"
BLOCK_ROWS = 1024
GULP_BYTES = 8192
SIP_BYTES = 64  # Texts so short share a few freed places, and the next rows overwrite the last.
MAX_ROW = 2**17
LATEST = 253_402_300_800.0  # The year 10000: beyond it a time is a typing error.


def header(path: Path) -> list[str]:
    """The column names of the file. Raises SourceError when there are none to read."""
    with _open(path, SIP_BYTES) as file:
        return next(_rows(path, _Lines(file)), [])


def check(path: Path, wanted: Iterable[str]) -> None:
    """Raises SourceError for an unreadable file, NotOfferedError for a column that it lacks."""
    names, wanted = header(path), list(wanted)
    if names and not {TIME, *wanted}.intersection(names):  # It may well be a row of readings.
        raise SourceError(
            f"{path}: does not begin with the names of columns, such as 'time'; add that line"
        )
    if TIME not in names:
        known = one_line(", ".join(names)[:MAX_NAMES]) or "nothing"
        raise SourceError(
            f"{path}: has no column 'time' (ISO 8601 or unix seconds), only: {known}; add it"
        )
    check_offered(wanted, [name for name in names if name != TIME], str(path))


def blocks(path: Path, form: RecordForm) -> Iterator[Readings]:
    """All rows with a time, in the file's order, BLOCK_ROWS at a time.

    Raises SourceError or NotOfferedError for a file that is damaged or has lost a column.
    """
    at, rows = np.zeros(BLOCK_ROWS), form.empty(BLOCK_ROWS)
    count = 0
    try:
        for moment, cells in _timed(path, form, GULP_BYTES):
            at[count] = moment
            form.take_cells(cells, rows, count)
            count += 1
            if count == BLOCK_ROWS:
                yield Readings(at, rows)
                rows.fill(0)
                count = 0
        if count:
            yield Readings(at[:count], rows[:count])
    finally:
        rows.fill(0)


def paced(
    path: Path, form: RecordForm, speed: float, clock: Clock, stop: threading.Event
) -> Iterator[Readings]:
    """All rows with a time, one at a time, `speed` seconds of the file in a second of the clock."""
    at, rows = np.zeros(1), form.empty(1)
    begun, first = clock.monotonic(), nan
    try:
        for moment, cells in _timed(path, form, SIP_BYTES):
            form.take_cells(cells, rows, 0)
            cells.clear()
            first = moment if first != first else first
            if clock.wait(stop, (moment - first) / speed - (clock.monotonic() - begun)):
                return
            at[0] = moment
            yield Readings(at, rows)
            rows.fill(0)
            form.overwrite_freed()
    finally:
        rows.fill(0)


def _timed(path: Path, form: RecordForm, max_bytes: int) -> Iterator[tuple[float, list[str]]]:
    """(time, the form's cells) of every row with a readable time. The cells are the caller's."""
    check(path, form.names)
    with _open(path, max_bytes) as file:
        rows = _rows(path, _Lines(file))
        names = next(rows)
        time = names.index(TIME)
        columns = [names.index(name) for name in form.names]
        for row in rows:
            moment = unix_seconds(row[time]) if time < len(row) else nan
            cells = [row[column] if column < len(row) else "" for column in columns]
            row.clear()
            if 0 <= moment < LATEST:
                yield moment, cells


def unix_seconds(text: str) -> float:
    """A cell of the column `time` in unix seconds; NaN when it is no time."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return nan


class _Sips(io.RawIOBase):
    """A file that never hands out more than `max_bytes` at once."""

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        super().__init__()
        self._file, self._max_bytes = file, max_bytes

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        return self._file.read(self._max_bytes)

    def close(self) -> None:
        self._file.close()
        super().close()


def _open(path: Path, max_bytes: int) -> TextIO:
    """The file as text, read `max_bytes` at a time. Raises SourceError."""
    try:
        sips: Any = _Sips(_opened(path), max_bytes)
    except OSError as error:
        raise SourceError(f"{path}: cannot be opened ({error.strerror}); check the path") from None
    return io.TextIOWrapper(sips, encoding="utf-8-sig", errors="replace", newline="")


def _opened(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    return cast(BinaryIO, path.open("rb", buffering=0))


class _Lines:
    """The lines of a file for a CSV reader, and between two rows one of blanks.

    The reader keeps the text of a row in a buffer of its own, until another row is as long. A row
    of MAX_ROW characters or more is no row: a small compressed file can hold a line of gigabytes.
    """

    def __init__(self, file: TextIO) -> None:
        self._file, self._longest, self._row = file, 0, 0
        self.blank = False

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        if self.blank:
            return " " * min(self._longest, csv.field_size_limit())
        line = self._file.readline(MAX_ROW)
        if not line:
            raise StopIteration
        self._row += len(line)
        if self._row >= MAX_ROW:
            self._pass_over(line)
            raise csv.Error
        self._longest = max(self._longest, len(line))
        return line

    def begin_row(self) -> None:
        self.blank, self._row = False, 0

    def _pass_over(self, line: str) -> None:
        while line and line[-1] not in "\r\n":
            line = self._file.readline(MAX_ROW)


def _rows(path: Path, lines: _Lines) -> Iterator[list[str]]:
    """The rows of the file; one that is no CSV is left out. Raises SourceError."""
    reader = csv.reader(lines)
    while True:
        try:
            lines.begin_row()
            row = next(reader)
            lines.blank = True
            next(reader)
            yield row
        except StopIteration:
            return
        except csv.Error:
            continue
        except (OSError, EOFError, zlib.error) as error:
            what = type(error).__name__
            raise SourceError(f"{path}: is damaged ({what}); fetch the file again") from None
