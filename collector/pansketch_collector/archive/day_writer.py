"""Writes and checks the files of an archive: the stored releases of whole days."""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from pansketch_collector.archive import day_files
from pansketch_collector.archive.day_files import LABEL, ROWS_TOGETHER, VERSION, arrow, batches
from pansketch_collector.errors import CommandError
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables import sums
from pansketch_collector.storage.tables.corruption import (
    UNREADABLE,
    Damage,
    StoredLayout,
    intact_counters,
    label_damage,
)
from pansketch_collector.storage.tables.records import Selection, Stored, portions
from pansketch_collector.storage.tables.sums import DAY, Counters

WINDOW = ("device", "incarnation", "sequence")
Window = tuple[str, bytes, int]


@dataclass(frozen=True)
class ArchivedDay:
    """A day's file: its number of releases, of new ones, and its bytes.

    `damaged`: the releases that were omitted because their bytes have changed in the database.
    """

    stream: str
    start: int
    releases: int
    new: int
    size: int
    damaged: tuple[Damage, ...] = ()


def archive_day(
    reader: Reader, folder: Path, stream: str, start: int, dry: bool = False
) -> ArchivedDay | None:
    """Updates the file of a day with the stored releases, including excluded ones.

    Returns None if it is up to date. Releases that the database has removed stay in the file. If
    both have a window, the database's release replaces the file's. Raises CommandError.
    """
    path = day_files.path_of(folder, stream, start)
    day = Selection(stream, start, start + DAY)
    stored = reader.listed(day, None, -1, excluded=None)
    windows = {(each.device, each.incarnation, each.sequence) for each in stored}
    archived_labels = dict(_labels(path)) if path.exists() else {}
    new = len({each.digest for each in stored} - archived_labels.keys())
    if not new:
        return None
    if dry:
        return ArchivedDay(stream, start, len(windows.union(archived_labels.values())), new, 0)
    layouts = _layouts(reader, {each.fingerprint for each in stored})
    damaged: list[Damage] = []
    old_batches = _others(path, windows) if archived_labels else ()
    rows = _write(path, reader.releases(day, excluded=None), layouts, damaged, old_batches)
    return ArchivedDay(stream, start, rows, new - len(damaged), path.stat().st_size, tuple(damaged))


def archived(
    reader: Reader, folder: Path, streams: Sequence[str], until: int, dry: bool
) -> Iterator[ArchivedDay]:
    """Updates the files of all days that end until `until` (unix seconds); yields the changed ones.

    Raises CommandError.
    """
    for stream in streams:
        for start in _days(reader, stream, until):
            if (found := archive_day(reader, folder, stream, start, dry)) is not None:
                yield found


def checked(reader: Reader, folder: Path, streams: Sequence[str]) -> Iterator[ArchivedDay]:
    """Compares the bytes of each file with its labels and counters.

    An unreadable file is damaged as a whole.
    """
    for stream in streams:
        for path in day_files.files(folder, stream):
            damaged: list[Damage] = []
            start, rows = day_files.day_of(path) or 0, 0
            try:
                names = {each.fingerprint for each in day_files.releases(path, stream)}
                rows = _check(path, stream, _layouts(reader, names), damaged)
            except CommandError as error:
                damaged.append(Damage(path.name, stream, start, start + DAY, 0, str(error)))
            yield ArchivedDay(stream, start, rows, 0, path.stat().st_size, tuple(damaged))


def _layouts(reader: Reader, names: Iterable[bytes]) -> dict[bytes, StoredLayout]:
    found = (sums.layout(reader.connection, name) for name in names)
    return {each.fingerprint: each for each in found if each is not None}


def _days(reader: Reader, stream: str, until: int) -> list[int]:
    """Starts of the ended days with stored releases of a stream, including excluded ones; unix
    seconds."""
    rows = reader.connection.execute(
        "SELECT DISTINCT window_start / ? FROM releases WHERE stream = ? AND window_start < ?"
        " ORDER BY 1",
        (DAY, stream, until // DAY * DAY),
    )
    return [int(row[0]) * DAY for row in rows]


def _labels(path: Path) -> Iterator[tuple[str, Window]]:
    for batch in batches(path, ("digest", *WINDOW)):
        yield from zip(batch.column("digest").to_pylist(), _windows(batch), strict=True)


def _windows(batch: Any) -> Iterable[Window]:
    return zip(*(batch.column(name).to_pylist() for name in WINDOW), strict=True)


def _others(path: Path, windows: Set[Window]) -> Iterator[Any]:
    """Rows of a file with other windows."""
    pa, _ = arrow()
    for batch in batches(path, _schema(pa).names):
        other = [window not in windows for window in _windows(batch)]
        if any(other):
            yield batch.filter(pa.array(other))


def _write(
    path: Path,
    found: Iterable[Stored],
    layouts: Mapping[bytes, StoredLayout],
    damaged: list[Damage],
    old_batches: Iterable[Any] = (),
) -> int:
    """Writes a day's file atomically, over an earlier one; returns its number of rows.

    Args:
        layouts: of the specs with stored counters.
        damaged: receives the omitted releases, whose bytes have changed.
        kept: record batches of an earlier file.

    Raises CommandError for a disk error.
    """
    pa, parquet = arrow()
    layout, rows = _schema(pa), 0
    options = {
        "compression": "zstd",
        "write_page_checksum": True,
        "write_statistics": ["start"],
        "use_dictionary": ["device", "fingerprint", "incarnation"],
    }
    unfinished = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            with parquet.ParquetWriter(file, layout, **options) as writer:
                for batch in old_batches:
                    writer.write_batch(batch)
                    rows += batch.num_rows
                for table in _tables(pa, found, layouts, damaged):
                    writer.write_table(table)
                    rows += table.num_rows
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if unfinished is not None:
            Path(unfinished).unlink(missing_ok=True)
    return rows


def _schema(pa: Any) -> Any:
    """The columns of a day's file. Times are unix seconds.

    `width`: bytes of one counter, 0 if the counters are in `payload` only.
    """
    types = {
        "device": pa.string(),
        "sequence": pa.int64(),
        "start": pa.int64(),
        "end": pa.int64(),
        "fingerprint": pa.binary(),
        "digest": pa.string(),
        "received_at": pa.int64(),
        "payload": pa.binary(),
        "clock_synchronised": pa.bool_(),
        "incarnation": pa.binary(),
        "draws": pa.int64(),
        "width": pa.int8(),
        "counters": pa.binary(),
    }
    return pa.schema(list(types.items()), {"pansketch": json.dumps({"version": VERSION})})


def _tables(
    pa: Any, found: Iterable[Stored], layouts: Mapping[bytes, StoredLayout], damaged: list[Damage]
) -> Iterator[Any]:
    """Releases as tables of a limited number of rows."""
    rows: list[Any] = []
    for portion in portions(found):
        rows += _rows(portion, layouts, damaged)
        if len(rows) >= ROWS_TOGETHER:
            yield pa.Table.from_pylist(rows, _schema(pa))
            rows = []
    if rows:
        yield pa.Table.from_pylist(rows, _schema(pa))


def _rows(
    portion: Sequence[Stored], layouts: Mapping[bytes, StoredLayout], damaged: list[Damage]
) -> Iterator[dict[str, object]]:
    for stored, draws, counters in _counted(portion, layouts, damaged):
        width = 0 if counters is None else _width(counters)
        packed = None if counters is None else counters.astype(f"<i{width}").tobytes()
        yield {name: getattr(stored, name) for name in LABEL} | {
            "draws": draws,
            "width": width,
            "counters": packed,
        }


def _counted(
    portion: Sequence[Stored], layouts: Mapping[bytes, StoredLayout], damaged: list[Damage]
) -> Iterator[tuple[Stored, int, Counters | None]]:
    """Releases with draws and counters; 0 and None if these do not add up.

    Appends damaged releases to `damaged`.
    """
    for fingerprint, group in groupby(portion, lambda stored: stored.fingerprint):
        same = list(group)
        layout = layouts.get(fingerprint)
        try:
            yield from intact_counters(same, layout) if layout else map(_uncounted, same)
        except UNREADABLE as error:
            if len(same) > 1:
                for each in same:
                    yield from _counted([each], layouts, damaged)
            else:
                damaged.append(label_damage(same[0]) or Damage.of(same[0], type(error).__name__))


def _uncounted(stored: Stored) -> tuple[Stored, int, None]:
    if damage := label_damage(stored):
        raise ValueError(damage.problem)
    return stored, 0, None


def _width(counters: Counters) -> int:
    """Bytes of the shortest integers that hold all counters."""
    largest = int(np.abs(counters).max(initial=0))
    return next(width for width in (2, 4, 8) if width == 8 or largest < 1 << (8 * width - 1))


def _check(
    path: Path, stream: str, layouts: Mapping[bytes, StoredLayout], damaged: list[Damage]
) -> int:
    """Compares the counters of each release of a file with its bytes; returns the number of rows.

    Appends differences to `damaged`. Raises CommandError for an unreadable file.
    """
    rows = 0
    for batch in batches(path, _schema(arrow()[0]).names):
        beside = dict(zip(_windows(batch), batch.to_pylist(), strict=True))
        rows += batch.num_rows
        for portion in portions(day_files.labelled(batch, stream)):
            known = [each for each in portion if each.fingerprint in layouts]
            for row in _rows(known, layouts, damaged):
                if row != beside[tuple(row[name] for name in WINDOW)]:  # type: ignore[index]
                    problem = "the counters beside it are not its own"
                    (stored,) = (each for each in known if each.digest == row["digest"])
                    damaged.append(Damage.of(stored, problem))
    return rows
