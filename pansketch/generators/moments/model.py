"""Model of a release of feature sums: means, counts and weights of its readings, with error bars.

Everything here reads released integers only, so it is post-processing and costs no privacy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from pansketch.domain.domain import Domain, FloatArray
from pansketch.estimate import Estimate, Estimates
from pansketch.generators.model import Wanted
from pansketch.generators.moments.design_matrix import Values, design_of
from pansketch.generators.moments.marginal import (
    Column,
    Marginal,
    together,
    with_unknown_correlations,
)
from pansketch.generators.moments.ridge import Fit, Means, PublishedRidge, Sums
from pansketch.generators.moments.training_points import (
    Function,
    Training,
    WeightedPoints,
    weighted_points,
)
from pansketch.generators.partition.predicate import Predicate, parse_predicate
from pansketch.sketches.moments.one_hot import Histograms
from pansketch.sketches.moments.sketch import MomentsSpec


@dataclass(frozen=True, eq=False)
class M2MModel:
    """Model of the readings of a release of feature sums.

    Estimates are linear in the function and not clipped: a share may come out below 0, and those of
    several groups add up. Errors hold noise, shrinkage, and what the features do not express.

    Args:
        spec: of the release.
        training: the points at which functions are compared with features.
        sums: the noisy feature sums, in units of a feature, and the number of readings.
        ridge: the published one that the model is held to, without an intercept; None for ours.

    Reference:
        Houssiau, Schellekens, Chatalic, Annamraju, de Montjoye (M2M, arXiv 2211.14062).
    """

    spec: MomentsSpec
    training: Training
    sums: Sums
    ridge: PublishedRidge | None = None

    @property
    def readings(self) -> Estimate:
        return self.sums.readings

    @property
    def domain(self) -> Domain:
        return self.spec.domain

    def alone(self, position: int) -> None:
        """None: points have no boxes."""

    @property
    def rows(self) -> FloatArray:
        """The training's points, float64[N, d] in real units."""
        return self.training.rows

    def check(self, attributes: Iterable[int] | None = None) -> None:
        """See `FittedModel.check`; feature sums have one noise for all attributes."""
        _ = self.sums.count

    def sampler(self) -> WeightedPoints:
        """See `FittedModel.sampler`: the training's points, drawn by their weights."""
        return weighted_points(self.rows, self.weights(), self.domain)

    @cached_property
    def fit(self) -> Fit:
        """Raises TooFewReadings where noise outweighs the readings, as all estimates do."""
        return Fit(self.training, self.sums, self.ridge)

    def estimate(self, function: Function) -> Estimate:
        """Mean of a function of a reading.

        Args:
            function: maps rows float64[n, d] in real units to numbers or truth values [n].

        Returns:
            The mean, in the function's unit.

        Raises:
            ValueError: the function's values have another shape, or are not finite.
            TooFewReadings: noise outweighs the readings.
        """
        values = _checked(function(self.rows), len(self.rows), 1)
        return _single(self._shares(self.fit.means(values[:, None])))

    def estimates(self, function: Function) -> Estimates:
        """Means of several functions at once: see `M2MModel.estimate`, with values [n, k]."""
        values = _checked(function(self.rows), len(self.rows), 2)
        return self._shares(self.fit.means(values))

    def mean(self, name: str) -> Estimate:
        """See `FittedModel.mean`. Raises ValueError for a cyclic attribute as well."""
        return self.moment(name, 1)

    def moment(self, name: str, order: int) -> Estimate:
        """Mean of a power of an attribute, in its unit to that power.

        Raises:
            ValueError: as `mean`, or the order is no whole number of 1 or more.
            TooFewReadings: noise outweighs the readings.
        """
        if isinstance(order, bool) or not isinstance(order, int) or order < 1:
            raise ValueError("the order of a moment must be a whole number of 1 or more")
        position = self._numeric(name)
        return _single(self._of_attribute(position, lambda x: x[:, None] ** order))

    def cdf(self, name: str, x: float) -> Estimate:
        """See `FittedModel.cdf`. Noise may take a share outside [0, 1]."""
        position = self._numeric(name)
        if not np.isfinite(x):
            raise ValueError("x must be a finite number")
        return self.share(f"{self.domain.names[position]} <= {float(x)!r}")

    def histogram(self, name: str, bins: int | None = None) -> tuple[Estimates, FloatArray]:
        """Readings in bins that are equally wide in the attribute's scale, or in its categories.

        Args:
            name: of the attribute.
            bins: their number; None: 10, or one for each category.

        Returns:
            Numbers of readings, [bins], and the bins' edges in the attribute's unit, float64[bins +
            1].

        Raises:
            ValueError: the attribute is unknown, there are fewer bins than one, or bins of
                categories.
            TooFewReadings: noise outweighs the readings.
        """
        position = self.domain.index(name)
        edges = self._edges(position, bins)

        def inside(column: FloatArray) -> Values:
            indices = np.searchsorted(edges[1:-1], column, side="right")
            return np.asarray(indices[:, None] == np.arange(len(edges) - 1))

        return self._totals(self._means_of_attribute(position, inside)), edges

    def quantile(self, name: str, q: float) -> Estimate:
        """See `FittedModel.quantile`: feature sums give none, so it always raises ValueError."""
        raise ValueError("a model of feature sums has no quantiles: ask for the cdf")

    def count(self, wanted: Wanted | str) -> Estimate:
        """See `FittedModel.count`. Raises ValueError for ranges: feature sums take text only."""
        return _single(self._totals(self._means_where(self._predicate(wanted))))

    def share(self, wanted: Wanted | str) -> Estimate:
        """See `FittedModel.share`. Noise may take it outside [0, 1]."""
        return _single(self._shares(self._means_where(self._predicate(wanted))))

    def _means_where(self, predicate: Predicate) -> Means:
        """The share of readings for which a conjunction holds."""
        positions = sorted(predicate.positions)
        if len(positions) > 1 and not self._marginals:
            return self.fit.means(predicate.holds(self.rows)[:, None])
        return together(
            [self._means_of_attribute(each, predicate.of_column(each)) for each in positions]
        )

    def bin_shares(self, bins: Sequence[Sequence[str]]) -> Estimates:
        """See `FittedModel.bin_shares`."""
        found = [self.share(" & ".join(each)) for each in product(*bins)]
        shape = tuple(map(len, bins))
        values, errors = ([getattr(e, name) for e in found] for name in ("value", "standard_error"))
        return Estimates(np.reshape(values, shape), np.reshape(errors, shape))

    def _predicate(self, wanted: Wanted | str) -> Predicate:
        if not isinstance(wanted, str):
            raise ValueError("a model of feature sums has no ranges: write a condition")
        found = parse_predicate(wanted, self.domain)
        return found.check_bounds(self.domain, self._marginals)

    def covariance(self, names: tuple[str, ...] | None = None) -> Estimates:
        """See `FittedModel.covariance`. Each is an estimate of its own: the matrix need not be
        positive semidefinite.
        """
        names = self.domain.numbers if names is None else names
        indices = [self._numeric(name) for name in names]
        centres = np.array([self.mean(name).value for name in names])
        centred = self.rows[:, indices] - centres
        first, second = np.triu_indices(len(indices))
        found = self._shares(self.fit.means(centred[:, first] * centred[:, second]))
        value, error = np.empty((2, len(indices), len(indices)))
        for matrix, numbers in ((value, found.value), (error, found.standard_error)):
            matrix[first, second] = matrix[second, first] = numbers
        for place, (position, centre) in enumerate(zip(indices, centres, strict=True)):
            if position in self._marginals:
                own = self._of_attribute(position, _square_from(float(centre)))
                value[place, place], error[place, place] = own.value[0], own.standard_error[0]
        if self._marginals:
            return with_unknown_correlations(value, error)
        return Estimates(value, error)

    def weights(self, points: FloatArray | None = None) -> FloatArray:
        """The readings' density at points, relative to the training's.

        A weighted mean over the training's points is the estimate of that mean. A learner that
        takes weights learns from the release (the paper's implicit M2M), after negative ones are
        set to zero.

        Args:
            points: float64[n, d] in real units; None: the training's own.

        Returns:
            float64[n]; negative ones occur.

        Raises:
            ValueError: the points have another shape, or are not finite.
            TooFewReadings: noise outweighs the readings.
        """
        offset, weights = self.fit.offset_and_weights
        design = self.training.design if points is None else design_of(self.spec, points)
        return offset + design.combined(weights)

    @cached_property
    def _marginals(self) -> dict[int, Marginal]:
        features = self.spec.map
        if not isinstance(features, Histograms) or self.ridge is not None:
            return {}
        counts = np.split(self.sums.features, np.cumsum(features.lengths)[:-1])
        attributes = self.domain.attributes
        return {
            place: Marginal(attributes[place], parts, own, self.sums.variance, self.sums.count)
            for place, parts, own in zip(features.indices, features.parts, counts, strict=True)
        }

    def _of_attribute(self, position: int, function: Column) -> Estimates:
        return self._shares(self._means_of_attribute(position, function))

    def _means_of_attribute(self, position: int, function: Column) -> Means:
        if position in self._marginals:
            return self._marginals[position].means(function)
        return self.fit.means(function(self.rows[:, position]))

    def _shares(self, means: Means) -> Estimates:
        doubt = self.readings.standard_error / self.readings.value
        return Estimates(means.value, np.sqrt(means.variance + (means.slope * doubt) ** 2))

    def _totals(self, means: Means) -> Estimates:
        count, error = self.readings.value, self.readings.standard_error
        # The contribution of the sums needs no number of readings: only the rest is multiplied by
        # it.
        variance = count**2 * means.variance + ((means.value - means.slope) * error) ** 2
        return Estimates(count * means.value, np.sqrt(variance))

    def _numeric(self, name: str) -> int:
        position = self.domain.index(name)
        if self.domain.attributes[position].categories is not None:
            raise ValueError(f"{name} has categories: ask for the count of one of them")
        if self.domain.attributes[position].cyclic:
            raise ValueError(f"{name} is cyclic, and moments know no circle: count its parts")
        return position

    def _edges(self, position: int, bins: int | None) -> FloatArray:
        attribute = self.domain.attributes[position]
        if attribute.categories is not None:
            if bins is not None:
                raise ValueError(f"{attribute.name} has categories: leave the bins out")
            return np.arange(len(attribute.categories) + 1.0)
        if bins is not None and (isinstance(bins, bool) or not isinstance(bins, int) or bins < 1):
            raise ValueError("the number of bins must be a whole number of 1 or more")
        return attribute.from_unit(np.linspace(0, 1, (bins or 10) + 1))


def _checked(values: Values, count: int, dimensions: int) -> Values:
    values = np.asarray(values)
    if values.ndim != dimensions or len(values) != count:
        wanted = "[n]" if dimensions == 1 else "[n, k]"
        raise ValueError(f"the function must map rows float64[n, d] to numbers {wanted}")
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise ValueError("the function must be a finite number at every point of the training")
    return values


def _single(found: Estimates) -> Estimate:
    return Estimate(float(found.value[0]), float(found.standard_error[0]))


def _square_from(centre: float) -> Column:
    return lambda column: (column[:, None] - centre) ** 2
