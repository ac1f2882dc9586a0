"""One attribute's scale: values in its unit and their positions in the unit interval."""

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pansketch.erasable_arrays import block, erase

if TYPE_CHECKING:
    from pansketch.domain.atoms import AtomPlaces

FloatArray = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Scaling:
    """Positions are linear in x - `origin`, or in log(1 + (x - origin) / `resolution`) if it is
    given. With `knots` they are linear between neighbouring knots.

    `extent`: length of the scaled interval that the unit interval stands for; 1 with knots. Nothing
    is clipped: values beyond the bounds have positions beyond 0 and 1. `placed`: the sections that
    atoms leave for the values.
    """

    origin: float
    extent: float
    resolution: float | None = None
    knots: tuple[float, ...] = ()
    placed: "AtomPlaces | None" = None

    @property
    def top(self) -> float:
        """End of the values."""
        return 1.0 if self.placed is None else self.placed.top

    @cached_property
    def segments(self) -> "KnotSegments | None":
        """The parts between knots; None where there are none."""
        return KnotSegments(np.array(self.knots) - self.origin) if self.knots else None

    @property
    def parts_bits(self) -> int:
        """Bits of cells that are no wider than the parts between knots; 0 without knots."""
        if not self.knots:
            return 0
        values = 1.0 if self.placed is None else self.placed.values_share
        return (ceil((len(self.knots) - 1) / values) - 1).bit_length()

    def values(self, units: FloatArray) -> FloatArray:
        """Convert positions to values in the attribute's unit."""
        if self.placed is not None:
            units = self.placed.plain(units)
        if self.segments is not None:
            return np.asarray(self.origin + self.segments.distances(units))
        scaled = units * self.extent
        if self.resolution is not None:
            scaled = np.expm1(scaled) * self.resolution
        return np.asarray(self.origin + scaled)

    def positions(self, values: FloatArray) -> FloatArray:
        """Convert values to positions. Every step rounds as `PathEncoder` does: a cell of 2**-b
        holds the values whose positions it holds."""
        plain = self._plain_positions(values)
        return plain if self.placed is None else self.placed.spread(plain)

    def _plain_positions(self, values: FloatArray) -> FloatArray:
        shifted = values - self.origin
        if self.segments is not None:
            return self.segments.positions(shifted)
        if self.resolution is not None:
            shifted = np.log(np.maximum(shifted, 0.0) / self.resolution + 1.0)
        return np.asarray(shifted * (1.0 / self.extent))

    def means(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Mean value of a point spread evenly over each interval [low, high) of positions."""
        if self.segments is not None:
            return np.asarray(self.origin + self.segments.moments(*self._plain(low, high))[0])
        if self.resolution is None:
            return np.asarray((self.values(low) + self.values(high)) / 2)
        start, first, _ = self._moments(*self._plain(low, high), self.resolution)
        return np.asarray(self.origin - self.resolution + start * first)

    def variances(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Variance of a point spread evenly over each interval [low, high) of positions."""
        low, high = self._plain(low, high)
        if self.segments is not None:
            return self.segments.moments(low, high)[1]
        if self.resolution is None:
            return np.asarray(((high - low) * self.extent) ** 2 / 12)
        start, first, second = self._moments(low, high, self.resolution)
        return np.asarray(start**2 * np.maximum(second - first**2, 0.0))

    def _plain(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Convert intervals of positions to those without atoms."""
        return (
            (low, high)
            if self.placed is None
            else (self.placed.plain(low), self.placed.plain(high))
        )

    def _moments(
        self, low: FloatArray, high: FloatArray, resolution: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of exp(t) over [a, a + w]: its start, and the first two moments divided by exp(a). The
        quotients are exact for narrow intervals too."""
        width = (high - low) * self.extent
        start = resolution * np.exp(low * self.extent)
        return start, np.expm1(width) / width, np.expm1(2 * width) / (2 * width)


class KnotSegments:
    """The parts of a scale between its knots, each as long as the others in the unit interval.

    Args:
        knots: distances from `origin`, float64[m + 1], rising; m is a power of two, so that no
            part's end is rounded.
    """

    def __init__(self, knots: FloatArray) -> None:
        self._knots = knots
        self._steepness = 1 / np.diff(knots)
        self._count = len(knots) - 1

    def distances(self, positions: FloatArray) -> FloatArray:
        """Convert positions to distances from `origin`."""
        scaled = positions * self._count
        held = self._part_of(np.floor(scaled))
        return np.asarray(self._knots[held] + (scaled - held) / self._steepness[held])

    def positions(self, distances: FloatArray) -> FloatArray:
        """Convert distances to positions. Every step rounds as `Warp` does."""
        held = np.searchsorted(self._knots[1:-1], distances, side="right")
        scaled = (distances - self._knots[held]) * self._steepness[held] + held
        return np.asarray(scaled * (1.0 / self._count))

    def slopes(self, distances: FloatArray) -> FloatArray:
        """Lengths of the unit interval that one unit of distance takes up at these distances."""
        held = np.searchsorted(self._knots[1:-1], distances, side="right")
        return np.asarray(self._steepness[held] / self._count)

    def place_in(self, distances: FloatArray, looked_up: FloatArray) -> None:
        """The same in place, for secrets. Both are contiguous; `looked_up` is scratch."""
        # Only the inner knots, so that any reading is in one of the parts.
        held = np.searchsorted(self._knots[1:-1], distances, side="right")
        # "clip" keeps numpy from taking into a buffer of its own.
        np.take(self._knots, held, out=looked_up, mode="clip")
        np.subtract(distances, looked_up, out=distances)
        np.take(self._steepness, held, out=looked_up, mode="clip")
        np.multiply(distances, looked_up, out=distances)
        np.copyto(looked_up, held)
        np.add(distances, looked_up, out=distances)
        np.multiply(distances, 1.0 / self._count, out=distances)
        held.fill(0)

    def moments(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of a point spread evenly over each interval [low, high) of
        positions."""
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        first = self._part_of(np.floor(low * self._count))
        last = self._part_of(np.ceil(high * self._count) - 1)
        weights, means, squares = np.zeros((3, len(low)))
        for turn in range(int((last - first).max(initial=0)) + 1):
            held = np.flatnonzero(first + turn <= last)
            part = first[held] + turn
            start = np.maximum(low[held], part / self._count) if turn else low[held]
            end = np.where(part == last[held], high[held], (part + 1) / self._count)
            weight = end - start
            wide = self._count / self._steepness[part]
            middle = self._knots[part] + ((start + end) / 2 - part / self._count) * wide
            # Welford's update, weighted: no square of a large mean is ever taken from another.
            weights[held] += weight
            share = weight / weights[held]
            away = middle - means[held]
            means[held] += share * away
            squares[held] += weight * ((weight * wide) ** 2 / 12 + (1 - share) * away**2)
        return means, squares / weights

    def _part_of(self, numbers: FloatArray) -> Indices:
        return np.clip(numbers, 0, self._count - 1).astype(np.intp)


class Warp:
    """Converts distances of readings from each attribute's `low` to positions on its learned scale,
    in scratch. Those of other scales stay."""

    def __init__(self, scalings: "list[Scaling]", size: int) -> None:
        self._learned = [
            (place, each.segments) for place, each in enumerate(scalings) if each.segments
        ]
        self._looked_up = np.zeros((1, size if self._learned else 0))

    def apply(self, units: FloatArray) -> None:
        """In place: float64[d, n], a contiguous block (pansketch/erasable_arrays.py)."""
        for place, segments in self._learned:
            segments.place_in(units[place], block(self._looked_up, units.shape[1])[0])

    def erase(self, count: int) -> None:
        """Overwrites what at most `count` readings left in scratch."""
        if self._learned:
            erase(count, self._looked_up)
