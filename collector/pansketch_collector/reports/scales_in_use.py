"""Published scales of streams: those in force, and those that follow."""

from collections.abc import Sequence
from dataclasses import dataclass

from pansketch_collector.storage.config_epochs import newest_scales
from pansketch_collector.storage.reader import Reader
from pansketch_fleet.config.loader import Config
from pansketch_fleet.protocol.scale_message import Scales
from pansketch_fleet.settings.settings import ReadingStream
from pansketch_fleet.units import utc_text


@dataclass(frozen=True)
class ScalesInUse:
    """The published scales of one stream: those in force at a moment, and the next ones if they
    are published already. None: the configured ones, and nothing."""

    stream: str
    in_force: Scales | None
    next: Scales | None


def scales_in_use(reader: Reader, config: Config, now: int) -> list[ScalesInUse]:
    """Of each stream whose devices adopt published scales, at `now` in unix seconds."""
    found = []
    for stream in config.streams:
        if isinstance(stream, ReadingStream) and stream.scales is not None:
            newest = newest_scales(reader.connection, stream)
            in_force = newest_scales(reader.connection, stream, now)
            follows = None if newest == in_force else newest
            found.append(ScalesInUse(stream.name, in_force, follows))
    return found


def as_lines(found: Sequence[ScalesInUse]) -> list[str]:
    """A line for each of these streams."""
    lines = []
    for each in found:
        line = f"scales: {each.stream}: {_text(each.in_force)}"
        lines.append(line if each.next is None else f"{line}; then {_text(each.next)}")
    return lines


def as_object(found: Sequence[ScalesInUse]) -> dict[str, object]:
    """By stream what is in force and what follows: None, or the learned attributes, and from which
    windows on."""
    return {each.stream: {"now": _one(each.in_force), "next": _one(each.next)} for each in found}


def _one(scales: Scales | None) -> object:
    if scales is None:
        return None
    return {"from": utc_text(scales.begins), "learned": list(scales.knots)}


def _text(scales: Scales | None) -> str:
    if scales is None:
        return "as configured"
    names = ", ".join(scales.knots)
    text = f"learned for {names}" if names else "as configured"
    return f"{text} (windows from {utc_text(scales.begins)} on)"
