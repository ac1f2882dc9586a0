"""Configuration epochs, stored: the settings of a stream that this collector served, and when.

One epoch is one configuration of a stream: the specs of all device classes, and the length of its
windows. The collector stores the form of each spec (pansketch/wire/spec_form.py). So it ingests
late releases of an earlier epoch, and answers from them, after the configuration changed.
"""

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from pansketch.wire import form_of
from pansketch_collector.errors import CommandError
from pansketch_collector.validation.accepted_specs import Epoch
from pansketch_fleet.config.loader import Config
from pansketch_fleet.protocol.messages import digest
from pansketch_fleet.settings.settings import Stream

MAX_EPOCHS = 64  # of one stream are read: those that were served last


def note(db: sqlite3.Connection, config: Config, at: int) -> None:
    """Stores that the configuration's settings are served at `at`. Raises sqlite3.Error."""
    for stream in config.streams:
        forms = _forms(config, stream)
        settings = digest(json.dumps([stream.window_seconds, sorted(forms)]).encode())
        (epoch,) = db.execute(
            "INSERT INTO epochs (stream, settings, window_seconds, first_served, last_served)"
            " VALUES (:stream, :settings, :seconds, :at, :at) ON CONFLICT (stream, settings)"
            " DO UPDATE SET last_served = max(last_served, :at) RETURNING id",
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


def _forms(config: Config, stream: Stream) -> dict[str, str]:
    specs = config.specs(stream).values()
    return {spec.fingerprint.hex(): json.dumps(form_of(spec), sort_keys=True) for spec in specs}


def served(db: sqlite3.Connection, stream: str) -> list[Epoch]:
    """The epochs of a stream, the one served last first: at most MAX_EPOCHS.

    Raises CommandError for a form that is no JSON, sqlite3.Error.
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


def _stored_forms(
    db: sqlite3.Connection, epoch: int, stream: str
) -> Mapping[bytes, Mapping[str, Any]]:
    rows = db.execute("SELECT fingerprint, form FROM specs WHERE epoch = ?", (epoch,))
    try:
        return {bytes(name): json.loads(form) for name, form in rows}
    except ValueError as error:
        raise CommandError(f"the stored settings of stream {stream} are damaged") from error
