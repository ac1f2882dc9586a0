"""Firmware profiles: what a class of devices can hold."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, cast, get_args

from fleet.document import Document, KeyPath, parse
from fleet.interpolation import Filled
from fleet.quantities import size_bytes
from fleet.schema import PROFILE_TEXTS, ProfileSection, ProfileSketchSection, section
from pansketch.hierarchy_planning import StatedSizes

DEFAULT_PROFILE = "generic-linux"

Policy = Literal["reject_new", "drop_oldest"]
Persist = Literal["always", "when_unacknowledged"]


@dataclass(frozen=True)
class OutboxRules:
    """What gives way when the outbox is full, and when a release is written to disk.

    `when_unacknowledged`: only when no ack comes within seconds; a crash loses what was held.
    """

    policy: Policy = "reject_new"
    persist: Persist = "always"


DEFAULT_OUTBOX = OutboxRules()


@dataclass(frozen=True)
class Profile:
    """One device class. `sketch_memory_bytes` bounds the states of all streams together. `sketch`:
    sizes of hierarchies that are not planned on it; a stream's own come first."""

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
    """The names of all profiles, in alphabetical order."""
    names = (entry.name for entry in files("firmware_profiles").iterdir())
    return tuple(sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml")))


@cache
def load_profile(name: str) -> Profile:
    """The profile of that name. Raises KeyError: there is none, ConfigError: it is broken."""
    if name not in known():
        raise KeyError(name)
    text = files("firmware_profiles").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    return read_profile(name, text)


@cache
def every() -> tuple[Profile, ...]:
    """All profiles, in alphabetical order."""
    return tuple(load_profile(name) for name in known())


def read_profile(name: str, text: str) -> Profile:
    """A profile from the text of its file. Raises ConfigError."""
    document = parse(text, f"firmware_profiles/{name}.yaml", _as_written, PROFILE_TEXTS)
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
    """Raises ConfigError."""
    return cast(Policy, _one_of(get_args(Policy), document, where, text))


def read_persist(document: Document, where: str, text: str) -> Persist:
    """Raises ConfigError."""
    return cast(Persist, _one_of(get_args(Persist), document, where, text))


def _one_of(choices: tuple[str, ...], document: Document, where: str, text: str) -> str:
    if text not in choices:
        raise document.error(where, f"{text[:40]!r} is unknown; use one of {', '.join(choices)}")
    return text


def _as_written(path: KeyPath, text: str) -> Filled:
    return Filled(text)


def _size(document: Document, key: str, text: str) -> int:
    try:
        size = size_bytes(text)
    except ValueError as error:
        raise document.error(key, str(error)) from None
    if size <= 0:
        raise document.error(key, "is nothing; write a positive size")
    return size
