"""Many small views of one stream: a private histogram of every attribute and of pairs of them.

With three attributes or more one joint hierarchy is coarse, because its cells are shared among all
attributes. So views share the stream's budget instead. Each is a regular grid of cells over one,
two or a few attributes, and generators combine them afterwards (generators/pairwise/). They are the
marginals of Zhang, Wang, Honorio, Zhang, Backes, Chen and Zhang, "PrivSyn: Differentially Private
Data Synthesis" (USENIX Security 2021), kept as linear counters. Noise is drawn as for hierarchies:
once at the start and, in `silent` mode, once more at the release (docs/explanation/privacy.md).

A reading adds 1 to one cell of every view. A view whose share is a part s of epsilon therefore has
noise DLap(1 / (s epsilon)), and all of them together cost a reading epsilon.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain
from pansketch.domain.fixed_point import POSITION_BITS, PositionEncoder, Positions
from pansketch.privacy import MICRO
from pansketch.sketches.counter_bounds import CounterRow
from pansketch.sketches.linear_counters import Counters, LinearSpec, linear_form
from pansketch.sketches.path_counting import COUNTER

MAX_VIEW_BITS = 12  # of one attribute in a view
FEW_READINGS = 8  # Up to here, touching single counters beats histograms.
MAX_VIEWS = 1024
MAX_CELLS = 1 << 22  # of all views together
READINGS_AT_ONCE = 8192  # Their scratch stays in the second-level cache.


@dataclass(frozen=True)
class View:
    """A grid over some attributes. Cells are numbered in their order, the last one fastest.

    Args:
        names: the attributes, each once.
        bits: by attribute; it has 2**bits cells along it.
        micro: the part of epsilon that the grid costs a reading, in whole micro-epsilon.

    Raises:
        ValueError: names and bits differ in number, or a value is out of range.
    """

    names: tuple[str, ...]
    bits: tuple[int, ...]
    micro: int

    def __post_init__(self) -> None:
        if not self.names or len(self.names) != len(self.bits):
            raise ValueError("a view needs attributes, and bits for each of them")
        if min(self.bits) < 1 or max(self.bits) > MAX_VIEW_BITS:
            # Without its cells: a number with as many bits as a client wrote has no bound.
            names = " x ".join(map(str, self.names))
            raise ValueError(f"view {names}: bits must lie between 1 and {MAX_VIEW_BITS}")
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"view {self} names an attribute twice")
        if self.micro < 1:
            raise ValueError(f"view {self} has no part of epsilon")

    def __str__(self) -> str:
        return " x ".join(
            f"{name} in {1 << bits}" for name, bits in zip(self.names, self.bits, strict=True)
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(1 << bits for bits in self.bits)

    @property
    def size(self) -> int:
        """Number of its cells."""
        return 1 << sum(self.bits)

    @property
    def scale(self) -> Fraction:
        """Of the discrete Laplace noise on each cell."""
        return Fraction(MICRO, self.micro)

    @property
    def noise_variance(self) -> float:
        """Of one draw on one cell."""
        ratio = float(np.exp(-1 / float(self.scale)))
        return 2 * ratio / (1 - ratio) ** 2


class ViewCells:
    """Counts positions into the cells of all views. All scratch is overwritten before it returns.

    A cell is the leading bits of its attributes' positions, side by side.
    """

    def __init__(self, domain: Domain, views: Sequence[View], block: int) -> None:
        self._offsets = np.cumsum([0, *(view.size for view in views)])
        self._parts = [list(_parts(domain, view)) for view in views]
        self._indices = np.zeros(block, np.intp)
        self._part = np.zeros(block, np.intp)
        self._tally = np.zeros(max(view.size for view in views), COUNTER)
        self._prepare_few(domain, views)

    def _prepare_few(self, domain: Domain, views: Sequence[View]) -> None:
        """The same for one reading in a few steps: [most attributes of a view, views]."""
        most = max(len(view.names) for view in views)
        # A part that a view lacks: all bits of the first attribute, shifted away.
        table = np.zeros((3, most, len(views)), np.intp)
        table[1] = POSITION_BITS
        for place, parts in enumerate(self._parts):
            for row, part in enumerate(parts):
                table[:, row, place] = part
        self._owners, self._away, self._up = table
        self._one = np.zeros(domain.dimension, np.intp)
        self._touched = np.zeros((most, len(views)), np.intp)
        self._sum = np.zeros(len(views), np.intp)

    def count(self, positions: Positions, counters: npt.NDArray[np.int32]) -> None:
        """Add 1 to one cell of every view for each of the positions, uint32[d, n]."""
        if positions.shape[1] <= FEW_READINGS:
            for place in range(positions.shape[1]):
                self._count_one(positions[:, place], counters)
        else:
            self._count_many(positions, counters)

    def _count_one(self, position: Positions, counters: npt.NDArray[np.int32]) -> None:
        np.copyto(self._one, position)
        # "clip" keeps numpy from taking into a buffer of its own.
        np.take(self._one, self._owners, out=self._touched, mode="clip")
        np.right_shift(self._touched, self._away, out=self._touched)
        np.left_shift(self._touched, self._up, out=self._touched)
        np.add.reduce(self._touched, axis=0, out=self._sum)
        np.add(self._sum, self._offsets[:-1], out=self._sum)
        np.add.at(counters, self._sum, np.int32(1))
        for scratch in (self._one, self._touched, self._sum):
            scratch.fill(0)

    def _count_many(self, positions: Positions, counters: npt.NDArray[np.int32]) -> None:
        count = positions.shape[1]
        indices, part = self._indices[:count], self._part[:count]
        for view, parts in enumerate(self._parts):
            indices.fill(0)
            for owner, away, up in parts:
                np.copyto(part, positions[owner])
                np.right_shift(part, away, out=part)
                np.left_shift(part, up, out=part)
                np.bitwise_or(indices, part, out=indices)
            cells = counters[self._offsets[view] : self._offsets[view + 1]]
            histogram = np.bincount(indices, minlength=len(cells))
            tally = self._tally[: len(cells)]
            np.copyto(tally, histogram, casting="unsafe")
            np.add(cells, tally, out=cells)
            for scratch in (histogram, tally):
                scratch.fill(0)
        for scratch in (indices, part):
            scratch.fill(0)


def _parts(domain: Domain, view: View) -> Iterator[tuple[int, int, int]]:
    """(attribute, bits shifted away, bits shifted up) of each part of a view's cell number."""
    left = sum(view.bits)
    for name, bits in zip(view.names, view.bits, strict=True):
        left -= bits
        yield domain.index(name), POSITION_BITS - bits, left


@dataclass(frozen=True)
class ViewsSpec(LinearSpec):
    """Public description of the views of one stream.

    The parts of the views add up to what a reading may cost. An attribute may be in many views, at
    different resolutions.

    Args:
        domain: the attributes of a reading.
        privacy: epsilon, unit (a reading or a span) and intrusion.
        views: grids over sets of attributes, each with its part of epsilon.

    Raises:
        ValueError: a view does not fit the domain, or the parts do not add up to epsilon.
    """

    views: tuple[View, ...]
    family: str = field(default="views", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "views", tuple(self.views))
        if not 1 <= len(self.views) <= MAX_VIEWS:
            raise ValueError(f"views must be 1 to {MAX_VIEWS}, not {len(self.views)}")
        for view in self.views:
            for name, bits in zip(view.names, view.bits, strict=True):
                attribute = self.domain.attributes[self.domain.index(name)]
                if bits > attribute.max_bits:
                    raise ValueError(f"view {view}: {name} has {attribute.max_bits} bits at most")
                if bits < attribute.least_bits:
                    least = attribute.least_bits
                    raise ValueError(f"view {view}: {name} has atoms, so {least} bits at least")
        parts, whole = sum(view.micro for view in self.views), self.guarantee.reading_micro
        if parts != whole:
            raise ValueError(f"the views cost {parts} micro-epsilon together, not {whole}")
        if sum(self.blocks) > MAX_CELLS:
            raise ValueError(f"the views have {sum(self.blocks)} cells, more than {MAX_CELLS}")

    @property
    def blocks(self) -> tuple[int, ...]:
        """Numbers of cells, view by view."""
        return tuple(view.size for view in self.views)

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """The noise scale of each view."""
        return tuple(view.scale for view in self.views)

    def canonical_form(self) -> dict[str, Any]:
        views = [[list(view.names), list(view.bits), view.micro] for view in self.views]
        return linear_form(self) | {"views": views}

    def counter_rows(self) -> list[CounterRow]:
        return [CounterRow(view.size, view.scale) for view in self.views]

    def absorber(self) -> "ViewsAbsorber":
        """See `LinearSpec.absorber`."""
        return ViewsAbsorber(self)


class ViewsAbsorber:
    """Adds 1 to one cell of every view for each reading."""

    def __init__(self, spec: ViewsSpec) -> None:
        self._encoder = PositionEncoder(spec.domain, READINGS_AT_ONCE)
        self._cells = ViewCells(spec.domain, spec.views, READINGS_AT_ONCE)

    def absorb(self, readings: npt.NDArray[np.float64], counters: Counters) -> None:
        """See `Absorber`."""
        for positions in self._encoder.encode(readings):
            self._cells.count(positions, counters)
