"""Released views as tables: noisy counts of the cells that exist, and of sums of cells."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Attribute, Domain, FloatArray
from pansketch.generators.pairwise.multiresolution import NOISE, STANDS_OUT
from pansketch.sketches.release_model import Release
from pansketch.sketches.views import View, ViewsSpec

Truth = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Table:
    """Counts over a few attributes, by their positions in the domain, in cells of so many bits.

    `counts`: float64, one axis an attribute. Codes beyond the last category have no cells, so an
    axis may be shorter than 2**bits. `variance` is that of the noise on each cell. `reach`: cells
    of each axis that a reading can be in, bool[cells]; empty where it can be in all. The others
    hold 0: of an atom's part of the unit interval, all cells but the first, and with a step those
    without a point of it.
    """

    axes: tuple[int, ...]
    bits: tuple[int, ...]
    counts: FloatArray
    variance: float
    reach: tuple[Truth, ...] = ()

    @property
    def size(self) -> int:
        """How many cells a reading can be in."""
        return prod(int(each.sum()) for each in self.reach) if self.reach else self.counts.size

    def reach_of(self, position: int) -> Truth:
        """Cells of one attribute that a reading can be in: bool[cells]."""
        place = self.axes.index(position)
        if self.reach:
            return self.reach[place]
        return np.ones(self.counts.shape[place], np.bool_)

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    def along(self, position: int) -> FloatArray:
        """Counts of one attribute's cells, summed over all others: float64[cells]."""
        return self.onto((position,))

    def onto(self, positions: tuple[int, ...]) -> FloatArray:
        """Counts over some of its attributes, in the order asked for, summed over the others."""
        others = tuple(i for i, axis in enumerate(self.axes) if axis not in positions)
        left = [axis for axis in self.axes if axis in positions]
        summed = self.counts.sum(axis=others)
        return np.asarray(np.transpose(summed, [left.index(each) for each in positions]))

    def bits_of(self, position: int) -> int:
        return self.bits[self.axes.index(position)]


def cells_of(attribute: Attribute, bits: int) -> int:
    """How many cells of so many bits hold values of an attribute."""
    if attribute.categories is None:
        return 1 << bits
    return -(-attribute.codes >> (attribute.max_bits - bits))


def tables_of(release: Release) -> list[Table]:
    """The views of a release, in their order. Raises ValueError for another family.

    Where readings are no multiples of the stated step, cells without a point of it show them, and
    all cells of that attribute count.
    """
    spec = _spec_of(release)
    tables = [
        _table(spec.domain, view, block, release.noise)
        for view, block in zip(spec.views, release.split(), strict=True)
    ]
    attributes = spec.domain.attributes
    off = {axis for table in tables for axis in table.axes if _off_points(attributes, table, axis)}
    return [_within_reach(attributes, table, off) for table in tables]


@lru_cache(maxsize=256)
def held_inside(attribute: Attribute, cells: int) -> tuple[FloatArray, FloatArray]:
    """Ends of what readings can fill of so many equal cells; the same end twice where nothing."""
    edges = np.arange(cells + 1) / cells
    low, high = attribute.intervals(edges[:-1], edges[1:])
    none = (low < edges[:-1]) | (low >= edges[1:])
    high = np.where(none, low, high)
    for each in (low, high):
        each.flags.writeable = False
    return low, high


def measured(attribute: Attribute, places: FloatArray) -> FloatArray:
    """Places of a learned scale in the attribute's unit, for its cells are not alike; others in the
    unit interval without atoms."""
    if attribute.knots:
        return attribute.scaling.values(places)
    return places if attribute.placed is None else attribute.placed.plain(places)


def values_inside(attribute: Attribute, cells: int) -> tuple[FloatArray, FloatArray]:
    """As `held_inside`, in the unit of `measured`."""
    low, high = held_inside(attribute, cells)
    return measured(attribute, low), measured(attribute, high)


def domain_of(release: Release) -> Domain:
    """The attributes of a release of views. Raises ValueError for another family."""
    return _spec_of(release).domain


def _spec_of(release: Release) -> ViewsSpec:
    if not isinstance(release.spec, ViewsSpec):
        raise ValueError(f"pairwise reads views, not a release of family {release.spec.family}")
    return release.spec


def _table(domain: Domain, view: View, block: npt.NDArray[np.int64], draws: float) -> Table:
    axes = tuple(domain.index(name) for name in view.names)
    held = tuple(
        slice(cells_of(domain.attributes[axis], bits))
        for axis, bits in zip(axes, view.bits, strict=True)
    )
    counts = block.reshape(view.shape)[held].astype(np.float64)
    return Table(axes, view.bits, counts, draws * view.noise_variance)


def _off_points(attributes: Sequence[Attribute], table: Table, axis: int) -> bool:
    """Whether cells without a point of an attribute's step have more than their noise."""
    cells = table.counts.shape[table.axes.index(axis)]
    reach = _reach(attributes[axis], cells)
    if reach is None or attributes[axis].lattice is None:
        return False
    counts = table.along(axis)[~reach]
    noise = np.sqrt(table.variance * table.size / cells)
    together = NOISE * noise * np.sqrt(len(counts))
    return bool(counts.sum() > together or counts.max() > STANDS_OUT * noise)


def _within_reach(attributes: Sequence[Attribute], table: Table, off: set[int]) -> Table:
    """The table without noise where no reading can be. `off`: positions of attributes whose
    readings are between the points of their step."""
    found = [
        _reach(attributes[axis], cells, anywhere=axis in off)
        for axis, cells in zip(table.axes, table.counts.shape, strict=True)
    ]
    if all(each is None for each in found):
        return table
    reach = tuple(
        np.ones(cells, np.bool_) if each is None else each
        for each, cells in zip(found, table.counts.shape, strict=True)
    )
    kept = np.zeros_like(table.counts)
    kept[np.ix_(*reach)] = table.counts[np.ix_(*reach)]
    return replace(table, counts=kept, reach=reach)


@lru_cache(maxsize=256)
def _reach(attribute: Attribute, cells: int, *, anywhere: bool = False) -> Truth | None:
    """See `Table.reach`; None where a reading can be in all. Readings beyond the bounds are in the
    first cell of values or in the last. `anywhere`: values are no points of the step."""
    placed, found = attribute.placed, np.ones(cells, np.bool_)
    values = np.arange(cells)
    if placed is not None:
        bits = cells.bit_length() - 1
        found, values = placed.reachable(bits), np.flatnonzero(~placed.atom_cells(bits))
    if attribute.lattice is not None and not anywhere:
        low, high = held_inside(attribute, cells)
        found[values] = (high > low)[values]
        found[values[[0, -1]]] = True
    found.flags.writeable = False
    return None if found.all() else found


def beyond_margins(found: FloatArray, alone: FloatArray) -> FloatArray:
    """What no change of either margin explains: float64[..., rows, columns] less its projections
    onto such changes. `alone`: of independent attributes, float64[rows, columns]."""
    for margin in (alone.sum(axis=1)[:, None], alone.sum(axis=0)[None, :]):
        unit = margin / max(float(np.linalg.norm(margin)), np.finfo(float).tiny)
        along = -2 if unit.shape[1] == 1 else -1
        found = found - unit * np.sum(unit * found, axis=along, keepdims=True)
    return found
