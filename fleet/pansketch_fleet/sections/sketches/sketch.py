"""A stream's `sketches:` (or, for a hierarchy, `sketch:`): which sketch it has, of which sizes.

A kind of sketch is one entry here: what it is made of, and who reads its section.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pansketch import Domain, Privacy
from pansketch.planning import Expected
from pansketch_fleet.sections.attributes import read_sets
from pansketch_fleet.sections.sketches.cells import read_cells
from pansketch_fleet.sections.sketches.distinct import DistinctSettings, read_distinct
from pansketch_fleet.sections.sketches.hierarchy import read_hierarchy
from pansketch_fleet.sections.sketches.moments import read_moments
from pansketch_fleet.sections.sketches.views import read_view_plan
from pansketch_fleet.settings.device_spec import SketchSettings
from pansketch_fleet.settings.section import join, nearest
from pansketch_fleet.settings.stream_schema import StreamSection
from pansketch_fleet.yaml.document import Document


@dataclass(frozen=True)
class OfReadings:
    """A kind of sketch for streams with `attributes:`. `read` raises ConfigError at the key."""

    read: Callable[[Document, str, Any, Domain, Privacy, int], SketchSettings]


@dataclass(frozen=True)
class OfOneView:
    """The kind of sketch for readings of which one view is kept; its sizes are planned."""


@dataclass(frozen=True)
class OfViews:
    """The kind of sketch for readings of which several views are kept."""


@dataclass(frozen=True)
class OfKeys:
    """The kind of sketch for streams with a `key:`."""


KINDS: Mapping[str, OfReadings | OfOneView | OfViews | OfKeys] = {
    "views": OfViews(),
    "hierarchy": OfOneView(),
    "cells": OfReadings(read_cells),
    "moments": OfReadings(read_moments),
    "distinct": OfKeys(),
}
FOR_READINGS = tuple(name for name, kind in KINDS.items() if not isinstance(kind, OfKeys))
FOR_KEYS = tuple(name for name, kind in KINDS.items() if isinstance(kind, OfKeys))
MAX_JOINT = 2  # attributes of a stream that one hierarchy holds unless somebody asks for it
EXAMPLE = "sketches: [{type: distinct}]"


def read_plan(
    document: Document,
    where: str,
    stream: StreamSection,
    domain: Domain,
    privacy: Privacy,
    hash_key: int,
    expected: Expected,
) -> tuple[str, SketchSettings]:
    """Where the one sketch of a stream of readings stands, and what is said of it.

    Raises ConfigError.
    """
    place, name, sizes = _entry(document, where, stream)
    name = name or _usual(document, where, stream, domain)
    kind, sets = KINDS[name], _sets(document, where, stream)
    if isinstance(kind, OfViews):
        open_ended = stream.views is None or stream.views == "auto"
        wanted = None if open_ended else sets
        return place, read_view_plan(document, place, sizes, domain, privacy, wanted, expected)
    for attribute in domain.attributes:
        if attribute.atoms:
            problem = f"goes with sketches of type views, and this one is {name}; use type views"
            raise document.error(join(where, f"attributes.{attribute.name}.atoms"), problem)
    if len(sets) > 1:
        problem = f"has several views, and {name} keeps one; use type views, or name one view"
        raise document.error(join(where, "views"), problem)
    if isinstance(kind, OfOneView):
        return place, read_hierarchy(document, place, sizes, domain, privacy, hash_key, expected)
    if isinstance(kind, OfReadings):
        return place, kind.read(document, place, sizes, domain, privacy, hash_key)
    problem = f"{name} counts keys, and this stream has attributes; {_use(FOR_READINGS)}"
    raise document.error(join(place, "type"), problem)


def read_key_plan(
    document: Document, where: str, stream: StreamSection, privacy: Privacy, hash_key: int
) -> tuple[str, DistinctSettings]:
    """Where the one sketch of a stream of keys stands, and what is said of it.

    Raises ConfigError.
    """
    if stream.sketches is None:
        if stream.sketch is not None:
            problem = f"has the sizes of a hierarchy; write {EXAMPLE} for a key"
            raise document.error(join(where, "sketch"), problem)
        raise document.error(join(where, "key"), f"has no sketch; add {EXAMPLE}")
    place, name, sizes = _entry(document, where, stream)
    if name not in FOR_KEYS:
        problem = f"{name} is made of readings, and this stream has a key; {_use(FOR_KEYS)}"
        raise document.error(join(place, "type"), problem)
    return place, read_distinct(document, place, sizes, privacy, hash_key)


@contextmanager
def size_refusals(
    document: Document, where: str, place: str, plan: SketchSettings
) -> Iterator[None]:
    """Turn a ValueError of `plan.spec` into a ConfigError at the size at fault."""
    try:
        yield
    except ValueError as error:
        at_fault = str(error).split(" ")[0]
        if at_fault == "epsilon":
            problem = f"{error}; raise epsilon, or lower {plan.smaller}"
            raise document.error(join(where, "privacy.epsilon"), problem) from None
        key = at_fault if at_fault in plan.stated else ""
        raise document.error(join(place, key), f"{error}; {plan.fix}") from None


def _entry(
    document: Document, where: str, stream: StreamSection
) -> tuple[str, str | None, dict[str, Any]]:
    """(where it stands, its type or None for the usual one, its sizes as written)."""
    one, listed = join(where, "sketch"), join(where, "sketches")
    if stream.sketches is None:
        return one, None, stream.sketch or {}
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


def _usual(document: Document, where: str, stream: StreamSection, domain: Domain) -> str:
    """The kind of sketch that suits: a joint hierarchy of many attributes would be too coarse, and
    has no cells for atoms. Whoever states a hierarchy's sizes wants one."""
    open_ended = stream.views is None or stream.views == "auto"
    many = sum(attribute.max_bits > 0 for attribute in domain.attributes) > MAX_JOINT
    several = len(_sets(document, where, stream)) > 1
    atoms = any(attribute.atoms for attribute in domain.attributes)
    planned = (atoms or (open_ended and many)) and stream.sketch is None
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
