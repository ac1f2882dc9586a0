"""A stream's `attributes:` and `views:`: the domain that its sketch divides."""

from typing import Any, get_args

from pansketch import Attribute, Domain
from pansketch.domain import Scale
from pansketch_fleet.settings.attribute_schema import AttributeSection
from pansketch_fleet.settings.section import join, nearest, section
from pansketch_fleet.yaml.document import Document

SCALES = get_args(Scale)
OF_NUMBERS = ("low", "high", "scale", "knots", "resolution", "step", "cyclic")
MAX_ATTRIBUTES = 16
MAX_CATEGORIES = 1024
MAX_NAME = 64


def read_domain(
    document: Document, where: str, raw: dict[str, Any], views: str | list[list[str]] | None
) -> Domain:
    """Return the domain of the stream's views. Raises ConfigError at the key.

    A single view determines the order of the attributes.
    """
    place = join(where, "attributes")
    if not raw:
        raise document.error(place, "is empty; add attributes such as temp: {low: -40, high: 60}")
    attributes = {name: _attribute(document, join(place, name), name, raw[name]) for name in raw}
    sets = read_sets(document, join(where, "views"), views, tuple(attributes))
    for number, held in enumerate(sets if len(sets) > 1 else ()):
        if not any(attributes[name].varies for name in held):
            problem = "has constants only; remove it, or add an attribute that varies"
            raise document.error(f"{join(where, 'views')}[{number}]", problem)
    names = sets[0] if len(sets) == 1 else [n for n in attributes if any(n in s for s in sets)]
    if len(names) > MAX_ATTRIBUTES:
        problem = f"has more than {MAX_ATTRIBUTES} attributes; name fewer of them in views"
        raise document.error(place, problem)
    try:
        return Domain([attributes[name] for name in names])
    except ValueError as error:
        problem = f"{error}; add one with low and high, or with more categories"
        raise document.error(place, problem) from None


def read_sets(
    document: Document, where: str, views: str | list[list[str]] | None, known: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """Return the attribute set of each view; without views, one set of all attributes.

    Raises ConfigError at the view at fault.
    """
    if views is None or views == "auto":
        return (known,)
    if isinstance(views, str):
        problem = f"{views[:40]!r} is not a view; write auto, or [[{', '.join(known[:2])}]]"
        raise document.error(where, problem)
    if not views:
        raise document.error(where, f"names no view; write auto, or [[{', '.join(known[:2])}]]")
    for place, names in enumerate(views):
        _check_names(document, f"{where}[{place}]", names, known)
        if any(set(names) == set(other) for other in views[:place]):
            problem = f"[{', '.join(names)}] is repeated; name each view once"
            raise document.error(f"{where}[{place}]", problem)
    return tuple(tuple(names) for names in views)


def _check_names(document: Document, where: str, names: list[str], known: tuple[str, ...]) -> None:
    if not names:
        raise document.error(where, f"names no attribute; {nearest('', known)}")
    for place, name in enumerate(names):
        if name not in known:
            problem = f"{name[:40]!r} is no attribute of this stream; {nearest(name, known)}"
            raise document.error(f"{where}[{place}]", problem)
        if name in names[:place]:
            raise document.error(f"{where}[{place}]", f"{name[:40]!r} is repeated; name it once")


def _attribute(document: Document, where: str, name: str, raw: Any) -> Attribute:
    given = section(document, where, raw, AttributeSection)
    if len(name) > MAX_NAME:
        raise document.error(where, f"is too long a name; use up to {MAX_NAME} characters")
    if given.categories is not None:
        _check_categories(document, where, given)
    elif given.constant is not None:
        _check_alone(document, where, given, "constant", (*OF_NUMBERS, "categories", "atoms"))
    else:
        _check_bounds(document, where, given)
        _check_step(document, where, given)
    try:
        return Attribute(
            name,
            given.low,
            given.high,
            given.unit,
            given.scale or "linear",  # type: ignore[arg-type]  # one of SCALES
            tuple(given.categories) if given.categories is not None else None,
            1.0 if given.resolution is None else given.resolution,
            given.step,
            bool(given.cyclic),
            given.constant,
            tuple(given.knots or ()),
            tuple(given.atoms or ()),
        )
    except ValueError as error:
        if "atom" in str(error):
            raise document.error(join(where, "atoms"), f"{error}; correct the list") from None
        raise document.error(where, f"{error}; correct the attribute") from None


def _check_bounds(document: Document, where: str, given: AttributeSection) -> None:
    low, high = given.low, given.high
    for key, value in (("low", low), ("high", high)):
        if value is None:
            problem = "is missing; add low and high, or categories, or a constant"
            raise document.error(join(where, key), problem)
    if low is not None and high is not None and low >= high:
        problem = f"{low:g} is not below high, {high:g}; make low the smaller one"
        raise document.error(join(where, "low"), problem)
    if given.scale is not None and given.scale not in SCALES:
        problem = f"{given.scale[:40]!r} is no scale; {nearest(given.scale, SCALES)}"
        raise document.error(join(where, "scale"), problem)
    learned = given.scale == "learned"
    if learned and given.knots is None:
        problem = "is missing; `pansketch-collector scales` prints it, or write scale: linear"
        raise document.error(join(where, "knots"), problem)
    if given.knots is not None and not learned:
        problem = "goes with scale: learned only; add that, or remove the knots"
        raise document.error(join(where, "knots"), problem)
    if given.resolution is not None and given.resolution <= 0:
        problem = (
            f"{given.resolution:g} is impossible; write a positive number in the attribute's unit"
        )
        raise document.error(join(where, "resolution"), problem)


def _check_step(document: Document, where: str, given: AttributeSection) -> None:
    if given.cyclic and given.scale in ("log", "learned"):
        problem = f"does not go with a {given.scale} scale; remove one of the two"
        raise document.error(join(where, "cyclic"), problem)
    if given.step is None or given.low is None or given.high is None:
        return
    if given.step <= 0:
        problem = f"{given.step:g} is impossible; write the sensor's resolution, such as 0.1"
        raise document.error(join(where, "step"), problem)
    if given.step > given.high - given.low:
        problem = f"{given.step:g} is larger than the range; write the sensor's resolution"
        raise document.error(join(where, "step"), problem)


def _check_alone(
    document: Document, where: str, given: AttributeSection, kind: str, others: tuple[str, ...]
) -> None:
    for key in others:
        if getattr(given, key) is not None:
            problem = f"does not go with {kind}; remove one of the two"
            raise document.error(join(where, key), problem)


def _check_categories(document: Document, where: str, given: AttributeSection) -> None:
    _check_alone(document, where, given, "categories", (*OF_NUMBERS, "constant"))
    names = given.categories or []
    place = join(where, "categories")
    if not names:
        raise document.error(place, "has no names; list all categories")
    if len(names) > MAX_CATEGORIES:
        raise document.error(place, f"has more than {MAX_CATEGORIES} names; group some of them")
    for index, name in enumerate(names):
        if not name or name in names[:index]:
            problem = (
                f"{name[:40]!r} is repeated; list each category once"
                if name
                else "is empty; name it"
            )
            raise document.error(f"{place}[{index}]", problem)
