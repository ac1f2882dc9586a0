"""Marginals of HIST sketches, read off directly: no training points, and no shrinkage."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Attribute, FloatArray
from pansketch.generators.moments.ridge import Means
from pansketch.generators.partition.box_overlap import steepness

INSIDE = 64  # Positions inside a bin at which a function is evaluated.

Column = Callable[[FloatArray], npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Marginal:
    """Noisy counts of an attribute's bins, float64[bins], the variance of their noise, and the
    noisy number of readings, which must be positive.

    `parts`: how many such bins the unit interval has. Inside a bin readings are taken to be spread
    evenly.
    """

    attribute: Attribute
    parts: int
    counts: FloatArray
    variance: float
    readings: float

    def means(self, function: Column) -> Means:
        """Means of functions of the attribute: values float64[n] -> [n, k].

        The counts weigh the difference of a function from its mean over the bins. So a constant is
        exact, and the counts of all bins add up to the number of readings.
        """
        inside, spread = self._bins(function)
        level = inside.mean(axis=0)
        above = inside - level
        slope = self.counts @ above / self.readings
        noise = self.variance * np.sum(above**2, axis=0) / self.readings**2
        shares = np.maximum(self.counts, 0.0) / self.readings
        return Means(level + slope, noise + shares**2 @ spread, slope)

    def _bins(self, function: Column) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of functions inside each bin: float64[bins, k]."""
        bins = len(self.counts)
        if self.attribute.categories is not None:
            values = np.asarray(function(np.arange(bins, dtype=np.float64)), np.float64)
            return values, np.zeros_like(values)
        inside = (np.arange(INSIDE) + 0.5) / INSIDE
        at = (np.arange(bins)[:, None] + inside).reshape(-1) / self.parts
        values = np.asarray(function(self.attribute.from_unit(at)), np.float64)
        values = values.reshape(bins, INSIDE, -1)
        ends = np.asarray(
            function(self.attribute.from_unit(np.arange(bins + 1) / self.parts)), np.float64
        )
        whole = np.concatenate([values, ends[:-1, None], ends[1:, None]], axis=1)
        least, most, mean = whole.min(axis=1), whole.max(axis=1), values.mean(axis=1)
        # Readings of one frequent value may be on either side of a step, even at its edge. So, as
        # in a partition, their share is anything from the minimum to the maximum.
        piled = (mean - (least + most) / 2) ** 2 + (most - least) ** 2 / 12
        below = np.concatenate([[0.0], np.cumsum(np.maximum(self.counts, 0.0))])
        steep = steepness(np.arange(bins + 1.0), below)[:, None]
        return mean, np.maximum(values.var(axis=1), steep * piled)
