"""PrivHP's state: a private hierarchy of counters over a public domain.

Algorithm 2 of Holland, Camtepe, Thapa, Xue, "Private synthetic data generation in bounded memory"
(PrivHP). The shallow levels have exact counters, and each deeper level has one private count-min
table (Algorithm 1). The levels share the budget so that the paper's error bound is least (Lemma 5).
A cell at level l is the first l bits of a reading's path; a step from one level to the next takes
log2(fanout) bits.

The paper draws noise once, at the start. That protects one output, not a snapshot followed by
publications; `silent` mode adds a second, fresh draw at the release (docs/explanation/privacy.md).
"""

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.domain.cell_paths import PathEncoder
from pansketch.sketches.counter_bounds import CounterRow
from pansketch.sketches.hierarchy_levels import Level, Sizes, derive_levels
from pansketch.sketches.linear_counters import Counters, LinearSpec, linear_form
from pansketch.sketches.path_counting import COUNTER, PathCounter

DEEPEST = 48


@dataclass(frozen=True)
class HierarchySpec(LinearSpec):
    """Public description of a hierarchy, PrivHP's state.

    Args:
        domain: the attributes of a reading.
        privacy: epsilon, unit (a reading or a span) and intrusion.
        depth: bits of a path, 1 to 48.
        k: cells that growth refines at each deeper level; levels of at most log2(k) bits are exact.
        width: columns of the count-min table of each deeper level, a power of two.
        rows: rows of each table, 1 to 16.
        fanout: children of a cell: 2, 4, 8 or 16.
        hash_key: public 64-bit key of the hashing.

    Raises:
        ValueError: a size is out of range, or the domain has too few bits, or atoms.

    Reference:
        Holland, Camtepe, Thapa, Xue, "Private synthetic data generation in bounded memory"
        (PrivHP), Algorithms 1 and 2.
    """

    depth: int = 24
    k: int = 256
    width: int = 1024
    rows: int = 3
    fanout: int = 4
    hash_key: int = 0
    family: str = field(default="hierarchy", init=False)
    levels: tuple[Level, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, low, high in (
            ("depth", 1, DEEPEST),
            ("k", 1, 1 << 20),
            ("width", 2, 1 << 20),
            ("rows", 1, 16),
            ("hash_key", 0, (1 << 64) - 1),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} must be a whole number, not {type(value).__name__}")
            if not low <= value <= high:
                raise ValueError(f"{name} must lie between {low} and {high}, not {value}")
        if self.fanout not in (2, 4, 8, 16):
            raise ValueError(f"fanout must be 2, 4, 8 or 16, not {self.fanout}")
        if self.width & (self.width - 1):
            raise ValueError(f"width must be a power of two, not {self.width}")
        self.domain.refuse_atoms()
        self.domain.split_order(self.depth)
        # Derived here, so that impossible parameters are refused now and not at the first reading.
        varying = sum(attribute.varies for attribute in self.domain.attributes)
        sizes = Sizes(varying, self.depth, self.k, self.width, self.rows, self.fanout)
        levels = derive_levels(sizes, self.guarantee.reading_micro, self.hash_key)
        object.__setattr__(self, "levels", levels)

    @property
    def exact_levels(self) -> tuple[Level, ...]:
        return tuple(level for level in self.levels if level.hash is None)

    @property
    def sketched_levels(self) -> tuple[Level, ...]:
        return tuple(level for level in self.levels if level.hash is not None)

    @property
    def blocks(self) -> tuple[int, ...]:
        return tuple(level.size for level in self.levels)

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """The noise scale of each level."""
        return tuple(level.scale for level in self.levels)

    def canonical_form(self) -> dict[str, Any]:
        sizes = [self.depth, self.k, self.width, self.rows, self.fanout]
        return linear_form(self) | {"sizes": sizes, "hash_key": self.hash_key}

    def counter_rows(self) -> list[CounterRow]:
        return [
            CounterRow(level.width, level.scale) for level in self.levels for _ in range(level.rows)
        ]

    def absorber(self) -> "PathAbsorber":
        """See `LinearSpec.absorber`."""
        return PathAbsorber(self)

    def state_form(self) -> "Differences":
        """Exact levels as differences: a reading then changes one counter of all of them."""
        return Differences(self.exact_levels)


class PathAbsorber:
    """Adds the path of each reading to the deepest exact level and to every sketched level. A path
    changes one exact counter, and `rows` counters of each sketched level."""

    def __init__(self, spec: HierarchySpec) -> None:
        self._encoder = PathEncoder(spec.domain, spec.depth)
        self._counter = PathCounter(spec.depth, (spec.exact_levels[-1], *spec.sketched_levels))

    def absorb(self, readings: npt.NDArray[np.float64], counters: Counters) -> None:
        """See `Absorber`."""
        for paths in self._encoder.encode(readings):
            self._counter.count(paths, counters)


class Differences:
    """Exact levels as a sketch holds them: a shallower level as its difference from the sum of
    its children.

    A reading must reach one counter of every exact level, and it changes no such difference. So
    only the deepest exact level is updated. The map between the two forms is a bijection, so the
    state carries exactly the paper's noise.
    """

    def __init__(self, exact: tuple[Level, ...]) -> None:
        self._steps = tuple(pairwise(exact))
        self._sums = np.zeros(exact[-1].size, COUNTER)

    def from_counts(self, counters: Counters) -> None:
        for parent, child in self._steps:
            self._move_children(np.subtract, parent, child, counters)

    def to_counts(self, counters: Counters) -> None:
        for parent, child in reversed(self._steps):
            self._move_children(np.add, parent, child, counters)

    def _move_children(
        self, operation: np.ufunc, parent: Level, child: Level, counters: Counters
    ) -> None:
        above = counters[parent.offset : parent.offset + parent.size]
        below = counters[child.offset : child.offset + child.size].reshape(parent.size, -1)
        sums = self._sums[: parent.size]
        # The children's noise alone must not stay behind: with the state it would give counts.
        np.add.reduce(below, axis=1, out=sums, dtype=COUNTER)
        operation(above, sums, out=above)
        sums.fill(0)
