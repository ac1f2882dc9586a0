"""Rows of a source, readings or keys, and how a cell or a JSON value becomes a number.

Readings are float64[n, d]; a row that must not be absorbed holds infinities, and the sketch drops
it. Keys are uint64[n]; a row without a key holds NO_KEY, and is left out here.

A value that is no number of its attribute becomes NaN. The sketch counts it as missing where the
attribute has that atom, and drops the whole reading otherwise. It is not logged and not counted
here: both would tell something about the data.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import nan

import numpy as np
import numpy.typing as npt

from pansketch import Attribute
from pansketch_fleet.errors import one_line

FloatArray = npt.NDArray[np.float64]
KeyArray = npt.NDArray[np.uint64]
Rows = FloatArray | KeyArray

# A text whose 64-bit word is this very number would be lost: none of 2**64 others is.
NO_KEY = np.uint64(2**64 - 1)


def is_keys(rows: Rows) -> bool:
    return rows.dtype.kind == "u"


def drop(rows: Rows, which: npt.NDArray[np.bool_]) -> None:
    """Overwrites rows so that no sketch absorbs them; a copy of the others would linger. A NaN
    would be absorbed where an attribute can be missing; an infinity never is."""
    rows[which] = NO_KEY if is_keys(rows) else np.inf


def to_absorb(rows: Rows) -> Rows:
    """What a sketch is given: readings as they are, the keys among the rows without the rest.

    Keys are sorted in place, which brings NO_KEY to the end, and nothing is copied.
    """
    if not is_keys(rows):
        return rows
    rows.sort()
    return rows[: np.searchsorted(rows, NO_KEY)]


MAX_NAMES = 300  # characters of a list of names


class SourceError(Exception):
    """The source cannot go on, one line: what, and what to do. Never a value."""


class NotOfferedError(Exception):
    """The source never has `name`, an attribute or a key; the text says what there is."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(problem)


@dataclass(frozen=True)
class Readings:
    """A block of readings or events: their times float64[n] in unix seconds, and their rows.

    Both are views of the source's own buffer and hold only until the next block is asked for.
    """

    at: FloatArray
    rows: Rows = field(repr=False)


def check_offered(wanted: Iterable[str], offered: Iterable[str], what: str) -> None:
    """Raises NotOfferedError for the first name that `what`, a source, does not have."""
    names = list(offered)
    for name in wanted:
        if name not in names:
            known = one_line(", ".join(names)[:MAX_NAMES]) or "nothing"
            problem = f"{what} has no {name!r}; rename it to one of: {known}"
            raise NotOfferedError(name, problem)


def text_parser(attribute: Attribute) -> Callable[[str], float]:
    """Reads an attribute from a cell of text: a number, or the code of a category."""
    if attribute.categories is None:
        return _number
    codes = _codes(attribute)
    return lambda text: codes.get(text.strip(), nan)


def json_parser(attribute: Attribute) -> Callable[[object], float]:
    """Reads an attribute from a JSON value: a number, or a category's name as a string.

    The categories of JSON's true and false are called so.
    """
    if attribute.categories is None:
        return _json_number
    codes = _codes(attribute)
    truths = codes.get("false", nan), codes.get("true", nan)

    def parse(value: object) -> float:
        if isinstance(value, bool):
            return truths[value]
        return codes.get(value, nan) if isinstance(value, str) else nan

    return parse


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
