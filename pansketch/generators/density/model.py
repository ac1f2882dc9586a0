"""Density of the readings, estimated from a density sketch: in numbers and in samples.

Everything here reads released integers only, so it is post-processing and costs no privacy.

Desai, Coleman, Shrivastava (Density Sketch) bound the integrated mean square error of their
estimate. Their terms are the bias and the variance of a histogram (Scott, "Multivariate density
estimation", chapter 3), the collisions of the count-sketch and the noise. The terms here have those
causes, but hold for a finite number of readings, with constants derived here. There are n readings,
N cells of volume 1/N, K rows of R columns, and noise of variance v in a counter.

A cell's estimated density is N/n times its count's, and the integral is the mean over cells of the
squared error. Sampling: the counts' variance is n at most in all, so N/n. Collisions and noise: a
recovered count's variance is (F2/R + v)/K at most, in each of N cells of weight N/n**2. F2, the sum
of the squared counts, is n**2 roughness/N + n at most. All densities are of the unit cube.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi

import numpy as np

from pansketch.domain.cell_paths import PathEncoder
from pansketch.domain.domain import Attribute, FloatArray
from pansketch.estimate import Estimate
from pansketch.generators.density.cell_counts import Paths, Recovery, ReleasedTable, boxes
from pansketch.generators.partition.partition import Partition
from pansketch.generators.significance import EmptyModel
from pansketch.sketches.cells import CellsSpec
from pansketch.sketches.count_sketch import laplace_variance


@dataclass(frozen=True)
class ImseTerms:
    """Parts of the integrated mean square error of an estimated density, by cause.

    Attributes:
        bias: a density is not flat within a cell.
        variance: readings are a sample.
        collisions: cells share counters.
        noise: noise of the tables.
        count: noise of the number of readings, to first order in its relative variance.
    """

    bias: float
    variance: float
    collisions: float
    noise: float
    count: float

    @property
    def total(self) -> float:
        """A bound of the error of the density recovered by the mean."""
        return self.bias + self.variance + self.collisions + self.noise + self.count


def imse_terms(
    spec: CellsSpec, readings: float, draws: float, roughness: float, slopes: Sequence[float] = ()
) -> ImseTerms:
    """The terms for a density f over the unit cube and the mean over rows.

    Args:
        spec: of the density sketch.
        readings: their number, positive.
        draws: draws of noise in each counter, as a release states them; 0: a table without noise.
        roughness: the integral of f**2.
        slopes: for each attribute the integral of the square of f's derivative along it; without
            them `bias` is 0, because no release tells it.

    Returns:
        The terms, which add up to the error.

    Raises:
        ValueError: readings are not positive, or slopes are neither none nor one an attribute.
    """
    if readings <= 0:
        raise ValueError("the error of a density needs a positive number of readings")
    if slopes and len(slopes) != spec.domain.dimension:
        raise ValueError(f"slopes must be {spec.domain.dimension} numbers, one an attribute")
    table, cells = spec.tables[-1], float(1 << spec.depth)
    order = spec.domain.split_order(spec.depth)
    # Payne and Weinberger: within a box of sides h, a function's variance is below this.
    bias = sum(slope * 4.0 ** -order.count(i) for i, slope in enumerate(slopes)) / pi**2
    variance = cells / readings
    second_moment = readings**2 * roughness / cells + readings
    each = cells**2 / (readings**2 * spec.rows)
    collisions = each * second_moment / spec.width
    noise = each * draws * table.noise_variance
    relative = draws * laplace_variance(spec.count_scale) / readings**2
    count = relative * (roughness + 3 * (bias + variance + collisions + noise))
    return ImseTerms(bias, variance, collisions, noise, count)


@dataclass(frozen=True, eq=False)
class DensityModel:
    """Density of the readings, estimated from a release.

    Attributes:
        spec: of the release.
        readings: their estimated number.
        paths: the heavy cells, uint64[n], in order of path.
        counts: readings in each heavy cell, float64[n].
        table: the finest table of the release, from which densities are read.
        recovery: how a cell's count follows from the rows of the table.
        partition: the sampler f_S as weighted boxes that hold all readings; its quantiles, means,
            counts and shares have standard errors.

    Reference:
        Desai, Coleman, Shrivastava, "Density sketches for sampling and estimation"
        (arXiv 2102.12301).
    """

    spec: CellsSpec
    readings: Estimate
    paths: Paths
    counts: FloatArray
    table: ReleasedTable
    recovery: Recovery
    partition: Partition

    @property
    def capture_ratio(self) -> float:
        """Share of the readings in the heavy cells; the published way may find more than all."""
        return float(self.counts.sum() / self._positive_readings())

    def sample(self, count: int, generator: np.random.Generator) -> FloatArray:
        """Synthetic records in real units and inside the bounds.

        Args:
            count: number of records.
            generator: draws them.

        Returns:
            float64[count, d].

        Raises:
            EmptyModel: noise outweighs the readings, or no cell is heavy.
            ValueError: the count is negative.
        """
        self._check_heavy()
        return self.partition.sample(count, generator)

    def density(self, points: FloatArray) -> FloatArray:
        """The density f_C at points, per unit of every number; a category counts as a probability.

        Args:
            points: float64[n, d] in real units.

        Returns:
            float64[n], never negative, zero out of bounds.

        Raises:
            TooFewReadings: noise outweighs the readings.
            ValueError: the points have another shape, or are not finite.
        """
        readings = self._positive_readings()
        points, paths = self._located(points)
        counts = np.maximum(self.table.counts(paths, self.recovery), 0.0)
        return self._per_unit(points, paths, counts / readings)

    def imse_terms(self, slopes: Sequence[float] = ()) -> ImseTerms:
        """The parts of f_C's error, as far as the release itself tells.

        Args:
            slopes: as for the function `imse_terms`.

        Returns:
            The terms, which add up to the error.

        Raises:
            TooFewReadings: noise outweighs the readings.
            ValueError: the slopes are neither none nor one an attribute.
        """
        readings = self._positive_readings()
        pairs = max(self.table.second_moment - readings, 0.0)  # The same cell twice, over readings.
        roughness = pairs * float(1 << self.spec.depth) / readings**2
        return imse_terms(self.spec, readings, self.table.draws, roughness, slopes)

    def _check_heavy(self) -> None:
        self._positive_readings()
        if not len(self.counts):
            raise EmptyModel("no cell is heavy enough to be distinguished from noise")

    def _positive_readings(self) -> float:
        assert self.partition.noise is not None
        self.partition.noise.check(self.readings.value)
        return self.readings.value

    def _located(self, points: FloatArray) -> tuple[FloatArray, Paths]:
        """Points and their cells."""
        points = np.asarray(points, np.float64)
        if not np.isfinite(points).all():
            raise ValueError("points must be finite")
        encoder = PathEncoder(self.spec.domain, self.spec.depth)
        parts = [paths.copy() for paths in encoder.encode(points)]
        return points, np.concatenate([np.zeros(0, np.uint64), *parts])

    def _per_unit(self, points: FloatArray, paths: Paths, shares: FloatArray) -> FloatArray:
        """Shares of cells as densities in real units."""
        low, high = boxes(self.spec.domain, paths, self.spec.depth)
        heights = shares / (high - low).prod(axis=1)
        for attribute, values in zip(self.spec.domain.attributes, points.T, strict=True):
            inside = (attribute.origin <= values) & (values <= attribute.highest)
            within = np.clip(values, attribute.origin, attribute.highest)
            heights *= np.where(inside, _units_per_value(attribute, within), 0.0)
        return np.asarray(heights)


def _units_per_value(attribute: Attribute, values: FloatArray) -> FloatArray:
    """Lengths of the unit interval that one unit of a number, or one category, takes up there."""
    segments = attribute.scaling.segments
    if segments is not None:
        return segments.slopes(values - attribute.origin)
    lengths = np.full_like(values, 1 / attribute.extent)
    if attribute.scale == "log" and attribute.categories is None:
        lengths /= attribute.resolution + values - attribute.origin
    return lengths
