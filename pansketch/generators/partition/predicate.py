"""Conjunctions in text: "temp > 20 & wind = NE" as a function of rows."""

import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np
import numpy.typing as npt

from pansketch.domain.atoms import MISSING, Atom
from pansketch.domain.domain import Attribute, Domain, FloatArray
from pansketch.domain.intervals import edge, of_atom, whole

Truth = npt.NDArray[np.bool_]

COMPARISON = re.compile(r"([^<>=]+)(<=|>=|<|>|=)([^<>=]+)")
COMPARE = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


@dataclass(frozen=True)
class Comparison:
    """One attribute's value against a number, or its category's code or atom against another."""

    position: int
    operator: str
    value: float
    atom: Atom | None = None

    def holds(self, column: FloatArray) -> Truth:
        """float64[n] values of the attribute -> bool[n]."""
        if self.atom == MISSING:
            return np.isnan(column)
        if self.operator == "=":
            return np.asarray(column == self.value)
        return np.asarray(COMPARE[self.operator](column, self.value))

    def interval(self, attribute: Attribute) -> tuple[float, float]:
        """The unit interval in which it holds; a category's code begins and ends one."""
        if self.atom is not None and (found := of_atom(attribute, self.atom)) is not None:
            return found
        if self.operator == "=":
            return self.value / attribute.extent, (self.value + 1) / attribute.extent
        start, end = whole(attribute)
        # The value itself is on the side of "<=" and ">=".
        at = edge(attribute, self.value, after=self.operator in ("<=", ">"))
        return (start, at) if self.operator.startswith("<") else (at, end)

    def splits_bound(self, attribute: Attribute) -> bool:
        """Return whether it separates a bound from the values beside it. With a step a bound is one
        of the values of a training."""
        if attribute.categories is not None or attribute.lattice is not None or attribute.cyclic:
            return False
        if self.atom is not None or not attribute.varies:
            return False
        bound = attribute.origin if self.operator in ("<=", ">") else attribute.highest
        return self.operator != "=" and self.value == bound


@dataclass(frozen=True)
class Predicate:
    """A conjunction of comparisons."""

    comparisons: tuple[Comparison, ...]

    @property
    def positions(self) -> frozenset[int]:
        """The attributes it speaks of."""
        return frozenset(each.position for each in self.comparisons)

    def check_bounds(self, domain: Domain, read_off: Container[int]) -> "Predicate":
        """The predicate itself, for a model of feature sums.

        Raises ValueError where it depends on how many readings are on a bound. No feature shows
        that: clipped readings may all be. Bins show it, of an attribute in `read_off`.
        """
        for each in self.comparisons:
            attribute = domain.attributes[each.position]
            if each.position not in read_off and each.splits_bound(attribute):
                raise ValueError(
                    "feature sums do not show how many readings are on a bound: ask for another "
                    f"value of {attribute.name} than {each.value:g}"
                )
        return self

    def holds(self, rows: FloatArray) -> Truth:
        """float64[n, d] rows in real units -> bool[n]."""
        found = np.ones(len(rows), np.bool_)
        for each in self.comparisons:
            found &= each.holds(rows[:, each.position])
        return found

    def of_column(self, position: int) -> Callable[[FloatArray], Truth]:
        """Its comparisons of one attribute, as a function of that attribute's values: float64[n] ->
        bool[n, 1]."""
        own = [each for each in self.comparisons if each.position == position]
        return lambda column: np.asarray(
            np.logical_and.reduce([each.holds(column) for each in own])[:, None]
        )

    def intervals(self, domain: Domain) -> dict[int, tuple[float, float]]:
        """The unit intervals in which it holds, by attribute. Both ends are the same if it holds
        nowhere. With a step it matters whether an end belongs to the interval."""
        found: dict[int, tuple[float, float]] = {}
        for each in self.comparisons:
            attribute = domain.attributes[each.position]
            least, most = each.interval(attribute)
            low, high = found.get(each.position, (least, most))
            low = max(low, least)
            found[each.position] = low, max(low, min(high, most))
        return found


def parse_predicate(text: str, domain: Domain) -> Predicate:
    """Comparisons joined by "&".

    Args:
        text: NAME < NUMBER, also with <=, > or >=, and NAME = CATEGORY or NAME = ATOM.
        domain: has the attributes and their categories.

    Returns:
        The conjunction: a test of rows, or unit intervals by attribute.

    Raises:
        ValueError: the text has another form, or the domain lacks the attribute, the category or
            the comparison.
    """
    return Predicate(tuple(_comparison(part, domain) for part in text.split("&")))


def _comparison(text: str, domain: Domain) -> Comparison:
    found = COMPARISON.fullmatch(text)
    name, operator, value = (each.strip() for each in found.groups()) if found else ("", "", "")
    if not name or not value:
        raise ValueError(
            f"{text.strip()[:60]!r} is not a comparison: write for example 'temp > 20 & wind = NE'"
        )
    position = domain.index(name)
    attribute = domain.attributes[position]
    if operator == "=" and value == MISSING and attribute.can_miss:
        return Comparison(position, operator, nan, MISSING)
    if attribute.categories is not None:
        if operator != "=":
            raise ValueError(f"{name} has categories: write {name} = {attribute.categories[0]}")
        return Comparison(position, operator, float(attribute.code(value)))
    if operator == "=" and attribute.numeric_atoms:
        number = _number(name, value)
        if number in attribute.numeric_atoms:
            return Comparison(position, operator, number, number)
    if operator == "=":
        raise ValueError(f"{name} is a number: compare it by <, <=, > or >=")
    return Comparison(position, operator, _number(name, value))


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not isfinite(value):
        raise ValueError(f"{name}: {text!r} is not a finite number")
    return value
