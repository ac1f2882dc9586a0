"""Replay: the rows of a CSV file (plain or gzip), each at its own time.

The column `time` holds ISO 8601 (UTC unless it says otherwise) or unix seconds. A row without a
readable time is left out. With a speed the rows come one at a time, paced by the clock.
"""

import csv
import gzip
import threading
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from math import nan
from pathlib import Path
from typing import TextIO

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
Parsers = list[Callable[[str], float]]
LATEST = 253_402_300_800.0  # The year 10000: beyond it a time is a typing error.


def header(path: Path) -> list[str]:
    """The column names of the file. Raises SourceError when there are none to read."""
    with _open(path) as file:
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
        for moment, cells, parsers in _timed(path, domain):
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
        for moment, cells, parsers in _timed(path, domain):
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


def _timed(path: Path, domain: Domain) -> Iterator[tuple[float, list[str], Parsers]]:
    """(time, the attributes' cells, their parsers) of every row with a readable time."""
    check(path, domain)
    parsers = [text_parser(attribute) for attribute in domain.attributes]
    with _open(path) as file:
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


def _open(path: Path) -> TextIO:
    """The file as text. Raises SourceError."""
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
        return path.open(encoding="utf-8-sig", errors="replace", newline="")
    except OSError as error:
        raise SourceError(f"{path}: cannot be opened ({error.strerror}); check the path") from None


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
