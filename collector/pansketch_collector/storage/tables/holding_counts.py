"""The tables `holdings` and `tallies`: counts of stored releases, maintained by triggers.

The overview reads one row for each stream and ledger of a device, and no release. The triggers run
in the transaction of every change.
"""

from collections.abc import Sequence

from pansketch_collector.storage.tables.connection import Database
from pansketch_collector.validation.verdicts import EstimatedTotal
from pansketch_fleet.errors import one_line

# The condition that a row is of the ledger of NEW or OLD.
LEDGER = "device = {row}.device AND stream = {row}.stream AND incarnation = {row}.incarnation"


def _is_used(table: str, row: str, times: int, other: str = "") -> str:
    """True if at least `times` rows of its ledger have a row's sequence number."""
    return (
        f"(SELECT count(*) >= {times} FROM {table} WHERE {LEDGER.format(row=row)}"
        f" AND sequence = {row}.sequence{other})"
    )


# PostgreSQL runs the trigger before the deletion, so it must skip the deleted row.
_OTHER = " AND id != OLD.id"


def _remaining(deleted: str, of: str, column: str) -> str:
    """The minimum or maximum in the remaining rows of a ledger."""
    parts = (
        f"SELECT {of}({column}) AS x FROM {table} WHERE {LEDGER.format(row='OLD')}"
        f"{_OTHER if table == deleted else ''}"
        for table in ("releases", "disputed")
    )
    return f"(SELECT {of}(x) FROM ({' UNION ALL '.join(parts)}) AS kept)"


def _as_int(condition: str) -> str:
    """1 if a condition holds, else 0."""
    return f"CASE WHEN {condition} THEN 1 ELSE 0 END"


# The index by windows begins with the first window, and the last arrival often shares its second
# with others: neither lookup scans the whole ledger.
def _first_start(deleted: str) -> str:
    of_releases, of_disputed = (
        _OTHER if table == deleted else "" for table in ("releases", "disputed")
    )
    return (
        "(SELECT min(x) FROM (SELECT * FROM (SELECT window_start AS x FROM releases"
        " WHERE device = OLD.device AND stream = OLD.stream AND +incarnation = OLD.incarnation"
        f"{of_releases} ORDER BY window_start LIMIT 1) AS first_one"
        " UNION ALL SELECT min(window_start) FROM disputed"
        f" WHERE {LEDGER.format(row='OLD')}{of_disputed}) AS kept)"
    )


def _last_arrival(deleted: str) -> str:
    other = _OTHER if deleted == "releases" else ""
    return (
        f"coalesce((SELECT received_at FROM releases WHERE {LEDGER.format(row='OLD')}{other}"
        f" AND received_at = OLD.received_at LIMIT 1), {_remaining(deleted, 'max', 'received_at')})"
    )


_LATE = (
    f"EXISTS (SELECT 1 FROM releases WHERE {LEDGER.format(row='NEW')}"
    " AND sequence > NEW.sequence AND received_at < NEW.received_at)"
)


ADDED = ", ".join(
    [
        *(
            f"{name} = holdings.{name} + excluded.{name}"
            for name in ("windows", "numbers", "used", "late", "disputed", "unsynchronised")
        ),
        *(
            f"{name} = {of}(holdings.{name}, excluded.{name})"
            for of, name in (
                *(("min", "first"), ("max", "last"), ("min", "first_start"), ("max", "last_end")),
                ("max", "received_at"),
            )
        ),
    ]
)


def _insert_trigger(table: str) -> str:
    """The trigger that updates `holdings` after an insert."""
    release = table == "releases"
    seen = _is_used("releases", "NEW", 2 if release else 1)
    other = _is_used("disputed", "NEW", 1 if release else 2)
    mark = f"UPDATE releases SET late = 1 WHERE id = NEW.id AND {_LATE};" if release else ""
    return f"""
CREATE TRIGGER {table}_held AFTER INSERT ON {table} BEGIN
    {mark}
    INSERT INTO holdings VALUES (
        NEW.device, NEW.stream, NEW.incarnation, {int(release)},
        {_as_int(f"NOT ({seen} OR {other})")},
        {_as_int(f"NOT {seen}") if release else 0}, NEW.sequence, NEW.sequence, NEW.window_start,
        NEW.window_end, NEW.received_at, {_as_int(_LATE) if release else 0}, {int(not release)},
        {_as_int("NEW.clock_synchronised = 0") if release else 0}
    ) ON CONFLICT (device, stream, incarnation) DO UPDATE SET
        {ADDED};
END;"""


def _delete_trigger(table: str) -> str:
    """The trigger that updates `holdings` after a deletion."""
    release = table == "releases"
    seen, other = (
        _is_used(each, "OLD", 1, _OTHER if each == table else "")
        for each in ("releases", "disputed")
    )
    ledger, count = LEDGER.format(row="OLD"), "windows" if release else "disputed"
    of_release = (
        f"used = used - {_as_int(f'NOT {seen}')}, late = late - OLD.late,"
        f" unsynchronised = unsynchronised - {_as_int('OLD.clock_synchronised = 0')},"
    )
    return f"""
CREATE TRIGGER {table}_gone AFTER DELETE ON {table} BEGIN
    DELETE FROM holdings WHERE {ledger} AND windows + disputed = 1;
    UPDATE holdings SET
        {count} = {count} - 1, {of_release if release else ""}
        numbers = numbers - {_as_int(f"NOT ({seen} OR {other})")},
        first = CASE WHEN OLD.sequence > first THEN first
            ELSE {_remaining(table, "min", "sequence")} END,
        last = CASE WHEN OLD.sequence < last THEN last
            ELSE {_remaining(table, "max", "sequence")} END,
        first_start = CASE WHEN OLD.window_start > first_start THEN first_start
            ELSE {_first_start(table)} END,
        last_end = CASE WHEN OLD.window_end < last_end THEN last_end
            ELSE {_remaining(table, "max", "window_end")} END,
        received_at = CASE WHEN OLD.received_at < received_at THEN received_at
            ELSE {_last_arrival(table)} END
    WHERE {ledger};
END;"""


_INCLUDED = (
    "NOT EXISTS (SELECT 1 FROM excluded WHERE device = {row}.device"
    " AND since <= {row}.window_start AND {row}.window_start < until)"
)
_ADDED_TOTALS = (
    "INSERT INTO tallies SELECT device, stream, count(*), sum(value), sum(variance)"
    f" FROM totals AS t WHERE {_INCLUDED.format(row='t')}"
)


def _retally_trigger(event: str, row: str) -> str:
    """The trigger that recomputes a device's totals when its exclusions change."""
    return f"""
CREATE TRIGGER excluded_{event.lower()} AFTER {event} ON excluded BEGIN
    DELETE FROM tallies WHERE device = {row}.device;
    {_ADDED_TOTALS} AND device = {row}.device GROUP BY device, stream;
END;"""


# The estimated totals of the releases that count, by device and stream.
_TALLIES = f"""
CREATE TABLE tallies (
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    releases INTEGER NOT NULL,
    value REAL NOT NULL,
    variance REAL NOT NULL,
    PRIMARY KEY (device, stream)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER totals_added AFTER INSERT ON totals WHEN {_INCLUDED.format(row="NEW")} BEGIN
    INSERT INTO tallies VALUES (NEW.device, NEW.stream, 1, NEW.value, NEW.variance)
    ON CONFLICT (device, stream) DO UPDATE SET releases = tallies.releases + 1,
        value = tallies.value + excluded.value,
        variance = tallies.variance + excluded.variance;
END;
CREATE TRIGGER totals_gone AFTER DELETE ON totals WHEN {_INCLUDED.format(row="OLD")} BEGIN
    DELETE FROM tallies WHERE device = OLD.device AND stream = OLD.stream AND releases = 1;
    UPDATE tallies SET releases = releases - 1, value = value - OLD.value,
        variance = variance - OLD.variance WHERE device = OLD.device AND stream = OLD.stream;
END;{_retally_trigger("INSERT", "NEW")}{_retally_trigger("DELETE", "OLD")}
"""
# `numbers`: distinct ones of stored and disputed releases, `used`: of stored ones.
TABLES = f"""
CREATE TABLE holdings (
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    incarnation BLOB NOT NULL,
    windows INTEGER NOT NULL,
    numbers INTEGER NOT NULL,
    used INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    first_start INTEGER NOT NULL,
    last_end INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    late INTEGER NOT NULL,
    disputed INTEGER NOT NULL,
    unsynchronised INTEGER NOT NULL,
    PRIMARY KEY (device, stream, incarnation)
) STRICT, WITHOUT ROWID;
{_insert_trigger("releases")}{_delete_trigger("releases")}{_insert_trigger("disputed")}{_delete_trigger("disputed")}{_TALLIES}"""
_COLUMNS = (
    "device, stream, incarnation, sequence, window_start, window_end, received_at,"
    " CASE WHEN clock_synchronised = 0 THEN 1 ELSE 0 END AS unsynchronised"
)


def _counted(condition: str) -> str:
    """The query that computes `holdings` from releases and disputed ones."""
    return (
        "SELECT device, stream, incarnation, sum(1 - disputed), count(DISTINCT sequence),"
        " count(DISTINCT CASE WHEN disputed = 0 THEN sequence END), min(sequence), max(sequence),"
        " min(window_start), max(window_end), max(received_at), sum(late), sum(disputed),"
        f" sum(unsynchronised * (1 - disputed)) FROM (SELECT {_COLUMNS}, late, 0 AS disputed"
        f" FROM releases UNION ALL SELECT {_COLUMNS}, 0, 1 FROM disputed) AS every"
        f" WHERE {condition}"
        " GROUP BY device, stream, incarnation"
    )


# For earlier schemas, which did not record late releases.
MARK_LATE = (
    "UPDATE releases SET late = 1 WHERE id IN (SELECT id FROM (SELECT id, received_at > min("
    "received_at) OVER (PARTITION BY device, stream, incarnation ORDER BY sequence"
    " ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS late FROM releases) WHERE late)"
)


def rebuild(db: Database, device: str | None = None, stream: str | None = None) -> None:
    """Recounts the stored releases of one stream of a device, or of all."""
    values = () if device is None else (device, stream)
    condition = "device = ? AND stream = ?" if values else "TRUE"
    db.execute(f"DELETE FROM holdings WHERE {condition}", values)
    db.execute(f"INSERT INTO holdings {_counted(condition)}", values)
    if not values:
        db.execute("DELETE FROM tallies")
        db.execute(f"{_ADDED_TOTALS} GROUP BY device, stream")


def wrong(db: Database) -> list[str]:
    """`device/stream` of all rows that differ from the stored releases."""
    truth = _counted("TRUE")
    rows = db.execute(
        f"SELECT * FROM (SELECT * FROM holdings EXCEPT {truth}) AS more"
        f" UNION SELECT * FROM ({truth} EXCEPT SELECT * FROM holdings) AS fewer"
    )
    return sorted({one_line(f"{row[0]}/{row[1]}") for row in rows})


def without_total(db: Database, after: int, last: int) -> set[int]:
    """Numbers of the stored releases in (after, last] without an estimate: they were disputed
    before."""
    rows = db.execute(
        "SELECT id FROM releases AS r WHERE id > ? AND id <= ? AND NOT EXISTS (SELECT 1 FROM"
        " totals WHERE (device, stream, window_start) = (r.device, r.stream, r.window_start))",
        (after, last),
    )
    return {number for (number,) in rows}


def note_totals(
    db: Database,
    windows: Sequence[tuple[str, str, int]],
    totals: Sequence[EstimatedTotal | None],
) -> None:
    """Stores the total of each window that has one. `windows`: device, stream and start."""
    db.executemany(
        "INSERT INTO totals VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [
            (*window, total.value, total.variance)
            for window, total in zip(windows, totals, strict=True)
            if total is not None
        ],
    )
