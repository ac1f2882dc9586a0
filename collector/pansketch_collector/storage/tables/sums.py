"""The table `sums`: sums of the releases of one spec, by hour and by day.

A row adds the counters of all releases whose windows start in its hour and that are not excluded.
The transaction that stores, removes or excludes a release changes the rows. Sums are of integers,
so removing a release leaves no trace. Sums consist of published releases: they spend no epsilon. A
row without counters stands for releases that are only counted: masked ones, those of keys, and
those with an unknown layout.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from pansketch import Spec
from pansketch.sketches import LinearSpec
from pansketch_collector.storage.tables.connection import Database, streamed
from pansketch_collector.storage.tables.corruption import StoredLayout

HOUR: Final = 3_600
DAY: Final = 86_400
Counters = npt.NDArray[np.int64]
# `layouts`: block lengths of the counters of additive specs. Rows of `sums` are replaced, never
# updated, so an unchanged id means an unchanged row.
TABLES: Final = """
CREATE TABLE layouts (
    fingerprint BLOB PRIMARY KEY,
    family TEXT NOT NULL,
    blocks TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE sums (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    stream TEXT NOT NULL,
    seconds INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    releases INTEGER NOT NULL,
    draws INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    seal INTEGER NOT NULL,
    counters BLOB,
    UNIQUE (stream, seconds, bucket, fingerprint)
) STRICT;
"""


@dataclass(frozen=True)
class Sum:
    """The sum of `releases` releases of one spec.

    `draws`: of noise. `first`, `last`: first start and last end of their windows in unix seconds.
    `counters`: None if these are not added up.
    """

    releases: int
    draws: int
    first: int
    last: int
    counters: Counters | None

    def agrees(self, other: "Sum") -> bool:
        """True if both are equal; one without counters agrees with one that has them."""
        figures = (self.releases, self.first, self.last) == (
            other.releases,
            other.first,
            other.last,
        )
        if self.counters is None or other.counters is None:
            return figures and self.counters is None
        return (
            figures and self.draws == other.draws and np.array_equal(self.counters, other.counters)
        )

    def __add__(self, other: "Sum") -> "Sum":
        counted = self.counters is not None and other.counters is not None
        return Sum(
            self.releases + other.releases,
            self.draws + other.draws,
            min(self.first, other.first),
            max(self.last, other.last),
            self.counters + other.counters if counted else None,  # type: ignore[operator]
        )


class Bucket(NamedTuple):
    """A span of `seconds` from `start`, of one stream and one spec."""

    stream: str
    seconds: int
    start: int
    fingerprint: bytes


def note_layout(db: Database, spec: Spec) -> None:
    """Stores the counter layout of a spec, if its releases are additive and unmasked."""
    if isinstance(spec, LinearSpec) and not spec.guarantee.answer_micro:
        values = spec.fingerprint, spec.family, json.dumps(spec.blocks)
        db.execute("INSERT INTO layouts VALUES (?, ?, ?) ON CONFLICT DO NOTHING", values)


def layout(db: Database, fingerprint: bytes) -> StoredLayout | None:
    """The counter layout of a spec's releases; None if they are not added up."""
    row = db.execute(
        "SELECT family, blocks FROM layouts WHERE fingerprint = ?", (fingerprint,)
    ).fetchone()
    return None if row is None else _layout(fingerprint, *row)


@lru_cache(maxsize=256)
def _layout(fingerprint: bytes, family: str, blocks: str) -> StoredLayout:
    return StoredLayout(fingerprint, family, tuple(json.loads(blocks)))


def rows(
    db: Database, stream: str, seconds: int, since: int, until: int, spec: bytes | None
) -> Iterator[tuple[Bucket, Sum | None]]:
    """The buckets of one length that start in [since, until), of one spec or of all.

    Yields None for a row that has changed on the disk.
    """
    query = (
        "SELECT bucket, fingerprint, releases, draws, first, last, seal, counters FROM sums"
        " WHERE stream = ? AND seconds = ? AND bucket >= ? AND bucket < ?"
        f"{'' if spec is None else ' AND fingerprint = ?'}"
    )
    values = [stream, seconds, since, until, *([] if spec is None else [spec])]
    # A day has few rows: to stream them takes a server more statements.
    few = until - since <= DAY
    for start, fingerprint, *row in (
        db.execute(query, values) if few else streamed(db, query, values)
    ):
        bucket = Bucket(stream, seconds, start, bytes(fingerprint))
        yield bucket, _parse(bucket, row)


def _parse(bucket: Bucket, row: Sequence[Any]) -> Sum | None:
    releases, draws, first, last, seal, content = row
    if seal != _seal(bucket, (releases, draws, first, last), content):
        return None
    counters = None if content is None else np.frombuffer(content, "<i8")
    return Sum(releases, draws, first, last, counters)


def _seal(bucket: Bucket, figures: Sequence[object], content: bytes | None) -> int:
    """The checksum of a row and its key."""
    name = (bucket.stream, bucket.seconds, bucket.start, bucket.fingerprint, *figures)
    return crc32(content or b"", crc32(repr((name, content is None)).encode()))


def write(db: Database, bucket: Bucket, total: Sum | None) -> None:
    """Replaces the row of a bucket; the new row has an unused id."""
    db.execute(
        "DELETE FROM sums WHERE stream = ? AND seconds = ? AND bucket = ? AND fingerprint = ?",
        (bucket.stream, bucket.seconds, bucket.start, bucket.fingerprint),
    )
    if total is None or not total.releases:
        return
    figures = total.releases, total.draws, total.first, total.last
    content = None if total.counters is None else total.counters.astype("<i8").tobytes()
    db.execute(
        "INSERT INTO sums (stream, seconds, bucket, fingerprint, releases, draws, first,"
        " last, seal, counters) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(bucket.stream, bucket.seconds, bucket.start, bucket.fingerprint),
            *(*figures, _seal(bucket, figures, content), content),
        ),
    )
