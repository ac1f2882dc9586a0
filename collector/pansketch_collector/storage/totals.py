"""Estimated totals of stored releases: how many readings, or full slots of keys, each one counted.

Totals are made of published releases, so they cost no epsilon. The database keeps one for each
release, made when it is stored. A release that was disputed when it came gets its total from
`serve`, which verifies every stored release:
collector/pansketch_collector/commands/verification.py.
"""

import sqlite3
from collections.abc import Sequence

from pansketch.wire import counters_of_all, open_release
from pansketch_collector.storage.reader import Stored
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import EstimatedTotal, ImplausibleError


def total_of(stored: Stored, rules: Rules) -> EstimatedTotal | None:
    """What one sound stored release says was counted; None under settings that nobody knows, of
    masked counters, and for a number of draws that no window has. Raises WireError for damaged
    bytes."""
    specs = rules.specs.get(stored.stream)
    spec = None if specs is None else specs.at(stored.start).get(stored.fingerprint)
    if specs is None or spec is None or spec.guarantee.answer_micro:
        return None
    release = open_release(stored.payload)
    try:
        bounds = specs.bounds(spec, release.header.draws)
    except ImplausibleError:
        return None
    _, (value,) = bounds.examine(counters_of_all([release], spec))
    return EstimatedTotal(float(value), bounds.total.variance)


def lacking(db: sqlite3.Connection, after: int, last: int) -> set[int]:
    """Numbers of the stored releases in (after, last] that have no estimate: they were disputed
    when they came."""
    rows = db.execute(
        "SELECT id FROM releases AS r WHERE id > ? AND id <= ? AND NOT EXISTS (SELECT 1 FROM"
        " totals WHERE (device, stream, window_start) = (r.device, r.stream, r.window_start))",
        (after, last),
    )
    return {number for (number,) in rows}


def note(
    db: sqlite3.Connection,
    windows: Sequence[tuple[str, str, int]],
    totals: Sequence[EstimatedTotal | None],
) -> None:
    """Stores the total of each window that has one: device, stream and start."""
    db.executemany(
        "INSERT OR REPLACE INTO totals VALUES (?, ?, ?, ?, ?)",
        [
            (*window, total.value, total.variance)
            for window, total in zip(windows, totals, strict=True)
            if total is not None
        ],
    )
