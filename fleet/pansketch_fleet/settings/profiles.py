"""Firmware profiles: the limits of a class of devices."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, cast, get_args

from pansketch.planning import StatedSizes
from pansketch_fleet.settings.schema import Persist, Policy
from pansketch_fleet.settings.section import KeyDoc, Section, section, text_paths
from pansketch_fleet.settings.sketch_schema import DEPTH, FANOUT, ROWS, WIDTH, K
from pansketch_fleet.units import size_bytes
from pansketch_fleet.yaml.document import Document, KeyPath, parse
from pansketch_fleet.yaml.interpolation import InterpolatedValue

DEFAULT_PROFILE = "generic-linux"


class ProfileSketchSection(Section, frozen=True):
    """Sizes of hierarchies that are not planned for this profile.

    The sizes that a stream states override them.
    """

    depth: Annotated[int | None, DEPTH] = None
    fanout: Annotated[int | None, FANOUT] = None
    k: Annotated[int | None, K] = None
    width: Annotated[int | None, WIDTH] = None
    rows: Annotated[int | None, ROWS] = None


class ProfileSection(Section, frozen=True):
    """A class of devices. All keys but `sketch` are required."""

    description: Annotated[
        str, KeyDoc("The devices of the class, for people.", '"Raspberry Pi 3B and 3B+: 1 GB"')
    ]
    process_memory: Annotated[
        str,
        KeyDoc("The resident memory of the whole agent, Python included.", "96MiB", form="size"),
    ]
    sketch_memory: Annotated[
        str,
        KeyDoc("The maximum size of the states of all streams together.", "512KiB", form="size"),
    ]
    readings_per_second: Annotated[
        float,
        KeyDoc(
            "The highest rate of readings of all streams together.",
            "2000",
            allowed="greater than 0",
            unit="readings a second",
        ),
    ]
    outbox: Annotated[
        str,
        KeyDoc(
            "The maximum size of unacknowledged releases on disk.",
            "64MiB",
            form="size",
        ),
    ]
    outbox_policy: Annotated[
        str,
        KeyDoc(
            "The policy for a full outbox: drop the new release, or the oldest one.",
            "reject_new",
            values=get_args(Policy),
        ),
    ]
    sketch: Annotated[
        dict[str, Any] | None,
        KeyDoc(
            "Sizes of hierarchies.",
            "{depth: 12}",
            default="all sizes are planned",
            holds=ProfileSketchSection,
        ),
    ] = None


@dataclass(frozen=True)
class OutboxRules:
    """The policy of a full outbox, and the time at which a release is written to disk.

    `when_unacknowledged`: only when no ack arrives within seconds; a crash loses buffered releases.
    """

    policy: Policy = "reject_new"
    persist: Persist = "always"
    keep_seconds: int = 7 * 86400  # acknowledged releases, while there is space; 0: not at all


DEFAULT_OUTBOX = OutboxRules()


@dataclass(frozen=True)
class Profile:
    """One device class. `sketch_memory_bytes` bounds the states of all streams together.

    `sketch`: sizes of hierarchies that are not planned on it; a stream's own override them.
    """

    name: str
    description: str
    process_memory_bytes: int
    sketch_memory_bytes: int
    readings_per_second: float
    outbox_bytes: int
    outbox_policy: Policy
    sketch: StatedSizes


@cache
def known() -> tuple[str, ...]:
    """Return the names of all profiles, in alphabetical order."""
    names = (entry.name for entry in files("pansketch_fleet.firmware_profiles").iterdir())
    return tuple(sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml")))


@cache
def load_profile(name: str) -> Profile:
    """Return the profile of that name. Raises KeyError if there is none, ConfigError if it is
    broken.
    """
    if name not in known():
        raise KeyError(name)
    text = (
        files("pansketch_fleet.firmware_profiles")
        .joinpath(f"{name}.yaml")
        .read_text(encoding="utf-8")
    )
    return read_profile(name, text)


@cache
def every() -> tuple[Profile, ...]:
    """Return all profiles, in alphabetical order."""
    return tuple(load_profile(name) for name in known())


def read_profile(name: str, text: str) -> Profile:
    """Parse a profile from the text of its file. Raises ConfigError."""
    document = parse(
        text, f"firmware_profiles/{name}.yaml", _as_written, text_paths(ProfileSection)
    )
    raw = section(document, "", document.value, ProfileSection)
    sketch = section(document, "sketch", raw.sketch or {}, ProfileSketchSection)
    if not 0 < raw.readings_per_second < 1e9:
        raise document.error("readings_per_second", "is impossible; write a positive rate")
    return Profile(
        name,
        raw.description,
        _size(document, "process_memory", raw.process_memory),
        _size(document, "sketch_memory", raw.sketch_memory),
        raw.readings_per_second,
        _size(document, "outbox", raw.outbox),
        read_policy(document, "outbox_policy", raw.outbox_policy),
        StatedSizes(sketch.depth, sketch.k, sketch.width, sketch.rows, sketch.fanout),
    )


def read_policy(document: Document, where: str, text: str) -> Policy:
    """Check a policy. Raises ConfigError."""
    return cast(Policy, _one_of(get_args(Policy), document, where, text))


def read_persist(document: Document, where: str, text: str) -> Persist:
    """Check a value of `persist`. Raises ConfigError."""
    return cast(Persist, _one_of(get_args(Persist), document, where, text))


def _one_of(choices: tuple[str, ...], document: Document, where: str, text: str) -> str:
    if text not in choices:
        raise document.error(where, f"{text[:40]!r} is unknown; use one of {', '.join(choices)}")
    return text


def _as_written(path: KeyPath, text: str) -> InterpolatedValue:
    return InterpolatedValue(text)


def _size(document: Document, key: str, text: str) -> int:
    try:
        size = size_bytes(text)
    except ValueError as error:
        raise document.error(key, str(error)) from None
    if size <= 0:
        raise document.error(key, "is nothing; write a positive size")
    return size
