"""Masked releases that wait for a question, in the database.

A release waits at each level of its stream, from the moment when this process notes it, until a
question lists it. Every method that changes something is one transaction; methods raise
one of ERRORS.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pansketch.blinding import MaskedWindow, WindowKey
from pansketch.wire import BLINDED, peek_blinded
from pansketch_collector.asking.due_questions import WaitingPeriod
from pansketch_collector.storage.tables.connection import Database, transaction
from pansketch_collector.storage.tables.corruption import UNREADABLE
from pansketch_collector.storage.tables.records import EXCLUDED
from pansketch_fleet.protocol.keeper_messages import KEY_ID_BYTES
from pansketch_fleet.settings.settings import AnswerLevel

PORTION = 1_000  # releases noted in one transaction
KEY = "device, stream, incarnation, sequence"
# Of a release `r` and a row `w` of window_levels.
SAME = " AND ".join(f"r.{name} = w.{name}" for name in (*KEY.split(", "), "window_start"))
AGAIN = "its sequence number is that of another window: the ledger was restored from a copy"


@dataclass(frozen=True)
class Group:
    """Releases that one question can list: of one stream, level, spec and set of keepers' keys."""

    stream: str
    level: AnswerLevel
    fingerprint: bytes
    keepers: tuple[bytes, ...]

    @property
    def where(self) -> tuple[str, str, bytes, bytes]:
        return self.stream, self.level.name, self.fingerprint, b"".join(self.keepers)


class WaitingReleases:
    """Waiting releases, on the connection that writes."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def keep_levels(self, levels: Mapping[str, Collection[str]]) -> None:
        """Windows wait no longer for levels that the configuration does not have, by
        stream."""
        with transaction(self._db):
            for row in self._db.execute(
                "SELECT DISTINCT stream, level FROM window_levels"
                " WHERE question IS NULL AND problem = ''"
            ).fetchall():
                if row[1] not in levels.get(row[0], ()):
                    self._db.execute(
                        "DELETE FROM window_levels WHERE question IS NULL AND problem = ''"
                        " AND (stream, level) = (?, ?)",
                        row,
                    )

    def note_releases(self, stream: str, levels: Sequence[str], after: int) -> int:
        """Has masked releases after this row wait for their levels; the last row looked at."""
        while True:
            names = ", ".join("?" * len(levels))
            rows = self._db.execute(
                f"SELECT id, {KEY}, window_start, fingerprint, payload, received_at FROM releases"
                f" AS r WHERE id > ? AND stream = ? AND (SELECT count(*) FROM window_levels AS w"
                f" WHERE {SAME} AND level IN ({names})) < ? ORDER BY id LIMIT ?",
                (after, stream, *levels, len(levels), PORTION),
            ).fetchall()
            if not rows:
                return after
            after = rows[-1][0]
            with transaction(self._db):
                self._db.executemany(
                    f"INSERT INTO window_levels ({KEY}, window_start, fingerprint,"
                    " keepers, received_at, level, question, problem)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, '')"
                    " ON CONFLICT DO NOTHING",
                    [
                        (*row[1:7], keepers, row[8], level)
                        for row in rows
                        if (keepers := _keepers_of(row[7]))
                        for level in levels
                    ],
                )

    def waiting(self, stream: str, level: AnswerLevel) -> dict[Group, list[WaitingPeriod]]:
        """The releases that no question of a level lists and that are not excluded."""
        found: dict[Group, list[WaitingPeriod]] = {}
        for fingerprint, joined, period, first, last in self._db.execute(
            "SELECT fingerprint, keepers, window_start / ?, min(received_at), max(received_at)"
            " FROM window_levels WHERE question IS NULL AND problem = ''"
            f" AND stream = ? AND level = ? AND NOT {EXCLUDED} GROUP BY 1, 2, 3",
            (level.every_seconds, stream, level.name),
        ):
            keys = tuple(
                joined[at : at + KEY_ID_BYTES] for at in range(0, len(joined), KEY_ID_BYTES)
            )
            group = Group(stream, level, fingerprint, keys)
            found.setdefault(group, []).append(WaitingPeriod(period, first, last))
        return found

    def asked(self, group: Group) -> int | None:
        """The number of the last period of which a question was made for these keys."""
        places = ", ".join("?" * len(group.keepers))
        found = self._db.execute(
            "SELECT period_end FROM questions AS q WHERE (stream, level, fingerprint) = (?, ?, ?)"
            " AND NOT EXISTS (SELECT 1 FROM keeper_answers WHERE question = q.id"
            f" AND key NOT IN ({places})) AND (SELECT count(*) FROM keeper_answers"
            " WHERE question = q.id) = ? ORDER BY period_start DESC LIMIT 1",
            (*group.where[:3], *group.keepers, len(group.keepers)),
        ).fetchone()
        return None if found is None else int(found[0]) // group.level.every_seconds - 1

    def windows(self, group: Group, periods: Collection[int]) -> list[MaskedWindow]:
        """The windows that wait, in these periods, in the order of a question. Of two with one
        number the later one is lost: a keeper answers about one."""
        places = ", ".join("?" * len(periods))
        rows = self._db.execute(
            "SELECT r.payload, EXISTS (SELECT 1 FROM window_levels AS o WHERE (o.device, o.stream,"
            " o.incarnation, o.sequence, o.level) = (w.device, w.stream, w.incarnation, w.sequence,"
            " w.level) AND o.question IS NOT NULL)"
            " FROM (SELECT * FROM window_levels WHERE question IS NULL"
            " AND problem = '' AND (stream, level, fingerprint, keepers) = (?, ?, ?, ?)"
            f" AND window_start / ? IN ({places}) AND NOT {EXCLUDED}) AS w"
            f" JOIN releases AS r ON {SAME} ORDER BY w.device, w.stream, w.incarnation,"
            " w.sequence, w.window_start",
            (*group.where, group.level.every_seconds, *periods),
        )
        found: dict[WindowKey, MaskedWindow] = {}
        again = []
        for payload, asked in rows:
            try:
                header = peek_blinded(payload)
            except UNREADABLE:
                continue  # Changed on the disk: verification moves it away.
            each = MaskedWindow(header.window, header.epochs)
            if asked or each.key in found:
                again.append((AGAIN, *each.key, group.level.name, each.window.start))
            else:
                found[each.key] = each
        if again:
            with transaction(self._db):
                self._db.executemany(
                    f"UPDATE window_levels SET problem = ? WHERE ({KEY}, level, window_start)"
                    " = (?, ?, ?, ?, ?, ?) AND question IS NULL",
                    again,
                )
        return sorted(found.values(), key=lambda each: each.key)


def _keepers_of(payload: bytes) -> bytes:
    """The ids of the keys whose masks a release holds, in order; none of one without masks."""
    if payload[: len(BLINDED)] != BLINDED:
        return b""
    try:
        return b"".join(sorted(peek_blinded(payload).keepers))
    except UNREADABLE:
        return b""
