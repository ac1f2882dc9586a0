"""Marginals of HIST sketches, read off directly: no training points, and no shrinkage.

Histograms of single attributes do not show any dependence. An answer about several attributes is
that of independent ones. Its error covers every number that the histograms allow, however strongly
the attributes depend on each other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Attribute, FloatArray
from pansketch.domain.fixed_point import MAX_POSITIONS, POSITION_BITS
from pansketch.estimate import Estimates
from pansketch.generators.moments.ridge import Means
from pansketch.generators.partition.box_overlap import steepness

INSIDE = 256  # Positions inside a bin at which a function is evaluated.

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
        means, spread, piled = self._bins(function)
        level = means.mean(axis=0)
        above = means - level
        slope = self.counts @ above / self.readings
        noise = self.variance * np.sum(above**2, axis=0) / self.readings**2
        shares = np.maximum(self.counts, 0.0) / self.readings
        inside = (shares**2 + shares / self.readings) @ spread  # The second is of a sample.
        return Means(level + slope, noise + np.maximum(inside, (shares @ piled) ** 2), slope)

    def _bins(self, function: Column) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means and variances of functions inside each bin, and their errors for a frequent value
        there: float64[bins, k]. Frequent values may all be at the same end of their bins, as
        multiples of a width are."""
        bins = len(self.counts)
        if self.attribute.categories is not None:
            values = np.asarray(function(np.arange(bins, dtype=np.float64)), np.float64)
            return values, np.zeros_like(values), np.zeros_like(values)
        edges = self._edges(bins)
        inside = np.tile((np.arange(INSIDE) + 0.5) / INSIDE, bins)
        owners = np.repeat(np.arange(bins), INSIDE)
        at = self.attribute.inside(edges[:-1], edges[1:], owners, inside)
        values = np.asarray(function(at), np.float64).reshape(bins, INSIDE, -1)
        whole = values
        if self.attribute.lattice is None:  # With a step no value is between two points.
            ends = np.asarray(function(self.attribute.from_unit(edges)), np.float64)
            whole = np.concatenate([values, ends[:-1, None], ends[1:, None]], axis=1)
        least, most, mean = whole.min(axis=1), whole.max(axis=1), values.mean(axis=1)
        # Readings of one frequent value may be on either side of a step, even at its edge. So, as
        # in a partition, their share is anything from the minimum to the maximum.
        piled = (mean - (least + most) / 2) ** 2 + (most - least) ** 2 / 12
        below = np.concatenate([[0.0], np.cumsum(np.maximum(self.counts, 0.0))])
        steep = steepness(np.arange(bins + 1.0), below, pairs=True)[:, None]
        return mean, values.var(axis=1), np.sqrt(steep * piled)

    def _edges(self, bins: int) -> FloatArray:
        """Ends of the bins in the unit interval: the first position that each counts. A value on
        the border of two bins is often in the lower one, because positions round down."""
        starts = -(-(np.arange(bins + 1) << POSITION_BITS) // self.parts)
        return np.asarray(starts / MAX_POSITIONS)


def together(shares: Sequence[Means]) -> Means:
    """The share of readings for which all of some conditions hold, of one attribute each.

    It lies between the bounds of Frechet. The lower one is the sum of the shares less the number of
    others, the upper one the least share. All numbers between are as likely. Two standard errors
    reach both ends from any number between.
    """
    if len(shares) == 1:
        return shares[0]
    values = np.array([each.value for each in shares])
    slopes = np.array([each.slope for each in shares])
    variances = np.array([each.variance for each in shares])
    others = np.array([np.delete(values, n, axis=0).prod(axis=0) for n in range(len(values))])
    held = np.clip(values, 0.0, 1.0)
    least, most = np.maximum(held.sum(axis=0) - (len(held) - 1), 0.0), held.min(axis=0)
    product = values.prod(axis=0)
    unknown = (most - least) ** 2 / 12 + ((most + least) / 2 - held.prod(axis=0)) ** 2
    noise = np.sum(others**2 * variances, axis=0)
    return Means(product, noise + unknown, np.sum(others * slopes, axis=0))


def with_unknown_correlations(value: FloatArray, error: FloatArray) -> Estimates:
    """Covariances float64[k, k] with their errors, of which the diagonals alone are known. Others
    are 0, with the error of an unknown correlation."""
    largest = np.maximum(np.diag(value), 0.0) + np.diag(error)
    deviations = np.sqrt(largest)
    off = ~np.eye(len(value), dtype=bool)
    return Estimates(
        np.where(off, 0.0, value), np.where(off, np.outer(deviations, deviations) / sqrt(3), error)
    )
