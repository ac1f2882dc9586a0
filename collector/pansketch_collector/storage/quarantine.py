"""The quarantine: refused messages, stored with their source and reason.

A refused release that is whole stays whole, so that a misconfiguration of the collector costs no
release even where the device has lost it. Rows and bytes are bounded, so hostile traffic cannot
fill the disk. The functions raise one of ERRORS.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage.tables.connection import Database
from pansketch_collector.validation.verdicts import Refused
from pansketch_fleet.errors import one_line
from pansketch_fleet.protocol.messages import digest
from pansketch_fleet.protocol.signed_release import release_in

MAX_ROWS = 10_000
MAX_BYTES = 4096  # of a payload that is no release
MAX_TOTAL_BYTES = 64 * 2**20
MAX_TOPIC = 256


def put(db: Database, message: Incoming, refused: Refused, at: int, max_rows: int) -> None:
    """Stores a refused message; the same bytes again are only counted. A plausible release is
    kept whole, of other bytes the first MAX_BYTES."""
    whole = refused.plausible and len(message.payload) == message.size
    db.execute(
        "INSERT INTO quarantine (first_received_at, received_at, times, topic, reason, text,"
        " size, digest, payload, device, stream, sequence, whole)"
        " VALUES (:at, :at, 1, :topic, :reason, :text, :size, :digest, :payload,"
        " :device, :stream, :sequence, :whole)"
        " ON CONFLICT (digest, topic) DO UPDATE SET"
        " times = quarantine.times + 1, received_at = :at, reason = :reason, text = :text",
        {
            "at": at,
            "topic": one_line(message.topic[:MAX_TOPIC]),
            "reason": refused.reason,
            "text": one_line(refused.text),
            "size": message.size,
            "digest": message.digest,
            "payload": message.payload if whole else message.payload[:MAX_BYTES],
            "device": refused.device or "",
            "stream": refused.stream or "",
            "sequence": refused.sequence,
            "whole": int(whole),
        },
    )
    _remove_beyond(db, max_rows)
    db.execute(
        "INSERT INTO refusals VALUES (?, 1) ON CONFLICT (reason)"
        " DO UPDATE SET total = refusals.total + 1",
        (refused.reason,),
    )


def _remove_beyond(db: Database, max_rows: int) -> None:
    """Removes what is no release before what is one, and of those the oldest of the device that
    takes most: no device pushes out what another one sent."""
    kept, taken = db.execute("SELECT rows, bytes FROM quarantined").fetchone()
    while kept > max_rows or taken > MAX_TOTAL_BYTES:
        gone = db.execute(
            "DELETE FROM quarantine WHERE id = coalesce("
            "(SELECT min(id) FROM quarantine WHERE whole = 0),"
            "(SELECT min(id) FROM quarantine WHERE device = (SELECT device FROM quarantine"
            " GROUP BY device ORDER BY sum(length(payload)) DESC, device LIMIT 1)))"
            " RETURNING length(payload)"
        ).fetchall()
        kept, taken = kept - len(gone), taken - sum(size for (size,) in gone)


@dataclass(frozen=True)
class QuarantineRow:
    """One message that was refused. `whole`: a release that `retry` can take in; times are unix
    seconds."""

    device: str
    stream: str
    sequence: int
    reason: str
    text: str
    times: int
    first_received_at: int
    received_at: int
    size: int
    whole: bool


def rows(db: Database, device: str | None, stream: str | None) -> Iterator[QuarantineRow]:
    """What lies there, by device, stream and number; of one device or stream, or of all."""
    found = db.execute(
        "SELECT device, stream, sequence, reason, text, times, first_received_at, received_at,"
        " size, whole FROM quarantine WHERE device = coalesce(?, device)"
        " AND stream = coalesce(?, stream) ORDER BY device, stream, sequence, id",
        (device, stream),
    )
    return (QuarantineRow(*[*row[:9], bool(row[9])]) for row in found)


def waiting(db: Database, after: int, most: int) -> list[tuple[int, Incoming]]:
    """At most so many whole releases after a row, with the numbers of their rows."""
    rows = db.execute(
        "SELECT id, topic, payload FROM quarantine WHERE whole = 1 AND id > ? ORDER BY id LIMIT ?",
        (after, most),
    )
    return [
        (number, Incoming(topic, payload, len(payload), digest(release_in(payload)), 0, 0, 0))
        for number, topic, payload in rows
    ]


def remove(db: Database, numbers: Sequence[int]) -> None:
    """Removes rows whose messages were ingested."""
    db.executemany("DELETE FROM quarantine WHERE id = ?", [(number,) for number in numbers])
