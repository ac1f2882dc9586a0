"""Files of an archive: one for each stream and UTC day, `STREAM/2026-11-22.parquet`.

A row is one release: its label, the published bytes, and a cache of its counters in the shortest
integers that hold them. The bytes are the archive; the counters save decoding them. All of it was
published before, so a file costs no epsilon. Pages have checksums. pyarrow is an extra, imported
when a file is read or written.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from pansketch_collector.errors import CommandError
from pansketch_collector.storage.exclusions import Exclusion
from pansketch_collector.storage.tables.records import Selection, Stored
from pansketch_collector.storage.tables.sums import DAY, Counters, Sum

VERSION: Final = 1
NAME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\.parquet")
ROWS_TOGETHER: Final = 4_096  # in memory while a file is read or written
LABEL: Final = (
    *("device", "sequence", "start", "end", "fingerprint", "digest", "received_at", "payload"),
    *("clock_synchronised", "incarnation"),
)
SUMMED: Final = ("device", "start", "end", "fingerprint", "draws", "width", "counters")


@dataclass(frozen=True)
class Part:
    """The sums and devices of the selected rows of some files.

    `sums`: by fingerprint, without counters if one of its releases has none in the file. `devices`:
    their names, by fingerprint. `excluded`: the number of rows that the operator excludes.
    """

    sums: Mapping[bytes, Sum] = field(default_factory=dict)
    devices: Mapping[bytes, frozenset[str]] = field(default_factory=dict)
    excluded: int = 0

    def join(self, other: "Part") -> "Part":
        """Both parts together. Integers add up in any order, so parts may be computed anywhere."""
        sums, devices = dict(self.sums), dict(self.devices)
        for name, each in other.sums.items():
            sums[name] = sums[name] + each if name in sums else each
        for name, names in other.devices.items():
            devices[name] = devices.get(name, frozenset()) | names
        return Part(sums, devices, self.excluded + other.excluded)


def part(path: Path, selection: Selection, exclusions: Sequence[Exclusion] = ()) -> Part:
    """The selected rows of one file. Raises CommandError for an unreadable file."""
    sums: dict[bytes, Sum] = {}
    devices: dict[bytes, set[str]] = {}
    excluded = 0
    for batch in batches(path, SUMMED):
        starts, names = batch.column("start").to_numpy(), batch.column("device")
        chosen, out = _chosen(selection, exclusions, starts, names)
        excluded += out
        labels = batch.column("fingerprint").dictionary_encode()
        codes = labels.indices.to_numpy()
        for code in np.unique(codes[chosen]):
            rows = np.flatnonzero(chosen & (codes == code))
            fingerprint = labels.dictionary[int(code)].as_py()
            found = _sum(batch, rows)
            sums[fingerprint] = sums[fingerprint] + found if fingerprint in sums else found
            devices.setdefault(fingerprint, set()).update(names.take(rows).unique().to_pylist())
    return Part(sums, {name: frozenset(each) for name, each in devices.items()}, excluded)


def spans(
    path: Path, selection: Selection, exclusions: Sequence[Exclusion], seconds: int
) -> set[int]:
    """The spans of `seconds`, counted from 1970, in which selected rows of a file start."""
    found: set[int] = set()
    for batch in batches(path, ("device", "start")):
        starts = batch.column("start").to_numpy()
        chosen, _ = _chosen(selection, exclusions, starts, batch.column("device"))
        found.update(np.unique(starts[chosen] // seconds).tolist())
    return found


def _chosen(
    selection: Selection, exclusions: Sequence[Exclusion], starts: Any, names: Any
) -> tuple[Any, int]:
    """A mask of the selected rows, and the number of rows that only an exclusion removes."""
    chosen = np.ones(len(starts), bool)
    if selection.since is not None:
        chosen &= starts >= selection.since
    if selection.until is not None:
        chosen &= starts < selection.until
    if selection.devices is not None:
        chosen &= _among(names, selection.devices)
    out = np.zeros(len(starts), bool)
    for each in exclusions:
        within = (starts >= each.since) & (starts < each.until)
        if within.any():
            out |= within & _among(names, {each.device})
    return chosen & ~out, int((chosen & out).sum())


def _among(names: Any, wanted: Iterable[str]) -> Any:
    encoded, among = names.dictionary_encode(), set(wanted)
    is_wanted = np.array([name in among for name in encoded.dictionary.to_pylist()], bool)
    return is_wanted[encoded.indices.to_numpy()]


def _sum(batch: Any, rows: Any) -> Sum:
    """The sum of rows of one spec."""

    def column(name: str) -> Any:
        return batch.column(name).to_numpy()[rows]

    widths, counters = column("width"), None
    if widths.all():
        for width in np.unique(widths):
            found = batch.column("counters").take(rows[widths == width])
            total = _added(found, int(width))
            counters = total if counters is None else counters + total
    draws, first, last = column("draws").sum(), column("start").min(), column("end").max()
    return Sum(len(rows), int(draws), int(first), int(last), counters)


def _added(found: Any, width: int) -> Counters:
    """The sum of vectors, each in the bytes of one row."""
    _, offsets, data = found.buffers()
    bounds = np.frombuffer(offsets, np.int32)[found.offset : found.offset + len(found) + 1]
    values = np.frombuffer(data, f"<i{width}")[bounds[0] // width : bounds[-1] // width]
    total: Counters = values.reshape(len(found), -1).sum(axis=0, dtype=np.int64)
    return total


def batches(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    """The rows of a file in batches. Raises CommandError."""
    _, parquet = arrow()
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            about = json.loads((file.schema_arrow.metadata or {}).get(b"pansketch", b"{}"))
            if about.get("version") != VERSION:
                raise ValueError("it is of no version of an archive that this program knows")
            yield from file.iter_batches(ROWS_TOGETHER, columns=list(columns))
    except (OSError, ValueError, KeyError) as error:  # pyarrow's errors are kinds of these
        text = str(error).strip().partition("\n")[0]
        raise CommandError(f"cannot read {path}: {text}; restore this file from a copy") from error


def releases(path: Path, stream: str) -> Iterator[Stored]:
    """The rows of a file as releases."""
    for batch in batches(path, LABEL):
        yield from labelled(batch, stream)


def labelled(batch: Any, stream: str) -> Iterator[Stored]:
    """The rows of a batch as releases."""
    for device, *row in zip(*(batch.column(name).to_pylist() for name in LABEL), strict=True):
        yield Stored(device, stream, *row)


def files(folder: Path, stream: str, selection: Selection | None = None) -> list[Path]:
    """The files of a stream, or those that may have selected releases, by day."""
    since = None if selection is None else selection.since
    until = None if selection is None else selection.until
    return [
        path
        for path in sorted((folder / stream).glob("*.parquet"))
        if (start := day_of(path)) is not None
        and (since is None or start + DAY > since)
        and (until is None or start < until)
    ]


def day_of(path: Path) -> int | None:
    """The start of a file's day in unix seconds; None for a file of another name."""
    found = NAME.fullmatch(path.name)
    try:
        return found and int(datetime.fromisoformat(f"{found[1]}T00:00+00:00").timestamp())
    except ValueError:
        return None


def path_of(folder: Path, stream: str, start: int) -> Path:
    """The file of a day."""
    return folder / stream / f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d}.parquet"


def arrow() -> tuple[Any, Any]:
    """pyarrow and its module for Parquet. Raises CommandError if it is not installed."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise CommandError("an archive needs pyarrow: install pansketch[parquet]") from None
    return pa, parquet
