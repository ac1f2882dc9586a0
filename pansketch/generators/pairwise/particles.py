"""Particles that stand for the readings: drawn along dependences, weighted to follow all tables.

The weights come from iterative proportional fitting (Deming and Stephan, 1940), on particles
instead of cells, for the cells of all attributes together are far too many. Its limit is, of all
distributions that agree with the tables, the one nearest to the particles' own in relative entropy
(Csiszar, 1975).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain, FloatArray
from pansketch.generators.pairwise.contingency_tables import Table, domain_of, tables_of
from pansketch.generators.pairwise.denoising import UnknownDetail
from pansketch.generators.pairwise.dependence_tree import Cells, particles
from pansketch.generators.pairwise.fit import ViewFit, fit_views, hidden_of, likely_fits
from pansketch.generators.pairwise.gaussian_copula import beyond_copula
from pansketch.generators.pairwise.higher_order_error import Dependence
from pansketch.generators.pairwise.margin import (
    cells_told,
    ends_of,
    placed_inside,
    shares_inside,
)
from pansketch.generators.pairwise.marginals import REPLICATES, ROUGH, Margin, noise_of
from pansketch.generators.partition.partition import Partition
from pansketch.generators.significance import Fits
from pansketch.sketches.release_model import Release

MIN_PARTICLES, MAX_PARTICLES = 1 << 17, 1 << 19
PARTICLES_A_CELL = 128  # of the largest table: cells of tails must not be without any
FEWER_PARTICLES = 1 << 14  # of a replicate
PASSES = 30
WORTH = 0.98  # of the misfit of the pass before: with more, another pass is not worth its time
LEAST, MOST = 0.05, 20.0  # of one step: cells with few particles must not run away


@dataclass(frozen=True, eq=False)
class Target:
    """Which cell of a table each particle lies in, intp[n], and what the cells are to hold."""

    cells: npt.NDArray[np.intp]
    counts: FloatArray

    def held(self, weights: FloatArray) -> FloatArray:
        """What the cells hold under these weights."""
        held = np.bincount(self.cells, weights=weights, minlength=len(self.counts))
        return held.astype(np.float64, copy=False)


def raked(targets: Sequence[Target], weights: FloatArray) -> FloatArray:
    """Weights float64[n] that bring each target's cells, in turn, to what they are to hold.

    Tables that contradict each other leave a compromise, in which the last target is right.
    """
    weights, before = weights.copy(), np.inf
    for _ in range(PASSES):
        misfit = sum(_rake(target, weights) for target in targets)
        if misfit > WORTH * before:
            break
        before = misfit
    return weights


def _rake(target: Target, weights: FloatArray) -> float:
    """One step, in place; by how much the cells were off."""
    held = target.held(weights)
    factor = np.clip(target.counts, held * LEAST, held * MOST)
    np.divide(factor, held, out=factor, where=held > 0)
    weights *= factor[target.cells]
    return float(np.abs(target.counts - held).sum())


@dataclass(frozen=True, eq=False)
class Joint:
    """Particles: by attribute the margin's cell that each is in, intp[n], and weights float64[n],
    which add up to the number of readings."""

    margins: Mapping[int, Margin]
    cells: Mapping[int, Cells]
    weights: FloatArray

    def in_table(self, table: Table) -> Target:
        """Where the particles lie in a table."""
        coarse = [
            self.cells[axis] >> (self.margins[axis].bits - bits)
            for axis, bits in zip(table.axes, table.bits, strict=True)
        ]
        return _target(coarse, table.counts)

    def partition(self, domain: Domain) -> Partition:
        """A box for each particle: the cells of its attributes, or their parts along a slope."""
        held = self.weights > 0
        low = np.zeros((int(held.sum()), domain.dimension))
        high = np.ones_like(low)
        for axis, cells in self.cells.items():
            attribute, bits = domain.attributes[axis], self.margins[axis].bits
            shares = shares_inside(attribute, bits, self.margins[axis].counts)
            parts = placed_inside(shares, cells[held], self.weights[held], axis)
            ends = ends_of(shares, cells[held], parts)
            low[:, axis], high[:, axis] = (each / (1 << bits) for each in ends)
            if attribute.categories is not None:
                last = attribute.codes / attribute.extent
                np.minimum(high[:, axis], last, out=high[:, axis])
        told = {
            axis: cells_told(domain.attributes[axis], margin)
            for axis, margin in self.margins.items()
        }
        return Partition(domain, low, high, self.weights[held], cells=told)


def nearer(boxes: Partition, fit: ViewFit, axes: Collection[int]) -> Partition:
    """The boxes of particles, weighted once more for one table: the finest that has all these axes.

    Noisy tables contradict each other, and weights for all of them are a compromise. Boxes without
    such a table stay as they are.
    """
    having = [table for table in fit.tables if set(axes) <= set(table.axes)]
    if not having:
        return boxes
    table = max(having, key=lambda each: sum(each.bits))

    def cells(axis: int, bits: int) -> Cells:
        return (boxes.low[:, axis] * (1 << bits)).astype(np.intp)

    targets = [_target([*map(cells, table.axes, table.bits)], table.counts)]
    for axis in table.axes:
        margin = fit.margins[axis]
        targets.append(_target([cells(axis, margin.bits)], margin.counts))
    return replace(boxes, mass=raked(targets, boxes.mass))


def _target(cells: Sequence[Cells], counts: FloatArray) -> Target:
    """Of particles in these cells of each attribute of a table."""
    return Target(np.asarray(np.ravel_multi_index(cells, counts.shape)), counts.reshape(-1))


def joint_of(fit: ViewFit, count: int, generator: np.random.Generator) -> Joint:
    """So many particles; none when the fit holds no readings."""
    if not fit.margins:
        return Joint({}, {}, np.zeros(0))
    cells = particles(fit.tables, fit.margins, fit.angles, count, generator)
    joint = Joint(fit.margins, cells, np.full(count, fit.total / count))
    targets = [joint.in_table(table) for table in fit.tables]
    # The margins come last, and so are met best: they are known best.
    targets += [Target(cells[axis], margin.counts) for axis, margin in fit.margins.items()]
    return Joint(fit.margins, cells, raked(targets, joint.weights))


@dataclass(frozen=True, eq=False)
class ReleaseParticles:
    """The particles of one release, and the fits that they and their replicates follow."""

    release: Release
    particles: int
    tables: Sequence[Table]
    fit: ViewFit

    @cached_property
    def _domain(self) -> Domain:
        return domain_of(self.release)

    @property
    def _seed(self) -> list[int]:
        """Public post-processing is seeded by the release, so that an answer repeats itself."""
        return [int(each) for each in np.abs(self.release.counters[:4])]

    @cached_property
    def _boxes(self) -> Partition:
        generator = np.random.default_rng(self._seed)
        return joint_of(self.fit, self.particles, generator).partition(self._domain)

    @property
    def _few(self) -> int:
        return min(self.particles, FEWER_PARTICLES)

    @cached_property
    def _replicates(self) -> list[tuple[Partition, ViewFit]]:
        generator = np.random.default_rng([*self._seed, 1])
        noisy = likely_fits(self._domain, self.tables, self.fit, generator, REPLICATES)
        return [
            (joint_of(fit, self._few, generator).partition(self._domain), fit)
            for fit in chain([self.fit], noisy)
        ]

    @cached_property
    def _hidden(self) -> Mapping[tuple[int, int], UnknownDetail]:
        return hidden_of(self.tables, self.fit)

    @cached_property
    def _beyond(self) -> Mapping[tuple[int, int], float]:
        return {
            (table.axes[0], table.axes[1]): beyond_copula(
                table, self.fit.margins, self.fit.angles[table.axes]
            )
            for table in self.fit.tables
            if table.axes in self.fit.angles
        }

    def has(self, names: Collection[str]) -> bool:
        """Whether one table has all these attributes."""
        held = (map(self._domain.names.__getitem__, table.axes) for table in self.fit.tables)
        return any(set(names) <= set(each) for each in held)

    def partition(self, names: Collection[str] = ()) -> Partition:
        """The boxes; those of some attributes follow the table of these alone, if there is one."""
        axes = [self._domain.index(name) for name in names] if self.has(names) else []

        def following(boxes: Partition, fit: ViewFit) -> Partition:
            return nearer(boxes, fit, axes) if axes else boxes

        made = following(self._boxes, self.fit)
        dependence = Dependence(
            made.low, made.high, made.mass, self.fit.tables, self._hidden, self._beyond
        )
        return replace(
            made,
            replicate=lambda: [following(*each) for each in self._replicates],
            unresolved=dependence.doubt,
            hidden=dependence.hidden,
            noise=noise_of(self.tables, self.release.count),
            fits=Fits(fewer=self._few / self.particles, rough=ROUGH),
        )


def particle_count(tables: Sequence[Table]) -> int:
    """As many particles as suit the tables of a release."""
    wanted = PARTICLES_A_CELL * max(table.counts.size for table in tables)
    return min(max(wanted, MIN_PARTICLES), MAX_PARTICLES)


def particles_of(release: Release, particles: int | None) -> ReleaseParticles:
    """So many, or as many as suit the tables of the release."""
    tables = tables_of(release)
    particles = particles or particle_count(tables)
    return ReleaseParticles(release, particles, tables, fit_views(domain_of(release), tables))
