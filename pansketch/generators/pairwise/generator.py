"""Many small views, made one: records whose attributes, pairs and larger views agree with them.

Like PrivSyn (Zhang et al., USENIX Security 2021) it starts from noisy tables of a few attributes,
makes them consistent, and ends with records. Unlike PrivSyn it does not update random records
step by step until they fit: it draws particles along the strongest dependences and then finds the
weights under which they agree with all tables at once, the nearest such distribution.

1. The margin of every attribute, from all views that contain it (marginals.py), along a smooth
   density (smooth_density.py).
2. Tables less their noise, that agree with the margins (denoising.py). Noise moves those of two
   numbers towards a Gaussian copula (gaussian_copula.py), others towards independence. Numbers keep
   their covariance where it stands out from the noise.
3. Particles along the strongest dependences (dependence_tree.py), inside cells along the copula,
   and along a factor that numbers have in common; weighted to follow all tables (particles.py).
4. A particle is a box: one finest cell of every attribute, or a part of it along the slope of the
   density (margin.py).

A question of one attribute needs none of that but its margin (margin.py). Where one table has all
attributes of a question, particles are weighted once more to follow that table alone.

Everything here reads released integers only, so it is post-processing and costs no privacy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement
from math import hypot

import numpy as np

from pansketch.domain.domain import Domain, FloatArray
from pansketch.estimate import Estimate, Estimates
from pansketch.generators.model import Wanted
from pansketch.generators.pairwise.contingency_tables import domain_of, tables_of
from pansketch.generators.pairwise.margin import margin, readings_of
from pansketch.generators.pairwise.particles import ReleaseParticles, particles_of
from pansketch.generators.partition.partition import Partition
from pansketch.generators.partition.predicate import parse_predicate
from pansketch.generators.partition.rebasing import combine, common_domain
from pansketch.sketches.release_model import Release


@dataclass(frozen=True, eq=False)
class ViewsModel:
    """A `FittedModel` of views. Records are made only for what one attribute cannot answer.

    Args:
        releases: of views, merged or not.
        domain: that `common_domain` makes of theirs.
        particles: of each release; None: as many as suit its tables.
    """

    releases: tuple[Release, ...]
    domain: Domain
    particles: int | None = None
    _alone: dict[int, Partition] = field(default_factory=dict, init=False, repr=False)
    _nearer: dict[tuple[int, ...], Partition] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def boxes(self) -> Partition:
        """One for each particle of positive weight.

        Raises:
            ValueError: a release is of another family.
        """
        return combine([each.partition() for each in self._joints])

    @cached_property
    def _joints(self) -> list[ReleaseParticles]:
        return [particles_of(release, self.particles) for release in self.releases]

    def alone(self, position: int) -> Partition:
        """See `ViewsModel.boxes` and `FittedModel.alone`."""
        if position not in self._known:
            return self.boxes.alone(position)
        if position not in self._alone:
            name = self.domain.names[position]
            self._alone[position] = combine([margin(each, name) for each in self.releases])
        return self._alone[position]

    @cached_property
    def _known(self) -> frozenset[int]:
        """Positions of the attributes that a view of every release has."""
        known = [
            {domain_of(release).names[axis] for table in tables_of(release) for axis in table.axes}
            for release in self.releases
        ]
        names = set[str].intersection(*known)
        return frozenset(n for n, name in enumerate(self.domain.names) if name in names)

    def _of(self, positions: Iterable[int]) -> Partition:
        """What answers a question of these attributes, by position."""
        first, *others = sorted({*positions}) or [min(self._known, default=0)]
        return self._together((first, *others)) if others else self.alone(first)

    def _together(self, positions: tuple[int, ...]) -> Partition:
        """What answers a question of all these attributes: boxes, nearer to a table of them. Only
        the latest are kept, for there are many pairs."""
        found = self._nearer.get(positions)
        if found is None:
            names = [self.domain.names[position] for position in positions]
            if not any(each.has(names) for each in self._joints):
                return self.boxes
            found = combine([each.partition(names) for each in self._joints])
            self._nearer.clear()
            self._nearer[positions] = found
        return found

    def _named(self, name: str) -> Partition:
        return self._of([self.domain.index(name)])

    def _where(self, wanted: Wanted | str) -> Partition:
        if isinstance(wanted, str):
            return self._of(parse_predicate(wanted, self.domain).positions)
        return self._of(map(self.domain.index, wanted))

    @property
    def readings(self) -> Estimate:
        """See `ViewsModel.boxes` and `FittedModel.readings`."""
        if not self._known:
            return self.boxes.readings
        name = self.domain.names[min(self._known)]
        found = [readings_of(each, name) for each in self.releases]
        return Estimate(
            sum(each.value for each in found), hypot(*(each.standard_error for each in found))
        )

    @property
    def total(self) -> float:
        """Estimated number of readings. See `ViewsModel.boxes`."""
        return self.readings.value

    def mean(self, name: str) -> Estimate:
        """See `FittedModel.mean`."""
        return self._named(name).mean(name)

    def cdf(self, name: str, x: float) -> Estimate:
        """See `FittedModel.cdf`."""
        return self._named(name).cdf(name, x)

    def quantile(self, name: str, q: float) -> Estimate:
        """See `FittedModel.quantile`."""
        return self._named(name).quantile(name, q)

    def count(self, wanted: Wanted | str) -> Estimate:
        """See `FittedModel.count`."""
        return self._where(wanted).count(wanted)

    def share(self, wanted: Wanted | str) -> Estimate:
        """See `FittedModel.share`."""
        return self._where(wanted).share(wanted)

    def bin_shares(self, bins: Sequence[Sequence[str]]) -> Estimates:
        """See `FittedModel.bin_shares`."""
        firsts = [parse_predicate(each[0], self.domain).positions for each in bins]
        return self._of({p for each in firsts for p in each}).bin_shares(bins)

    def covariance(self, names: tuple[str, ...] | None = None) -> Estimates:
        """See `FittedModel.covariance`."""
        names = self.domain.numbers if names is None else names
        if not names:
            return self.boxes.covariance(names)
        value, errors = np.zeros((2, len(names), len(names)))
        apart: Estimates | None = None
        for row, column in combinations_with_replacement(range(len(names)), 2):
            pair = (names[row], names[column])[: 1 + (row < column)]
            model = self._of(map(self.domain.index, pair))
            # No table has this pair: all such pairs are asked at once.
            if row < column and model is self.boxes:
                if apart is None:
                    apart = self.boxes.covariance(names)
                found, place = apart, (row, column)
            else:
                found, place = model.covariance(pair), (0, -1)
            value[row, column] = value[column, row] = found.value[place]
            errors[row, column] = errors[column, row] = found.standard_error[place]
        return Estimates(value, errors)

    def check(self, attributes: Iterable[int] | None = None) -> None:
        """See `ViewsModel.boxes` and `FittedModel.check`."""
        if attributes is None:
            self.boxes.check()
            return
        self._of(()).check(())
        for position in attributes:
            if position in self._known:
                self.alone(position).check()

    def sample(self, count: int, generator: np.random.Generator) -> FloatArray:
        """See `Partition.sample`."""
        return self.boxes.sample(count, generator)

    def sampler(self) -> Partition:
        """See `FittedModel.sampler`."""
        return self.boxes


def pairwise(*releases: Release, particles: int | None = None) -> ViewsModel:
    """The model of releases of views, by raking.

    Attributes that no view joins are independent. One that is in no view is spread over its bounds.

    Args:
        releases: one or more, merged or not, of views. Where their domains differ, the models of
            them are added.
        particles: number of weighted boxes of each; None: as many as suit the tables.

    Returns:
        A model of one weighted box for each particle, with its error bars.

    Raises:
        ValueError: a release is of another family, domains cannot be joined, there is no release,
            or `particles` is below 1.
    """
    if particles is not None and particles < 1:
        raise ValueError(f"there must be at least one particle, not {particles}")
    if not releases:
        raise ValueError("nothing to model: no release was given")
    return ViewsModel(releases, common_domain([domain_of(each) for each in releases]), particles)
