"""A stream's `sketches:` (or, for a hierarchy, `sketch:`): which sketch it has, of which sizes.

A kind of sketch is one entry here: what it is made of, and who reads its section.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.cells import read_cells
from fleet.distinct import read_distinct
from fleet.document import Document
from fleet.hierarchies import read_hierarchy
from fleet.moments import read_moments
from fleet.profiles import Profile
from fleet.schema import StreamSection, join, nearest
from fleet.specs import DeviceSpec, Plan
from fleet.view_plans import read_view_plan
from fleet.views import read_sets
from pansketch import Domain, Privacy
from pansketch.plan_choice import Expected


@dataclass(frozen=True)
class OfReadings:
    """A kind of sketch for streams with `attributes:`. `read` raises ConfigError at the key."""

    read: Callable[[Document, str, Any, Domain, Privacy, int], Plan]


@dataclass(frozen=True)
class OfOneView:
    """The kind of sketch for readings of which one view is kept; its sizes are planned."""


@dataclass(frozen=True)
class OfViews:
    """The kind of sketch for readings of which several views are kept."""


@dataclass(frozen=True)
class OfKeys:
    """A kind of sketch for streams with a `key:`; `read` takes the key's name."""

    read: Callable[[Document, str, Any, str, Privacy, int], Plan]


KINDS: Mapping[str, OfReadings | OfOneView | OfViews | OfKeys] = {
    "views": OfViews(),
    "hierarchy": OfOneView(),
    "cells": OfReadings(read_cells),
    "moments": OfReadings(read_moments),
    "distinct": OfKeys(read_distinct),
}
FOR_READINGS = tuple(name for name, kind in KINDS.items() if not isinstance(kind, OfKeys))
FOR_KEYS = tuple(name for name, kind in KINDS.items() if isinstance(kind, OfKeys))
MOST_JOINT = 2  # attributes of a stream that one hierarchy holds unless somebody asks for it
EXAMPLE = "sketches: [{type: distinct, expected_keys: 5000}]"


def read_plan(
    document: Document,
    where: str,
    stream: StreamSection,
    subject: Domain | str,
    privacy: Privacy,
    hash_key: int,
    expected: Expected,
) -> tuple[str, Plan]:
    """Where the stream's one sketch stands, and what is said of it.

    `subject`: the domain of the stream's readings, or the name of its key. Raises ConfigError.
    """
    place, name, sizes = _entry(document, where, stream, subject)
    kind = KINDS[name]
    if isinstance(kind, OfViews) and isinstance(subject, Domain):
        open_ended = stream.views is None or stream.views == "auto"
        sets = _sets(document, where, stream)
        wanted = None if open_ended else sets
        return place, read_view_plan(document, place, sizes, subject, privacy, wanted, expected)
    if len(_sets(document, where, stream)) > 1:
        problem = f"has several views, and {name} keeps one; use type views, or name one view"
        raise document.error(join(where, "views"), problem)
    if isinstance(kind, OfOneView) and isinstance(subject, Domain):
        return place, read_hierarchy(document, place, sizes, subject, privacy, hash_key, expected)
    if isinstance(kind, OfReadings) and isinstance(subject, Domain):
        return place, kind.read(document, place, sizes, subject, privacy, hash_key)
    if isinstance(kind, OfKeys) and isinstance(subject, str):
        return place, kind.read(document, place, sizes, subject, privacy, hash_key)
    if isinstance(subject, str):
        problem = f"{name} is made of readings, and this stream has a key; {_use(FOR_KEYS)}"
    else:
        problem = f"{name} counts keys, and this stream has attributes; {_use(FOR_READINGS)}"
    raise document.error(join(place, "type"), problem)


def build(document: Document, where: str, place: str, plan: Plan, profile: Profile) -> DeviceSpec:
    """The spec under the device's own profile. Raises ConfigError at the size at fault."""
    try:
        return plan.spec(profile)
    except ValueError as error:
        at_fault = str(error).split(" ")[0]
        if at_fault == "epsilon":
            problem = f"{error}; raise epsilon, or lower {plan.smaller}"
            raise document.error(join(where, "privacy.epsilon"), problem) from None
        key = at_fault if at_fault in plan.stated else ""
        raise document.error(join(place, key), f"{error}; {plan.fix}") from None


def _entry(
    document: Document, where: str, stream: StreamSection, subject: Domain | str
) -> tuple[str, str, dict[str, Any]]:
    """(where it stands, its type, its sizes as written)."""
    keyed = isinstance(subject, str)
    one, listed = join(where, "sketch"), join(where, "sketches")
    if stream.sketches is None:
        if keyed and stream.sketch is not None:
            raise document.error(one, f"has the sizes of a hierarchy; write {EXAMPLE} for a key")
        if keyed:
            raise document.error(join(where, "key"), f"has no sketch; add {EXAMPLE}")
        return one, _usual(document, where, stream, subject), stream.sketch or {}
    if stream.sketch is not None:
        raise document.error(one, "does not go with sketches; move its sizes into the one entry")
    if len(stream.sketches) != 1:
        problem = f"has {len(stream.sketches)} sketches, and a stream has one; add another stream"
        raise document.error(f"{listed}[1]" if stream.sketches else listed, problem)
    sizes = dict(stream.sketches[0])
    place = f"{listed}[0]"
    return place, _type(document, join(place, "type"), sizes.pop("type", None)), sizes


def _sets(document: Document, where: str, stream: StreamSection) -> tuple[tuple[str, ...], ...]:
    known = tuple(stream.attributes or ())
    return read_sets(document, join(where, "views"), stream.views, known)


def _usual(document: Document, where: str, stream: StreamSection, subject: Domain | str) -> str:
    """The kind of sketch that suits: a joint hierarchy of many attributes would be too coarse.
    Whoever states a hierarchy's sizes wants one."""
    assert isinstance(subject, Domain)
    open_ended = stream.views is None or stream.views == "auto"
    many = sum(attribute.most_bits > 0 for attribute in subject.attributes) > MOST_JOINT
    several = len(_sets(document, where, stream)) > 1
    planned = open_ended and many and stream.sketch is None
    return "views" if several or planned else "hierarchy"


def _type(document: Document, where: str, name: Any) -> str:
    if name is None:
        raise document.error(where, f"is missing; {_use(tuple(KINDS))}")
    if not isinstance(name, str) or name not in KINDS:
        problem = f"{str(name)[:40]!r} is no kind of sketch; {nearest(str(name), tuple(KINDS))}"
        raise document.error(where, problem)
    return name


def _use(names: tuple[str, ...]) -> str:
    return f"use {names[0]}" if len(names) == 1 else f"use one of {', '.join(names)}"
