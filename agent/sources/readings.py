"""What a source yields, and how a cell or a JSON value becomes a number.

A value that is no number of its attribute becomes NaN, and the sketch drops its whole reading. It
is not logged and not counted: both would tell something about the data.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import nan

import numpy as np
import numpy.typing as npt

from pansketch import Attribute

FloatArray = npt.NDArray[np.float64]

FREED_FLOATS = 1024


class SourceError(Exception):
    """The source cannot go on, one line: what, and what to do. Never a value."""


class NotOfferedError(Exception):
    """The source never has `attribute`, a name; the text says what there is."""

    def __init__(self, attribute: str, problem: str) -> None:
        self.attribute = attribute
        super().__init__(problem)


@dataclass(frozen=True)
class Readings:
    """A block of readings: their times float64[n] in unix seconds, their values float64[n, d].

    Both are views of the source's own buffer and hold only until the next block is asked for.
    """

    at: FloatArray
    values: FloatArray = field(repr=False)


def check_offered(attributes: Iterable[Attribute], offered: Iterable[str], what: str) -> None:
    """Raises NotOfferedError for the first attribute that `what`, a source, does not have."""
    names = list(offered)
    for attribute in attributes:
        if attribute.name not in names:
            known = ", ".join(names) or "nothing"
            raise NotOfferedError(
                attribute.name, f"{what} has no {attribute.name!r}; rename it to one of: {known}"
            )


def text_parser(attribute: Attribute) -> Callable[[str], float]:
    """Reads an attribute from a cell of text: a number, or the code of a category."""
    if attribute.categories is None:
        return _number
    codes = _codes(attribute)
    return lambda text: codes.get(text.strip(), nan)


def json_parser(attribute: Attribute) -> Callable[[object], float]:
    """Reads an attribute from a JSON value: a number, or a category's name as a string."""
    if attribute.categories is None:
        return _json_number
    codes = _codes(attribute)
    return lambda value: codes.get(value, nan) if isinstance(value, str) else nan


def overwrite_freed_floats() -> None:
    """Python keeps freed floats, values and all, for the next ones: be the next ones."""
    _ = [float(number) for number in range(FREED_FLOATS)]


def _codes(attribute: Attribute) -> dict[str, float]:
    return {name: float(code) for code, name in enumerate(attribute.categories or ())}


def _number(text: str) -> float:
    try:
        return nan if "_" in text else float(text)
    except ValueError:
        return nan


def _json_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return nan
    try:
        return float(value)
    except OverflowError:
        return nan
