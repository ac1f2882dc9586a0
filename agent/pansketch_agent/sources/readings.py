"""Rows of a source, readings or keys, and parsers of cells and JSON values.

Readings are float64[n, d]. A row that must not be absorbed has infinities, and the sketch drops it.
Keys are uint64[n]. A row without a key has NO_KEY, and is left out here.

An invalid value becomes NaN. The sketch counts it as missing if the attribute has that atom, and
drops the whole reading otherwise. It is not logged and not counted here: both would reveal
something about the data. The memory that texts and numbers had is overwritten.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import nan
from struct import calcsize

import numpy as np
import numpy.typing as npt

from pansketch import Attribute
from pansketch_fleet.errors import one_line

FloatArray = npt.NDArray[np.float64]
KeyArray = npt.NDArray[np.uint64]
Rows = FloatArray | KeyArray

# A text with exactly this hash would be lost: one of 2**64 values.
NO_KEY = np.uint64(2**64 - 1)


def is_keys(rows: Rows) -> bool:
    return rows.dtype.kind == "u"


def drop(rows: Rows, which: npt.NDArray[np.bool_]) -> None:
    """Overwrite rows so that no sketch absorbs them; a copy of the others would stay in memory.

    A NaN would be absorbed if an attribute can be missing; an infinity never is.
    """
    rows[which] = NO_KEY if is_keys(rows) else np.inf


def to_absorb(rows: Rows) -> Rows:
    """Return the rows for a sketch: readings unchanged, keys without NO_KEY.

    Keys are sorted in place, which moves NO_KEY to the end without a copy.
    """
    if not is_keys(rows):
        return rows
    rows.sort()
    return rows[: np.searchsorted(rows, NO_KEY)]


MAX_NAMES = 300  # characters of a list of names


class SourceError(Exception):
    """The source cannot continue. One line with the fix, never a value."""


class NotOfferedError(Exception):
    """The source never has `name`, an attribute or a key; the text lists its names."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(problem)


@dataclass(frozen=True)
class Readings:
    """A block of readings or events: their times float64[n] in unix seconds, and their rows.

    Both are views of the source's own buffer and are valid only until the next block is requested.
    """

    at: FloatArray
    rows: Rows = field(repr=False)


def check_offered(wanted: Iterable[str], offered: Iterable[str], what: str) -> None:
    """Raise NotOfferedError for the first name that `what`, a source, does not have."""
    names = list(offered)
    for name in wanted:
        if name not in names:
            known = one_line(", ".join(names)[:MAX_NAMES]) or "nothing"
            problem = f"{what} has no {name!r}; rename it to one of: {known}"
            raise NotOfferedError(name, problem)


def text_parser(attribute: Attribute) -> Callable[[str], float]:
    """Return a parser of text cells: to a number, or to the code of a category."""
    if attribute.categories is None:
        return _number
    codes = _codes(attribute)
    return lambda text: codes.get(text.strip(), nan)


def json_parser(attribute: Attribute) -> Callable[[object], float]:
    """Return a parser of JSON values: to a number, or to the code of a category's name.

    JSON's true and false are the categories of these names.
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


# Freed blocks keep their content. The allocator reuses one for the next object of its size, so
# allocating such objects overwrites it. Objects of one size lie in pools, and earlier pools are
# filled first. So more objects of each size than one pool holds are needed. Texts beyond MAX_BYTES
# come from the C library, whose freed blocks cannot be requested.
FLOATS = 1024
POOL_BYTES = 16384
POOLS = 2
STEP_BYTES, MAX_BYTES = 2 * calcsize("P"), 512  # from one size to the next: 16, or 8 on 32 bits
_HEADER_BYTES = sys.getsizeof(b"")  # with it each of these fills its block to the last byte
# Python caches bytes of one character, so the smallest size has space for two.
_MIN_BYTES = -(-(_HEADER_BYTES + 2) // STEP_BYTES) * STEP_BYTES
_LENGTHS = tuple(
    size - _HEADER_BYTES
    for size in range(_MIN_BYTES, MAX_BYTES + 1, STEP_BYTES)
    for _ in range(POOLS * POOL_BYTES // size)
)


def overwrite_freed_floats() -> None:
    """Overwrite freed floats and small integers."""
    _ = [float(number) for number in range(FLOATS)]


def overwrite_freed_texts() -> None:
    """Overwrite freed short texts, bytes and longer integers."""
    _ = [*map(bytes, _LENGTHS)]
