"""`archive`: the releases of ended days as Parquet files, and a check of these files.

A day is written once it has ended a day ago: late releases are there then. One that comes later is
added by the next run. Nothing is removed from the database: `retention` does that.
"""

import argparse
import json
from collections.abc import Sequence

from pansketch_collector import clock
from pansketch_collector.archive.day_files import arrow
from pansketch_collector.archive.day_writer import ArchivedDay, archived, checked
from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.errors import wrong
from pansketch_collector.queries.selection import DAY_SECONDS, stream_named, when
from pansketch_collector.storage.reader import reading
from pansketch_fleet.config.loader import Config
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import utc_text

HEADER = ("stream", "day", "releases", "new", "bytes")


def run_archive(config: Config, options: argparse.Namespace) -> int:
    """Writes the files, or checks them; 1 where a release is damaged."""
    arrow()
    names = [options.stream] if options.stream else [each.name for each in config.streams]
    for name in names:
        stream_named(config, name)
    if options.verify and (options.before or options.dry_run):
        raise wrong("--verify writes nothing: leave out --before and --dry-run")
    if not options.folder.parent.is_dir():
        raise wrong(f"cannot write {options.folder}: create its folder first")
    with reading(config.collector.database) as reader:
        if options.verify:
            found = list(checked(reader, options.folder, names))
        else:
            until = when(options.before) if options.before else clock.now() - DAY_SECONDS
            found = list(archived(reader, options.folder, names, until, options.dry_run))
    with writing("-") as out:
        out.write((as_json if options.json else as_table)(found, options) + "\n")
    return 1 if any(each.damaged for each in found) else 0


def as_table(found: Sequence[ArchivedDay], options: argparse.Namespace) -> str:
    """A line for each day, and one for each damaged release."""
    if not found:
        return f"{options.folder}: " + (
            "no files" if options.verify else "no ended day has a release that is not in it"
        )
    rows = [
        (each.stream, utc_text(each.start)[:10], str(each.releases), str(each.new), str(each.size))
        for each in found
    ]
    lines = aligned(HEADER, rows, frozenset({"releases", "new", "bytes"}))
    lines += [f"damaged: {hurt}" for each in found for hurt in each.damaged]
    return "\n".join([*lines, "a dry run: nothing was written"] if options.dry_run else lines)


def as_json(found: Sequence[ArchivedDay], options: argparse.Namespace) -> str:
    """One object: `dry_run`, and `days`."""
    listed = [
        {
            "stream": each.stream,
            "day": utc_text(each.start)[:10],
            "releases": each.releases,
            "new": each.new,
            "bytes": each.size,
            "damaged": [str(hurt) for hurt in each.damaged],
        }
        for each in found
    ]
    return json.dumps({"dry_run": options.dry_run, "days": listed})
