"""Checks of the arguments of an attribute. Every text begins with the attribute's name."""

from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Literal, get_args

from pansketch.domain.atoms import MISSING

if TYPE_CHECKING:
    from pansketch.domain.attribute import Attribute

Scale = Literal["linear", "log", "learned"]

MAX_BITS = 30  # of one continuous attribute: finer than any sensor
MAX_KNOT_BITS = 10  # a learned scale has 2 to 2**10 parts


def check(attribute: "Attribute") -> None:
    """Raises ValueError for arguments that contradict each other, or a bound that is not finite."""
    if attribute.scale not in get_args(Scale):
        known = ", ".join(get_args(Scale))
        raise ValueError(f"scale must be one of {known}, not {attribute.scale!r}")
    if bool(attribute.knots) != (attribute.scale == "learned"):
        raise ValueError(f"{attribute.name}: a learned scale has knots, and no other has")
    if attribute.categories is not None:
        _check_categories(attribute, attribute.categories)
    elif attribute.constant is not None:
        _check_constant(attribute, attribute.constant)
    else:
        _check_bounds(attribute)
        _check_step(attribute)
        _check_atoms(attribute)


def _check_categories(attribute: "Attribute", names: tuple[str, ...]) -> None:
    name = attribute.name
    if attribute.low is not None or attribute.high is not None:
        raise ValueError(f"{name}: give either low and high, or categories, not both")
    if attribute.step is not None or attribute.cyclic or attribute.constant is not None:
        raise ValueError(f"{name}: categories have no step, no constant and no circle")
    if attribute.knots:
        raise ValueError(f"{name}: categories have no learned scale")
    if not names or len(set(names)) != len(names):
        raise ValueError(f"{name}: categories must be one or more different names")
    if attribute.atoms not in ((), (MISSING,)):
        raise ValueError(f"{name}: {MISSING} is the only atom that categories can have")
    if attribute.atoms and MISSING in names:
        raise ValueError(f"{name}: {MISSING} is either a category or an atom")


def _check_constant(attribute: "Attribute", constant: float) -> None:
    name = attribute.name
    if attribute.low is not None or attribute.high is not None or attribute.step is not None:
        raise ValueError(f"{name}: a constant has no low, no high and no step")
    if attribute.scale != "linear" or attribute.cyclic or attribute.atoms:
        raise ValueError(f"{name}: a constant has no scale, no circle and no atoms")
    if not isfinite(constant):
        raise ValueError(f"{name}: a constant must be finite")


def _check_bounds(attribute: "Attribute") -> None:
    name, low, high = attribute.name, attribute.low, attribute.high
    if low is None or high is None:
        raise ValueError(f"{name}: give low and high, or categories, or a constant")
    if not (isfinite(low) and isfinite(high) and isfinite(high - low)):
        raise ValueError(f"{name}: low and high must be finite")
    if low >= high:
        raise ValueError(f"{name}: low must be less than high, but {low:g} >= {high:g}")
    if not (isfinite(attribute.resolution) and attribute.resolution > 0):
        raise ValueError(f"{name}: resolution must be positive")
    if attribute.cyclic and attribute.scale != "linear":
        raise ValueError(f"{name}: only a linear scale can be cyclic")
    if attribute.knots:
        _check_knots(attribute, low, high)
    # For any reading, its position on the scale must be a finite number.
    if not (isfinite(attribute.extent) and isfinite(2.0**MAX_BITS / attribute.extent)):
        raise ValueError(f"{name}: the range from low to high is too small or too large")


def _check_knots(attribute: "Attribute", low: float, high: float) -> None:
    """None may hide a cell: each part of the scale is wide enough to be halved."""
    name, knots = attribute.name, attribute.knots
    parts = len(knots) - 1
    if not 2 <= parts <= 1 << MAX_KNOT_BITS or parts & (parts - 1):
        raise ValueError(
            f"{name}: knots must number a power of two and one, from 3 to "
            f"{(1 << MAX_KNOT_BITS) + 1}, not {len(knots)}"
        )
    if not all(isfinite(knot) for knot in knots):
        raise ValueError(f"{name}: knots must be finite")
    if (knots[0], knots[-1]) != (low, high):
        raise ValueError(f"{name}: the first knot must be low, and the last one high")
    narrowest = (high - low) * 2.0**-MAX_BITS
    if min(after - before for before, after in pairwise(knots)) < narrowest:
        raise ValueError(f"{name}: knots must rise, by {narrowest:g} or more each")


def _check_step(attribute: "Attribute") -> None:
    name, step = attribute.name, attribute.step
    if step is None:
        return
    if not (isfinite(step) and step > 0):
        raise ValueError(f"{name}: step must be positive")
    if step > attribute.highest - attribute.origin:
        raise ValueError(f"{name}: step must not exceed the range from low to high")
    try:
        _ = attribute.lattice
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _check_atoms(attribute: "Attribute") -> None:
    name = attribute.name
    if attribute.cyclic and any(atom != attribute.low for atom in attribute.numeric_atoms):
        raise ValueError(f"{name}: a cyclic attribute has no atoms but {MISSING} and its low")
    try:
        _ = attribute.placed
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
