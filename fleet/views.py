"""A stream's `attributes:` and `views:`: the domain that its sketch divides."""

from typing import Any

from fleet.document import Document
from fleet.schema import AttributeSection, join, nearest, section
from pansketch import Attribute, Domain

SCALES = ("linear", "log")
MOST_ATTRIBUTES = 16
MOST_CATEGORIES = 1024
LONGEST_NAME = 64


def read_domain(
    document: Document, where: str, raw: dict[str, Any], views: str | list[list[str]] | None
) -> Domain:
    """The attributes of the stream's one view, in its order. Raises ConfigError at the key."""
    place = join(where, "attributes")
    if not raw:
        raise document.error(place, "is empty; add attributes such as temp: {low: -40, high: 60}")
    attributes = {name: _attribute(document, join(place, name), name, raw[name]) for name in raw}
    names = _view(document, join(where, "views"), views, tuple(attributes))
    if len(names) > MOST_ATTRIBUTES:
        problem = f"has more than {MOST_ATTRIBUTES} attributes; name fewer of them in views"
        raise document.error(place, problem)
    return Domain([attributes[name] for name in names])


def _view(
    document: Document, where: str, views: str | list[list[str]] | None, known: tuple[str, ...]
) -> tuple[str, ...]:
    if views is None or views == "auto":
        return known
    if isinstance(views, str):
        problem = f"{views[:40]!r} is not a view; write auto, or [[{', '.join(known[:2])}]]"
        raise document.error(where, problem)
    if len(views) != 1:
        problem = (
            f"has {len(views)} views, and exactly one is supported; write [[{', '.join(known)}]]"
        )
        raise document.error(f"{where}[1]" if len(views) > 1 else where, problem)
    _check_names(document, f"{where}[0]", views[0], known)
    return tuple(views[0])


def _check_names(document: Document, where: str, names: list[str], known: tuple[str, ...]) -> None:
    if not names:
        raise document.error(where, f"names no attribute; {nearest('', known)}")
    for place, name in enumerate(names):
        if name not in known:
            problem = f"{name[:40]!r} is no attribute of this stream; {nearest(name, known)}"
            raise document.error(f"{where}[{place}]", problem)
        if name in names[:place]:
            raise document.error(f"{where}[{place}]", f"{name[:40]!r} stands twice; name it once")


def _attribute(document: Document, where: str, name: str, raw: Any) -> Attribute:
    given = section(document, where, raw, AttributeSection)
    if len(name) > LONGEST_NAME:
        raise document.error(where, f"is too long a name; use up to {LONGEST_NAME} characters")
    if given.categories is not None:
        _check_categories(document, where, given)
    else:
        _check_bounds(document, where, given)
    try:
        return Attribute(
            name,
            given.low,
            given.high,
            given.unit,
            "log" if given.scale == "log" else "linear",
            tuple(given.categories) if given.categories is not None else None,
            1.0 if given.resolution is None else given.resolution,
        )
    except ValueError as error:
        raise document.error(where, f"{error}; correct the attribute") from None


def _check_bounds(document: Document, where: str, given: AttributeSection) -> None:
    low, high = given.low, given.high
    for key, value in (("low", low), ("high", high)):
        if value is None:
            raise document.error(join(where, key), "is missing; add low and high, or categories")
    if low is not None and high is not None and low >= high:
        problem = f"{low:g} is not below high, {high:g}; make low the smaller one"
        raise document.error(join(where, "low"), problem)
    if given.scale is not None and given.scale not in SCALES:
        problem = f"{given.scale[:40]!r} is no scale; {nearest(given.scale, SCALES)}"
        raise document.error(join(where, "scale"), problem)
    if given.resolution is not None and given.resolution <= 0:
        problem = (
            f"{given.resolution:g} is impossible; write a positive number in the attribute's unit"
        )
        raise document.error(join(where, "resolution"), problem)


def _check_categories(document: Document, where: str, given: AttributeSection) -> None:
    for key in ("low", "high", "scale", "resolution"):
        if getattr(given, key) is not None:
            problem = "does not go with categories; remove one of the two"
            raise document.error(join(where, key), problem)
    names = given.categories or []
    place = join(where, "categories")
    if len(names) < 2:
        raise document.error(place, "has fewer than two names; list all categories")
    if len(names) > MOST_CATEGORIES:
        raise document.error(place, f"has more than {MOST_CATEGORIES} names; group some of them")
    for index, name in enumerate(names):
        if not name or name in names[:index]:
            problem = (
                f"{name[:40]!r} stands twice; list each category once"
                if name
                else "is empty; name it"
            )
            raise document.error(f"{place}[{index}]", problem)
