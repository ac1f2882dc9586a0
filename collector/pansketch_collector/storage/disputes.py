"""Disputed releases: second releases of stored windows.

The functions run within a transaction of their caller and raise one of ERRORS.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pansketch_collector.errors import wrong
from pansketch_collector.storage.tables import schema
from pansketch_collector.storage.tables.connection import Database
from pansketch_collector.storage.tables.sum_changes import SumChanges


@dataclass(frozen=True)
class Dispute:
    """A second release of a stored window. `counts`, `its_incarnation`, `its_digest`: of the stored
    one."""

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


def found(db: Database) -> list[Dispute]:
    """All disputed releases, by device, stream and window."""
    rows = db.execute(
        "SELECT d.id, d.device, d.stream, d.window_start, d.window_end, d.received_at,"
        " d.incarnation, d.sequence, length(d.payload), d.digest,"
        " r.sequence, r.incarnation, r.digest FROM disputed d"
        " JOIN releases r USING (device, stream, window_start)"
        " ORDER BY d.device, d.stream, d.window_start, d.id"
    )
    return [Dispute(*row) for row in rows]


def keep(db: Database, numbers: Iterable[int]) -> None:
    """Exchanges these releases with the counted ones of their windows. Raises CommandError."""
    columns = schema.RELEASE
    same_window = (
        "(device, stream, window_start) = (SELECT device, stream, window_start FROM disputed"
    )
    sums = SumChanges(db)
    for number in _known(db, numbers):
        sums.select(f"{same_window} WHERE id = ?)", (number,), -1)
        db.execute(
            f"INSERT INTO disputed ({columns}) SELECT {columns} FROM releases"
            f" WHERE {same_window} WHERE id = ?)",
            (number,),
        )
        db.execute(f"DELETE FROM releases WHERE {same_window} WHERE id = ?)", (number,))
        db.execute(
            f"INSERT INTO releases ({columns}) SELECT {columns} FROM disputed WHERE id = ?",
            (number,),
        )
        sums.select(f"{same_window} WHERE id = ?)", (number,), 1)
        db.execute("DELETE FROM disputed WHERE id = ?", (number,))
    sums.flush()


def drop(db: Database, numbers: Iterable[int]) -> None:
    """Deletes these releases permanently. Raises CommandError."""
    for number in _known(db, numbers):
        db.execute("DELETE FROM disputed WHERE id = ?", (number,))


def _known(db: Database, numbers: Iterable[int]) -> Iterable[int]:
    """Yields the numbers. Raises CommandError for one without a disputed release."""
    for number in numbers:
        row = db.execute("SELECT 1 FROM disputed WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise wrong(
                f"nothing disputed has the id {number}: see `pansketch-collector disputed list`"
            )
        yield number
