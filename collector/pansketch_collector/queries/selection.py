"""Selections of stored releases from the text of options."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pansketch_collector import clock
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.storage.reader import Reader, reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.validation.verdicts import LATEST_SECOND
from pansketch_fleet import units
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.device_spec import window_index
from pansketch_fleet.settings.settings import Stream, is_sent_by
from pansketch_fleet.units import utc_text

MAX_LISTED = 12
DAY_SECONDS = 86_400


def when(text: str) -> int:
    """Unix seconds of an ISO 8601 date or time (by default UTC), of a time before now, such as 7d,
    or of unix seconds.

    Raises CommandError, also for four to eight digits, which are more likely a date than seconds.
    """
    if re.fullmatch(r"[0-9]{1,3}|[0-9]{9,12}", text):
        seconds = int(text)
    elif re.fullmatch(r"[0-9]{1,9}[smhdw]", text):
        seconds = clock.now() - int(units.seconds(text))
    else:
        try:
            moment = datetime.fromisoformat(text if not text.isdigit() else "")
        except ValueError:
            raise wrong(
                f"{text!r} is no date: write 2016-01-31, 2016-01-31T12:00, 7d or 12h for so long "
                "ago, or unix seconds"
            ) from None
        seconds = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    if not 0 <= seconds <= LATEST_SECOND:
        raise wrong(f"{text!r} is not between 1970 and 9999")
    return seconds


def without_signs(words: Iterable[str]) -> list[str]:
    """Words of a command line with `-7d` as `7d`: a parser takes `-7d` for an option."""
    return [word[1:] if re.fullmatch(r"-[0-9]+[smhdw]", word) else word for word in words]


def stream_named(config: Config, name: str) -> Stream:
    """The stream of this name. Raises CommandError, with the names of the others."""
    for each in config.streams:
        if each.name == name:
            return each
    known = ", ".join(each.name for each in config.streams)
    raise wrong(f"unknown stream {name!r}; the configuration has {known}")


def select(
    config: Config, stream: str, since: str | None, until: str | None, devices: str | None
) -> Selection:
    """A selection from the text of options. Raises CommandError, with the existing names."""
    stream_named(config, stream)
    selection = Selection(
        stream,
        None if since is None else when(since),
        None if until is None else when(until),
        None if devices is None else _named(config, stream, "--devices", devices),
    )
    if None not in (selection.since, selection.until) and not _is_nonempty(selection):
        raise wrong("--from must be before --to")
    return selection


def _named(config: Config, stream: str, option: str, text: str) -> frozenset[str]:
    """The devices of a list of names and groups.

    `@GROUP` means the devices of a configured group with a stored release of the stream.
    """
    names: set[str] = set()
    for name in filter(None, text.split(",")):
        if not name.startswith("@"):
            names.add(name)
            continue
        patterns = config.groups.get(name[1:])
        if patterns is None:
            known = ", ".join(config.groups) or "none"
            raise wrong(f"unknown group {name[:60]!r}; the configuration has {known}")
        with reading(config.collector.database) as reader:
            found = [d for d in reader.holders(stream, -1) if is_sent_by(patterns, d)]
        if not found:
            raise CommandError(f"no device of group {name!r} has released anything of {stream} yet")
        names.update(found)
    if not names:
        raise wrong(f"{option} is empty: write names with commas between, as in a,b")
    return frozenset(names)


def select_groups(
    config: Config, selection_: Selection, against: str
) -> tuple[Selection, Selection]:
    """The selected devices, and those of `--against`, in the same windows; no device is in both.

    Raises CommandError.
    """
    if selection_.devices is None:
        raise wrong("--against compares devices with others: add --devices")
    others = _named(config, selection_.stream, "--against", against)
    if both := sorted(selection_.devices & others):
        raise wrong(
            f"{both[0]} is in both groups: their difference would hold the same noise twice"
        )
    return selection_, replace(selection_, devices=others)


def period(text: str, stream: Stream) -> tuple[int, int]:
    """A period of `--between`, as first and last second of windows' starts, the last one excluded.

    `FROM..TO`; or a date, for that day; or a moment, for the window around it. Raises CommandError.
    """
    since, parts, until = text.partition("..")
    if parts:
        start, end = when(since), when(until)
    elif re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        start = when(text)
        end = start + DAY_SECONDS
    else:
        start = window_index(when(text), stream.window_seconds) * stream.window_seconds
        end = start + stream.window_seconds
    if start >= end:
        raise wrong(f"{text!r} is empty: a period begins before it ends")
    return start, end


def select_periods(
    config: Config, stream: str, between: Sequence[str], devices: str | None
) -> tuple[Selection, Selection]:
    """Two periods of one stream without a common window. Raises CommandError."""
    selection_ = select(config, stream, None, None, devices)
    found = stream_named(config, stream)
    first, second = (period(text, found) for text in between)
    if first[0] < second[1] and second[0] < first[1]:
        raise wrong("the two periods overlap: their difference would hold the same noise twice")
    return (
        replace(selection_, since=first[0], until=first[1]),
        replace(selection_, since=second[0], until=second[1]),
    )


def _is_nonempty(selection: Selection) -> bool:
    return (selection.since or 0) < (selection.until or 0)


def check_devices(reader: Reader, selection: Selection) -> None:
    """Raises CommandError for a selected device without a stored release of the stream."""
    if selection.devices is None:
        return
    absent = [d for d in sorted(selection.devices) if not reader.holds(selection.stream, d)]
    known = reader.holders(selection.stream, MAX_LISTED + 1) if absent else []
    if known:
        listed = ", ".join(known[:MAX_LISTED]) + (", ..." if len(known) > MAX_LISTED else "")
        raise wrong(
            f"no release of {selection.stream} from device {absent[0]!r}; there are {listed}"
        )


def nothing_selected(reader: Reader, selection: Selection) -> CommandError:
    """The error for an empty selection, with the stored range."""
    span = reader.stored_span(selection.stream)
    if span is None:
        return CommandError(
            f"nothing stored yet of stream {selection.stream}: start `pansketch-collector serve` "
            "and the devices' agents, and wait until a window has ended"
        )
    first, last = span
    return wrong(
        f"no window of {selection.stream} starts in that range; "
        f"there are windows from {utc_text(first)} to {utc_text(last)}"
    )
