"""One attribute's scale: values in its unit and their places in the unit interval."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """Evenly in x - `origin`, or in log(1 + (x - origin) / `resolution`) where there is one.

    `extent`: length of the scaled interval that the unit interval stands for. Nothing is clipped:
    places beyond 0 and 1 are those of values beyond the bounds.
    """

    origin: float
    extent: float
    resolution: float | None = None

    def values(self, units: FloatArray) -> FloatArray:
        """Places as values in the attribute's unit."""
        scaled = units * self.extent
        if self.resolution is not None:
            scaled = np.expm1(scaled) * self.resolution
        return np.asarray(self.origin + scaled)

    def places(self, values: FloatArray) -> FloatArray:
        """Values as places, rounded in every step as `PathEncoder` rounds them: a cell of 2**-b
        holds the values whose places it holds."""
        shifted = values - self.origin
        if self.resolution is not None:
            shifted = np.log(np.maximum(shifted, 0.0) / self.resolution + 1.0)
        return np.asarray(shifted * (1.0 / self.extent))

    def means(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Mean value of a point spread evenly over each interval [low, high) of places."""
        if self.resolution is None:
            return np.asarray((self.values(low) + self.values(high)) / 2)
        start, first, _ = self._moments(low, high, self.resolution)
        return np.asarray(self.origin - self.resolution + start * first)

    def variances(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Variance of a point spread evenly over each interval [low, high) of places."""
        if self.resolution is None:
            return np.asarray(((high - low) * self.extent) ** 2 / 12)
        start, first, second = self._moments(low, high, self.resolution)
        return np.asarray(start**2 * np.maximum(second - first**2, 0.0))

    def _moments(
        self, low: FloatArray, high: FloatArray, resolution: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of exp(t) over [a, a + w]: its start, and the first two moments with exp(a) taken out,
        for what is left is exact for narrow intervals too."""
        width = (high - low) * self.extent
        start = resolution * np.exp(low * self.extent)
        return start, np.expm1(width) / width, np.expm1(2 * width) / (2 * width)
