"""Deletions of releases: by retention, and of damaged ones.

The functions run within a transaction of their caller and raise one of ERRORS.
"""

from pansketch_collector.storage.tables import schema
from pansketch_collector.storage.tables.connection import Database
from pansketch_collector.storage.tables.corruption import Damage
from pansketch_collector.storage.tables.holding_counts import rebuild
from pansketch_collector.storage.tables.sum_changes import SumChanges

_OPEN = "state IN ('prepare', 'answer')"
_IN_QUESTION = (
    "EXISTS (SELECT 1 FROM window_levels AS w JOIN questions AS q ON q.id = w.question"
    " WHERE (w.device, w.stream, w.incarnation, w.sequence, w.window_start) = (releases.device,"
    " releases.stream, releases.incarnation, releases.sequence, releases.window_start)"
    f" AND q.{_OPEN})"
)


def age_limit(db: Database, stream: str, seconds: int, now: int) -> int | None:
    """The end of windows older than `seconds` (unix seconds); None without stored releases.

    Ages count from the stream's newest window, or from `now` if that is earlier.
    """
    (newest,) = db.execute(
        "SELECT max(window_end) FROM releases WHERE stream = ?", (stream,)
    ).fetchone()
    return None if newest is None else min(now, int(newest)) - seconds


def remove_old(db: Database, stream: str, seconds: int, now: int, limit: int) -> int:
    """Removes releases of a stream whose windows ended `seconds` ago, and disputed ones of them.

    Removes at most `limit`; returns the number. The table `removed` keeps their windows. Answers
    about that time are deleted too. Masked releases stay while a question to keepers lists them.
    """
    until = age_limit(db, stream, seconds, now)
    if until is None:
        return 0
    old = (
        "SELECT id FROM releases WHERE stream = :stream AND window_start < :until"
        f" AND window_end <= :until AND NOT {_IN_QUESTION}"
        " ORDER BY window_start, device, sequence LIMIT :limit"
    )
    values = {"stream": stream, "until": until, "limit": limit}
    db.execute(
        "INSERT INTO removed SELECT device, stream, incarnation, count(*), min(sequence),"
        " max(sequence), min(window_start), max(window_end)"
        f" FROM releases WHERE id IN ({old}) GROUP BY device, stream, incarnation"
        " ON CONFLICT (device, stream, incarnation) DO UPDATE SET"
        " windows = removed.windows + excluded.windows,"
        " first_sequence = min(removed.first_sequence, excluded.first_sequence),"
        " last_sequence = max(removed.last_sequence, excluded.last_sequence),"
        " first_start = min(removed.first_start, excluded.first_start),"
        " last_end = max(removed.last_end, excluded.last_end)",
        values,
    )
    sums = SumChanges(db)
    sums.select(f"id IN ({old})", values, -1)
    deleted = db.execute(f"DELETE FROM releases WHERE id IN ({old})", values).rowcount
    sums.flush()
    db.execute(
        f"DELETE FROM questions WHERE stream = :stream AND period_end <= :until AND NOT {_OPEN}",
        values,
    )
    db.execute("DELETE FROM disputed WHERE stream = :stream AND window_end <= :until", values)
    return deleted


def move_damaged(db: Database, number: int, damage: Damage, at: int) -> None:
    """Moves a damaged stored release to the table `damaged`.

    Its former part of the sums is unknown. So this function recomputes the hour of its columns, and
    the hour of the label inside.
    """
    columns = schema.RELEASE
    query = "SELECT device, stream, window_start FROM releases WHERE id = ?"
    windows = set(db.execute(query, (number,)).fetchall())
    if damage.inside is not None:
        windows.add((damage.inside.device, damage.inside.stream, damage.inside.start))
    db.execute(
        f"INSERT INTO damaged ({columns}, problem, found_at)"
        f" SELECT {columns}, ?, ? FROM releases WHERE id = ?",
        (damage.problem, at, number),
    )
    if damage.mislabelled:
        # The columns are wrong: they must not raise the device's high-water mark.
        db.execute(
            "UPDATE releases SET sequence = 0, window_end = window_start + 1 WHERE id = ?",
            (number,),
        )
    db.execute("DELETE FROM releases WHERE id = ?", (number,))
    sums = SumChanges(db)
    for device, stream, start in sorted(windows):
        sums.stale(stream, start)
        rebuild(db, device, stream)
    sums.flush()
