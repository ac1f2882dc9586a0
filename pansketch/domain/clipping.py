"""Readings clipped to the public bounds of their domain, before anything is computed from them.

No reading overflows an operation then, so none makes NumPy warn: a warning is a line in a log that
only this reading wrote. Everything happens in the caller's scratch.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from sys import float_info
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pansketch.domain.attribute import Attribute
from pansketch.domain.domain import Domain
from pansketch.erasable_arrays import block, erase

FloatArray = npt.NDArray[np.float64]
Truth = npt.NDArray[np.bool_]


def as_readings(readings: npt.ArrayLike, dimension: int) -> tuple[FloatArray, bool]:
    """Readings as float64[n, dimension], and whether that is a copy to be erased after use.

    A whole number beyond the largest float is infinite. Raises ValueError for another shape.
    """
    if isinstance(readings, np.ndarray) and readings.dtype == np.float64:
        given: FloatArray = readings
    else:
        given = _converted(readings)
    copied = given is not readings and not np.may_share_memory(given, readings)
    if given.ndim != 2 or given.shape[1] != dimension:
        shape = list(given.shape)
        if copied:
            given.fill(0)
        raise ValueError(f"readings must have shape [n, {dimension}], not {shape}")
    return given, copied


def _converted(readings: npt.ArrayLike) -> FloatArray:
    with np.errstate(all="ignore"):  # A longdouble beyond the largest float is infinite as well.
        try:
            return np.asarray(readings, np.float64)
        except OverflowError:
            whole = np.asarray(readings, object)
            return np.asarray(np.frompyfunc(_as_float, 1, 1)(whole), np.float64)


def _as_float(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:  # Its sign does not matter: the reading is left out.
        return np.inf


class Clipper:
    """Turns readings of a domain into their distances from `low`. Holds public numbers only, and
    the scratch of atoms: at most `size` readings at a time."""

    def __init__(self, domain: Domain, size: int) -> None:
        attributes = domain.attributes
        self.atoms = AtomEncoder(attributes, size)
        self._fixed = [place for place, a in enumerate(attributes) if not a.varies]
        # On a circle values are wrapped, not clipped, but for those so far out that the distance
        # from `low` is no finite number.
        bounds = []
        for attribute in attributes:
            reach = float_info.max - abs(attribute.origin)
            low, high = attribute.origin, attribute.highest
            if attribute.lattice is not None:
                low, high = attribute.lattice.ends
            ends = (-reach, reach) if attribute.cyclic else (low, high)
            bounds.append((*ends, attribute.origin))
            if not attribute.varies:
                bounds[-1] = (0.0, 0.0, 0.0)
        self._low, self._high, self._origin = np.array(bounds).T.copy()[:, :, None]
        self._turns = [(place, a.extent) for place, a in enumerate(attributes) if a.cyclic]
        self._circles = [(n, a.lattice) for n, a in enumerate(attributes) if a.lattice and a.cyclic]
        self._steps = list(_steps_of(attributes))

    def distances(self, readings: FloatArray, scratch: FloatArray, finite: Truth) -> FloatArray:
        """Distances of readings, float64[d, n], from each attribute's `low`: 0 to high - low, as a
        block of `scratch` (pansketch/erasable_arrays.py), float64[d, m], m <= n.

        Readings with a value that is not finite are left out, but for a NaN where `missing` is an
        atom; the columns of constants are 0. Atoms are marked in `atoms`. `finite`: scratch,
        bool[d, k], k >= n.
        """
        kept = block(scratch, readings.shape[1])
        np.copyto(kept, readings)
        self._erase_constants(kept)
        which = np.isfinite(kept, out=block(finite, readings.shape[1]))
        self.atoms.allow_missing(kept, which)
        if not which.all():
            kept = _copy_finite(readings, scratch, which)
            self._erase_constants(kept)
        self.atoms.mark(kept)
        np.maximum(kept, self._low, out=kept)
        np.minimum(kept, self._high, out=kept)
        for rows, per_unit, whole, parts in self._steps:
            values = kept[rows]
            np.multiply(values, per_unit, out=values)
            np.rint(values, out=values)
            np.multiply(values, whole, out=values)
            np.divide(values, parts, out=values)
        np.subtract(kept, self._origin, out=kept)
        for place, turn in self._turns:
            # Exact, but for a value so little below `low` that it becomes `high`: the encoder
            # leaves it in the last cell, where it belongs.
            np.remainder(kept[place], turn, out=kept[place])
        for place, lattice in self._circles:
            lattice.round(kept[place])
        self.atoms.mark_rounded(kept)
        return kept

    def _erase_constants(self, units: FloatArray) -> None:
        for place in self._fixed:
            units[place].fill(0)


def _steps_of(
    attributes: Sequence[Attribute],
) -> Iterator[tuple[slice, FloatArray, FloatArray, FloatArray]]:
    """For attributes in a row that have steps: their slice, and steps per unit, numerators and
    denominators of the steps, float64[n, 1]. A few calls round all of them."""
    lattices = [None if each.cyclic else each.lattice for each in attributes]
    for _, group in groupby(range(len(lattices)), key=lambda n: lattices[n] is None):
        places = list(group)
        parts = [each.ratio for n in places if (each := lattices[n]) is not None]
        if parts:
            whole, denominators = np.array(parts).T[:, :, None]
            rows = slice(places[0], places[-1] + 1)
            yield rows, denominators / whole, whole.copy(), denominators.copy()


def _copy_finite(readings: FloatArray, scratch: FloatArray, finite: Truth) -> FloatArray:
    """A block of `scratch` with the readings, float64[d, n], that are finite, bool[d, n].

    Finite readings beyond the block overwrite the others in it, because indexing by a mask would
    copy readings.
    """
    kept = finite[0]
    for row in finite[1:]:
        np.logical_and(kept, row, out=kept)
    count = int(np.count_nonzero(kept))
    units = block(scratch, count)
    np.copyto(units, readings[:, :count])
    beyond = np.flatnonzero(kept[count:])
    holes = np.flatnonzero(np.logical_not(kept[:count], out=kept[:count]))
    for hole, place in zip(holes, beyond, strict=True):
        units[:, hole] = readings[:, count + place]
    holes.fill(0)
    beyond.fill(0)
    return units


class _WithAtoms(NamedTuple):
    """An attribute with atoms. `atoms`: (value, position) of each. The first ones, `on_points`, are
    points of its step; readings are rounded to them, unless they equal another atom."""

    place: int
    low: float
    atoms: list[tuple[float, float]]
    on_points: int
    table: FloatArray | None

    @classmethod
    def of(cls, place: int, attribute: Attribute) -> "_WithAtoms":
        lattice, placed = attribute.lattice, attribute.placed
        found = attribute.atom_positions
        points = [each for each in found if lattice is not None and lattice.holds(each[0])]
        atoms = [*points, *(each for each in found if each not in points)]
        # A table that is made for the first reading would show that one came.
        table = None if placed is None else placed.table
        return cls(place, attribute.origin, atoms, len(points), table)


class AtomEncoder:
    """Marks the readings that hold an atom, and computes the positions of all readings, in scratch.

    Every reading takes the same steps, and no branch depends on its value. All other attributes
    stay as they are.

    Args:
        attributes: of the readings.
        size: of the scratch.
    """

    def __init__(self, attributes: Sequence[Attribute], size: int) -> None:
        self._placed = [_WithAtoms.of(n, each) for n, each in enumerate(attributes) if each.atoms]
        count = sum(len(each.atoms) for each in self._placed)
        self._marks = np.zeros((count, size), np.bool_)
        self._looked_up = np.zeros((1, size if count else 0))
        self._whole = np.zeros((1, size if count else 0), np.bool_)

    def allow_missing(self, readings: FloatArray, finite: Truth) -> None:
        """A NaN that means `missing` is no reason to leave a reading out: `finite` bool[d, n] of
        readings float64[d, n], in place."""
        for each in self._placed:
            if any(value != value for value, _ in each.atoms):
                found = block(self._whole, readings.shape[1])[0]
                np.isnan(readings[each.place], out=found)
                np.logical_or(finite[each.place], found, out=finite[each.place])

    def mark(self, readings: FloatArray) -> None:
        """Remembers which readings, float64[d, n], hold an atom. They become `low`, in place."""
        marks = iter(block(self._marks, readings.shape[1]))
        for each in self._placed:
            row = readings[each.place]
            for value, _ in each.atoms:
                mark = next(marks)
                if value == value:
                    np.equal(row, value, out=mark)
                else:
                    np.isnan(row, out=mark)
            # Clipping and logarithms must not warn about a NaN.
            for value, _ in each.atoms:
                if value != value:
                    np.copyto(row, each.low, where=mark)

    def mark_rounded(self, distances: FloatArray) -> None:
        """Remembers too which readings are rounded to an atom, by their distances from `low`,
        float64[d, n]."""
        marks = iter(block(self._marks, distances.shape[1]))
        for each in self._placed:
            for number, (value, _) in enumerate(each.atoms):
                mark = next(marks)
                if number < each.on_points:
                    found = block(self._whole, distances.shape[1])[0]
                    np.equal(distances[each.place], value - each.low, out=found)
                    np.logical_or(mark, found, out=mark)

    def apply(self, units: FloatArray, factors: FloatArray) -> None:
        """Convert positions without atoms to positions, in place: float64[d, n], both times
        `factors` float64[d]."""
        marks = iter(block(self._marks, units.shape[1]))
        for each in self._placed:
            row, factor = units[each.place], float(factors[each.place])
            if each.table is not None:
                self._spread(row, each.table, factor)
            for _, at in each.atoms:
                np.copyto(row, at * factor, where=next(marks))

    def _spread(self, row: FloatArray, table: FloatArray, factor: float) -> None:
        """As `AtomPlaces.spread` does with its table, but for a power of two."""
        scaled = table * [[factor, 1.0, factor, factor]]
        looked_up = block(self._looked_up, len(row))[0]
        held = np.searchsorted(scaled[1:, 0], row, side="right")
        for column, function in enumerate((np.subtract, np.multiply, np.add, np.minimum)):
            # "clip" keeps numpy from taking into a buffer of its own.
            np.take(np.ascontiguousarray(scaled[:, column]), held, out=looked_up, mode="clip")
            function(row, looked_up, out=row)
        held.fill(0)

    def erase(self, count: int) -> None:
        """Overwrites what at most `count` readings left in scratch."""
        if self._placed:
            erase(count, self._marks, self._looked_up, self._whole)
