"""Replay: the rows of a CSV file (plain or gzip), each at its own time.

The column `time` has ISO 8601 (UTC by default) or unix seconds. A row without a valid time is left
out. With a speed the rows come one at a time, paced by the clock. The file is then read in small
parts, and parser memory is overwritten, so that no absorbed row stays except the last one. For a
gzip file the decompressor keeps the last 40 KiB of text. For a file without a speed the blocks stay
in memory.
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
from pansketch_agent.sources.decoders import RecordDecoder
from pansketch_agent.sources.readings import MAX_NAMES, Readings, SourceError, check_offered
from pansketch_fleet.errors import one_line

TIME = "time"
BLOCK_ROWS = 1024
LARGE_READ_BYTES = 8192
SMALL_READ_BYTES = 64  # Texts so short share a few freed blocks, which the next rows overwrite.
MAX_ROW = 2**17
MAX_UNIX_SECONDS = 253_402_300_800.0  # The year 10000: beyond it a time is a typing error.


def header(path: Path) -> list[str]:
    """Return the column names of the file. Raises SourceError when there are none."""
    with _open(path, SMALL_READ_BYTES) as file:
        return next(_rows(path, _Lines(file)), [])


def check(path: Path, wanted: Iterable[str]) -> None:
    """Raise SourceError for an unreadable file, NotOfferedError for a missing column."""
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


def blocks(path: Path, decoder: RecordDecoder) -> Iterator[Readings]:
    """Yield all rows with a time, in the file's order, BLOCK_ROWS at a time.

    Raises SourceError or NotOfferedError for a file that is damaged or lacks a column.
    """
    at, rows = np.zeros(BLOCK_ROWS), decoder.empty(BLOCK_ROWS)
    count = 0
    try:
        for moment, cells in _timed(path, decoder, LARGE_READ_BYTES):
            at[count] = moment
            decoder.decode_cells(cells, rows, count)
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
    path: Path, decoder: RecordDecoder, speed: float, clock: Clock, stop: threading.Event
) -> Iterator[Readings]:
    """Yield all rows with a time, one at a time, at `speed` seconds of the file per second."""
    at, rows = np.zeros(1), decoder.empty(1)
    begun, first = clock.monotonic(), nan
    try:
        for moment, cells in _timed(path, decoder, SMALL_READ_BYTES):
            decoder.decode_cells(cells, rows, 0)
            cells.clear()
            first = moment if first != first else first
            if clock.wait(stop, (moment - first) / speed - (clock.monotonic() - begun)):
                return
            at[0] = moment
            yield Readings(at, rows)
            rows.fill(0)
            decoder.overwrite_freed()
    finally:
        rows.fill(0)


def _timed(path: Path, decoder: RecordDecoder, max_bytes: int) -> Iterator[tuple[float, list[str]]]:
    """Yield (time, cells) of every row with a valid time. The caller owns the cells."""
    check(path, decoder.names)
    with _open(path, max_bytes) as file:
        rows = _rows(path, _Lines(file))
        names = next(rows)
        time = names.index(TIME)
        columns = [names.index(name) for name in decoder.names]
        for row in rows:
            moment = unix_seconds(row[time]) if time < len(row) else nan
            cells = [row[column] if column < len(row) else "" for column in columns]
            row.clear()
            if 0 <= moment < MAX_UNIX_SECONDS:
                yield moment, cells


def unix_seconds(text: str) -> float:
    """Parse a cell of the column `time` to unix seconds; NaN if it is invalid."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return nan


class _SmallReads(io.RawIOBase):
    """A file that never returns more than `max_bytes` at once."""

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
    """Open the file as text, read `max_bytes` at a time. Raises SourceError."""
    try:
        reads: Any = _SmallReads(_opened(path), max_bytes)
    except OSError as error:
        raise SourceError(f"{path}: cannot be opened ({error.strerror}); check the path") from None
    return io.TextIOWrapper(reads, encoding="utf-8-sig", errors="replace", newline="")


def _opened(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    return cast(BinaryIO, path.open("rb", buffering=0))


class _Lines:
    """The lines of a file for a CSV reader, and blanks between two rows.

    The reader keeps the text of a row in its buffer until another row is as long. A row of MAX_ROW
    characters or more is skipped: a small compressed file can contain a line of gigabytes.
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
    """Yield the rows of the file, without invalid ones. Raises SourceError."""
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
