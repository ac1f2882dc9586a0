"""PrivSyn's gradual update method: records that are changed until they fit the tables.

Zhang et al., "PrivSyn: Differentially Private Data Synthesis" (USENIX Security 2021). The code
follows a description of the method, not the paper's text, as a comparison for raking.

It begins with records of independent attributes. Round by round, table by table, a share alpha of
the records moves from cells that hold too many to cells that hold too few. Half of them become
copies of records that are in such a cell. The other half keep their other attributes and only get
the cell's values. Alpha falls from 1 in steps, to 0.84 of it every so many rounds.

The description gives all of that but the numbers: public code of the method has 0.84 every twenty
rounds. Derived here:

* Halves are exact halves of the moves.
* There are 60 rounds; more made no difference.
* The margins of single attributes are followed too.
* It starts from the same margins and tables as `pairwise`.
* Tables are rounded to whole records once, each cell up or down with the right expectation.
* A cell without records cannot be copied. It gets its share of the missing records by replacement.
* Inside a table's cell a replaced attribute gets one of its finest cells, by its margin.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pansketch import Release
from pansketch.domain import FloatArray
from pansketch.generators import EmptyModel, Partition
from pansketch.generators.pairwise.contingency_tables import Table, domain_of, tables_of
from pansketch.generators.pairwise.fit import ViewFit, fit_views
from pansketch.generators.pairwise.marginals import Margin
from pansketch.generators.pairwise.particles import Joint

Cells = npt.NDArray[np.intp]
DECAY, STEP, ROUNDS = 0.84, 20, 60
HALVINGS = 50  # of the interval in which the share that leaves is searched


def gum(release: Release, records: int, generator: np.random.Generator) -> Partition:
    """As many boxes of equal weight as records, of a release of views.

    Raises ValueError for another family, EmptyModel when the noisy number of readings is not
    positive.
    """
    domain = domain_of(release)
    fit = fit_views(domain, tables_of(release))
    if fit.total <= 0:
        raise EmptyModel("the noisy number of readings is not positive")
    return updated(fit, records, generator).partition(domain)


def updated(
    fit: ViewFit, records: int, generator: np.random.Generator, rounds: int = ROUNDS
) -> Joint:
    """Records that have gone through so many rounds; 0 leaves their attributes independent."""
    cells = {axis: drawn(m.counts, records, generator) for axis, m in fit.margins.items()}
    joint = Joint(fit.margins, cells, np.full(records, fit.total / records))
    # The margins come last in a round, as they do when weights are raked.
    alone = [Table((axis,), (m.bits,), m.counts, 0.0) for axis, m in fit.margins.items()]
    tables = [in_records(table, records, generator) for table in (*fit.tables, *alone)]
    for number in range(rounds):
        alpha = DECAY ** (number // STEP)
        for table in tables:
            update(joint, table, alpha, generator)
    return joint


def in_records(table: Table, records: int, generator: np.random.Generator) -> Table:
    """A table that adds up to so many records: each cell's share, up or down to a whole one."""
    below = np.cumsum(table.counts) / table.total * records + generator.random()
    whole = np.minimum(np.floor(below), records)
    whole[-1] = records
    return replace(table, counts=np.diff(whole, prepend=0.0).reshape(table.counts.shape))


def update(joint: Joint, table: Table, alpha: float, generator: np.random.Generator) -> None:
    """Moves records towards one table, in whole records, in place."""
    shelf = Shelf.of(joint.in_table(table).cells, table.counts.size, generator)
    freed, wanted = _moves(shelf, table.counts.reshape(-1), alpha, generator)
    # Of records in a random order every other one is a copy, but of cells with nothing to copy.
    copied = (np.arange(len(freed)) % 2 == 0) & (shelf.held[wanted] > 0)
    sources = shelf.some_of(wanted[copied], generator)
    for cells in joint.cells.values():
        cells[freed[copied]] = cells[sources]
    _replace(joint, table, freed[~copied], wanted[~copied], generator)


@dataclass(frozen=True, eq=False)
class Shelf:
    """Records by their cells, in a random order inside each; how many each holds, and the place of
    its first one."""

    records: Cells
    held: Cells
    starts: Cells

    @classmethod
    def of(cls, places: Cells, size: int, generator: np.random.Generator) -> "Shelf":
        order = generator.permutation(len(places))
        # Numbers of 16 bits are sorted several times as fast.
        narrow = places.astype(np.uint16) if size <= 1 << 16 else places
        held = np.bincount(places, minlength=size)
        order = order[np.argsort(narrow[order], kind="stable")]
        return cls(order, held, np.cumsum(held) - held)

    def first(self, counts: Cells) -> Cells:
        """So many records of each cell."""
        rank = np.arange(len(self.records)) - np.repeat(self.starts, self.held)
        return self.records[rank < np.repeat(counts, self.held)]

    def some_of(self, cells: Cells, generator: np.random.Generator) -> Cells:
        """For each of some cells, which hold records, a random one of them."""
        places = self.starts[cells] + generator.integers(self.held[cells])
        return np.asarray(self.records[places])


def _moves(
    shelf: Shelf, target: FloatArray, alpha: float, generator: np.random.Generator
) -> tuple[Cells, Cells]:
    """Which records move, and the cell that each moves to: as many of the one as of the other."""
    held = shelf.held
    lacking, spare = np.maximum(target - held, 0.0), np.maximum(held - target, 0.0)
    arriving = _whole(alpha * np.where(held > 0, held, target), lacking, generator)
    leaving = _whole(_share(spare, held, arriving.sum()) * held, spare, generator)
    wanted, freed = np.repeat(np.arange(len(target)), arriving), shelf.first(leaving)
    count = min(len(freed), len(wanted))
    return generator.permutation(freed)[:count], generator.permutation(wanted)[:count]


def _share(spare: FloatArray, held: Cells, arriving: float) -> float:
    """The share beta of cells with too many at which as many leave as arrive."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if np.minimum(spare, middle * held).sum() < arriving:
            low = middle
        else:
            high = middle
    return high


def _whole(
    values: npt.NDArray[np.floating], gaps: FloatArray, generator: np.random.Generator
) -> Cells:
    """Up or down to a whole number, at random, so that the expectation is the value; never more
    than fits into the gap."""
    whole = np.floor(values + generator.random(len(values)))
    return np.minimum(whole, gaps).astype(np.intp)


def _replace(
    joint: Joint, table: Table, records: Cells, wanted: Cells, generator: np.random.Generator
) -> None:
    """New values in the table's attributes, the others as they were."""
    new = np.unravel_index(wanted, table.counts.shape)
    for axis, bits, coarse in zip(table.axes, table.bits, new, strict=True):
        joint.cells[axis][records] = _refined(joint.margins, axis, bits, coarse, generator)


def _refined(
    margins: Mapping[int, Margin],
    axis: int,
    bits: int,
    coarse: Cells,
    generator: np.random.Generator,
) -> Cells:
    """A random finest cell inside each coarse one, as the margin has them."""
    margin = margins[axis]
    below = np.concatenate([[0.0], np.cumsum(margin.counts)])
    width = 1 << (margin.bits - bits)
    first = coarse * width
    last = np.minimum(first + width, len(margin.counts))
    at = below[first] + generator.random(len(coarse)) * (below[last] - below[first])
    found = np.searchsorted(below, at, "right") - 1
    return np.asarray(np.clip(found, first, last - 1))


def drawn(counts: FloatArray, records: int, generator: np.random.Generator) -> Cells:
    """Cells of so many records, spread as the counts are, in a random order: intp[records]."""
    at = (np.arange(records) + generator.random()) / records * counts.sum()
    found = np.searchsorted(np.cumsum(counts), at, "right")
    return np.asarray(generator.permutation(np.minimum(found, len(counts) - 1)))
