"""Particles that stand for the readings: drawn along dependences, weighted to follow all tables.

The weights come from iterative proportional fitting (Deming and Stephan, 1940), on particles
instead of cells, for the cells of all attributes together are far too many. Its limit is, of all
distributions that agree with the tables, the one nearest to the particles' own in relative entropy
(Csiszar, 1975).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain, FloatArray
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.dependence_tree import Cells, particles
from pansketch.generators.pairwise.fit import ViewFit
from pansketch.generators.pairwise.margin import (
    cells_told,
    ends_of,
    placed_inside,
    shares_inside,
)
from pansketch.generators.pairwise.marginals import Margin
from pansketch.generators.partition.partition import Partition

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
        places = np.ravel_multi_index(coarse, table.counts.shape)
        return Target(np.asarray(places), table.counts.reshape(-1))

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
            axis: cells_told(domain.attributes[axis], margin.bits, margin.counts)
            for axis, margin in self.margins.items()
        }
        return Partition(domain, low, high, self.weights[held], cells=told)


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
