"""Particles that stand for the readings: drawn along dependences, weighted to follow all tables."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pansketch.domain import Domain, FloatArray
from pansketch.generators.chain import Cells, particles
from pansketch.generators.margins import Margin
from pansketch.generators.partition import Partition
from pansketch.generators.raking import Target, raked
from pansketch.generators.tables import Table
from pansketch.generators.view_fit import ViewFit


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
        """A box for each particle: the cells of its attributes."""
        held = self.weights > 0
        low = np.zeros((int(held.sum()), domain.dimension))
        high = np.ones_like(low)
        for axis, cells in self.cells.items():
            attribute, parts = domain.attributes[axis], 1 << self.margins[axis].bits
            low[:, axis] = cells[held] / parts
            high[:, axis] = (cells[held] + 1) / parts
            if attribute.categories is not None:
                last = len(attribute.categories) / attribute.extent
                np.minimum(high[:, axis], last, out=high[:, axis])
        return Partition(domain, low, high, self.weights[held])


def joint_of(fit: ViewFit, count: int, generator: np.random.Generator) -> Joint:
    """So many particles; none when the fit holds no readings."""
    if not fit.margins:
        return Joint({}, {}, np.zeros(0))
    cells = particles(fit.tables, fit.margins, count, generator)
    joint = Joint(fit.margins, cells, np.full(count, fit.total / count))
    targets = [joint.in_table(table) for table in fit.tables]
    # The margins come last, and so are met best: they are known best.
    targets += [Target(cells[axis], margin.counts) for axis, margin in fit.margins.items()]
    return Joint(fit.margins, cells, raked(targets, joint.weights))
