"""Random Fourier features (RFF) of readings, as integers: Rahimi, Recht, NIPS 2007.

A frequency's cosine and sine are one entry of a table of the circle. So the maximum over its
entries gives the largest norm of a reading's features.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pansketch.domain.fixed_point import Positions
from pansketch.sketches.counter_bounds import CounterRow
from pansketch.sketches.moments.projections import ANGLE_BITS, ONE, TURN_BITS, Projections, circle

PACK_BITS = 32

Counters = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Fourier:
    """RFF: the cosines, then the sines, of `count` angles (Rahimi, Recht, NIPS 2007)."""

    projections: Projections

    @property
    def count(self) -> int:
        return len(self.projections.directions)

    @property
    def rows(self) -> int:
        return self.count

    @property
    def size(self) -> int:
        return 2 * self.count

    @property
    def one(self) -> int:
        return ONE

    @property
    def sensitivity(self) -> int:
        """The largest |cosine| + |sine| in the table, for every angle: about sqrt(2) each."""
        cosines, sines = circle()
        return self.count * int((np.abs(cosines) + np.abs(sines)).max())

    @property
    def canonical(self) -> bytes:
        return self.projections.canonical

    def counter_rows(self, scale: Fraction) -> list[CounterRow]:
        return [CounterRow(self.size, scale, ONE, self.sensitivity, signed=True)]

    def sums(self, block: int) -> "FourierSums":
        return FourierSums(self, block)

    def values(self, positions: Positions) -> npt.NDArray[np.float32]:
        """Features of public positions: uint32[d, n] -> float32[n, size], exact."""
        angles, term = np.empty((2, self.count, positions.shape[1]), np.uint32)
        self.projections.angles(positions, angles, term)
        indices = angles >> np.uint32(TURN_BITS - ANGLE_BITS)
        found = [table[indices].astype(np.float32) / np.float32(ONE) for table in circle()]
        return np.concatenate(found).T


class FourierSums:
    """One table entry gives a cosine and a sine: it is cosine * 2**32 + sine. So is the sum over a
    block of fewer than 2**15 readings."""

    def __init__(self, features: Fourier, block: int) -> None:
        cosines, sines = circle()
        self._table = (cosines.astype(np.int64) << PACK_BITS) + sines
        self._projections, self._count = features.projections, features.count
        self._angles, self._term = np.zeros((2, features.count * block), np.uint32)
        self._indices = np.zeros(features.count * block, np.intp)
        self._packed = np.zeros(features.count * block, np.int64)
        self._sums, self._sines = np.zeros((2, features.count), np.int64)

    def add(self, positions: Positions, counters: Counters) -> None:
        """int64[size] counters, in place; all scratch is overwritten."""
        shape = self._count, positions.shape[1]
        used = shape[0] * shape[1]
        angles, term = (each[:used].reshape(shape) for each in (self._angles, self._term))
        indices, packed = self._indices[:used].reshape(shape), self._packed[:used].reshape(shape)
        self._projections.angles(positions, angles, term)
        np.right_shift(angles, np.uint32(TURN_BITS - ANGLE_BITS), out=angles)
        np.copyto(indices, angles)
        # "clip" keeps numpy from taking into a buffer of its own.
        np.take(self._table, indices, out=packed, mode="clip")
        np.add.reduce(packed, axis=1, out=self._sums)
        self._unpack(counters)
        for scratch in (angles, term, indices, packed, self._sums, self._sines):
            scratch.fill(0)

    def _unpack(self, counters: Counters) -> None:
        sums, sines = self._sums, self._sines
        np.left_shift(sums, PACK_BITS, out=sines)
        np.right_shift(sines, PACK_BITS, out=sines)
        np.subtract(sums, sines, out=sums)
        np.right_shift(sums, PACK_BITS, out=sums)
        np.add(counters[: self._count], sums, out=counters[: self._count])
        np.add(counters[self._count :], sines, out=counters[self._count :])
