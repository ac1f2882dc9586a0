"""One entry of `streams:`: its source, window, attributes and spec."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.document import Document
from fleet.ids import ID_RULE, is_id
from fleet.privacy import read_privacy
from fleet.profiles import Profile
from fleet.quantities import seconds, size_text
from fleet.schema import SketchSection, StreamSection, join, section
from fleet.settings import Stream
from fleet.sources import read_source
from fleet.specs import SizeOverrides, build_spec, hash_key, resolve
from fleet.views import read_domain
from pansketch import Domain, HierarchySpec, Privacy

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
    privacy, cap_micro = read_privacy(document, join(where, "privacy"), stream.privacy)
    domain = read_domain(document, where, stream.attributes, stream.views)
    sizes = _sizes(document, join(where, "sketch"), stream.sketch)
    spec = _spec(document, where, domain, privacy, sizes, around)
    return Stream(name, source, window_seconds, spec, sizes, cap_micro)


def check_memory(document: Document, streams: tuple[Stream, ...], profile: Profile) -> None:
    """All states together must fit the profile. Raises ConfigError at the stream too many."""
    total = 0
    for stream in streams:
        total += stream.spec.nbytes
        if total > profile.sketch_memory_bytes:
            beside = " together with the streams before it" if stream is not streams[0] else ""
            raise document.error(
                f"streams.{stream.name}.sketch",
                f"its state{beside} takes {total} bytes, and the profile {profile.name} allows "
                f"{size_text(profile.sketch_memory_bytes)}; "
                "lower sketch.k, width or rows, or take a profile with more sketch_memory",
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


def _sizes(document: Document, where: str, raw: dict[str, Any] | None) -> SizeOverrides:
    sketch = section(document, where, raw or {}, SketchSection)
    return SizeOverrides(sketch.depth, sketch.k, sketch.width, sketch.rows, sketch.fanout)


def _spec(
    document: Document,
    where: str,
    domain: Domain,
    privacy: Privacy,
    overrides: SizeOverrides,
    around: Surroundings,
) -> HierarchySpec:
    sizes = resolve(around.profile.sketch, overrides, domain)
    try:
        return build_spec(domain, privacy, sizes, hash_key(around.fleet, where.split(".")[1]))
    except ValueError as error:
        at_fault = str(error).split(" ")[0]
        if at_fault == "epsilon":
            problem = f"{error}; raise epsilon or lower the sketch's depth"
            raise document.error(join(where, "privacy.epsilon"), problem) from None
        key = at_fault if getattr(overrides, at_fault, None) is not None else ""
        problem = f"{error}; correct it or leave it to the profile"
        raise document.error(join(join(where, "sketch"), key), problem) from None
