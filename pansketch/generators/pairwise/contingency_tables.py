"""Released views as tables: noisy counts of the cells that exist, and of sums of cells."""

from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Attribute, Domain, FloatArray
from pansketch.sketches.release_model import Release
from pansketch.sketches.views import View, ViewsSpec

Truth = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Table:
    """Counts over a few attributes, by their positions in the domain, in cells of so many bits.

    `counts`: float64, one axis an attribute. Codes beyond the last category have no cells, so an
    axis may be shorter than 2**bits. `variance` is that of the noise on each cell. `reach`: cells
    of each axis that a reading can be in, bool[cells]; empty where it can be in all. The others
    hold 0: of an atom's part of the unit interval, all cells but the first.
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
    """The views of a release, in their order. Raises ValueError for another family."""
    spec = _spec_of(release)
    return [
        _table(spec.domain, view, block, release.noise)
        for view, block in zip(spec.views, release.split(), strict=True)
    ]


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
    table = Table(axes, view.bits, counts, draws * view.noise_variance)
    placed = [domain.attributes[axis].placed for axis in axes]
    if not any(placed):
        return table
    reach = tuple(
        np.ones(cells, np.bool_) if each is None else each.reachable(bits)
        for each, bits, cells in zip(placed, view.bits, counts.shape, strict=True)
    )
    kept = np.zeros_like(counts)
    kept[np.ix_(*reach)] = counts[np.ix_(*reach)]
    return replace(table, counts=kept, reach=reach)
