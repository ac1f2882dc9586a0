"""`disputed`: other releases of windows that are stored, to look at, to take or to drop.

The release that is stored first counts. `keep` has another one count in its place, and the first is
disputed from then on, so that nothing is lost; only `drop` deletes. Both may run beside `serve`.
"""

import argparse
import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.errors import wrong
from pansketch_collector.storage.database import changing, transaction
from pansketch_collector.storage.tables import schema
from pansketch_collector.storage.tables.sum_changes import SumChanges
from pansketch_fleet.config.loader import Config
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import utc_text

HEADER = (
    *("id", "device", "stream", "window", "to", "received", "ledger", "sequence", "bytes"),
    *("counts", "its ledger"),
)
NUMBERS = frozenset({"id", "sequence", "bytes", "counts"})


@dataclass(frozen=True)
class Dispute:
    """Another release of a stored window. `counts` and `its_incarnation` are of the one stored."""

    number: int
    device: str
    stream: str
    start: int
    end: int
    received_at: int
    incarnation: bytes
    sequence: int
    payload_bytes: int
    digest: str
    counts: int
    its_incarnation: bytes
    its_digest: str


def found(database: sqlite3.Connection) -> list[Dispute]:
    """All of them, by device, stream and window."""
    rows = database.execute(
        "SELECT d.id, d.device, d.stream, d.window_start, d.window_end, d.received_at,"
        " d.incarnation, d.sequence, length(d.payload), d.digest,"
        " r.sequence, r.incarnation, r.digest FROM disputed d"
        " JOIN releases r USING (device, stream, window_start)"
        " ORDER BY d.device, d.stream, d.window_start, d.id"
    )
    return [Dispute(*row) for row in rows]


def keep(database: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Has these count, and what counted until now disputed. All or none; raises CommandError."""
    columns = schema.RELEASE
    place = "(device, stream, window_start) = (SELECT device, stream, window_start FROM disputed"
    with transaction(database):
        sums = SumChanges(database)
        for number in _known(database, numbers):
            sums.select(f"{place} WHERE id = ?)", (number,), -1)
            database.execute(
                f"INSERT INTO disputed ({columns}) SELECT {columns} FROM releases"
                f" WHERE {place} WHERE id = ?)",
                (number,),
            )
            database.execute(f"DELETE FROM releases WHERE {place} WHERE id = ?)", (number,))
            database.execute(
                f"INSERT INTO releases ({columns}) SELECT {columns} FROM disputed WHERE id = ?",
                (number,),
            )
            sums.select(f"{place} WHERE id = ?)", (number,), 1)
            database.execute("DELETE FROM disputed WHERE id = ?", (number,))
        sums.flush()


def drop(database: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Deletes these for good. All or none; raises CommandError."""
    with transaction(database):
        for number in _known(database, numbers):
            database.execute("DELETE FROM disputed WHERE id = ?", (number,))


def as_table(disputes: list[Dispute]) -> str:
    """An aligned table, or a line that says there are none."""
    if not disputes:
        return "no window is disputed"
    rows = [
        (
            str(each.number),
            each.device,
            each.stream,
            utc_text(each.start),
            utc_text(each.end),
            utc_text(each.received_at),
            each.incarnation.hex() or "-",
            str(each.sequence),
            str(each.payload_bytes),
            str(each.counts),
            each.its_incarnation.hex() or "-",
        )
        for each in disputes
    ]
    return "\n".join(aligned(HEADER, rows, NUMBERS))


def as_json(disputes: list[Dispute]) -> str:
    """One object."""
    listed = [
        {
            "id": each.number,
            "device": each.device,
            "stream": each.stream,
            "window": {"from": utc_text(each.start), "to": utc_text(each.end)},
            "received_at": utc_text(each.received_at),
            "incarnation": each.incarnation.hex(),
            "sequence": each.sequence,
            "payload_bytes": each.payload_bytes,
            "digest": each.digest,
            "counts": {
                "incarnation": each.its_incarnation.hex(),
                "sequence": each.counts,
                "digest": each.its_digest,
            },
        }
        for each in disputes
    ]
    return json.dumps({"disputed": listed})


def _known(database: sqlite3.Connection, numbers: Iterable[int]) -> Iterable[int]:
    """The numbers, each of a dispute. Raises CommandError at one that is of none."""
    for number in numbers:
        row = database.execute("SELECT 1 FROM disputed WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise wrong(
                f"nothing disputed has the id {number}: see `pansketch-collector disputed list`"
            )
        yield number


def run_disputed(config: Config, options: argparse.Namespace) -> int:
    """Prints what is disputed, what is left of it after a change."""
    if (options.what == "list") == bool(options.ids):
        raise wrong("write: disputed list, or disputed keep ID ..., or disputed drop ID ...")
    with changing(config.collector.database) as database:
        if options.what == "keep":
            keep(database, options.ids)
        elif options.what == "drop":
            drop(database, options.ids)
        left = found(database)
    with writing("-") as out:
        out.write((as_json if options.json else as_table)(left) + "\n")
    return 0
