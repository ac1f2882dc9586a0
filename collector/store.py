"""What the collector keeps: releases as received, the presence of devices, and a quarantine.

One process writes, in transactions whose commit is on the disk when it returns; `reader.py` reads
beside it. The quarantine is bounded in rows and bytes: hostile traffic cannot fill the disk.
"""

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collector import schema
from collector.failure import CommandError
from collector.inbox import Accepted, Checkup, Held, Presence, Refused
from fleet.errors import one_line
from pansketch import WindowId

QUARANTINE_ROWS = 10_000
QUARANTINE_BYTES = 4096  # of one payload
MOST_TOPIC = 256
MOST_DEVICES = 100_000


class Store:
    """The writing side, for one thread. Methods raise sqlite3.Error when the disk does."""

    def __init__(
        self, connection: sqlite3.Connection, quarantine_rows: int = QUARANTINE_ROWS
    ) -> None:
        self._db = connection
        self._quarantine_rows = quarantine_rows

    @contextmanager
    def batch(self) -> Iterator[None]:
        """One transaction: all of what is inside is on the disk after it, or none of it."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def held(self, window: WindowId) -> Held:
        """What is stored or disputed under a window's sequence number, and under its start."""
        rows = self._db.execute(
            "SELECT sequence, digest, 0 FROM releases"
            " WHERE (device, stream) = (:device, :stream)"
            " AND (sequence = :sequence OR window_start = :start)"
            " UNION ALL SELECT sequence, digest, 1 FROM disputed"
            " WHERE (device, stream) = (:device, :stream)"
            " AND (sequence = :sequence OR window_start = :start)",
            {
                "device": window.device,
                "stream": window.stream,
                "sequence": window.sequence,
                "start": window.start,
            },
        ).fetchall()
        same = next((row for row in rows if row[0] == window.sequence), None)
        other = next((sequence for sequence, _, _ in rows if sequence != window.sequence), None)
        if same is None:
            return Held(None, other)
        return Held(same[1], other, disputed=bool(same[2]))

    def add(self, release: Accepted, received_at: int) -> None:
        """Stores a release. Raises sqlite3.IntegrityError, and has changed nothing, where `held`
        knows of something."""
        window = release.window
        self._db.execute(
            f"INSERT INTO releases ({schema.RELEASE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                window.device,
                window.stream,
                window.sequence,
                window.start,
                window.end,
                release.fingerprint,
                release.digest,
                received_at,
                release.payload,
                window.clock_synchronised,
            ),
        )

    def set_aside(self, window: WindowId, at: int) -> None:
        """Takes out of the releases what is stored under this sequence number, and keeps it."""
        key = (window.device, window.stream, window.sequence)
        where = "FROM releases WHERE (device, stream, sequence) = (?, ?, ?)"
        columns = schema.RELEASE
        self._db.execute(
            f"INSERT INTO disputed ({columns}, disputed_at) SELECT {columns}, ? {where}", (at, *key)
        )
        self._db.execute(f"DELETE {where}", key)

    def session(self, device: str) -> str | None:
        """The session of a device's newest birth, or None for a device not heard of yet."""
        row = self._db.execute("SELECT session FROM devices WHERE device = ?", (device,)).fetchone()
        return None if row is None else str(row[0])

    def has_room_for(self, said: Presence | Checkup) -> bool:
        """Whether its table takes this device: known already, or not beyond the bound."""
        table = "devices" if isinstance(said, Presence) else "healths"
        known = self._db.execute(f"SELECT 1 FROM {table} WHERE device = ?", (said.device,))
        if known.fetchone() is not None:
            return True
        return int(self._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) < MOST_DEVICES

    def note(self, presence: Presence, at: int) -> None:
        """Stores a device's latest state; `since` stays where neither state nor session changes."""
        status = presence.status
        streams = {
            name: {
                "fingerprint": birth.fingerprint,
                "guarantee": birth.guarantee,
                "window_seconds": birth.window_seconds,
                "problem": birth.problem,
            }
            for name, birth in status.streams.items()
        }
        self._db.execute(
            "INSERT INTO devices VALUES (:device, :state, :session, :at, :streams)"
            " ON CONFLICT (device) DO UPDATE SET"
            " since = iif(state = :state AND session = :session, since, :at),"
            " state = :state, session = :session,"
            " streams = iif(:streams = '{}', streams, :streams)",
            {
                "device": presence.device,
                "state": status.state,
                "session": status.session,
                "at": at,
                "streams": json.dumps(streams),
            },
        )

    def note_health(self, checkup: Checkup, at: int) -> None:
        """Stores the newest health of a device, and no other one of it."""
        self._db.execute(
            "INSERT INTO healths VALUES (:device, :at, :health)"
            " ON CONFLICT (device) DO UPDATE SET heard_at = :at, health = :health",
            {"device": checkup.device, "at": at, "health": checkup.health.encode().decode()},
        )

    def quarantine(
        self, topic: str, refused: Refused, payload: bytes, size: int, digest: str, at: int
    ) -> None:
        """Keeps what was refused: the newest rows only; the same bytes again are only counted."""
        self._db.execute(
            "INSERT INTO quarantine"
            " (first_received_at, received_at, times, topic, reason, text, size, digest, payload)"
            " VALUES (:at, :at, 1, :topic, :reason, :text, :size, :digest, :payload)"
            " ON CONFLICT (digest, topic) DO UPDATE SET"
            " times = times + 1, received_at = :at, reason = :reason, text = :text",
            {
                "at": at,
                "topic": one_line(topic[:MOST_TOPIC]),
                "reason": refused.reason,
                "text": one_line(refused.text),
                "size": size,
                "digest": digest,
                "payload": payload[:QUARANTINE_BYTES],
            },
        )
        self._db.execute(
            "DELETE FROM quarantine WHERE id <= (SELECT max(id) FROM quarantine) - ?",
            (self._quarantine_rows,),
        )
        self._db.execute(
            "INSERT INTO refusals VALUES (?, 1) ON CONFLICT DO UPDATE SET total = total + 1",
            (refused.reason,),
        )

    def count_duplicate(self, device: str) -> None:
        """A release that is stored already came again: a retry whose acknowledgement was lost."""
        self._db.execute(
            "INSERT INTO duplicates VALUES (?, 1) ON CONFLICT DO UPDATE SET total = total + 1",
            (device,),
        )

    def close(self) -> None:
        self._db.close()


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    """The store of one serving process. Raises CommandError, also when another one is serving."""
    with _held_alone(path):
        store = Store(schema.open_writing(path))
        try:
            yield store
        finally:
            store.close()


@contextmanager
def _held_alone(path: Path) -> Iterator[None]:
    lock = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise CommandError(f"{lock}: {error.strerror}: make its folder writable") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise CommandError(f"another collector is serving {path}: stop that one first") from error
    try:
        yield
    finally:
        os.close(handle)
