"""A partition of the domain into weighted boxes: samples, quantiles, means, ranges, with error
bars.

Everything here reads released integers only, so it is post-processing and costs no privacy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import hypot, isfinite

import numpy as np

from pansketch.domain import Domain, FloatArray
from pansketch.estimate import Estimate
from pansketch.generators import direction
from pansketch.generators.box_shares import cumulative, least_point, overlap, systematic
from pansketch.generators.predicate import parse
from pansketch.ranges import Interval, edge, whole

Statistic = Callable[["Partition"], float]
Wanted = Mapping[str, tuple[float, float] | str]


class EmptyModel(ValueError):
    """The noisy total is not positive: there is nothing to describe, and nothing is made up."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Boxes of the unit cube, `low` and `high` float64[n, d], that hold `mass` float64[n] readings.

    Inside a box readings are taken to be spread evenly. `replicate` makes models of the same
    releases with their declared noise drawn anew; standard errors are the spread of a statistic
    over them. `unresolved`: where boxes claim more than was released of several attributes
    together, the error of that in readings, as `Dependence.doubt` gives it.
    """

    domain: Domain
    low: FloatArray
    high: FloatArray
    mass: FloatArray
    replicate: Callable[[], "Sequence[Partition]"] = tuple
    unresolved: Callable[[Mapping[int, FloatArray]], FloatArray] = lambda inside: np.zeros(1)

    @property
    def total(self) -> float:
        """Estimated number of readings in all boxes."""
        return float(self.mass.sum())

    @cached_property
    def replicates(self) -> "tuple[Partition, ...]":
        return tuple(self.replicate())

    def sample(self, count: int, generator: np.random.Generator) -> FloatArray:
        """Synthetic records, float64[count, d], in real units and inside the bounds.

        Boxes are drawn by systematic sampling: the records of one call are not independent, and the
        number in each box is its share of them, up or down to a whole one. Of an attribute with a
        step the values are multiples of it. Raises EmptyModel when the noisy total is not positive,
        ValueError for a negative count.
        """
        if count < 0:
            raise ValueError("the number of records must not be negative")
        boxes = systematic(self._shares(), count, generator)
        records = generator.random((count, self.domain.dimension))
        for place, attribute in enumerate(self.domain.attributes):
            ends = self.low[:, place], self.high[:, place]
            records[:, place] = attribute.inside(*ends, boxes, records[:, place])
        return records

    def quantile(self, name: str, q: float) -> Estimate:
        """The value below which a share `q` of readings lies, in the attribute's unit; with a step,
        the least multiple of it that a share `q` does not exceed.

        Raises ValueError for an unknown attribute, one with categories, a cyclic one, or q outside
        [0, 1].
        """
        position = self._ordered(name)
        if not 0 <= q <= 1:
            raise ValueError(f"q must lie between 0 and 1, not {q:g}")
        attribute = self.domain.attributes[position]

        def at(model: Partition) -> float:
            edges, below = model._filled(position)
            if attribute.lattice is not None:
                return least_point(attribute.lattice, q, edges, below)
            return float(attribute.from_unit(np.interp([q], below, edges))[0])

        edges, below = self._filled(position)
        cell = int(np.clip(np.searchsorted(below, q), 1, len(edges) - 1))
        variance = attribute.cell_variances(edges[cell - 1 : cell], edges[cell : cell + 1])
        return self._estimate(at(self), at, float(np.sqrt(variance[0])))

    def mean(self, name: str) -> Estimate:
        """Mean of an attribute, in its unit. Raises ValueError for an unknown attribute and for one
        with categories.

        Of a cyclic one it is the circular mean: the direction of the sum of all values as unit
        vectors. Its error is at most that of a direction of which nothing is known.
        """
        position = self._numeric(name)
        attribute = self.domain.attributes[position]
        if attribute.cyclic:
            return self._mean_direction(position)

        def of(model: Partition) -> float:
            means = attribute.cell_means(model.low[:, position], model.high[:, position])
            return float(means @ model._shares())

        edges, below = self._filled(position)
        variances = attribute.cell_variances(edges[:-1], edges[1:])
        return self._estimate(of(self), of, float(np.sqrt(np.diff(below) ** 2 @ variances)))

    def _mean_direction(self, position: int) -> Estimate:
        attribute = self.domain.attributes[position]

        def of(model: Partition) -> float:
            edges, below = model._filled(position)
            return direction.mean_direction(attribute, edges, np.diff(below))

        edges, below = self._filled(position)
        value, doubt = of(self), direction.resolution(attribute, edges, np.diff(below))
        found = self._estimate(
            value, lambda model: value + direction.apart(attribute, value, of(model)), doubt
        )
        return Estimate(value, min(found.standard_error, direction.unknown(attribute)))

    def cdf(self, name: str, x: float) -> Estimate:
        """Share of readings at or below `x`. Raises ValueError as `quantile` does, or for NaN."""
        position = self._ordered(name)
        if not isfinite(x):
            raise ValueError("x must be a finite number")
        attribute = self.domain.attributes[position]
        start, place = whole(attribute)[0], edge(attribute, x, after=True)

        def of(model: Partition) -> float:
            edges, below = model._filled(position)
            return float(np.interp(place, edges, below))

        return self._estimate(of(self), of, self._doubt({position: (start, place)}) / self.total)

    def count(self, wanted: Wanted | str) -> Estimate:
        """Number of readings in a range (low, high), or of a category, of each attribute named; or
        for which a conjunction holds: "temp > 20 & wind = NE" (generators/predicate.py).

        Both ends of a range belong to it. Raises ValueError for an unknown attribute or category,
        for low > high unless the attribute is cyclic, and for text that does not parse.
        """
        intervals = self._intervals(wanted)

        def of(model: Partition) -> float:
            return float(model.mass @ model._overlap(intervals))

        return self._estimate(of(self), of, self._doubt(intervals))

    def share(self, wanted: Wanted | str) -> Estimate:
        """`count` as a share of all readings. Raises ValueError as `count` does."""
        intervals = self._intervals(wanted)

        def of(model: Partition) -> float:
            return float(model._shares() @ model._overlap(intervals))

        return self._estimate(of(self), of, self._doubt(intervals) / self.total)

    def _estimate(self, value: float, statistic: Statistic, resolution: float) -> Estimate:
        spread = [(statistic(model) - value) ** 2 for model in self.replicates if model.total > 0]
        noise = float(np.mean(spread)) if spread else 0.0
        return Estimate(value, float(np.sqrt(noise + resolution**2)))

    def _shares(self) -> FloatArray:
        if self.total <= 0:
            raise EmptyModel(
                "the noisy number of readings is not positive: too few readings for this epsilon"
            )
        return np.asarray(self.mass / self.total)

    def _intervals(self, wanted: Wanted | str) -> dict[int, Interval]:
        if isinstance(wanted, str):
            return parse(wanted, self.domain).intervals(self.domain)
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
        columns = [
            attribute.intervals(self.low[:, place], self.high[:, place])
            for place, attribute in enumerate(self.domain.attributes)
        ]
        return np.stack([low for low, _ in columns], 1), np.stack([high for _, high in columns], 1)

    def _filled(self, position: int) -> tuple[FloatArray, FloatArray]:
        """`_marginal` of what readings can fill."""
        low, high = self._ends
        return cumulative(low[:, position], high[:, position], self._shares())

    def _marginal(self, position: int) -> tuple[FloatArray, FloatArray]:
        """Edges of one attribute's cells in the unit interval and the share of readings below
        each."""
        return cumulative(self.low[:, position], self.high[:, position], self._shares())

    def _overlap(self, intervals: Mapping[int, Interval]) -> FloatArray:
        """Fraction of every box that lies inside the intervals."""
        return overlap(*self._ends, intervals)

    def _doubt(self, intervals: Mapping[int, Interval]) -> float:
        """Readings in boxes that an interval cuts, of which nobody knows on which side they lie.

        A cut box of which a fraction f is inside contributes sqrt(f (1 - f) / 3): at f = 1/2 the
        standard deviation of a uniform share. Neighbouring boxes may err together, so they add up.
        """
        fraction = self._overlap(intervals)
        cut = float(self.mass @ np.sqrt(fraction * (1 - fraction) / 3))
        inside = {axis: self._overlap({axis: each})[None] for axis, each in intervals.items()}
        return hypot(cut, self.unresolved(inside).item())


def combine(models: Sequence[Partition]) -> Partition:
    """One model of several groups of devices, whose sketches differ: their masses add.

    Raises ValueError for no models or for different domains.
    """
    if not models:
        raise ValueError("nothing to combine: no model was given")
    if len(models) == 1:
        return models[0]
    if any(model.domain != models[0].domain for model in models):
        raise ValueError("models over different domains do not combine")

    def replicate() -> list[Partition]:
        return [combine(each) for each in zip(*(m.replicates for m in models), strict=True)]

    def unresolved(inside: Mapping[int, FloatArray]) -> FloatArray:
        found, start = np.zeros(1), 0
        for model in models:
            end = start + len(model.mass)
            part = {axis: fractions[:, start:end] for axis, fractions in inside.items()}
            found, start = found + model.unresolved(part), end
        return found

    return Partition(
        models[0].domain,
        np.concatenate([model.low for model in models]),
        np.concatenate([model.high for model in models]),
        np.concatenate([model.mass for model in models]),
        replicate,
        unresolved,
    )
