"""Configuration epochs, stored: the served settings of a stream, and when they were served.

One epoch is one configuration of a stream: the specs of all device classes, and the window length.
The collector stores the form of each spec (pansketch/wire/spec_form.py). So it ingests late
releases of an earlier epoch, and answers from them, after the configuration changed.

Scales that the collector publishes or receives make an epoch too, and are stored with it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pansketch.wire import form_of
from pansketch_collector.errors import CommandError
from pansketch_collector.storage.tables.connection import Database, transaction
from pansketch_collector.validation.accepted_specs import Epoch
from pansketch_fleet.config.loader import Config
from pansketch_fleet.config.published_scales import domain_name, rescaled
from pansketch_fleet.protocol.messages import digest
from pansketch_fleet.protocol.scale_message import LATEST_SECOND, Scales
from pansketch_fleet.settings.settings import ReadingStream, Stream

MAX_EPOCHS = 64  # of one stream that are read, the last served first


def note(db: Database, config: Config, at: int) -> None:
    """Stores that the configuration's settings and the newest published scales are served at `at`.

    Raises one of ERRORS.
    """
    for stream in config.streams:
        _note_stream(db, config, stream, at)
        newest = published(db, config, stream)
        if newest is not None:
            _note_stream(db, config, newest.stream, at)


def _note_stream(db: Database, config: Config, stream: Stream, at: int) -> str:
    """Stores the epoch and returns its name."""
    forms = _forms(config, stream)
    settings = digest(json.dumps([stream.window_seconds, sorted(forms)]).encode())
    (epoch,) = db.execute(
        "INSERT INTO epochs (stream, settings, window_seconds, first_served, last_served)"
        " VALUES (:stream, :settings, :seconds, :at, :at) ON CONFLICT (stream, settings)"
        " DO UPDATE SET last_served = max(epochs.last_served, :at) RETURNING id",
        {
            "stream": stream.name,
            "settings": settings,
            "seconds": stream.window_seconds,
            "at": at,
        },
    ).fetchone()
    db.executemany(
        "INSERT INTO specs VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        [(epoch, bytes.fromhex(name), form) for name, form in forms.items()],
    )
    return settings


@dataclass(frozen=True)
class RescaledStream:
    """Published scales, and the stream rescaled to them for the collector's device class."""

    scales: Scales
    stream: ReadingStream


def newest_scales(db: Database, stream: Stream, begun_by: int | None = None) -> Scales | None:
    """The newest published scales of a stream's attributes; None if absent or not configured.

    `begun_by`: in unix seconds, selects the newest that had begun by then. Raises one of ERRORS.
    """
    if not isinstance(stream, ReadingStream) or stream.scales is None:
        return None
    row = db.execute(
        "SELECT message FROM scales WHERE (stream, domain) = (?, ?) AND begins <= ?"
        " ORDER BY begins DESC LIMIT 1",
        (stream.name, domain_name(stream), LATEST_SECOND if begun_by is None else begun_by),
    ).fetchone()
    try:
        return None if row is None else Scales.decode(bytes(row[0]))
    except ValueError:
        return None  # Damaged on the disk: treated as unpublished.


def published(db: Database, config: Config, stream: Stream) -> RescaledStream | None:
    """The newest published scales, and the stream rescaled to them. Raises one of ERRORS."""
    scales = newest_scales(db, stream)
    if scales is None or not isinstance(stream, ReadingStream):
        return None
    try:
        return RescaledStream(scales, rescaled(stream, scales, config.profile))
    except ValueError:
        return None


def published_fingerprints(db: Database, stream: Stream, begun_by: int | None = None) -> set[bytes]:
    """The fingerprints of the specs of all published scales of a stream's attributes.

    `begun_by`: in unix seconds, selects the newest that had begun by then. Raises one of ERRORS.
    """
    if not isinstance(stream, ReadingStream) or stream.scales is None:
        return set()
    until, limit = (LATEST_SECOND, 2**62) if begun_by is None else (begun_by, 1)
    rows = db.execute(
        "SELECT fingerprint FROM specs JOIN epochs ON epochs.id = epoch WHERE stream = ?1"
        " AND settings IN (SELECT settings FROM scales WHERE (stream, domain) = (?1, ?2)"
        " AND begins <= ?3 ORDER BY begins DESC LIMIT ?4)",
        (stream.name, domain_name(stream), until, limit),
    )
    return {bytes(row[0]) for row in rows}


@dataclass(frozen=True)
class EpochStore:
    """Published scales, on the writing connection. Methods raise one of ERRORS."""

    db: Database

    def published(self, config: Config, stream: Stream) -> RescaledStream | None:
        """See `published`."""
        return published(self.db, config, stream)

    def newest(self) -> int:
        """The number of the newest epoch of any stream."""
        return int(self.db.execute("SELECT coalesce(max(id), 0) FROM epochs").fetchone()[0])

    def served(self, stream: str) -> list[Epoch]:
        """See `served`."""
        return served(self.db, stream)

    def publish(self, config: Config, found: RescaledStream, at: int) -> list[Epoch]:
        """Stores scales and their epoch; returns the epochs of their stream."""
        scales = found.scales
        with transaction(self.db):
            settings = _note_stream(self.db, config, found.stream, at)
            self.db.execute(
                "INSERT INTO scales VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (stream, begins)"
                " DO UPDATE SET domain = excluded.domain, settings = excluded.settings,"
                " message = excluded.message, noted_at = excluded.noted_at",
                (scales.stream, scales.begins, scales.domain, settings, scales.encode(), at),
            )
        return served(self.db, found.stream.name)


def _forms(config: Config, stream: Stream) -> dict[str, str]:
    specs = config.specs(stream).values()
    return {spec.fingerprint.hex(): json.dumps(form_of(spec), sort_keys=True) for spec in specs}


def served(db: Database, stream: str) -> list[Epoch]:
    """The epochs of a stream, the last served first, at most MAX_EPOCHS.

    Raises CommandError for a form that is no JSON, one of ERRORS.
    """
    rows = db.execute(
        "SELECT id, window_seconds, first_served, last_served FROM epochs"
        " WHERE stream = ? ORDER BY last_served DESC, id DESC LIMIT ?",
        (stream, MAX_EPOCHS),
    ).fetchall()
    return [
        Epoch(stream, seconds, first, last, _stored_forms(db, epoch, stream))
        for epoch, seconds, first, last in rows
    ]


def _stored_forms(db: Database, epoch: int, stream: str) -> Mapping[bytes, Mapping[str, Any]]:
    rows = db.execute("SELECT fingerprint, form FROM specs WHERE epoch = ?", (epoch,))
    try:
        return {bytes(name): json.loads(form) for name, form in rows}
    except ValueError as error:
        raise CommandError(f"the stored settings of stream {stream} are damaged") from error
