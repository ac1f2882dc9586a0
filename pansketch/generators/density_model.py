"""What a density sketch says of the density its readings come from: in numbers and in samples.

Everything here reads released integers only, so it is post-processing and costs no privacy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pansketch.cells import CellsSpec
from pansketch.domain import Attribute, FloatArray
from pansketch.estimate import Estimate
from pansketch.generators.heavy import boxes
from pansketch.generators.imse import ImseTerms, imse_terms
from pansketch.generators.partition import EmptyModel, Partition
from pansketch.generators.recovery import Paths, Recovery, ReleasedTable
from pansketch.paths import PathEncoder


@dataclass(frozen=True, eq=False)
class DensityModel:
    """What a release says of the density its readings come from.

    `readings`: how many there are. `paths`, `counts`: the heavy cells, in order of path, and the
    readings in each. `partition`: the sampler f_S as weighted boxes that hold all readings; its
    quantiles, means, counts and shares have standard errors.
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
        """Synthetic records, float64[count, d], in real units and inside the bounds.

        Raises EmptyModel when the noisy number of readings is not positive or no cell is heavy,
        ValueError for a negative count.
        """
        self._check_heavy()
        return self.partition.sample(count, generator)

    def density(self, points: FloatArray) -> FloatArray:
        """f_C at points, float64[n, d] in real units -> float64[n], per unit of every number; a
        category counts as a probability. Never negative, zero out of bounds.

        Raises EmptyModel when the noisy number of readings is not positive, ValueError for another
        shape and for points that are not finite.
        """
        readings = self._positive_readings()
        points, paths = self._located(points)
        counts = np.maximum(self.table.counts(paths, self.recovery), 0.0)
        return self._per_unit(points, paths, counts / readings)

    def sampler_density(self, points: FloatArray) -> FloatArray:
        """f_S at points: the density of what `sample` draws. Shapes and errors as `density`."""
        self._check_heavy()
        points, paths = self._located(points)
        place = np.searchsorted(self.paths, paths).clip(max=len(self.paths) - 1)
        shares = np.where(self.paths[place] == paths, self.counts[place], 0.0) / self.counts.sum()
        return self._per_unit(points, paths, shares)

    def imse_terms(self, slopes: Sequence[float] = ()) -> ImseTerms:
        """The parts of f_C's error, as far as the release itself tells (generators/imse.py).

        Raises EmptyModel when the noisy number of readings is not positive.
        """
        readings = self._positive_readings()
        pairs = max(self.table.second_moment - readings, 0.0)  # The same cell twice, over readings.
        roughness = pairs * float(1 << self.spec.depth) / readings**2
        return imse_terms(self.spec, readings, self.table.draws, roughness, slopes)

    def _check_heavy(self) -> None:
        self._positive_readings()
        if not len(self.counts):
            raise EmptyModel("no cell is heavy enough to be told from noise")

    def _positive_readings(self) -> float:
        if self.readings.value <= 0:
            raise EmptyModel(
                "the noisy number of readings is not positive: too few readings for this epsilon"
            )
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
    lengths = np.full_like(values, 1 / attribute.extent)
    if attribute.scale == "log" and attribute.categories is None:
        lengths /= attribute.resolution + values - attribute.origin
    return lengths
