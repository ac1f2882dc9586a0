"""Records of the outbox as bytes: length, CRC-32 and kind, so that any damage shows.

A segment is SIGNATURE and then records, only ever appended to. A record is a marker, the length of
what follows its header, a CRC-32 over all but these three, its kind, and the release's name. After
damage the marker finds the next sound record.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

SIGNATURE = b"pansobx1"
RELEASE, FORGOTTEN, KEPT, AGAIN = 1, 2, 3, 4
MAX_STREAM_BYTES = 64
MAX_BODY_BYTES = 64 * 2**20  # Far above any release: a damaged length must not look like one.
_MARKER = b"\xa5PSR"
_FRAME = struct.Struct("<4sII")  # marker, length of the body, CRC-32
_NAME = struct.Struct("<BQB")  # kind, sequence, length of the stream's name
_HEADER_BYTES = _FRAME.size + _NAME.size
_NOTE_BYTES = _HEADER_BYTES + MAX_STREAM_BYTES + 8  # At most.


@dataclass(frozen=True, order=True, slots=True)
class Key:
    """Names one release of this device."""

    sequence: int
    stream: str

    @property
    def filename(self) -> str:
        return f"{self.sequence:012d}.{self.stream}.release"


@dataclass(slots=True)
class RecordPosition:
    """Where a release's record lies; `size`: with the note AGAIN, where that follows at once."""

    segment: int
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class Record:
    """A sound record at `at` in a segment: `size` bytes, its payload the last `payload_bytes`."""

    kind: int
    key: Key
    at: int
    size: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class Scan:
    """What is sound in a segment. `end`: where its last sound record ends.

    `damaged`: there is damage before that end, or this is no segment. Damage behind the end is what
    a power cut leaves.
    """

    records: tuple[Record, ...]
    end: int
    damaged: bool


def encode(kind: int, key: Key, payload: bytes = b"") -> bytes:
    """A record as it stands in a segment."""
    stream = key.stream.encode("ascii")
    body = stream + payload
    name = _NAME.pack(kind, key.sequence, len(stream))
    checksum = crc32(body, crc32(name, crc32(len(body).to_bytes(4, "little"))))
    return b"".join((_FRAME.pack(_MARKER, len(body), checksum), name, body))


def cost(payload_bytes: int) -> int:
    """The most that a release of this size may ever take on disk, forgetting it included."""
    return payload_bytes + 2 * (_HEADER_BYTES + MAX_STREAM_BYTES) + len(SIGNATURE)


def record_at(content: bytes, at: int) -> Record | None:
    """The record that begins there, None when there is none or it is damaged."""
    if at + _HEADER_BYTES > len(content):
        return None
    marker, body_bytes, checksum = _FRAME.unpack_from(content, at)
    kind, sequence, stream_bytes = _NAME.unpack_from(content, at + _FRAME.size)
    size = _HEADER_BYTES + body_bytes
    if marker != _MARKER or body_bytes > MAX_BODY_BYTES or at + size > len(content):
        return None
    seen = memoryview(content)[at + _FRAME.size : at + size]
    if crc32(seen, crc32(body_bytes.to_bytes(4, "little"))) != checksum:
        return None
    stream = bytes(seen[_NAME.size : _NAME.size + stream_bytes]).decode("ascii", "replace")
    return Record(kind, Key(sequence, stream), at, size, body_bytes - stream_bytes)


def payload_of(content: bytes, record: Record) -> bytes:
    """The bytes that a sound record of `content` carries."""
    end = record.at + record.size
    return content[end - record.payload_bytes : end]


def scan(content: bytes) -> Scan:
    """Everything sound in a segment's bytes; never raises, whatever they are."""
    found = tuple(_records(content))
    sound = content.startswith(SIGNATURE)
    expected = end = len(SIGNATURE) if sound else 0
    damaged = not sound and len(content) >= len(SIGNATURE) and any(content)
    for record in found:
        damaged |= record.at != expected
        expected = end = record.at + record.size
    return Scan(found, end, damaged)


def waiting_in(found: Scan) -> dict[Key, Record]:
    """The releases of a segment that wait for an acknowledgement, in their order.

    A full disk may have refused the note KEPT, so AGAIN may name a release that waits already.
    """
    releases: dict[Key, Record] = {}
    kept: dict[Key, Record] = {}
    for record in found.records:
        if record.kind == RELEASE:
            releases.setdefault(record.key, record)
        elif record.kind == AGAIN:
            if record.key in kept:
                releases[record.key] = kept.pop(record.key)
        else:
            known = releases.pop(record.key, None)
            if record.kind == KEPT and known is not None:
                kept[record.key] = known
            elif record.kind == FORGOTTEN:
                kept.pop(record.key, None)
    return releases


def kept_in(found: Scan, content: bytes) -> dict[Key, tuple[Record, int]]:
    """The acknowledged releases of a segment that are kept, and when they were acknowledged."""
    releases: dict[Key, Record] = {}
    kept: dict[Key, tuple[Record, int]] = {}
    for record in found.records:
        if record.kind == RELEASE:
            releases.setdefault(record.key, record)
        elif record.kind == KEPT and record.key in releases:
            at = int.from_bytes(payload_of(content, record), "big")
            kept[record.key] = releases[record.key], at
        elif record.kind == AGAIN:
            kept.pop(record.key, None)
        elif record.kind == FORGOTTEN:
            releases.pop(record.key, None)
            kept.pop(record.key, None)
    return kept


def again_in(found: Scan) -> set[Key]:
    """The releases of a segment that wait though they were acknowledged before."""
    again: set[Key] = set()
    for record in found.records:
        if record.kind == AGAIN:
            again.add(record.key)
        elif record.kind in (KEPT, FORGOTTEN):
            again.discard(record.key)
    return again


def may_wait_again(found: Scan, content: bytes) -> set[Key]:
    """The kept releases of a segment whose note AGAIN damage may have taken, behind their KEPT."""
    kept: set[Key] = set()
    taken: set[Key] = set()
    expected = len(SIGNATURE)
    for record in found.records:
        if record.at != expected and not _is_release(content[expected : record.at]):
            taken |= kept
        expected = record.at + record.size
        if record.kind == KEPT:
            kept.add(record.key)
        else:
            kept.discard(record.key)
            taken.discard(record.key)
    return taken | kept if _is_again(content[found.end :]) else taken


def _is_release(gap: bytes) -> bool:
    """Whether damaged bytes are the frame of one record, too large for a note."""
    if len(gap) < _HEADER_BYTES:
        return False
    size = _HEADER_BYTES + _FRAME.unpack_from(gap)[1]
    return bool(size == len(gap) and size > _NOTE_BYTES)


def _is_again(tail: bytes) -> bool:
    """Whether a torn or damaged end begins with a note AGAIN: by its kind or by its size."""
    if len(tail) < _HEADER_BYTES or not any(tail):
        return False
    body_bytes = _FRAME.unpack_from(tail)[1]
    kind, _, stream_bytes = _NAME.unpack_from(tail, _FRAME.size)
    return bool(kind == AGAIN or body_bytes == stream_bytes > 0)


def _records(content: bytes) -> Iterator[Record]:
    at = content.find(_MARKER)
    while at >= 0:
        record = record_at(content, at)
        if record is not None:
            yield record
        at = content.find(_MARKER, at + (record.size if record else 1))
