"""A partition of the domain into weighted boxes: samples and answers, with error bars.

Everything here reads released integers only, so it is post-processing and costs no privacy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import hypot, isfinite, sqrt

import numpy as np

from pansketch.domain.domain import Domain, FloatArray
from pansketch.domain.intervals import Interval, edge, whole
from pansketch.estimate import Estimate, Estimates
from pansketch.generators.model import Hidden, Wanted
from pansketch.generators.partition import moments
from pansketch.generators.partition.box_overlap import (
    Cells,
    cumulative,
    distinct,
    overlap,
    systematic,
)
from pansketch.generators.partition.cut_boxes import doubt, doubt_of_mean, doubt_of_quantile
from pansketch.generators.partition.predicate import parse_predicate
from pansketch.generators.partition.present import alone, covariances_of_present, present
from pansketch.generators.partition.shares import (
    bin_shares,
    least_error,
    least_of_quantile,
    value_at,
)
from pansketch.generators.significance import EmptyModel, Fits, Noise, squared_error

Statistic = Callable[["Partition"], float]


@dataclass(frozen=True, eq=False)
class Partition:
    """Boxes of the unit cube that hold readings. Inside a box readings are taken to be spread
    evenly.

    Questions and samples raise TooFewReadings where noise outweighs the readings.

    Args:
        domain: d attributes.
        low: lower corners of the boxes, float64[n, d] in [0, 1].
        high: upper corners, float64[n, d] in [0, 1].
        mass: readings in each box, float64[n].
        replicate: makes models of the same releases with independent draws of their declared noise.
            Standard errors are the spread of a statistic over them.
        unresolved: an error in readings, where boxes state more about several attributes together
            than was released; `Dependence.doubt` computes it.
        noise: the noise that the readings have to outweigh; None: none.
        hidden: the squared error that noise leaves in the joint counts of two attributes;
            `Dependence.hidden` computes it.
        cells: by position an attribute's cells, of which boxes are parts; of others boxes
            themselves are cells.
        fits: how the replicates are fitted.
        shown: corners of the box around each that a release tells from others, float64[n, d] each.
            The parts inside it are noise. None: of each box itself.
    """

    domain: Domain
    low: FloatArray
    high: FloatArray
    mass: FloatArray
    replicate: Callable[[], "Sequence[Partition]"] = tuple
    unresolved: Callable[[Mapping[int, FloatArray]], FloatArray] = lambda inside: np.zeros(1)
    noise: Noise | None = None
    hidden: Hidden | None = None
    cells: Mapping[int, Cells] = field(default_factory=dict)
    fits: Fits = field(default_factory=Fits)
    shown: tuple[FloatArray, FloatArray] | None = None

    @property
    def total(self) -> float:
        """Estimated number of readings in all boxes."""
        return float(self.mass.sum())

    @property
    def readings(self) -> Estimate:
        """`total`, with the noise on it where that is known."""
        return Estimate(self.total, 0.0 if self.noise is None else self.noise.total)

    def alone(self, position: int) -> "Partition":
        """See `FittedModel.alone`."""
        return alone(self, position)

    def check(self, attributes: Iterable[int] | None = None) -> None:
        """See `FittedModel.check`."""
        if self.noise is not None:
            self.noise.check(self.total, self.noise.below if attributes is None else attributes)

    @cached_property
    def replicates(self) -> "tuple[Partition, ...]":
        return tuple(self.replicate())

    def sample(self, count: int, generator: np.random.Generator) -> FloatArray:
        """Synthetic records, float64[count, d], in real units and inside the bounds.

        Boxes are drawn by systematic sampling, so the records of one call are not independent. The
        number in each box is its share of them, rounded up or down. Of an attribute with a step the
        values are multiples of it.

        Raises:
            EmptyModel: noise outweighs the readings, or their noisy number is not positive.
            ValueError: the count is negative.
        """
        if count < 0:
            raise ValueError("the number of records must not be negative")
        self.check()
        boxes = systematic(self.box_shares(), count, generator)
        records = generator.random((count, self.domain.dimension))
        for place, attribute in enumerate(self.domain.attributes):
            ends = self.low[:, place], self.high[:, place]
            records[:, place] = attribute.inside(*ends, boxes, records[:, place])
        return records

    def quantile(self, name: str, q: float) -> Estimate:
        """See `FittedModel.quantile`."""
        position = self._ordered(name)
        if not 0 <= q <= 1:
            raise ValueError(f"q must lie between 0 and 1, not {q:g}")
        self.check([position])
        return self.present([position])._quantile(position, q)

    def _quantile(self, position: int, q: float) -> Estimate:
        def at(model: Partition) -> float:
            return value_at(model, position, q)

        value = at(self)
        least = least_of_quantile(self, position, q, value)
        return self._estimate(value, at, least, doubt_of_quantile(self, position, q, value))

    def mean(self, name: str) -> Estimate:
        """See `FittedModel.mean`.

        Of a cyclic attribute it is the circular mean: the direction of the sum of all values as
        unit vectors. Its error is at most that of a direction of which nothing is known.
        """
        position = self._numeric(name)
        if self.noise is not None:
            self.noise.check_mean(self.total, position)
        attribute = self.domain.attributes[position]
        present = self.present([position], of_mean=True)
        return present._mean_direction(position) if attribute.cyclic else present._mean(position)

    def _mean(self, position: int) -> Estimate:
        others = moments.of_moments(self)
        value, *means = moments.means([self, *others.values()], position)
        apart = {n: np.asarray(mean - value) for n, mean in zip(others, means, strict=True)}
        squares = squared_error(apart, self.fits) + doubt_of_mean(self, position) ** 2
        return Estimate(value, hypot(sqrt(squares), moments.tails_of_mean(self, position)))

    def _mean_direction(self, position: int) -> Estimate:
        attribute = self.domain.attributes[position]

        def of(model: Partition) -> float:
            edges, below = model.filled(position)
            return moments.mean_direction(attribute, edges, np.diff(below))

        edges, below = self.filled(position)
        value, doubt = of(self), moments.resolution(attribute, edges, np.diff(below), self.total)
        found = self._estimate(
            value, lambda model: value + moments.apart(attribute, value, of(model)), 0.0, doubt
        )
        return Estimate(value, min(found.standard_error, moments.unknown(attribute)))

    def cdf(self, name: str, x: float) -> Estimate:
        """See `FittedModel.cdf`."""
        position = self._ordered(name)
        if not isfinite(x):
            raise ValueError("x must be a finite number")
        self.check([position])
        attribute = self.domain.attributes[position]
        start, place = whole(attribute)[0], edge(attribute, x, after=True)

        return self.present([position])._share({position: (start, place)})

    def present(self, positions: Sequence[int], *, of_mean: bool = False) -> "Partition":
        """The readings that have a value of these attributes, see `present`.

        Raises:
            EmptyModel: there are none, or noise outweighs them (`TooFewReadings`).
        """
        return present(self, positions, of_mean=of_mean)

    def count(self, wanted: Wanted | str) -> Estimate:
        """See `FittedModel.count`."""
        intervals = self._intervals(wanted)
        self.check(intervals)

        def of(model: Partition) -> float:
            return float(model.mass @ model.overlap(intervals))

        return self._estimate(of(self), of, least_error(self, intervals), doubt(self, intervals))

    def share(self, wanted: Wanted | str) -> Estimate:
        """See `FittedModel.share`."""
        intervals = self._intervals(wanted)
        self.check(intervals)
        return self._share(intervals)

    def _share(self, intervals: Mapping[int, Interval]) -> Estimate:
        def of(model: Partition) -> float:
            return float(model.box_shares() @ model.overlap(intervals))

        errors = least_error(self, intervals), doubt(self, intervals)
        return self._estimate(of(self), of, *(each / self.total for each in errors))

    def bin_shares(self, bins: Sequence[Sequence[str]]) -> Estimates:
        """See `FittedModel.bin_shares`: all bins at once cost little more than one."""
        return bin_shares(self, bins)

    def _estimate(
        self, value: float, statistic: Statistic, least: float, resolution: float
    ) -> Estimate:
        """`least`: an error that noise leaves at least; `resolution`: of the width of cells."""
        models = [(n, model) for n, model in enumerate(self.replicates) if model.total > 0]
        apart = {n: np.asarray(statistic(model) - value) for n, model in models}
        squares = max(float(squared_error(apart, self.fits)), least**2)
        return Estimate(value, hypot(sqrt(squares), resolution))

    def covariance(self, names: tuple[str, ...] | None = None) -> Estimates:
        """See `FittedModel.covariance`. The errors hold the noise and the width of the boxes."""
        wanted = self.domain.numbers if names is None else names
        indices = tuple(self._ordered(name) for name in wanted)
        if not indices:
            raise ValueError("there is no covariance without an attribute that is a number")
        self.check(indices)
        return covariances_of_present(self, indices)

    def sampler(self) -> "Partition":
        """Return a sampler of synthetic records: the boxes themselves."""
        return self

    def box_shares(self) -> FloatArray:
        """Mass of each box as a share of all: float64[n].

        Raises:
            EmptyModel: the noisy number of readings is not positive.
        """
        if self.total <= 0:
            raise EmptyModel(
                "the noisy number of readings is not positive: too few readings for this epsilon"
            )
        return np.asarray(self.mass / self.total)

    def _intervals(self, wanted: Wanted | str) -> dict[int, Interval]:
        if isinstance(wanted, str):
            return parse_predicate(wanted, self.domain).intervals(self.domain)
        return self.domain.intervals(wanted)

    def _numeric(self, name: str) -> int:
        position = self.domain.index(name)
        if self.domain.attributes[position].categories is not None:
            raise ValueError(f"{name} has categories: ask for the count of one of them")
        return position

    def _ordered(self, name: str) -> int:
        position = self._numeric(name)
        if self.domain.attributes[position].cyclic:
            raise ValueError(f"{name} is cyclic and begins nowhere: ask for its mean or a range")
        return position

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """`low` and `high` as what of the boxes readings can fill: with a step, from point to
        point."""
        ends = np.empty((2, *self.low.shape))
        for place, attribute in enumerate(self.domain.attributes):
            low, high, which = distinct(self.low[:, place], self.high[:, place])
            ends[:, :, place] = np.stack(attribute.intervals(low, high))[:, which]
        return ends[0], ends[1]

    def filled(self, position: int) -> tuple[FloatArray, FloatArray]:
        """Edges of what readings can fill in an attribute's cells, and the share below each.

        Raises:
            EmptyModel: the noisy number of readings is not positive.
        """
        low, high = self._ends
        return cumulative(low[:, position], high[:, position], self.box_shares())

    def overlap(self, intervals: Mapping[int, Interval]) -> FloatArray:
        """Fraction of every box that lies inside the intervals."""
        found = overlap(*self._ends, intervals)
        for place, (start, end) in intervals.items():
            placed = self.domain.attributes[place].placed
            if placed is not None and start > end:  # `missing` is not past a circle's end.
                found *= self.low[:, place] < placed.present
        return found
