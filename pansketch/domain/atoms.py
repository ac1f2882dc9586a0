"""Values with mass of their own: missing, a sentinel, zero, saturation at a bound.

Such a value, an atom, has a part of the unit interval to itself. The parts stand in the order of
the values, and `missing` comes last. A part is 2**-bits long, and the rest of the interval is a
whole number of such parts. So a cell of at least so many bits holds one atom and nothing else, or
no atom. A reading still has one position, and adds the same amount to a sketch as without atoms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, nan, nextafter

import numpy as np
import numpy.typing as npt

from pansketch.domain.scale import FloatArray, Indices, Scaling

MISSING = "missing"
MAX_ATOMS = 8
SPARE_BITS, LEAST_BITS = 2, 3  # Atoms take a quarter of the unit interval at most, one an eighth.
NARROWEST = 2.0**-24  # of the scale, between two atoms

Atom = float | str
Truth = npt.NDArray[np.bool_]


def ordered(name: str, atoms: Sequence[Atom]) -> tuple[Atom, ...]:
    """Atoms in their one order: numbers, then `missing`. Raises ValueError, which names `name`."""
    numbers = []
    for each in atoms:
        if isinstance(each, str) and each != MISSING:
            raise ValueError(f"{name}: an atom is a number or {MISSING}, not {each[:40]!r}")
        if not isinstance(each, str):
            if isinstance(each, bool) or not isfinite(each):
                raise ValueError(f"{name}: an atom must be a finite number, or {MISSING}")
            numbers.append(float(each) + 0.0)  # -0.0 is 0.0.
    found: tuple[Atom, ...] = (*sorted(numbers), *(e for e in atoms if isinstance(e, str)))
    if len(set(found)) != len(found):
        raise ValueError(f"{name}: an atom is repeated")
    if len(found) > MAX_ATOMS:
        raise ValueError(f"{name}: at most {MAX_ATOMS} atoms, not {len(found)}")
    return found


@dataclass(frozen=True)
class AtomSection:
    """A part [start, end) of the unit interval: of one atom, or of the values whose positions
    without atoms are [first, last)."""

    start: float
    end: float
    first: float
    last: float
    atom: Atom | None = None

    @property
    def value(self) -> float:
        """Of an atom; NaN for `missing`."""
        return nan if self.atom is None or isinstance(self.atom, str) else self.atom


@dataclass(frozen=True)
class AtomPlaces:
    """The sections of an attribute that has atoms, in their order. `bits` tell them apart."""

    bits: int
    sections: tuple[AtomSection, ...]

    @classmethod
    def between(
        cls, atoms: Sequence[Atom], low: float, high: float, scaling: Scaling
    ) -> "AtomPlaces":
        """Sections of atoms, in their order, and of the values from `low` to `high`.

        Raises ValueError when two atoms are too near to each other.
        """
        bits = max(LEAST_BITS, (len(atoms) - 1).bit_length() + SPARE_BITS)
        numbers = [each for each in atoms if not isinstance(each, str)]
        inner = [each for each in numbers if low < each < high]
        cuts = [0.0, *scaling.positions(np.array(inner, np.float64)).tolist(), 1.0]
        lengths = np.diff(cuts)
        if lengths.min() < NARROWEST:
            raise ValueError("an atom is too near to a bound or to another one")
        lots = iter(_lots(lengths, (1 << bits) - len(atoms)))
        pieces = iter([(first, last, next(lots)) for first, last in zip(cuts, cuts[1:])])  # noqa: B905, RUF007
        parts: list[tuple[float, float, int, Atom | None]] = []
        parts += [(0.0, 0.0, 1, each) for each in numbers if each <= low]
        for atom in [*inner, None]:
            parts.append((*next(pieces), None))
            if atom is not None:
                parts.append((parts[-1][1], parts[-1][1], 1, atom))
        parts += [(1.0, 1.0, 1, each) for each in numbers if each >= high]
        parts += [(1.0, 1.0, 1, each) for each in atoms if isinstance(each, str)]
        ends = np.cumsum([0, *(lot for *_, lot, _ in parts)]) / (1 << bits)
        found = zip(ends[:-1].tolist(), ends[1:].tolist(), parts, strict=True)
        return cls(bits, tuple(AtomSection(s, e, u, v, atom) for s, e, (u, v, _, atom) in found))

    @cached_property
    def pieces(self) -> tuple[AtomSection, ...]:
        """The sections of values."""
        return tuple(each for each in self.sections if each.atom is None)

    @cached_property
    def top(self) -> float:
        """End of the values of the scale: atoms beyond `high` come after it."""
        return self.pieces[-1].end

    @cached_property
    def present(self) -> float:
        """End of all numbers, and start of `missing` if it is an atom."""
        return next((each.start for each in self.sections if each.atom == MISSING), 1.0)

    @cached_property
    def values_share(self) -> float:
        """The part of the unit interval that is not an atom's."""
        return sum(each.end - each.start for each in self.pieces)

    @cached_property
    def _edges(self) -> tuple[FloatArray, FloatArray]:
        starts = [each.start for each in self.sections]
        return np.array([*starts, 1.0]), np.array(
            [*(each.first for each in self.sections), self.sections[-1].last]
        )

    @cached_property
    def table(self) -> FloatArray:
        """Of each piece: its begin without atoms, its slope, its start, just below its end."""
        return np.array(
            [
                (e.first, (e.end - e.start) / (e.last - e.first), e.start, nextafter(e.end, 0.0))
                for e in self.pieces
            ]
        )

    def plain(self, positions: FloatArray) -> FloatArray:
        """Convert positions to positions without atoms. In an atom's section they are the
        atom's."""
        return np.asarray(np.interp(positions, *self._edges))

    def spread(self, plain: FloatArray) -> FloatArray:
        """Convert positions without atoms to positions. Every step rounds as `AtomEncoder` does."""
        table = self.table
        held = np.searchsorted(table[1:, 0], plain, side="right")
        first, slope, start, end = table[held].T
        return np.asarray(np.minimum((plain - first) * slope + start, end))

    def section_of(self, positions: FloatArray) -> Indices:
        """The section that each place is in: intp[n]."""
        held = np.searchsorted(self._edges[0], positions, side="right") - 1
        return np.asarray(np.clip(held, 0, len(self.sections) - 1), np.intp)

    def in_atom(self, positions: FloatArray) -> Truth:
        """Return which positions are in an atom's section: bool[n]."""
        return np.asarray(self.is_atom[self.section_of(positions)])

    @cached_property
    def is_atom(self) -> Truth:
        """Of each section."""
        return np.array([each.atom is not None for each in self.sections])

    @cached_property
    def values(self) -> FloatArray:
        """Of each section: its atom's value; NaN for `missing` and for values."""
        return np.array([each.value for each in self.sections])

    @cached_property
    def starts(self) -> FloatArray:
        return self._edges[0][:-1]

    @cached_property
    def ends(self) -> FloatArray:
        return self._edges[0][1:]

    def around(self, positions: FloatArray) -> FloatArray:
        """Rising positions: those in an atom's section become its start and end. Those at an end of
        the unit interval are left out."""
        held = self.section_of(positions)
        atom = self.is_atom[held]
        found = [positions[~atom], self.starts[held[atom]], self.ends[held[atom]]]
        positions = np.unique(np.concatenate(found))
        return np.asarray(positions[(positions > 0) & (positions < 1)])

    def exact(self, wanted: Atom) -> tuple[float, float] | None:
        """The section of an atom as an interval; None where there is no such atom."""
        held = (e for e in self.sections if e.atom is not None and e.atom == wanted)
        return next(((each.start, each.end) for each in held), None)

    def edge(self, value: float, plain_edge: float, *, after: bool) -> float:
        """The place where the numbers below `value` end; where those up to it end, if `after`.
        `plain_edge`: the same among the values of the scale alone."""
        least, most = 0.0, self.present
        for each in self.sections:
            if each.atom is not None and each.atom != MISSING:
                if each.value < value or (after and each.value == value):
                    least = max(least, each.end)
                else:
                    most = min(most, each.start)
        return min(max(plain_edge, least), most)

    def atom_cells(self, bits: int) -> Truth:
        """Return which cells of so many bits, at least `self.bits`, are an atom's: bool[cells]."""
        return self.in_atom(np.arange(1 << bits) / (1 << bits))

    def reachable(self, bits: int) -> Truth:
        """Which cells of so many bits, `self.bits` or more, a reading can be in: bool[2**bits]. An
        atom is in the first cell of its section."""
        starts = np.arange(1 << bits) / (1 << bits)
        return np.asarray(~self.in_atom(starts) | np.isin(starts, self.starts))


def _lots(lengths: FloatArray, whole: int) -> list[int]:
    """Parts of a whole number, in proportion to lengths: the largest remainders, and 1 at least."""
    ideal = 1 + lengths / lengths.sum() * (whole - len(lengths))
    lots = np.floor(ideal).astype(int)
    order = np.argsort(lots - ideal, kind="stable")
    lots[order[: whole - int(lots.sum())]] += 1
    return [int(each) for each in lots]
