"""`retention`: releases whose windows ended longer ago than the configuration keeps them.

What is removed stays known: its windows are no gaps, and one of them that comes again is a
duplicate. Ages count from the newest window of the stream, or from now where that is earlier, so
that a clock that is wrong by years removes nothing.
"""

import argparse
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pansketch_collector import clock
from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import Reader, reading
from pansketch_collector.storage.store import Store
from pansketch_collector.storage.tables.connection import ERRORS
from pansketch_fleet.config.loader import Config
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import utc_text

HEADER = ("stream", "kept for", "removed", "of", "windows that end until")
PORTION = 1_000  # releases removed in one transaction
PAUSE_SECONDS = 86_400.0

log = logging.getLogger("collector")


@dataclass(frozen=True)
class ExpiredReleases:
    """Of one stream: how many of its releases are older than `seconds` at `until`, unix seconds."""

    stream: str
    seconds: int
    until: int
    releases: int
    stored: int


def due(reader: Reader, config: Config, now: int) -> list[ExpiredReleases]:
    """What there is to remove, of each stream that has a retention."""
    return [
        ExpiredReleases(stream.name, seconds, until, *reader.ended(stream.name, until))
        for stream in config.streams
        if (seconds := stream.retention_seconds) is not None
        and (until := reader.age_limit(stream.name, seconds, now)) is not None
    ]


def as_table(found: Sequence[ExpiredReleases], dry: bool) -> str:
    """A line for each stream that has a retention."""
    if not found:
        return "nothing to remove: no stream with stored releases has a retention"
    rows = [
        (
            each.stream,
            f"{each.seconds // 86_400}d" if each.seconds >= 86_400 else f"{each.seconds}s",
            str(each.releases),
            str(each.stored),
            utc_text(max(each.until, 0)),
        )
        for each in found
    ]
    lines = aligned(HEADER, rows, frozenset({"removed", "of"}))
    return "\n".join([*lines, "a dry run: nothing was removed"] if dry else lines)


def as_json(found: Sequence[ExpiredReleases], dry: bool) -> str:
    """One object: `dry_run`, and `streams`."""
    streams = [
        {
            "stream": each.stream,
            "retention_seconds": each.seconds,
            "removed": each.releases,
            "stored": each.stored,
            "until": utc_text(max(each.until, 0)),
        }
        for each in found
    ]
    return json.dumps({"dry_run": dry, "streams": streams})


class RetentionTask:
    """Removes what is too old, a portion at each turn of `serve`, and looks again every day."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._kept = [
            (stream.name, stream.retention_seconds)
            for stream in config.streams
            if stream.retention_seconds is not None
        ]
        self._due = 0.0
        self._removed: dict[str, int] = {}

    def step(self, uptime: float, now: int) -> None:
        """One portion. A database that cannot be written now is left for a later turn."""
        if uptime < self._due:
            return
        try:
            removed = {name: self._store.remove(name, s, now, PORTION) for name, s in self._kept}
        except ERRORS as error:
            log.warning("old releases cannot be removed now (%s); retrying in an hour", error)
            self._due = uptime + PAUSE_SECONDS / 24
            return
        for name, count in removed.items():
            self._removed[name] = self._removed.get(name, 0) + count
        if not any(removed.values()):
            for name, count in self._removed.items():
                if count:
                    log.info("removed by the retention of stream %s: %d releases", name, count)
            self._removed.clear()
            self._due = uptime + PAUSE_SECONDS


def run_retention(config: Config, options: argparse.Namespace) -> int:
    """Removes what is older than the configuration keeps it, and prints how much that is."""
    with reading(config.collector.database) as reader:
        found = due(reader, config, clock.now())
    if not options.dry_run:
        with store.opened(config.collector.database) as opened:
            for each in found:
                while opened.remove(each.stream, each.seconds, clock.now(), PORTION):
                    pass
    with writing("-") as out:
        shape = as_json if options.json else as_table
        out.write(shape(found, options.dry_run) + "\n")
    return 0
