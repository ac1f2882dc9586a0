"""Features of which a reading has exactly one in each row: hashes (RACE) and histograms (HIST)."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain
from pansketch.domain.fixed_point import POSITION_BITS, Positions
from pansketch.sketches.counter_bounds import CounterRow
from pansketch.sketches.moments.projections import ANGLE_BITS, TURN_BITS, Projections

Counters = npt.NDArray[np.int64]
Columns = npt.NDArray[np.intp]  # The index type of numpy: another type would be copied.


@dataclass(frozen=True, eq=False)
class Race:
    """RACE: in each row the bucket of a reading, of `width` around the circle of its angle.

    Coleman, Shrivastava, "A one-pass distributed and private sketch for kernel sums" (2020): a
    p-stable hash of bucket width 2 pi sigma / `width`, taken modulo `width`.
    """

    projections: Projections
    width: int
    _starts: Columns = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", self.width * np.arange(self.rows)[:, None])

    @property
    def rows(self) -> int:
        return len(self.projections.directions)

    @property
    def lengths(self) -> tuple[int, ...]:
        return (self.width,) * self.rows

    @property
    def size(self) -> int:
        return self.rows * self.width

    @property
    def one(self) -> int:
        return 1

    @property
    def sensitivity(self) -> int:
        return self.rows

    @property
    def canonical(self) -> bytes:
        return self.width.to_bytes(4, "little") + self.projections.canonical

    def counter_rows(self, scale: Fraction) -> list[CounterRow]:
        return [CounterRow(length, scale) for length in self.lengths]

    def sums(self, block: int) -> "OneHotSums":
        return OneHotSums(self, block)

    def columns(self, positions: Positions, columns: Columns, scratch: Positions) -> None:
        """The feature that is 1 in every row: uint32[d, n] -> intp[rows, n] in `columns`."""
        angles, term = scratch
        self.projections.angles(positions, angles, term)
        np.right_shift(angles, np.uint32(TURN_BITS - ANGLE_BITS), out=angles)
        np.copyto(columns, angles)
        np.multiply(columns, self.width, out=columns)
        np.right_shift(columns, ANGLE_BITS, out=columns)
        np.add(columns, self._starts, out=columns)


@dataclass(frozen=True, eq=False)
class Histograms:
    """HIST: one histogram of each attribute, with `lengths` bins of equal width.

    `parts`: how many such bins the whole unit interval has; a list of categories may end before it.
    `indices`: the positions of the attributes in a reading; constants have no histogram.
    """

    lengths: tuple[int, ...]
    parts: tuple[int, ...]
    indices: tuple[int, ...]
    _starts: Columns = field(init=False, repr=False)
    _scale: Columns = field(init=False, repr=False)
    _away: Columns = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", np.cumsum((0, *self.lengths[:-1]))[:, None])
        bits = [parts.bit_length() - 1 for parts in self.parts]
        # Powers of two are shifts alone: 2**16 times as much would not fit 32 bits.
        shifts = [parts == 1 << b for parts, b in zip(self.parts, bits, strict=True)]
        scale = np.where(shifts, 1, self.parts).astype(np.intp)
        away = np.where(shifts, POSITION_BITS - np.array(bits), POSITION_BITS).astype(np.intp)
        object.__setattr__(self, "_scale", scale[:, None])
        object.__setattr__(self, "_away", away[:, None])

    @classmethod
    def of(cls, domain: Domain, bins: int) -> "Histograms":
        """`bins` bins of a number, one for each category, none for a constant."""
        indices = tuple(index for index, a in enumerate(domain.attributes) if a.varies)
        attributes = [domain.attributes[index] for index in indices]
        lengths = tuple(len(a.categories) if a.categories else bins for a in attributes)
        parts = tuple(1 << a.max_bits if a.categories else bins for a in attributes)
        return cls(lengths, parts, indices)

    @property
    def rows(self) -> int:
        return len(self.lengths)

    @property
    def size(self) -> int:
        return sum(self.lengths)

    @property
    def one(self) -> int:
        return 1

    @property
    def sensitivity(self) -> int:
        return self.rows

    @property
    def canonical(self) -> bytes:
        return np.array([self.lengths, self.parts], "<u4").tobytes()

    def counter_rows(self, scale: Fraction) -> list[CounterRow]:
        return [CounterRow(length, scale) for length in self.lengths]

    def sums(self, block: int) -> "OneHotSums":
        return OneHotSums(self, block)

    def columns(self, positions: Positions, columns: Columns, scratch: Positions) -> None:
        """The feature that is 1 in every row: uint32[d, n] -> intp[d, n] in `columns`."""
        for column, index in zip(columns, self.indices, strict=True):
            np.copyto(column, positions[index])
        np.multiply(columns, self._scale, out=columns)
        np.right_shift(columns, self._away, out=columns)
        np.add(columns, self._starts, out=columns)


class OneHotSums:
    """One histogram over all rows: every reading adds 1 to one feature of each row."""

    def __init__(self, features: Race | Histograms, block: int) -> None:
        self._features = features
        self._columns = np.zeros(features.rows * block, np.intp)
        self._scratch = np.zeros((2, features.rows * block), np.uint32)
        self._tally = np.zeros(features.size, np.int64)

    def add(self, positions: Positions, counters: Counters) -> None:
        """int64[size] counters, in place; all scratch is overwritten."""
        shape = self._features.rows, positions.shape[1]
        used = shape[0] * shape[1]
        columns, scratch = self._columns[:used], self._scratch[:, :used]
        self._features.columns(positions, columns.reshape(shape), scratch.reshape(2, *shape))
        histogram = np.bincount(columns, minlength=len(counters))
        np.copyto(self._tally, histogram)
        np.add(counters, self._tally, out=counters)
        for each in (columns, scratch, histogram, self._tally):
            each.fill(0)


def columns_of(features: Race | Histograms, positions: Positions) -> npt.NDArray[np.int32]:
    """Columns of public positions: uint32[d, n] -> int32[rows, n]."""
    columns = np.empty((features.rows, positions.shape[1]), np.intp)
    features.columns(positions, columns, np.empty((2, *columns.shape), np.uint32))
    return columns.astype(np.int32)
