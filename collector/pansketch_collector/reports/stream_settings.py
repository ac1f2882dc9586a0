"""Settings of streams: epochs that this collector served, and published scales."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pansketch.wire import differences, form_of
from pansketch_collector import clock
from pansketch_collector.storage.config_epochs import newest_scales, published_fingerprints
from pansketch_collector.storage.reader import Reader
from pansketch_collector.validation.accepted_specs import Epoch
from pansketch_fleet.config.loader import Config
from pansketch_fleet.protocol.scale_message import Scales
from pansketch_fleet.settings.settings import ReadingStream, Stream
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import duration_text, utc_text

HEADER = ("stream", "served since", "last start", "window", "epsilon", "sketch", "releases", "now")
NUMBERS = frozenset({"epsilon", "releases"})


@dataclass(frozen=True)
class EpochRow:
    """One epoch of a stream, and the number of stored releases under it. Times are unix seconds."""

    epoch: Epoch
    releases: int
    now: bool
    changes: tuple[str, ...]


def rows(reader: Reader, config: Config) -> Iterator[EpochRow]:
    """The epochs of each stream, the last served first, with their differences from the
    configuration."""
    stored = {
        (stream, bytes(name)): int(count)
        for stream, name, count in reader.connection.execute(
            "SELECT stream, fingerprint, count(*) FROM releases GROUP BY stream, fingerprint"
        )
    }
    for stream in config.streams:
        own, seen = config.specs(stream), set[bytes]()
        in_force = published_fingerprints(reader.connection, stream, clock.now()) or set(own)
        for epoch in reader.epochs(stream.name):
            fresh = epoch.forms.keys() - seen
            seen |= fresh
            now = epoch.forms.keys() == in_force and epoch.window_seconds == stream.window_seconds
            yield EpochRow(
                epoch,
                sum(stored.get((stream.name, name), 0) for name in fresh),
                now,
                () if now else tuple(_changes(epoch, stream, config)),
            )


def _changes(epoch: Epoch, stream: Stream, config: Config) -> list[str]:
    """The differences between an epoch and the configuration. They are those of the device class
    with the fewest: "epsilon 1 and 2" means 1 then and 2 now."""
    forms = [form_of(spec) for spec in config.specs(stream).values()]
    changes = min((differences(old, new) for old in epoch.forms.values() for new in forms), key=len)
    if epoch.window_seconds != stream.window_seconds:
        lengths = map(duration_text, (epoch.window_seconds, stream.window_seconds))
        changes = [f"window {' and '.join(lengths)}", *changes]
    return changes


def as_table(found: Sequence[EpochRow]) -> str:
    """An aligned table, and below it the differences of earlier settings."""
    if not found:
        return "no settings were served yet"
    lines = aligned(HEADER, [_cells(row) for row in found], NUMBERS)
    for row in found:
        if row.changes:
            since = utc_text(row.epoch.first_served)
            lines.append(f"{row.epoch.stream}, since {since}, and now: {'; '.join(row.changes)}")
    return "\n".join(lines)


def _cells(row: EpochRow) -> tuple[str, ...]:
    form = _form(row.epoch)
    return (
        row.epoch.stream,
        utc_text(row.epoch.first_served),
        utc_text(row.epoch.last_served),
        duration_text(row.epoch.window_seconds),
        f"{form['privacy']['epsilon']:g}",
        str(form["family"]),
        str(row.releases),
        "yes" if row.now else "",
    )


def _form(epoch: Epoch) -> Mapping[str, Any]:
    return next(iter(epoch.forms.values()))


def as_json(found: Sequence[EpochRow]) -> str:
    """One object: `settings`, a list; `specs`: the spec form of each device class."""
    listed = [
        {
            "stream": row.epoch.stream,
            "served_since": utc_text(row.epoch.first_served),
            "last_start": utc_text(row.epoch.last_served),
            "window_seconds": row.epoch.window_seconds,
            "releases": row.releases,
            "now": row.now,
            "changes": list(row.changes),
            "specs": list(row.epoch.forms.values()),
        }
        for row in found
    ]
    return json.dumps({"settings": listed})


@dataclass(frozen=True)
class ScalesInUse:
    """The published scales of one stream: those in force, and the next ones.

    None: the configured scales, and no next ones.
    """

    stream: str
    in_force: Scales | None
    next: Scales | None


def scales_in_use(reader: Reader, config: Config, now: int) -> list[ScalesInUse]:
    """The scales of each stream that adopts published ones, at `now` (unix seconds)."""
    found = []
    for stream in config.streams:
        if isinstance(stream, ReadingStream) and stream.scales is not None:
            newest = newest_scales(reader.connection, stream)
            in_force = newest_scales(reader.connection, stream, now)
            follows = None if newest == in_force else newest
            found.append(ScalesInUse(stream.name, in_force, follows))
    return found


def scale_lines(found: Sequence[ScalesInUse]) -> list[str]:
    """A line for each stream."""
    lines = []
    for each in found:
        line = f"scales: {each.stream}: {_scale_text(each.in_force)}"
        lines.append(line if each.next is None else f"{line}; then {_scale_text(each.next)}")
    return lines


def scale_object(found: Sequence[ScalesInUse]) -> dict[str, object]:
    """By stream the scales in force and the next ones: None, or the learned attributes and their
    start."""
    return {
        each.stream: {"now": _scale_object(each.in_force), "next": _scale_object(each.next)}
        for each in found
    }


def _scale_object(scales: Scales | None) -> object:
    if scales is None:
        return None
    return {"from": utc_text(scales.begins), "learned": list(scales.knots)}


def _scale_text(scales: Scales | None) -> str:
    if scales is None:
        return "as configured"
    names = ", ".join(scales.knots)
    text = f"learned for {names}" if names else "as configured"
    return f"{text} (windows from {utc_text(scales.begins)} on)"
