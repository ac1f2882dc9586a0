"""Records of the outbox as bytes: length, CRC-32 and kind, so that any damage is detected.

A segment is SIGNATURE and then records, append-only. A record has a marker, the length of its body,
a CRC-32 over the rest, its kind, and the release's name. After damage the marker finds the next
valid record.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

SIGNATURE = b"pansobx1"
RELEASE, FORGOTTEN, KEPT, REQUEUED = 1, 2, 3, 4
MAX_STREAM_BYTES = 64
MAX_BODY_BYTES = 64 * 2**20  # Far above any release, so a damaged length is detected.
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
    """The position of a release's record; `size` includes a note REQUEUED directly behind it."""

    segment: int
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class Record:
    """A valid record at `at` in a segment: `size` bytes, its payload the last `payload_bytes`."""

    kind: int
    key: Key
    at: int
    size: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class Scan:
    """The valid records of a segment. `end`: where the last one ends.

    `damaged`: there is damage before that end, or this is no segment. A power cut causes damage
    behind the end.
    """

    records: tuple[Record, ...]
    end: int
    damaged: bool


def encode(kind: int, key: Key, payload: bytes = b"") -> bytes:
    """Return a record as a segment has it."""
    stream = key.stream.encode("ascii")
    body = stream + payload
    name = _NAME.pack(kind, key.sequence, len(stream))
    checksum = crc32(body, crc32(name, crc32(len(body).to_bytes(4, "little"))))
    return b"".join((_FRAME.pack(_MARKER, len(body), checksum), name, body))


def cost(payload_bytes: int) -> int:
    """Return the maximum bytes on disk of a release of this size, including the note of its
    removal.
    """
    return payload_bytes + 2 * (_HEADER_BYTES + MAX_STREAM_BYTES) + len(SIGNATURE)


def record_at(content: bytes, at: int) -> Record | None:
    """Return the record that begins there, or None if it is missing or damaged."""
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
    """Return the payload of a valid record of `content`."""
    end = record.at + record.size
    return content[end - record.payload_bytes : end]


def scan(content: bytes) -> Scan:
    """Find every valid record in a segment's bytes; never raises."""
    found = tuple(_records(content))
    sound = content.startswith(SIGNATURE)
    expected = end = len(SIGNATURE) if sound else 0
    damaged = not sound and len(content) >= len(SIGNATURE) and any(content)
    for record in found:
        damaged |= record.at != expected
        expected = end = record.at + record.size
    return Scan(found, end, damaged)


def queued_in(found: Scan) -> dict[Key, Record]:
    """Return the unacknowledged releases of a segment, in their order.

    A full disk may have refused the note KEPT, so REQUEUED may name a release that is queued
    already.
    """
    releases: dict[Key, Record] = {}
    kept: dict[Key, Record] = {}
    for record in found.records:
        if record.kind == RELEASE:
            releases.setdefault(record.key, record)
        elif record.kind == REQUEUED:
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
    """Return the acknowledged releases of a segment that are kept, and their times of
    acknowledgement.
    """
    releases: dict[Key, Record] = {}
    kept: dict[Key, tuple[Record, int]] = {}
    for record in found.records:
        if record.kind == RELEASE:
            releases.setdefault(record.key, record)
        elif record.kind == KEPT and record.key in releases:
            at = int.from_bytes(payload_of(content, record), "big")
            kept[record.key] = releases[record.key], at
        elif record.kind == REQUEUED:
            kept.pop(record.key, None)
        elif record.kind == FORGOTTEN:
            releases.pop(record.key, None)
            kept.pop(record.key, None)
    return kept


def requeued_in(found: Scan) -> set[Key]:
    """Return the releases of a segment that are queued though they were acknowledged before."""
    requeued: set[Key] = set()
    for record in found.records:
        if record.kind == REQUEUED:
            requeued.add(record.key)
        elif record.kind in (KEPT, FORGOTTEN):
            requeued.discard(record.key)
    return requeued


def possibly_requeued(found: Scan, content: bytes) -> set[Key]:
    """Return the kept releases of a segment whose note REQUEUED damage may have destroyed."""
    kept: set[Key] = set()
    possible: set[Key] = set()
    expected = len(SIGNATURE)
    for record in found.records:
        if record.at != expected and not _is_release(content[expected : record.at]):
            possible |= kept
        expected = record.at + record.size
        if record.kind == KEPT:
            kept.add(record.key)
        else:
            kept.discard(record.key)
            possible.discard(record.key)
    return possible | kept if _is_again(content[found.end :]) else possible


def _is_release(gap: bytes) -> bool:
    """Return whether damaged bytes are the frame of one record, too large for a note."""
    if len(gap) < _HEADER_BYTES:
        return False
    size = _HEADER_BYTES + _FRAME.unpack_from(gap)[1]
    return bool(size == len(gap) and size > _NOTE_BYTES)


def _is_again(tail: bytes) -> bool:
    """Return whether a torn or damaged end begins with a note REQUEUED, by kind or by size."""
    if len(tail) < _HEADER_BYTES or not any(tail):
        return False
    body_bytes = _FRAME.unpack_from(tail)[1]
    kind, _, stream_bytes = _NAME.unpack_from(tail, _FRAME.size)
    return bool(kind == REQUEUED or body_bytes == stream_bytes > 0)


def _records(content: bytes) -> Iterator[Record]:
    at = content.find(_MARKER)
    while at >= 0:
        record = record_at(content, at)
        if record is not None:
            yield record
        at = content.find(_MARKER, at + (record.size if record else 1))
