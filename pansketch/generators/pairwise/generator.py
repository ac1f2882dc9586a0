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

A question of one attribute needs none of that but its margin (margin.py).

Everything here reads released integers only, so it is post-processing and costs no privacy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import hypot

import numpy as np

from pansketch.domain.domain import Domain, FloatArray
from pansketch.estimate import Estimate, Estimates
from pansketch.generators.model import Wanted
from pansketch.generators.pairwise.contingency_tables import Table, domain_of, tables_of
from pansketch.generators.pairwise.fit import fit_views, likely_fits
from pansketch.generators.pairwise.higher_order_error import Dependence, beyond_copula, hidden_of
from pansketch.generators.pairwise.margin import REPLICATES, margin, readings_of
from pansketch.generators.pairwise.marginals import noise_of
from pansketch.generators.pairwise.particles import joint_of
from pansketch.generators.partition.partition import Partition
from pansketch.generators.partition.predicate import parse_predicate
from pansketch.generators.partition.rebasing import combine, common_domain
from pansketch.sketches.release_model import Release

MIN_PARTICLES, MAX_PARTICLES = 1 << 17, 1 << 19
PARTICLES_A_CELL = 128  # of the largest table: cells of tails must not be without any
FEWER_PARTICLES = 1 << 14  # of a replicate


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

    @cached_property
    def boxes(self) -> Partition:
        """One for each particle of positive weight.

        Raises:
            ValueError: a release is of another family.
        """
        return combine([_joint(release, self.particles) for release in self.releases])

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
        first, *others = {*positions} or {min(self._known, default=0)}
        return self.boxes if others else self.alone(first)

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
        one = names is not None and len(names) == 1
        return (self._named(names[0]) if one and names else self.boxes).covariance(names)

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


def particle_count(tables: Sequence[Table]) -> int:
    """As many particles as suit the tables of a release."""
    wanted = PARTICLES_A_CELL * max(table.counts.size for table in tables)
    return min(max(wanted, MIN_PARTICLES), MAX_PARTICLES)


def _joint(release: Release, particles: int | None) -> Partition:
    """The boxes of one release."""
    tables, domain = tables_of(release), domain_of(release)
    particles = particles or particle_count(tables)
    fit = fit_views(domain, tables)
    # Public post-processing: seeded by the release, so that an answer repeats itself.
    seed = np.abs(release.counters[:4])
    joint = joint_of(fit, particles, np.random.default_rng(seed))

    few = min(particles, FEWER_PARTICLES)

    def replicate() -> list[Partition]:
        generator = np.random.default_rng([*seed, 1])
        noisy = likely_fits(domain, tables, fit, generator, REPLICATES)
        return [joint_of(each, few, generator).partition(domain) for each in chain([fit], noisy)]

    made = joint.partition(domain)
    beyond = {
        (table.axes[0], table.axes[1]): beyond_copula(table, fit.margins, fit.angles[table.axes])
        for table in fit.tables
        if table.axes in fit.angles
    }
    dependence = Dependence(
        made.low, made.mass, fit.tables, hidden_of(tables, fit.tables, fit.margins), beyond
    )
    return replace(
        made,
        replicate=replicate,
        unresolved=dependence.doubt,
        hidden=dependence.hidden,
        noise=noise_of(tables, release.count),
        fewer=few / particles,
    )
