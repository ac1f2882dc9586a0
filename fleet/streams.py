"""One entry of `streams:`: its source, window, what it is about, and its sketch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.document import Document
from fleet.expectations import read_expected
from fleet.ids import ID_RULE, is_id
from fleet.privacy import read_privacy
from fleet.profiles import Profile
from fleet.quantities import seconds, size_text
from fleet.schema import StreamSection, join, section
from fleet.settings import Stream
from fleet.sketches import build, read_plan
from fleet.sources import check_names, read_source
from fleet.specs import hash_key
from fleet.subjects import read_subject
from pansketch import Domain

LONGEST_WINDOW_SECONDS = 3660 * 86400


@dataclass(frozen=True)
class Surroundings:
    """What a stream takes from outside its own section. `local`: its readings are made here."""

    fleet: str
    profile: Profile
    folder: Path
    local: bool


def read_stream(document: Document, name: str, raw: Any, around: Surroundings) -> Stream:
    """Raises ConfigError at the key at fault."""
    where = f"streams.{name}"
    if not is_id(name):
        raise document.error(where, f"a stream's name must be {ID_RULE}; rename it")
    stream = section(document, where, raw, StreamSection)
    source = read_source(
        document, join(where, "source"), stream.source, around.folder, around.local
    )
    window_seconds = _window(document, join(where, "window"), stream.window)
    subject = read_subject(document, where, stream, source)
    keyed = isinstance(subject, str)
    check_names(document, join(where, "source"), source, _names(stream))
    privacy, cap_micro = read_privacy(document, join(where, "privacy"), stream.privacy, keyed)
    key = hash_key(around.fleet, name)
    if keyed and stream.expect is not None:
        problem = "is about readings, and does not go with a key; remove it"
        raise document.error(join(where, "expect"), problem)
    expected = read_expected(
        document, join(where, "expect"), stream.expect, window_seconds, source, privacy
    )
    place, plan = read_plan(document, where, stream, subject, privacy, key, expected)
    spec = build(document, where, place, plan, around.profile)
    domain, named = (subject, None) if isinstance(subject, Domain) else (None, subject)
    of_readings = None if keyed else expected
    return Stream(
        name, source, window_seconds, spec, plan, place, domain, named, cap_micro, of_readings
    )


def _names(stream: StreamSection) -> tuple[str, ...]:
    return tuple(stream.attributes or ()) if stream.key is None else (stream.key,)


def check_memory(document: Document, streams: tuple[Stream, ...], profile: Profile) -> None:
    """All states together must fit the profile. Raises ConfigError at the stream too many."""
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


def _window(document: Document, where: str, text: str) -> int:
    try:
        length = seconds(text)
    except ValueError as error:
        raise document.error(where, str(error)) from None
    if not 1 <= length <= LONGEST_WINDOW_SECONDS:
        raise document.error(where, f"{text} is impossible; write 1s to 3660d, such as 30d")
    if length != int(length):
        raise document.error(where, f"{text} is not whole; write whole seconds, such as 10m or 90s")
    return int(length)
