"""Stored releases as rows, also encoded for PostgreSQL, and conditions that select them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from pansketch_collector.validation.verdicts import Accepted

PORTION_BYTES = 32_768  # of releases that are decoded together, within the CPU cache


@dataclass(frozen=True)
class Selection:
    """Selects releases of one stream and these devices, with windows that start in [since, until).

    None means no limit. Neighbouring ranges never share a window.
    """

    stream: str
    since: int | None = None
    until: int | None = None
    devices: frozenset[str] | None = None


@dataclass(frozen=True)
class Stored:
    """One release as received; times are unix seconds."""

    device: str
    stream: str
    sequence: int
    start: int
    end: int
    fingerprint: bytes
    digest: str
    received_at: int
    payload: bytes
    clock_synchronised: bool | None = None
    incarnation: bytes = b""


Cursor = tuple[int, str, int]  # order of a stream's releases: start, device, sequence


@dataclass(frozen=True)
class ReleaseSummary:
    """One release without its payload of `payload_bytes`; times are unix seconds."""

    device: str
    stream: str
    sequence: int
    start: int
    end: int
    fingerprint: bytes
    digest: str
    received_at: int
    clock_synchronised: bool | None
    incarnation: bytes
    payload_bytes: int

    @property
    def cursor(self) -> Cursor:
        return self.start, self.device, self.sequence


def stored(row: Sequence[Any]) -> Stored:
    """A release from the columns `schema.RELEASE`."""
    clock = None if row[9] is None else bool(row[9])
    return Stored(*[*row[:9], clock, row[10]])


def columns(release: Accepted, received_at: int) -> tuple[Any, ...]:
    """The values of the columns `schema.RELEASE`."""
    w = release.window
    label = w.device, w.stream, w.sequence, w.start, w.end, release.fingerprint, release.digest
    return *label, received_at, release.payload, w.clock_synchronised, w.incarnation


def portions(found: Iterable[Stored]) -> Iterator[list[Stored]]:
    """Groups releases in the same order, few enough to be decoded together."""
    portion: list[Stored] = []
    size = 0
    for each in found:
        portion.append(each)
        size += len(each.payload)
        if size >= PORTION_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


# Renamed, so that the columns of the outer table stay visible.
EXCLUDED = (
    "EXISTS (SELECT 1 FROM (SELECT device AS whose, since, until FROM excluded) AS gone"
    " WHERE whose = device AND since <= window_start AND window_start < until)"
)


def where(
    selection: Selection, excluded: bool | None = False
) -> tuple[str, list[str | int | bytes]]:
    """The SQL condition of a selection, and its values.

    `excluded`: False leaves out excluded releases, True selects only them, None selects both.
    """
    parts: list[tuple[str, list[str | int | bytes]]] = [("stream = ?", [selection.stream])]
    if selection.since is not None:
        parts.append(("window_start >= ?", [selection.since]))
    if selection.until is not None:
        parts.append(("window_start < ?", [selection.until]))
    if selection.devices is not None:
        placeholders = ", ".join("?" * len(selection.devices))
        parts.append((f"device IN ({placeholders})", [*sorted(selection.devices)]))
    if excluded is not None:
        parts.append((EXCLUDED if excluded else f"NOT {EXCLUDED}", []))
    return " AND ".join(part for part, _ in parts), [v for _, values in parts for v in values]


@dataclass(frozen=True)
class Device:
    """A device's last reported status.

    Attributes:
        streams: the JSON text of its birth message, with the guarantee of each stream.
    """

    device: str
    state: str
    session: str
    since: int
    streams: str

    @property
    def births(self) -> Mapping[str, Mapping[str, Any]]:
        """The streams of its birth message."""
        return _parsed(self.streams)


@lru_cache(maxsize=1_024)  # Devices with the same settings report the same text.
def _parsed(text: str) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return found


# A COPY in PostgreSQL's binary format (its manual, COPY, "Binary Format").
HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, no extension
TRAILER: Final = b"\xff\xff"
_COUNT, _LENGTH, _BIGINT = Struct(">h"), Struct(">i"), Struct(">iq")
BLOCK_BYTES: Final = 65_536  # of values that may be long
_NULL: Final = b"\xff\xff\xff\xff"

# The encoding of one row in three parts. The second one is a value itself, not a copy of it.
CopiedRow = tuple[bytes, bytes, bytes]


def copied_row(values: Sequence[Any], large: int) -> CopiedRow:
    """Encodes a row for columns of the types text, bytea and bigint.

    `large`: the place of a value of bytes that may be long.
    """
    before = b"".join(map(_field, values[:large]))
    head = _COUNT.pack(len(values)) + before + _LENGTH.pack(len(values[large]))
    return head, values[large], b"".join(map(_field, values[large + 1 :]))


def blocks(rows: Iterable[CopiedRow]) -> Iterator[bytes]:
    """The whole content of a COPY, in blocks of about BLOCK_BYTES."""
    parts, size = [HEADER], 0
    for row in rows:
        parts += row
        size += len(row[1])
        if size >= BLOCK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join([*parts, TRAILER])


def _field(value: str | bytes | int | None) -> bytes:
    if value is None:
        return _NULL
    if isinstance(value, int):
        return _BIGINT.pack(8, value)
    # PostgreSQL allows no NUL in a text.
    content = value.replace("\0", "\ufffd").encode() if isinstance(value, str) else value
    return _LENGTH.pack(len(content)) + content
