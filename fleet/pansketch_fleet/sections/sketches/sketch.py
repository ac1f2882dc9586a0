"""A stream's `sketches:` (or, for a hierarchy, `sketch:`): their types, sizes and shares of
epsilon.

KINDS has one entry for each type of sketch, with the reader of its section.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pansketch import Domain, Guarantee, Privacy
from pansketch.planning import Expected
from pansketch.privacy import MICRO
from pansketch_fleet.sections.attributes import read_sets
from pansketch_fleet.sections.sketches.cells import read_cells
from pansketch_fleet.sections.sketches.distinct import DistinctSettings, read_distinct
from pansketch_fleet.sections.sketches.hierarchy import read_hierarchy
from pansketch_fleet.sections.sketches.moments import read_moments
from pansketch_fleet.sections.sketches.views import read_view_plan
from pansketch_fleet.settings.device_spec import SketchSettings
from pansketch_fleet.settings.section import join, nearest, section
from pansketch_fleet.settings.sketch_schema import SketchTypeSection
from pansketch_fleet.settings.stream_schema import StreamSection
from pansketch_fleet.yaml.document import Document


@dataclass(frozen=True)
class OfReadings:
    """A type of sketch for streams with `attributes:`. `read` raises ConfigError at the key."""

    read: Callable[[Document, str, Any, Domain, Privacy, int], SketchSettings]


@dataclass(frozen=True)
class OfOneView:
    """The type of sketch for readings with one view; its sizes are planned."""


@dataclass(frozen=True)
class OfViews:
    """The type of sketch for readings with several views."""


@dataclass(frozen=True)
class OfKeys:
    """The type of sketch for streams with a `key:`."""


KINDS: Mapping[str, OfReadings | OfOneView | OfViews | OfKeys] = {
    "views": OfViews(),
    "hierarchy": OfOneView(),
    "cells": OfReadings(read_cells),
    "moments": OfReadings(read_moments),
    "distinct": OfKeys(),
}
FOR_READINGS = tuple(name for name, kind in KINDS.items() if not isinstance(kind, OfKeys))
FOR_KEYS = tuple(name for name, kind in KINDS.items() if isinstance(kind, OfKeys))
MAX_JOINT = 2  # attributes of one hierarchy, unless its sizes are stated
EXAMPLE = "sketches: [{type: distinct}]"


@dataclass(frozen=True)
class SketchEntry:
    """One entry of `sketches:`, or `sketch:`.

    `place`: its path. `kind`: None for the default one. `sizes`: as written. `share`: of epsilon,
    None if not stated.
    """

    place: str
    kind: str | None
    sizes: dict[str, Any]
    share: float | None = None


def read_entries(document: Document, where: str, stream: StreamSection) -> tuple[SketchEntry, ...]:
    """Return the sketches of a stream as written, at least one. Raises ConfigError."""
    one, listed = join(where, "sketch"), join(where, "sketches")
    if stream.sketches is None:
        if stream.key is not None:
            if stream.sketch is not None:
                problem = f"has the sizes of a hierarchy; write {EXAMPLE} for a key"
                raise document.error(one, problem)
            raise document.error(join(where, "key"), f"has no sketch; add {EXAMPLE}")
        return (SketchEntry(one, None, stream.sketch or {}),)
    if stream.sketch is not None:
        raise document.error(one, "does not go with sketches; move its sizes into an entry")
    if not stream.sketches:
        raise document.error(listed, f"is empty; {_use(tuple(KINDS))}")
    if stream.key is not None and len(stream.sketches) > 1:
        problem = f"has {len(stream.sketches)} sketches, and a stream with a key has one"
        raise document.error(f"{listed}[1]", f"{problem}; add another stream")
    found: list[SketchEntry] = []
    for number, raw in enumerate(stream.sketches):
        found.append(_entry(document, f"{listed}[{number}]", raw))
        if found[-1].kind in [each.kind for each in found[:-1]]:
            problem = f"is {found[-1].kind} like an entry before it; name each type once"
            raise document.error(join(found[-1].place, "type"), problem)
    return tuple(found)


def _entry(document: Document, place: str, raw: dict[str, Any]) -> SketchEntry:
    sizes = dict(raw)
    kind = _type(document, join(place, "type"), sizes.pop("type", None))
    share = sizes.pop("share", None)
    if share is None:
        return SketchEntry(place, kind, sizes)
    stated = section(document, place, {"type": kind, "share": share}, SketchTypeSection).share
    if stated is None or not 0 < stated <= 1:
        raise document.error(join(place, "share"), "must be above 0 and at most 1; correct it")
    return SketchEntry(place, kind, sizes, stated)


def shared_privacy(
    document: Document, entries: Sequence[SketchEntry], privacy: Privacy
) -> list[tuple[SketchEntry, Privacy]]:
    """Return each sketch with its whole micro-epsilon; their sum is that of the stream.

    A reading is in every sketch, and each has noise of its own, so its losses add up. Raises
    ConfigError.
    """
    stated = [None if each.share is None else Fraction(str(each.share)) for each in entries]
    rest = 1 - sum(share for share in stated if share is not None)
    left = stated.count(None)
    if rest < 0 or (rest > 0) != (left > 0):
        place = next(each.place for each in entries if each.share is not None)
        problem = f"the shares of all sketches sum to {float(1 - rest):g}"
        fix = "leave room for those without one" if left else "correct them to sum to 1"
        raise document.error(join(place, "share"), f"{problem}; {fix}")
    whole = privacy.epsilon_micro
    micro = [int(whole * (rest / left if share is None else share)) for share in stated]
    micro[0] += whole - sum(micro)
    found = []
    for entry, part in zip(entries, micro, strict=True):
        try:
            each = replace(privacy, epsilon=part / MICRO) if len(entries) > 1 else privacy
            if each.unit != "key":
                Guarantee.of_linear_counters(each)
        except ValueError as error:
            raise document.error(join(entry.place, "share"), f"{error}; raise it") from None
        found.append((entry, each))
    return found


def read_plan(
    document: Document,
    where: str,
    stream: StreamSection,
    entry: SketchEntry,
    domain: Domain,
    privacy: Privacy,
    hash_key: int,
    expected: Expected,
) -> SketchSettings:
    """Read one sketch of a stream of readings. Raises ConfigError."""
    name = entry.kind or _default_type(document, where, stream, domain, expected)
    place, sizes = entry.place, entry.sizes
    kind, sets = KINDS[name], _sets(document, where, stream)
    if isinstance(kind, OfViews):
        open_ended = stream.views is None or stream.views == "auto"
        wanted = None if open_ended else sets
        return read_view_plan(document, place, sizes, domain, privacy, wanted, expected)
    for attribute in domain.attributes:
        if attribute.atoms:
            problem = f"goes with sketches of type views, and this one is {name}; use type views"
            raise document.error(join(where, f"attributes.{attribute.name}.atoms"), problem)
    beside_views = "views" in [each.get("type") for each in stream.sketches or ()]
    if expected.means and not beside_views:
        problem = f"goes with sketches of type views, and this one is {name}; use type views"
        raise document.error(join(where, "expect.ask"), problem)
    if len(sets) > 1 and not beside_views:
        problem = f"has several views, and {name} keeps one; use type views, or name one view"
        raise document.error(join(where, "views"), problem)
    if isinstance(kind, OfOneView):
        return read_hierarchy(document, place, sizes, domain, privacy, hash_key, expected)
    if isinstance(kind, OfReadings):
        return kind.read(document, place, sizes, domain, privacy, hash_key)
    problem = f"{name} counts keys, and this stream has attributes; {_use(FOR_READINGS)}"
    raise document.error(join(place, "type"), problem)


def read_key_plan(
    document: Document, entry: SketchEntry, privacy: Privacy, hash_key: int
) -> DistinctSettings:
    """Read the sketch of a stream of keys. Raises ConfigError."""
    if entry.kind not in FOR_KEYS:
        problem = f"{entry.kind} is made of readings, and this stream has a key; {_use(FOR_KEYS)}"
        raise document.error(join(entry.place, "type"), problem)
    if entry.share not in (None, 1):
        raise document.error(join(entry.place, "share"), "is for several sketches; remove it")
    return read_distinct(document, entry.place, entry.sizes, privacy, hash_key)


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


def _sets(document: Document, where: str, stream: StreamSection) -> tuple[tuple[str, ...], ...]:
    known = tuple(stream.attributes or ())
    return read_sets(document, join(where, "views"), stream.views, known)


def _default_type(
    document: Document, where: str, stream: StreamSection, domain: Domain, expected: Expected
) -> str:
    """Return the default type of sketch.

    A joint hierarchy of many attributes would be too coarse, and has no cells for atoms and none
    for means. A stream with stated sizes of a hierarchy has one.
    """
    open_ended = stream.views is None or stream.views == "auto"
    many = sum(attribute.max_bits > 0 for attribute in domain.attributes) > MAX_JOINT
    several = len(_sets(document, where, stream)) > 1
    atoms = any(attribute.atoms for attribute in domain.attributes)
    planned = (atoms or expected.means or (open_ended and many)) and stream.sketch is None
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
