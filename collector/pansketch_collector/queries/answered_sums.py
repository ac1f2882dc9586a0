"""Keepers' answers as releases for generators: their selection, and the combination of levels.

The sum of an answer belongs to its period, late releases included. It cannot be split by devices or
windows. If several levels have the same windows, their sums are combined by inverse variance.
Otherwise the level with the most windows is read, and of several the one with the least noise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from pansketch import Release, Spec, WindowId, merge
from pansketch.blinding import combine_levels
from pansketch.sketches import LinearSpec
from pansketch.wire import decode_question
from pansketch_collector.errors import wrong
from pansketch_collector.queries.basis import Answered, LeftOut, answered_of
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.records import EXCLUDED, Selection
from pansketch_fleet.protocol.messages import digest

WAITING = "waiting for the answers of keepers: see `pansketch-collector keepers`"
FAILED = "in an answer that was rejected: see `pansketch-collector keepers`"
LOST = "not answered by a keeper, which had answered about them: see `pansketch-collector keepers`"
OTHERWISE = "in answers about other periods or windows than those that are read"
DAMAGED = "damaged: an answer whose bytes have changed on the disk"
PER_DEVICE = (
    "the counters of this stream are masked, and keepers answer about all devices together: there "
    "is no answer about some of them, nor a robust one; leave out --devices, --by device and "
    "--robust"
)
ANSWERED, ASKED, REJECTED = 3, 2, 1  # the best state of a release at any level


@dataclass(frozen=True, eq=False)
class AnsweredSum:
    """The sum of one question's answers; its period in unix seconds."""

    level: str
    start: int
    end: int
    keepers: int
    release: Release


def is_masked(spec: Spec) -> TypeGuard[LinearSpec]:
    """True if releases of a spec are masked, so that keepers answer about them."""
    return isinstance(spec, LinearSpec) and bool(spec.guarantee.answer_micro)


class AnswerReader:
    """The selected keepers' answers, read one spec after another.

    `left`: omitted releases. `excluded`: windows of excluded devices that cannot be subtracted.
    """

    def __init__(self, reader: Reader, selection: Selection) -> None:
        self._reader, self._selection = reader, selection
        self._found: list[Answered] = []
        self.left: list[LeftOut] = []

    @property
    def answered(self) -> Answered | None:
        """The answers that were read; None without any."""
        return answered_of(self._found)

    @property
    def excluded(self) -> int:
        return sum(each.excluded for each in self._found)

    def read(self, spec: LinearSpec) -> list[Release]:
        """The sum of the answers; empty without any. Raises CommandError for a selection of
        devices, since keepers answer about all devices together."""
        if self._selection.devices is not None:
            raise wrong(PER_DEVICE)
        sums = list(_stored(self._reader, self._selection, spec, self.left))
        chosen = [_best(group) for group in _overlapping(sums)]
        total = [merge(map(_combined, chosen))] if chosen else []
        windows = total[0].windows if total else ()
        self.left += _left(self._reader, self._selection, spec, windows)
        if chosen:
            used = [each for group in chosen for each in group]
            self._found.append(_answered(self._reader, used, windows))
        return total


def _answered(reader: Reader, used: Sequence[AnsweredSum], windows: Sequence[WindowId]) -> Answered:
    ranges = reader.connection.execute("SELECT device, since, until FROM excluded").fetchall()
    excluded = (
        sum(
            any(
                window.device == name and since <= window.start < until
                for name, since, until in ranges
            )
            for window in windows
        )
        if ranges
        else 0
    )
    levels = tuple(sorted({each.level for each in used}))
    return Answered(len(used), min(each.keepers for each in used), levels, excluded)


def _stored(
    reader: Reader, selection: Selection, spec: LinearSpec, left: list[LeftOut]
) -> Iterator[AnsweredSum]:
    """The sums with a period within the selection; damaged ones become omissions."""
    rows = reader.connection.execute(
        "SELECT level, period_start, period_end, draws, noise, counters, seal, payload, windows,"
        " (SELECT count(*) FROM keeper_answers WHERE question = id) FROM questions"
        " WHERE state = 'answered' AND (stream, fingerprint) = (?, ?)"
        " AND period_start >= ? AND period_end <= ? ORDER BY period_start, id",
        (
            *(selection.stream, spec.fingerprint),
            -(2**62) if selection.since is None else selection.since,
            2**62 if selection.until is None else selection.until,
        ),
    )
    for level, start, end, draws, noise, stored, seal, payload, windows, keepers in rows:
        try:
            if digest(stored) != seal:
                raise ValueError("another digest")
            labels = tuple(sorted(each.window for each in decode_question(payload).windows))
            counters = np.frombuffer(stored, "<i8").astype(np.int64)
            release = Release(spec, labels, draws, counters, noise)
        except ValueError:
            left.append(LeftOut(windows, DAMAGED))
            continue
        yield AnsweredSum(level, start, end, keepers, release)


def _overlapping(sums: Sequence[AnsweredSum]) -> list[list[AnsweredSum]]:
    """Groups of sums: sums of different groups share no window."""
    group_of: dict[object, list[AnsweredSum]] = {}
    groups: dict[int, list[AnsweredSum]] = {}
    for each in sums:
        keys = [window.key for window in each.release.windows]
        merged = [each]
        for other in {id(found): found for key in keys if (found := group_of.get(key))}.values():
            merged = [*other, *merged]
            del groups[id(other)]
        groups[id(merged)] = merged
        for member in merged:
            group_of.update((window.key, merged) for window in member.release.windows)
    return list(groups.values())


def _best(group: Sequence[AnsweredSum]) -> list[AnsweredSum]:
    """From sums that share windows, those of the levels to read, which have the same windows."""
    levels: dict[str, list[AnsweredSum]] = {}
    for each in group:
        levels.setdefault(each.level, []).append(each)
    by_windows: dict[frozenset[object], list[AnsweredSum]] = {}
    for found in levels.values():
        windows = frozenset(window.key for each in found for window in each.release.windows)
        by_windows.setdefault(windows, []).extend(found)

    def rank(item: tuple[frozenset[object], list[AnsweredSum]]) -> tuple[int, float]:
        windows, found = item
        return len(windows), sum(1 / each.noise for each in _levels(found))

    return max(by_windows.items(), key=rank)[1]


def _levels(sums: Sequence[AnsweredSum]) -> list[Release]:
    """The sum of each level."""
    levels: dict[str, list[Release]] = {}
    for each in sums:
        levels.setdefault(each.level, []).append(each.release)
    return [merge(found) for found in levels.values()]


def _combined(sums: Sequence[AnsweredSum]) -> Release:
    """One release of all levels, which have the same windows."""
    return combine_levels(_levels(sums))


def _left(
    reader: Reader, selection: Selection, spec: LinearSpec, windows: Sequence[WindowId]
) -> Iterator[LeftOut]:
    """The selected releases that are in no used sum, by their state."""
    since = -(2**62) if selection.since is None else selection.since
    until = 2**62 if selection.until is None else selection.until
    values = selection.stream, spec.fingerprint, since, until
    found = dict(
        reader.connection.execute(
            "SELECT best, count(*) FROM (SELECT max(CASE WHEN q.state = 'answered' THEN 3"
            " WHEN q.state = 'failed' THEN 1 WHEN w.problem = '' THEN 2 ELSE 0 END) AS best"
            f" FROM (SELECT * FROM window_levels WHERE NOT {EXCLUDED}) AS w"
            " LEFT JOIN questions AS q ON q.id = w.question"
            " WHERE (w.stream, w.fingerprint) = (?, ?) AND w.window_start >= ?"
            " AND w.window_start < ?"
            " GROUP BY w.device, w.incarnation, w.sequence, w.window_start) AS counted"
            " GROUP BY best",
            values,
        ).fetchall()
    )
    read = sum(since <= window.start < until for window in windows)
    counts = [
        (found.get(ASKED, 0) + _unlisted(reader, values), WAITING),
        (found.get(REJECTED, 0), FAILED),
        (found.get(0, 0), LOST),
        (found.get(ANSWERED, 0) - read, OTHERWISE),
    ]
    return (LeftOut(releases, reason) for releases, reason in counts if releases > 0)


def _unlisted(reader: Reader, values: tuple[str, bytes, int, int]) -> int:
    """The number of releases that are not listed yet, or whose stream has no levels now."""
    return int(
        reader.connection.execute(
            "SELECT count(*) FROM releases AS r WHERE (stream, fingerprint) = (?, ?)"
            f" AND window_start >= ? AND window_start < ? AND NOT {EXCLUDED}"
            " AND NOT EXISTS (SELECT 1 FROM window_levels AS w WHERE (w.device, w.stream,"
            " w.incarnation, w.sequence, w.window_start)"
            " = (r.device, r.stream, r.incarnation, r.sequence, r.window_start))",
            values,
        ).fetchone()[0]
    )


def spans(reader: Reader, selection: Selection, seconds: int) -> list[int]:
    """The spans of `seconds`, counted from 1970, that contain answered periods of the selection.

    Raises CommandError if all periods are longer.
    """
    since = -(2**62) if selection.since is None else selection.since
    until = 2**62 if selection.until is None else selection.until
    rows = reader.connection.execute(
        "SELECT DISTINCT period_start / ?, (period_end - 1) / ? FROM questions"
        " WHERE state = 'answered' AND stream = ? AND period_start >= ? AND period_end <= ?"
        " ORDER BY 1",
        (seconds, seconds, selection.stream, since, until),
    ).fetchall()
    found = [int(first) for first, last in rows if first == last]
    if rows and not found:
        raise wrong("each answer of this stream is about a longer period: ask without --by")
    return found
