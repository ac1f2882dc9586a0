"""Many small views of one stream: a private histogram of every attribute and of pairs of them.

With three attributes or more one joint hierarchy is coarse, for its cells are shared among all
attributes. So the stream's budget is shared among views instead, each a regular grid of cells over
one, two or a few attributes, and what they say together is found afterwards
(generators/pairwise/). The marginals of Zhang, Wang, Honorio, Zhang, Backes, Chen and Zhang,
"PrivSyn: Differentially Private Data Synthesis" (USENIX Security 2021), kept as linear counters:
noise is drawn as for hierarchies, once at the start and, in `silent` mode, once more at the release
(docs/explanation/privacy.md).

A reading adds 1 to one cell of every view. A view whose share is a part s of epsilon therefore has
noise DLap(1 / (s epsilon)), and all of them together cost a reading epsilon.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.domain.fixed_point import PositionEncoder
from pansketch.sketches.counter_bounds import CounterRow
from pansketch.sketches.linear_counters import Counters, LinearSpec, linear_form
from pansketch.sketches.view_grid import View, ViewCells

MAX_VIEWS = 1024
MAX_CELLS = 1 << 22  # of all views together
READINGS_AT_ONCE = 8192  # Their scratch stays in the second-level cache.


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
                most = self.domain.attributes[self.domain.index(name)].max_bits
                if bits > most:
                    raise ValueError(f"view {view}: {name} has {most} bits at most")
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
