"""`retention` and `archive`: remove old releases, or write releases to files.

`retention` keeps the labels of removed windows: they are no gaps, and a retransmission is a
duplicate. Ages count from the newest window of the stream, or from now if that is earlier. So a
clock that is wrong by years removes nothing.

`archive` writes a day once it has ended a day ago, with its late releases. The next run adds later
ones. It removes nothing from the database.
"""

import argparse
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pansketch_collector import clock
from pansketch_collector.archive.day_files import arrow
from pansketch_collector.archive.day_writer import ArchivedDay, archived, checked
from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.errors import wrong
from pansketch_collector.queries.selection import DAY_SECONDS, stream_named, when
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import Reader, reading
from pansketch_collector.storage.store import Store
from pansketch_collector.storage.tables.connection import ERRORS
from pansketch_fleet.config.loader import Config
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import utc_text

_EXPIRED = ("stream", "kept for", "removed", "of", "windows that end until")
_DAYS = ("stream", "day", "releases", "new", "bytes")
PORTION = 1_000  # releases removed in one transaction
PAUSE_SECONDS = 86_400.0

log = logging.getLogger("collector")


def add_commands(add: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """Adds the commands of this module. `add`: takes the name, the help text and more about it."""
    more = "No serve may run on the database; serve does the same daily."
    retention = add("retention", "remove releases older than their stream's retention", more)
    retention.add_argument("--dry-run", action="store_true", help="list them, and remove nothing")
    more = "A serve may run meanwhile. query, sample and scales read them with --archive."
    archive = add("archive", "write the releases of ended days as Parquet files", more)
    archive.add_argument("folder", type=Path, metavar="DIR", help="the archive's folder")
    help_text = "days that end until this moment (default: those that ended a day ago)"
    archive.add_argument("--before", metavar="WHEN", help=help_text)
    archive.add_argument("--stream", metavar="NAME", help="of this stream only")
    archive.add_argument("--dry-run", action="store_true", help="list the days, and write nothing")
    help_text = "compare the files with themselves instead; the exit code is 1 for a damaged one"
    archive.add_argument("--verify", action="store_true", help=help_text)
    for command in (retention, archive):
        command.add_argument("--json", action="store_true", help="print one JSON object")


@dataclass(frozen=True)
class ExpiredReleases:
    """The releases of one stream that are older than `seconds`, that is, end by `until` (unix
    seconds)."""

    stream: str
    seconds: int
    until: int
    releases: int
    stored: int


def due(reader: Reader, config: Config, now: int) -> list[ExpiredReleases]:
    """The expired releases of each stream with a retention."""
    return [
        ExpiredReleases(stream.name, seconds, until, *reader.ended(stream.name, until))
        for stream in config.streams
        if (seconds := stream.retention_seconds) is not None
        and (until := reader.age_limit(stream.name, seconds, now)) is not None
    ]


def expired_as_table(found: Sequence[ExpiredReleases], dry: bool) -> str:
    """A line for each stream with a retention."""
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
    lines = aligned(_EXPIRED, rows, frozenset({"removed", "of"}))
    return "\n".join([*lines, "a dry run: nothing was removed"] if dry else lines)


def expired_as_json(found: Sequence[ExpiredReleases], dry: bool) -> str:
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
    """Removes expired releases, a portion at each turn of `serve`, with one pass a day."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._retentions = [
            (stream.name, stream.retention_seconds)
            for stream in config.streams
            if stream.retention_seconds is not None
        ]
        self._due = 0.0
        self._removed: dict[str, int] = {}

    def step(self, uptime: float, now: int) -> None:
        """Removes one portion. Retries later if the database fails."""
        if uptime < self._due:
            return
        try:
            removed = {
                name: self._store.remove(name, s, now, PORTION) for name, s in self._retentions
            }
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
    """Removes expired releases and prints their number."""
    with reading(config.collector.database) as reader:
        found = due(reader, config, clock.now())
    if not options.dry_run:
        with store.opened(config.collector.database) as opened:
            for each in found:
                while opened.remove(each.stream, each.seconds, clock.now(), PORTION):
                    pass
    with writing("-") as out:
        shape = expired_as_json if options.json else expired_as_table
        out.write(shape(found, options.dry_run) + "\n")
    return 0


def run_archive(config: Config, options: argparse.Namespace) -> int:
    """Writes the files, or checks them; returns 1 if a release is damaged."""
    arrow()
    names = [options.stream] if options.stream else [each.name for each in config.streams]
    for name in names:
        stream_named(config, name)
    if options.verify and (options.before or options.dry_run):
        raise wrong("--verify writes nothing: leave out --before and --dry-run")
    folder: Path = options.folder
    if folder.exists() and not folder.is_dir():
        raise wrong(f"{folder} is a file: name a folder for the archive")
    if options.verify and not folder.exists():
        raise wrong(f"no archive {folder}: run `pansketch-collector archive` first")
    if not folder.parent.is_dir():
        raise wrong(f"cannot write {folder}: create its folder first")
    with reading(config.collector.database) as reader:
        if options.verify:
            found = list(checked(reader, options.folder, names))
        else:
            until = when(options.before) if options.before else clock.now() - DAY_SECONDS
            found = list(archived(reader, options.folder, names, until, options.dry_run))
    with writing("-") as out:
        out.write((days_as_json if options.json else days_as_table)(found, options) + "\n")
    return 1 if any(each.damaged for each in found) else 0


def days_as_table(found: Sequence[ArchivedDay], options: argparse.Namespace) -> str:
    """A line for each day, and one for each damaged release."""
    if not found:
        return f"{options.folder}: " + (
            "no files" if options.verify else "no ended day has a release that is not in it"
        )
    rows = [
        (each.stream, utc_text(each.start)[:10], str(each.releases), str(each.new), str(each.size))
        for each in found
    ]
    lines = aligned(_DAYS, rows, frozenset({"releases", "new", "bytes"}))
    lines += [f"damaged: {damage}" for each in found for damage in each.damaged]
    return "\n".join([*lines, "a dry run: nothing was written"] if options.dry_run else lines)


def days_as_json(found: Sequence[ArchivedDay], options: argparse.Namespace) -> str:
    """One object: `dry_run`, and `days`."""
    listed = [
        {
            "stream": each.stream,
            "day": utc_text(each.start)[:10],
            "releases": each.releases,
            "new": each.new,
            "bytes": each.size,
            "damaged": [str(damage) for damage in each.damaged],
        }
        for each in found
    ]
    return json.dumps({"dry_run": options.dry_run, "days": listed})
