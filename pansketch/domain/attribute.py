"""One attribute of a reading: its public bounds and scale, and what a value becomes on it."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import log1p, nan, nextafter
from typing import Any

import numpy as np

from pansketch.domain import attribute_checks
from pansketch.domain.atoms import MISSING, Atom, AtomPlaces, ordered
from pansketch.domain.attribute_checks import MAX_BITS, MAX_KNOT_BITS, Scale
from pansketch.domain.quantization import Lattice, Owners
from pansketch.domain.scale import FloatArray, Scaling

__all__ = ["MAX_BITS", "MAX_KNOT_BITS", "Attribute", "Scale"]


@dataclass(frozen=True)
class Attribute:
    """One attribute of a reading: a bounded number, one of a list of categories, or a constant.

    A constant, or a single category, takes no bit of a path, and every synthetic record has it. The
    column of the readings is ignored, even if it is no number.

    Args:
        name: unique in its domain.
        low: public lower bound, in `unit`; values below are clipped.
        high: public upper bound, in `unit`; values above are clipped.
        unit: for people; it is in no fingerprint.
        scale: "linear"; "log": cells equally wide in log(1 + (x - low) / resolution); "learned":
            equally many knots apart.
        categories: names; a reading holds the index of its category.
        resolution: where a log scale turns from linear to logarithmic, in `unit`.
        step: the sensor's own resolution, in `unit`: values are k * step for whole k, counted from
            0. It shapes what generators give and nothing else, so it is in no fingerprint.
        cyclic: `high` is `low` again, and values beyond wrap.
        constant: the value of every record.
        knots: of a learned scale, in `unit`: float[2**b + 1], rising from `low` to `high`. Between
            two of them cells are equally wide.
        atoms: values with mass of their own, inside the bounds or not, and "missing", which a
            reading holds as NaN. Each has a cell to itself; categories have "missing" only.

    Raises:
        ValueError: the arguments contradict each other, or a bound is not finite.
    """

    name: str
    low: float | None = None
    high: float | None = None
    unit: str = ""
    scale: Scale = "linear"
    categories: tuple[str, ...] | None = None
    resolution: float = 1.0
    step: float | None = None
    cyclic: bool = False
    constant: float | None = None
    knots: tuple[float, ...] = ()
    atoms: tuple[Atom, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("an attribute needs a name")
        # As floats, so that 0 and 0.0 in a configuration mean the same domain.
        for name in ("low", "high", "constant"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else float(value))
        object.__setattr__(self, "knots", tuple(float(knot) for knot in self.knots))
        object.__setattr__(self, "atoms", ordered(self.name, self.atoms))
        if self.categories is not None:
            object.__setattr__(self, "categories", tuple(self.categories))
        attribute_checks.check(self)

    @property
    def max_bits(self) -> int:
        """Maximum number of times that this attribute can be halved."""
        if self.categories is not None:
            return (self.codes - 1).bit_length()
        return MAX_BITS if self.constant is None else 0

    @property
    def codes(self) -> int:
        """Number of codes of categories: one of them, the last, for `missing`. 0 for a number."""
        return len(self.categories) + len(self.atoms) if self.categories is not None else 0

    @property
    def can_miss(self) -> bool:
        return MISSING in self.atoms

    @property
    def varies(self) -> bool:
        """True if readings differ in it: not for a constant, nor for a single category."""
        return self.max_bits > 0

    @property
    def origin(self) -> float:
        """Start of the unit interval, in the attribute's own unit."""
        if self.categories is not None:
            return 0.0
        return float(self.low or 0.0) if self.constant is None else self.constant

    @property
    def extent(self) -> float:
        """Length of the scaled interval that the unit interval stands for."""
        if self.categories is not None:
            return float(1 << self.max_bits)
        if self.constant is not None or self.knots:
            return 1.0
        span = float(self.high or 0.0) - self.origin
        return log1p(span / self.resolution) if self.scale == "log" else span

    @property
    def highest(self) -> float:
        """The largest value a reading may hold: `high`, the last category's code, the constant."""
        if self.categories is not None:
            return float(len(self.categories) - 1)
        return float(self.high or 0.0) if self.constant is None else self.constant

    @cached_property
    def scaling(self) -> Scaling:
        return replace(self._unplaced, placed=self.placed)

    @cached_property
    def _unplaced(self) -> Scaling:
        resolution = self.resolution if self.scale == "log" and self.categories is None else None
        return Scaling(self.origin, self.extent, resolution, self.knots)

    @cached_property
    def placed(self) -> AtomPlaces | None:
        """The sections of a number's atoms and values; None without atoms, and of categories.

        Raises:
            ValueError: two atoms are too near to each other. The constructor raises it first.
        """
        if not self.atoms or self.categories is not None:
            return None
        return AtomPlaces.between(self.atoms, self.origin, self.highest, self._unplaced)

    @property
    def least_bits(self) -> int:
        """Bits of a cell that holds one atom and nothing else, or none; 0 if there is no such."""
        return 0 if self.placed is None else self.placed.bits

    @property
    def atom_positions(self) -> list[tuple[float, float]]:
        """Each atom's value, NaN for `missing`, and its place."""
        if self.placed is None:
            return [(nan, (self.codes - 1) / self.extent)] if self.atoms else []
        return [(each.value, each.start) for each in self.placed.sections if each.atom is not None]

    @property
    def numeric_atoms(self) -> tuple[float, ...]:
        """The atoms but for `missing`."""
        return tuple(each for each in self.atoms if not isinstance(each, str))

    @cached_property
    def lattice(self) -> Lattice | None:
        """The values that a sensor with this step can give; None without a step.

        Raises:
            ValueError: the bounds hold no multiple of the step, or floating point cannot separate
                them. The constructor raises it first.
        """
        if self.step is None:
            return None
        lattice = Lattice.between(
            self.step, self.origin, self.highest, self.scaling, cyclic=self.cyclic
        )
        return lattice.without(self.numeric_atoms)

    def to_unit(self, value: float) -> float:
        """A value in the attribute's unit, clipped, as a point of [0, 1]; categories by their code.

        On a circle it is wrapped instead, exactly, to a point of [0, 1): `high` is 0. Atoms do not
        count: the point is one of the scale alone.
        """
        if self.cyclic:
            return min((value - self.origin) % self.extent / self.extent, nextafter(1.0, 0.0))
        shifted = min(max(value, self.origin), self.highest) - self.origin
        if self.scaling.segments is not None:
            return float(self.scaling.segments.positions(np.array([shifted]))[0])
        if self.scaling.resolution is not None:
            shifted = log1p(shifted / self.resolution)
        return shifted / self.extent

    def from_unit(self, points: FloatArray) -> FloatArray:
        """Points of [0, 1] as values in the attribute's unit; categories as whole codes."""
        if self.categories is not None:
            codes = np.minimum(np.floor(points * self.extent), self.codes - 1.0)
            return np.where(codes > self.highest, np.nan, codes) if self.atoms else codes
        found = np.clip(self.scaling.values(points), self.origin, self.highest)
        if self.placed is None:
            return found
        held = self.placed.section_of(points)
        return np.where(self.placed.is_atom[held], self.placed.values[held], found)

    def has_atom(self, place: float) -> bool:
        """Return whether a position is in an atom's section."""
        placed = self.placed
        return placed is not None and bool(placed.in_atom(np.array([place]))[0])

    def inside(
        self, low: FloatArray, high: FloatArray, owners: Owners, shares: FloatArray
    ) -> FloatArray:
        """A value in one of the unit intervals [low, high), float64[m], for each of `owners`,
        intp[n], the interval's index: float64[n]. `shares`: how far in it, from 0 to 1.

        With a step it is one of the interval's points, or the one nearest to its middle if it holds
        none. The points in [low, high) are those that an encoder counts in such a cell.
        """
        if self.lattice is not None and self.placed is None:
            return self.lattice.inside(low, high, owners, shares)
        units = shares * (high - low)[owners]
        units += low[owners]
        values = self.from_unit(units)
        if self.cyclic:
            values[values == self.highest] = self.origin  # Rounding alone brings them there.
        if self.lattice is None or self.placed is None:
            return values
        points = self.lattice.inside(low, high, owners, shares)
        return np.where(self.placed.in_atom(units), values, points)

    def intervals(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Unit intervals as what of them readings can fill: with a step, from one point to
        another."""
        if self.lattice is None:
            return low, high
        starts, ends = self.lattice.intervals(low, high)
        if self.placed is None:
            return starts, ends
        held = self.placed.section_of(low)
        atom, last = self.placed.is_atom[held], self.placed.ends[held]
        return np.where(atom, low, starts), np.where(atom, high, np.minimum(ends, last))

    def cell_means(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Mean value of a point spread evenly over each unit interval [low, high); NaN in that of
        `missing`. An interval is of the atom, or of the values, that it begins in."""
        if self.placed is None:
            return self._means(low, high)
        held = self.placed.section_of(low)
        found, of_values = self.placed.values[held], ~self.placed.is_atom[held]
        found[of_values] = self._means(low[of_values], high[of_values])
        return found

    def _means(self, low: FloatArray, high: FloatArray) -> FloatArray:
        if self.lattice is not None:
            return self.lattice.means(low, high)
        if self.scaling.resolution is not None or self.knots or self.placed is not None:
            return self.scaling.means(low, high)
        return np.asarray((self.from_unit(low) + self.from_unit(high)) / 2)

    def cell_variances(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Variance of a point spread evenly over each unit interval [low, high); 0 in an atom's."""
        if self.placed is None:
            return self._variances(low, high)
        of_values = ~self.placed.in_atom(low)
        found = np.zeros(np.shape(low))
        found[of_values] = self._variances(low[of_values], high[of_values])
        return found

    def _variances(self, low: FloatArray, high: FloatArray) -> FloatArray:
        if self.lattice is not None:
            return self.lattice.variances(low, high)
        return self.scaling.variances(low, high) if self.varies else np.zeros(np.shape(low))

    def code(self, category: str) -> int:
        """The code of a category, or of "missing" where that is an atom.

        Args:
            category: its name.

        Returns:
            Its index in `categories`.

        Raises:
            ValueError: the attribute is a number, or has no such category.
        """
        if self.categories is None:
            raise ValueError(f"{self.name} is a number and has no categories")
        if category == MISSING and self.can_miss:
            return len(self.categories)
        if category not in self.categories:
            raise ValueError(
                f"{self.name} has no category {category!r}: {', '.join(self.categories)}"
            )
        return self.categories.index(category)

    def describe(self) -> dict[str, Any]:
        """Canonical form: what a fingerprint covers. Unit and step do not change a sketch."""
        atoms = {"atoms": list(self.atoms)} if self.atoms else {}
        if self.categories is not None:
            return {"name": self.name, "categories": list(self.categories)} | atoms
        if self.constant is not None:
            return {"name": self.name, "constant": self.constant}
        form: dict[str, Any] = {"name": self.name, "low": self.low, "high": self.high}
        if self.scale == "log":
            form |= {"scale": "log", "resolution": float(self.resolution)}
        if self.knots:
            form |= {"scale": "learned", "knots": list(self.knots)}
        return form | ({"cyclic": True} if self.cyclic else {}) | atoms
