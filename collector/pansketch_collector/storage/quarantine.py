"""The quarantine: rejected messages, stored with their source and reason.

A rejected release is stored whole. So a wrong configuration of the collector loses no release, even
if the device no longer has it. Rows and bytes have limits, so hostile traffic cannot fill the disk.
The functions raise one of ERRORS.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage.tables.connection import Database
from pansketch_collector.validation.verdicts import Rejected
from pansketch_fleet.errors import one_line
from pansketch_fleet.protocol.messages import digest
from pansketch_fleet.protocol.signed_release import release_in

MAX_ROWS = 10_000
MAX_BYTES = 4096  # of a payload that is no release
MAX_TOTAL_BYTES = 64 * 2**20
MAX_TOPIC = 256


def put(db: Database, message: Incoming, rejected: Rejected, at: int, max_rows: int) -> None:
    """Stores a rejected message; counts it if its bytes are stored already.

    Stores a plausible release whole, and the first MAX_BYTES of any other payload.
    """
    whole = rejected.plausible and len(message.payload) == message.size
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
            "reason": rejected.reason,
            "text": one_line(rejected.text),
            "size": message.size,
            "digest": message.digest,
            "payload": message.payload if whole else message.payload[:MAX_BYTES],
            "device": rejected.device or "",
            "stream": rejected.stream or "",
            "sequence": rejected.sequence,
            "whole": int(whole),
        },
    )
    _remove_beyond(db, max_rows)
    db.execute(
        "INSERT INTO refusals VALUES (?, 1) ON CONFLICT (reason)"
        " DO UPDATE SET total = refusals.total + 1",
        (rejected.reason,),
    )


def _remove_beyond(db: Database, max_rows: int) -> None:
    """Deletes rows beyond the limits: first those that are no release.

    Then it deletes the oldest row of the device with the most bytes, so that no device displaces
    the releases of another one.
    """
    row_count, total_bytes = db.execute("SELECT rows, bytes FROM quarantined").fetchone()
    while row_count > max_rows or total_bytes > MAX_TOTAL_BYTES:
        deleted = db.execute(
            "DELETE FROM quarantine WHERE id = coalesce("
            "(SELECT min(id) FROM quarantine WHERE whole = 0),"
            "(SELECT min(id) FROM quarantine WHERE device = (SELECT device FROM quarantine"
            " GROUP BY device ORDER BY sum(length(payload)) DESC, device LIMIT 1)))"
            " RETURNING length(payload)"
        ).fetchall()
        row_count, total_bytes = (
            row_count - len(deleted),
            total_bytes - sum(size for (size,) in deleted),
        )


@dataclass(frozen=True)
class QuarantineRow:
    """One rejected message. `whole`: a release that `retry` can ingest. Times are unix seconds."""

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
    """Quarantined messages, by device, stream and number; of one device or stream, or of all."""
    found = db.execute(
        "SELECT device, stream, sequence, reason, text, times, first_received_at, received_at,"
        " size, whole FROM quarantine WHERE device = coalesce(?, device)"
        " AND stream = coalesce(?, stream) ORDER BY device, stream, sequence, id",
        (device, stream),
    )
    return (QuarantineRow(*[*row[:9], bool(row[9])]) for row in found)


def waiting(db: Database, after: int, limit: int) -> list[tuple[int, Incoming]]:
    """At most `limit` whole releases after row `after`, with their row numbers."""
    rows = db.execute(
        "SELECT id, topic, payload FROM quarantine WHERE whole = 1 AND id > ? ORDER BY id LIMIT ?",
        (after, limit),
    )
    return [
        (number, Incoming(topic, payload, len(payload), digest(release_in(payload)), 0, 0, 0))
        for number, topic, payload in rows
    ]


def remove(db: Database, numbers: Sequence[int]) -> None:
    """Deletes the rows of ingested messages."""
    db.executemany("DELETE FROM quarantine WHERE id = ?", [(number,) for number in numbers])
