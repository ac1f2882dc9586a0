"""One entry of `streams:`: its source, its window, its attributes or key, and its sketches."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pansketch import Domain, Spec
from pansketch.blinding import most_windows
from pansketch.planning import Answering
from pansketch.sketches import LinearSpec
from pansketch_fleet.config.devices import Devices, check_sources, known_devices, read_sources
from pansketch_fleet.protocol.topics import ID_RULE, is_id
from pansketch_fleet.sections.blinded import read_blinded
from pansketch_fleet.sections.expected_load import read_devices_per_key, read_expected
from pansketch_fleet.sections.memory_budget import PlannedSketch
from pansketch_fleet.sections.privacy import read_open, read_privacy
from pansketch_fleet.sections.sketches.sketch import (
    SketchEntry,
    read_entries,
    read_key_plan,
    read_plan,
    shared_privacy,
    size_refusals,
)
from pansketch_fleet.sections.subject import read_subject
from pansketch_fleet.sections.time_slots import arrival_kind
from pansketch_fleet.settings.device_spec import SketchSettings, hash_key
from pansketch_fleet.settings.profiles import Profile
from pansketch_fleet.settings.section import join, nearest, section
from pansketch_fleet.settings.settings import (
    BlindedSettings,
    KeeperKeys,
    KeyStream,
    PublishedScales,
    ReadingStream,
    Stream,
)
from pansketch_fleet.settings.stream_schema import ScalesSection, StreamSection
from pansketch_fleet.units import duration_text, seconds, size_text
from pansketch_fleet.yaml.document import Document

MAX_WINDOW_SECONDS = 3660 * 86400
MAX_RETENTION_SECONDS = 36600 * 86400


@dataclass(frozen=True)
class StreamContext:
    """The inputs of a stream from outside its own section. `device`: the one that runs here, if
    any.
    """

    fleet: str
    profile: Profile
    folder: Path
    device: str | None
    devices: Devices
    keepers: Mapping[str, KeeperKeys] = field(default_factory=dict)


def read_stream(
    document: Document, name: str, raw: Any, context: StreamContext
) -> tuple[Stream, ...]:
    """Return a stream for each sketch of the section. Raises ConfigError at the key at fault."""
    where = f"streams.{name}"
    if not is_id(name):
        raise document.error(where, f"a stream's name must be {ID_RULE}; rename it")
    stream = section(document, where, raw, StreamSection)
    others = context.devices.sources.get(name, {})
    sources = read_sources(document, name, stream.source, others, context.folder, context.device)
    here = context.device if context.device in others else None
    source = sources[here]
    window_seconds = _window(document, join(where, "window"), stream.window)
    subject = read_subject(document, where, stream)
    keyed = isinstance(subject, str)
    check_sources(document, name, sources, _names(stream), subject)
    privacy, cap_micro = read_privacy(document, join(where, "privacy"), stream.privacy, keyed)
    blinded = read_blinded(
        document, join(where, "privacy"), stream.privacy, window_seconds, context.keepers
    )
    opened = {
        device: read_open(
            document,
            join(where, "privacy.unit"),
            stream.privacy,
            privacy,
            each,
            events=any(arrival_kind(one) == "event" for one in sources.values()),
        )
        for device, each in sources.items()
    }
    open_seconds = opened[here]
    senders = context.devices.senders.get(name)
    about = join(where, "expect")
    devices_per_key = read_devices_per_key(document, about, stream.expect if keyed else None)
    expected, most_readings = read_expected(
        document,
        about,
        None if keyed else stream.expect,
        window_seconds,
        tuple(sources.values()),
        privacy,
        known_devices(senders),
        subject if isinstance(subject, Domain) else None,
    )
    if blinded is not None:
        expected = replace(expected, answering=_answering(blinded, window_seconds))
    retention = _retention(document, join(where, "retention"), stream.retention, window_seconds)
    scales_at, found = join(where, "scales"), list[Stream]()
    entries = read_entries(document, where, stream)
    if stream.scales is not None and not isinstance(subject, Domain):
        raise document.error(scales_at, "does not go with a key; remove it")
    if stream.scales is not None and len(entries) > 1:
        raise document.error(scales_at, "goes with one sketch; remove it, or name one sketch")
    if blinded is not None:
        _check_blinded(document, where, stream, blinded, retention, len(entries))
    for entry, part in shared_privacy(document, entries, privacy):
        own = _part_name(document, name, entry) if found else name
        key = hash_key(context.fleet, own)
        if isinstance(subject, Domain):
            plan = read_plan(document, where, stream, entry, subject, part, key, expected)
            with size_refusals(document, where, entry.place, plan):
                spec = plan.spec(context.profile)
            if blinded is not None:
                _check_range(document, about, blinded, spec, most_readings)
            found.append(
                ReadingStream(
                    name=own,
                    source=source,
                    window_seconds=window_seconds,
                    spec=spec,
                    plan=plan,
                    sketch_at=entry.place,
                    daily_cap_micro=cap_micro,
                    retention_seconds=retention,
                    domain=subject,
                    expected=expected,
                    most_readings=most_readings,
                    open_seconds=open_seconds,
                    part_of=name if found else "",
                    blinded=blinded,
                    devices=senders,
                    scales=_scales(document, scales_at, stream.scales, plan),
                )
            )
            continue
        key_plan = read_key_plan(document, entry, part, key)
        with size_refusals(document, where, entry.place, key_plan):
            key_spec = key_plan.spec(context.profile)
        found.append(
            KeyStream(
                name=own,
                source=source,
                window_seconds=window_seconds,
                spec=key_spec,
                plan=key_plan,
                sketch_at=entry.place,
                daily_cap_micro=cap_micro,
                retention_seconds=retention,
                key=subject,
                devices_per_key=devices_per_key,
                devices=senders,
            )
        )
    return tuple(found)


def _check_blinded(
    document: Document,
    where: str,
    stream: StreamSection,
    blinded: BlindedSettings,
    retention: int | None,
    sketches: int,
) -> None:
    """Refuse settings that masks do not support. Raises ConfigError."""
    if stream.scales is not None:
        problem = "needs releases of single devices, and masks hide these; remove it"
        raise document.error(join(where, "scales"), problem)
    if sketches > 1:
        problem = "has several sketches, and a keeper answers for the epsilon of one"
        raise document.error(join(where, "sketches"), f"{problem}; name one sketch")
    needed = max(level.every_seconds for level in blinded.levels) + blinded.lateness_seconds
    if retention is not None and retention < needed:
        problem = f"ends before the longest answer, {duration_text(needed)} with its lateness"
        raise document.error(join(where, "retention"), f"{problem}; lengthen it")


def _check_range(
    document: Document, where: str, blinded: BlindedSettings, spec: Spec, most_readings: int
) -> None:
    """Refuse readings of one window beyond the range of an unblinded sum. Raises ConfigError."""
    assert isinstance(spec, LinearSpec)
    for level in blinded.levels:
        if not most_windows(spec, level.share, len(blinded.keys), most_readings, 1):
            problem = f"a sum of {most_readings} may exceed counters of {spec.counter.itemsize * 8}"
            fix = "write what a window has at most, or shorten the window"
            raise document.error(join(where, "max_readings"), f"{problem} bits; {fix}")


def _answering(blinded: BlindedSettings, window_seconds: int) -> Answering:
    levels = ((each.every_seconds // window_seconds, each.share) for each in blinded.levels)
    return Answering(len(blinded.keys), tuple(levels))


def _part_name(document: Document, name: str, entry: SketchEntry) -> str:
    """Return the name of a sketch after the first one, in topics, ledger and questions."""
    found = f"{name}-{entry.kind}"
    if not is_id(found):
        problem = f"its stream is called {found[:80]!r}, which is no id ({ID_RULE})"
        raise document.error(entry.place, f"{problem}; shorten the stream's name")
    return found


def _names(stream: StreamSection) -> tuple[str, ...]:
    return tuple(stream.attributes or ()) if stream.key is None else (stream.key,)


def check_memory(document: Document, streams: tuple[Stream, ...], profile: Profile) -> None:
    """Check that all states together fit the profile. Raises ConfigError at the first excess
    stream.
    """
    total = 0
    for stream in streams:
        total += stream.spec.nbytes
        if total > profile.sketch_memory_bytes:
            beside = " together with the streams before it" if stream is not streams[0] else ""
            raise document.error(
                stream.sketch_at,
                f"its state{beside} takes {total} bytes, and the profile {profile.name} allows "
                f"{size_text(profile.sketch_memory_bytes)}; "
                f"lower {stream.plan.smaller}, or take a profile with more sketch_memory",
            )


def _scales(
    document: Document, where: str, raw: dict[str, Any] | None, plan: SketchSettings
) -> PublishedScales | None:
    if raw is None:
        return None
    given = section(document, where, raw, ScalesSection)
    if not isinstance(plan, PlannedSketch):
        problem = "goes with sketches of type views and hierarchy only; remove it"
        raise document.error(where, problem)
    every = _whole_seconds(document, join(where, "every"), given.every, "1d", "7d")
    known = ("learned", "configured")
    if given.publish not in known:
        problem = f"{given.publish[:40]!r} is unknown; {nearest(given.publish, known)}"
        raise document.error(join(where, "publish"), problem)
    return PublishedScales(every, given.publish == "learned")


def _retention(document: Document, where: str, text: str | None, window_seconds: int) -> int | None:
    if text is None:
        return None
    try:
        length = seconds(text)
    except ValueError as error:
        raise document.error(where, str(error)) from None
    if not window_seconds <= length <= MAX_RETENTION_SECONDS:
        shortest = duration_text(window_seconds)
        problem = f"{text} is impossible; write at least the window, {shortest}, such as 400d"
        raise document.error(where, problem)
    return int(length)


def _window(document: Document, where: str, text: str) -> int:
    return _whole_seconds(document, where, text, "1s", "30d")


def _whole_seconds(document: Document, where: str, text: str, least: str, usual: str) -> int:
    """Return whole seconds, from `least` to MAX_WINDOW_SECONDS."""
    try:
        length = seconds(text)
    except ValueError as error:
        raise document.error(where, str(error)) from None
    if not seconds(least) <= length <= MAX_WINDOW_SECONDS:
        problem = f"{text} is impossible; write {least} to 3660d, such as {usual}"
        raise document.error(where, problem)
    if length != int(length):
        raise document.error(where, f"{text} is not whole; write whole seconds, such as 10m or 90s")
    return int(length)
