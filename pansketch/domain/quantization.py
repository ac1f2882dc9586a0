"""The values that a sensor of a public resolution can give: whole multiples of its step.

A sketch counts each reading at the nearest point. Others, such as the mean of two readings, would
be in cells that models take to be empty. In a model a box of the unit interval stands for the
points in it. Each point has the part of the scale from itself to the next. On a linear scale all
points of a box weigh the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, isfinite, isinf, nextafter

import numpy as np
import numpy.typing as npt

from pansketch.domain.scale import FloatArray, Scaling

MAX_STEPS = 1 << 40  # From 0 to a bound: beyond it, rounding would move points to other cells.
SUMMED = 16  # Steps of a log scale that are summed one by one; then a series is exact enough.

Owners = npt.NDArray[np.intp]


def exact(value: float) -> Fraction:
    """The decimal number that a person wrote, not the binary one nearest to it."""
    return Fraction(repr(float(value)))


@dataclass(frozen=True)
class Lattice:
    """Points k * `step` for whole k from `first` to `last`. Arrays of k are float64, and exact.

    `taken`: numbers of points that are atoms, and so no values of a cell that has others.
    """

    step: Fraction
    first: int
    last: int
    scaling: Scaling
    taken: tuple[int, ...] = ()

    @classmethod
    def between(
        cls, step: float, low: float, high: float, scaling: Scaling, *, cyclic: bool
    ) -> "Lattice":
        """All multiples of a step in [low, high], or in [low, high) on a circle.

        Raises ValueError when there are none, or when floating point cannot separate them.
        """
        each, bottom, top = exact(step), exact(low), exact(high)
        if max(abs(bottom), abs(top)) > each * MAX_STEPS:
            raise ValueError(f"step {step:g} is finer than numbers of this size: leave it out")
        first, last = ceil(bottom / each), floor(top / each)
        if cyclic and last * each == top:
            last -= 1
        if first > last:
            raise ValueError(f"no multiple of step {step:g} lies between {low:g} and {high:g}")
        return cls(each, first, last, scaling)

    def without(self, atoms: Sequence[float]) -> "Lattice":
        """The same, where some values stand elsewhere."""
        taken = tuple(int(exact(each) / self.step) for each in atoms if self.holds(each))
        return replace(self, taken=taken)

    @property
    def decimals(self) -> int:
        """Number of decimals that write every point in full."""
        places = 0
        while 10**places % self.step.denominator:
            places += 1
        return places

    def points(self, numbers: FloatArray) -> FloatArray:
        """k * step, rounded once: three steps of 0.1 are 0.3."""
        return np.asarray(numbers * self.ratio[0] / self.ratio[1])

    def positions(self, numbers: FloatArray) -> FloatArray:
        """Positions of points in the unit interval. Points up to the last stay below the end of the
        values, as an encoder clips. Later ones do not."""
        positions, top = self.scaling.positions(self.points(numbers)), self.scaling.top
        held = numbers <= self.last
        return np.where(
            held, np.minimum(positions, nextafter(top, 0.0)), np.maximum(positions, top)
        )

    def edge(self, value: float, *, after: bool) -> float:
        """The position where the points below `value` end, or those up to it, if `after`."""
        number = self._number(value, after)
        return float(self.positions(np.array([float(number)]))[0])

    def _number(self, value: float, after: bool) -> int:
        if isinf(value):
            return self.first if value < 0 else self.last + 1
        steps = exact(value) / self.step
        return min(max(floor(steps) + 1 if after else ceil(steps), self.first), self.last + 1)

    def nearest(self, values: FloatArray) -> FloatArray:
        """The numbers of the points nearest to values, by the same arithmetic as in a sketch."""
        whole, parts = self.ratio
        return np.asarray(np.clip(np.rint(values * (parts / whole)), self.first, self.last))

    def holds(self, value: float) -> bool:
        """Return whether a value is a point; NaN is none."""
        if not isfinite(value):
            return False
        number = exact(value) / self.step
        return number.denominator == 1 and self.first <= number <= self.last

    @property
    def ends(self) -> tuple[float, float]:
        """The first and the last point."""
        first, last = self.points(np.array([self.first, self.last], np.float64)).tolist()
        return first, last

    @property
    def ratio(self) -> tuple[float, float]:
        """Numerator and denominator of the step."""
        return float(self.step.numerator), float(self.step.denominator)

    def round(self, distances: FloatArray) -> None:
        """Convert distances from the origin of a circle, float64[n], to those of the nearest
        points, in place. The first point comes after the last."""
        origin, (whole, parts) = self.scaling.origin, self.ratio
        np.add(distances, origin, out=distances)
        np.multiply(distances, parts / whole, out=distances)
        np.rint(distances, out=distances)
        np.subtract(distances, self.first, out=distances)
        np.remainder(distances, self.last - self.first + 1, out=distances)
        np.add(distances, self.first, out=distances)
        np.multiply(distances, whole, out=distances)
        np.divide(distances, parts, out=distances)
        np.subtract(distances, origin, out=distances)

    def sections(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The points in intervals [low, high) of positions, as numbers [start, end).

        The last cell has all points up to the bound, as the encoder clips. An interval that holds
        none gets the one nearest to its middle.
        """
        starts, ends = self._from(low), self._from(high)
        if self.taken:
            starts += np.isin(starts, self.taken) & (ends - starts > 1)
            ends -= np.isin(ends - 1, self.taken) & (ends - starts > 1)
        nearest = self.nearest(self.scaling.values((low + high) / 2))
        empty = starts >= ends
        return np.where(empty, nearest, starts), np.where(empty, nearest + 1, ends)

    def _from(self, units: FloatArray) -> FloatArray:
        """The first point that does not stand below each place: its number, or last + 1."""
        guess = np.ceil(self.scaling.values(units) / float(self.step))
        numbers = np.clip(guess, self.first, self.last + 1)
        numbers -= (
            self.positions(numbers - 1) >= units
        )  # Rounding moves a guess by at most one point.
        numbers += self.positions(numbers) < units
        return np.where(
            units >= self.scaling.top, self.last + 1.0, np.clip(numbers, self.first, self.last + 1)
        )

    def intervals(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Intervals of positions, moved to begin at their first point and to end at the point after
        their last. The operation is idempotent."""
        starts, ends = self.sections(low, high)
        return self.positions(starts), self.positions(ends)

    def inside(
        self, low: FloatArray, high: FloatArray, owners: Owners, shares: FloatArray
    ) -> FloatArray:
        """One point for each of `owners`, intp[n], an interval's index: float64[n]. `shares`: how
        far in it, from 0 to 1."""
        starts, ends = self.sections(low, high)
        left = self.positions(starts)
        units = shares * (self.positions(ends) - left)[owners]
        units += left[owners]
        numbers = np.floor(self.scaling.values(units) / float(self.step))
        np.clip(numbers, starts[owners], (ends - 1)[owners], out=numbers)
        return self.points(numbers)

    def means(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Mean of the points of each interval."""
        starts, ends = self.sections(low, high)
        if self.scaling.knots:
            # A point stands for the values from itself to the next.
            even = self.scaling.means(self.positions(starts), self.positions(ends))
            first, last = self.points(starts), self.points(ends - 1)
            return np.asarray(np.clip(even - float(self.step) / 2, first, last))
        if self.scaling.resolution is None:
            return self.points((starts + ends - 1) / 2)
        begin, count = self._from_pole(starts), ends - starts
        length = np.log1p(count / begin)
        before = count / length - begin - _mean_fraction(begin, count, length)
        return self.points(starts + np.clip(before, 0.0, count - 1))

    def variances(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Variance of the points of each interval."""
        starts, ends = self.sections(low, high)
        square, count = float(self.step) ** 2, ends - starts
        if self.scaling.resolution is None and not self.scaling.knots:
            return np.asarray(square * (count**2 - 1) / 12)
        # Sheppard's correction: of a density that changes within a step, all but the last digits.
        even = self.scaling.variances(self.positions(starts), self.positions(ends))
        return np.where(count > 1, np.maximum(even - square / 12, 0.0), 0.0)

    def _from_pole(self, numbers: FloatArray) -> FloatArray:
        """Steps from where a log scale would begin, at origin - resolution, to points."""
        assert self.scaling.resolution is not None
        pole = self.scaling.origin - self.scaling.resolution
        return np.asarray((self.points(numbers) - pole) / float(self.step))


def _mean_fraction(begin: FloatArray, count: FloatArray, length: FloatArray) -> FloatArray:
    """Mean of y - floor(y - begin) - begin, for y spread evenly in log y over [begin, begin +
    count): half a step but for the density's fall."""
    total = np.zeros_like(begin)
    for place in range(SUMMED):
        at = begin + place
        total += np.where(place < count, 1 - at * np.log1p(1 / at), 0.0)
    # Each term is 1 / (2 u) - 1 / (12 u**2) + ... at its middle u; of the sum, the integral.
    near, far = begin + SUMMED, begin + np.maximum(count, SUMMED)
    total += np.log(far / near) / 2 - (1 / near - 1 / far) / 12
    return np.asarray(total / length)
