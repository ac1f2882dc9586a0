"""Replay: the rows of a CSV file (plain or gzip), each at its own time.

The column `time` holds ISO 8601 (UTC unless it says otherwise) or unix seconds. A row without a
readable time is left out. With a speed the rows come one at a time, paced by the clock, and the
file is read in sips, so that no buffer keeps a row that was absorbed before the last one. Of a gzip
file the decompressor keeps the last 40 KiB of text; of a file without a speed the blocks linger.
"""

import csv
import gzip
import io
import threading
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from math import nan
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import numpy as np

from agent.clock import Clock
from agent.sources.readings import (
    Readings,
    SourceError,
    check_offered,
    overwrite_freed_floats,
    text_parser,
)
from pansketch import Domain

TIME = "time"
BLOCK_ROWS = 1024
GULP_BYTES = 8192
SIP_BYTES = 64  # Texts so short share a few freed places, and the next rows overwrite the last.
Parsers = list[Callable[[str], float]]
LATEST = 253_402_300_800.0  # The year 10000: beyond it a time is a typing error.


def header(path: Path) -> list[str]:
    """The column names of the file. Raises SourceError when there are none to read."""
    with _open(path, SIP_BYTES) as file:
        return next(_rows(path, file), [])


def check(path: Path, domain: Domain) -> None:
    """Raises SourceError for an unreadable file, NotOfferedError for an attribute it lacks."""
    names = header(path)
    if TIME not in names:
        known = ", ".join(names)[:300] or "nothing"
        raise SourceError(
            f"{path}: has no column 'time' (ISO 8601 or unix seconds), only: {known}; add it"
        )
    check_offered(domain.attributes, [name for name in names if name != TIME], str(path))


def blocks(path: Path, domain: Domain) -> Iterator[Readings]:
    """All rows with a time, in the file's order, BLOCK_ROWS at a time.

    Raises SourceError or NotOfferedError for a file that is damaged or has lost a column.
    """
    at, values = np.zeros(BLOCK_ROWS), np.zeros((BLOCK_ROWS, domain.dimension))
    count = 0
    try:
        for moment, cells, parsers in _timed(path, domain, GULP_BYTES):
            at[count] = moment
            values[count] = [parse(cell) for parse, cell in zip(parsers, cells, strict=True)]
            count += 1
            if count == BLOCK_ROWS:
                yield Readings(at, values)
                values.fill(0)
                count = 0
        if count:
            yield Readings(at[:count], values[:count])
    finally:
        values.fill(0)


def paced(
    path: Path, domain: Domain, speed: float, clock: Clock, stop: threading.Event
) -> Iterator[Readings]:
    """All rows with a time, one at a time, `speed` seconds of the file in a second of the clock."""
    at, values = np.zeros(1), np.zeros((1, domain.dimension))
    begun, first = clock.monotonic(), nan
    try:
        for moment, cells, parsers in _timed(path, domain, SIP_BYTES):
            first = moment if first != first else first
            if clock.wait(stop, (moment - first) / speed - (clock.monotonic() - begun)):
                return
            at[0] = moment
            values[0] = [parse(cell) for parse, cell in zip(parsers, cells, strict=True)]
            yield Readings(at, values)
            values.fill(0)
            overwrite_freed_floats()
    finally:
        values.fill(0)


def _timed(
    path: Path, domain: Domain, most_bytes: int
) -> Iterator[tuple[float, list[str], Parsers]]:
    """(time, the attributes' cells, their parsers) of every row with a readable time."""
    check(path, domain)
    parsers = [text_parser(attribute) for attribute in domain.attributes]
    with _open(path, most_bytes) as file:
        rows = _rows(path, file)
        names = next(rows)
        time = names.index(TIME)
        columns = [names.index(name) for name in domain.names]
        for row in rows:
            moment = unix_seconds(row[time]) if time < len(row) else nan
            if 0 <= moment < LATEST:
                cells = [row[column] if column < len(row) else "" for column in columns]
                yield moment, cells, parsers


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
    """A file that never hands out more than `most_bytes` at once."""

    def __init__(self, file: BinaryIO, most_bytes: int) -> None:
        super().__init__()
        self._file, self._most_bytes = file, most_bytes

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        return self._file.read(self._most_bytes)

    def close(self) -> None:
        self._file.close()
        super().close()


def _open(path: Path, most_bytes: int) -> TextIO:
    """The file as text, read `most_bytes` at a time. Raises SourceError."""
    try:
        sips: Any = _Sips(_opened(path), most_bytes)
    except OSError as error:
        raise SourceError(f"{path}: cannot be opened ({error.strerror}); check the path") from None
    return io.TextIOWrapper(sips, encoding="utf-8-sig", errors="replace", newline="")


def _opened(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    return cast(BinaryIO, path.open("rb", buffering=0))


def _rows(path: Path, file: TextIO) -> Iterator[list[str]]:
    """The rows of the file; one that is no CSV is left out. Raises SourceError."""
    reader = csv.reader(file)
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error:
            continue
        except (OSError, EOFError, zlib.error) as error:
            what = type(error).__name__
            raise SourceError(f"{path}: is damaged ({what}); fetch the file again") from None
