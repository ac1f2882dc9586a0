"""Questions about one attribute as intervals of the unit interval: a range, a category, an end."""

from math import inf, isfinite

import numpy as np

from pansketch.domain.atoms import MISSING, Atom
from pansketch.domain.attribute import Attribute
from pansketch.domain.quantization import exact

Wanted = tuple[float, float] | str
Interval = tuple[float, float]

# So far past a value is the end of the values up to it: a cell that begins with the value is cut.
PAST = 2.0**-40


def edge(attribute: Attribute, value: float, *, after: bool) -> float:
    """The place where the values below `value` end, and those up to it if `after`.

    Of a continuous attribute they are PAST from each other, and further at an atom. The value is
    clipped, on a circle too.
    """
    found = _edge(attribute, value, after=after)
    return found if attribute.placed is None else attribute.placed.edge(value, found, after=after)


def _edge(attribute: Attribute, value: float, *, after: bool) -> float:
    """The same among the values of the scale."""
    if attribute.lattice is not None:
        return attribute.lattice.edge(value, after=after)
    if not attribute.varies:
        return float(value > attribute.origin or (after and value == attribute.origin))
    if value >= attribute.highest:
        # Readings beyond the bound are clipped to it: as many as the last cell has may be on it.
        on_bound = value == attribute.highest and not after and not attribute.cyclic
        return attribute.scaling.top - (PAST if on_bound else 0.0)
    place = attribute.to_unit(max(value, attribute.origin))
    place += PAST if after and value >= attribute.origin and attribute.placed is None else 0.0
    return place if attribute.placed is None else attribute.placed.spread(np.array([place])).item()


def of_atom(attribute: Attribute, wanted: Atom) -> Interval | None:
    """The interval of an atom; None where the attribute has no such atom."""
    if attribute.placed is not None:
        return attribute.placed.exact(wanted)
    if attribute.can_miss and wanted == MISSING:
        return (attribute.codes - 1) / attribute.extent, attribute.codes / attribute.extent
    return None


def whole(attribute: Attribute) -> Interval:
    """All values of an attribute; `missing` is none."""
    if attribute.categories is not None:
        return 0.0, len(attribute.categories) / attribute.extent if attribute.atoms else 1.0
    return edge(attribute, -inf, after=False), edge(attribute, inf, after=True)


def interval(attribute: Attribute, wanted: Wanted) -> Interval:
    """A range (low, high), both ends included, a category, or "missing" where that is an atom.

    Around a circle a range may go past the end: then the interval's first number is the larger one.
    Raises ValueError for an unknown category, and for low > high elsewhere.
    """
    if isinstance(wanted, str):
        found = of_atom(attribute, wanted)
        if found is not None:
            return found
        code = attribute.code(wanted)
        return code / attribute.extent, (code + 1) / attribute.extent
    if attribute.categories is not None:
        raise ValueError(
            f"{attribute.name} has categories: name one of {', '.join(attribute.categories)}"
        )
    low, high = wanted
    if attribute.cyclic:
        return _arc(attribute, low, high)
    if not low <= high:
        raise ValueError(f"{attribute.name}: the range's low end must not exceed its high end")
    return edge(attribute, low, after=False), edge(attribute, high, after=True)


def _arc(attribute: Attribute, low: float, high: float) -> Interval:
    if not (isfinite(low) and isfinite(high)):
        raise ValueError(f"{attribute.name}: the ends of a range around a circle must be finite")
    if exact(high) - exact(low) >= exact(attribute.highest) - exact(attribute.origin):
        return whole(attribute)
    first, last = _wrapped(attribute, low), _wrapped(attribute, high)
    start, end = edge(attribute, first, after=False), edge(attribute, last, after=True)
    # From 10 round to 9: with a step of 1 that is every point there is.
    return whole(attribute) if first > last and end >= start else (start, end)


def _wrapped(attribute: Attribute, value: float) -> float:
    """As decimals, so that 370.1 degrees are 10.1, and a point of a lattice stays one."""
    if attribute.origin <= value < attribute.highest:
        return value
    low, high = exact(attribute.origin), exact(attribute.highest)
    return float(low + (exact(value) - low) % (high - low))
