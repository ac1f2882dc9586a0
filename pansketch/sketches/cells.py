"""Density Sketch's state: a private count-sketch of a fine, regular histogram over a public domain.

Desai, Coleman, Shrivastava, "Density sketches for sampling and estimation" (arXiv 2102.12301). Each
reading adds its sign to one counter in each of K rows of R counters. The sum of two sketches is the
sketch of both streams. A cell is the `depth` bits of a reading's path, so a histogram has 2**depth
cells of one shape.

The paper's streaming algorithm keeps a heap of the heaviest cells, which reveals readings. Its
appendix D has the private sketch: double geometric noise of p = 1 - exp(-epsilon / K) on every
counter. That is discrete Laplace noise of scale K / epsilon. A pass over all partitions finds the
heavy cells afterwards. This module does the same up to 2**20 cells. Beyond, a search descends
through coarser tables that the sketch has for that purpose (generators/density/). The appendix
draws noise once and spends nothing on the number of readings. Here that number has a share of
epsilon, and in `silent` mode noise is drawn once more at the release (docs/explanation/privacy.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.domain.cell_paths import PathEncoder
from pansketch.privacy import split_budget
from pansketch.randomness.keyed_hash import SignedHash
from pansketch.sketches.count_sketch import CountSketch, SignCounter
from pansketch.sketches.counter_bounds import CounterRow
from pansketch.sketches.linear_counters import Counters, LinearSpec, linear_form

DEEPEST = 48
ENUMERABLE_BITS = 20
FIRST_GUIDE_BITS = 16
GUIDE_STEP_BITS = 8
COUNT_SHARE = Fraction(1, 20)  # of epsilon: what the number of readings costs


@dataclass(frozen=True)
class CellsSpec(LinearSpec):
    """Public description of a density sketch.

    Beyond 20 bits, coarser tables guide the search for heavy cells. The finest table, from which
    densities are read, then has half of the tables' budget.

    Args:
        domain: the attributes of a reading.
        privacy: epsilon, unit (a reading or a span) and intrusion.
        depth: bits of a cell's path, shared among the attributes in turn.
        width: columns R of each table, a power of two.
        rows: rows K of each table.
        hash_key: public 64-bit key of the hashing.

    Raises:
        ValueError: a size is out of range, or an attribute has atoms.

    Reference:
        Desai, Coleman, Shrivastava, "Density sketches for sampling and estimation"
        (arXiv 2102.12301).
    """

    depth: int = 12
    width: int = 2048
    rows: int = 3
    hash_key: int = 0
    family: str = field(default="cells", init=False)
    count_scale: Fraction = field(default=Fraction(1), init=False, repr=False, compare=False)
    tables: tuple[CountSketch, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, low, high in (
            ("depth", 1, DEEPEST),
            ("width", 2, 1 << 20),
            ("rows", 1, 16),
            ("hash_key", 0, (1 << 64) - 1),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} must be a whole number, not {type(value).__name__}")
            if not low <= value <= high:
                raise ValueError(f"{name} must lie between {low} and {high}, not {value}")
        if self.width & (self.width - 1):
            raise ValueError(f"width must be a power of two, not {self.width}")
        self.domain.refuse_atoms()
        self.domain.split_order(self.depth)
        # Derived here, so that impossible parameters are refused now and not at the first reading.
        count, *shares = split_budget(self.guarantee.reading_micro, self._squared_weights())
        object.__setattr__(self, "count_scale", 1 / count)
        object.__setattr__(self, "tables", tuple(self._derive_tables(shares)))

    def _table_bits(self) -> list[int]:
        """Depths of the tables, coarse to fine."""
        if self.depth <= ENUMERABLE_BITS:
            return [self.depth]
        steps = -(-(self.depth - FIRST_GUIDE_BITS) // GUIDE_STEP_BITS)
        below = self.depth - FIRST_GUIDE_BITS
        return [FIRST_GUIDE_BITS + below * step // steps for step in range(steps + 1)]

    def _squared_weights(self) -> list[Fraction]:
        """Squares of what the shares of the count and of the tables are proportional to."""
        guides = len(self._table_bits()) - 1
        rest = (1 - COUNT_SHARE) / (2 if guides else 1)
        shares = [COUNT_SHARE, *[rest / max(1, guides)] * guides, rest]
        # In whole numbers, so that their roots are exact.
        whole = lcm(*(share.denominator for share in shares))
        return [(share * whole) ** 2 for share in shares]

    def _derive_tables(self, shares: list[Fraction]) -> Iterator[CountSketch]:
        offset = 1  # After the number of readings.
        for bits, share in zip(self._table_bits(), shares, strict=True):
            spread = SignedHash.derive(self.hash_key, f"cells/{bits}", bits, self.rows, self.width)
            table = CountSketch(bits, offset, self.rows, self.width, self.rows / share, spread)
            offset += table.size
            yield table

    @property
    def blocks(self) -> tuple[int, ...]:
        """The number of readings, then the tables from coarse to fine."""
        return 1, *(table.size for table in self.tables)

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """The noise scale of each block."""
        return self.count_scale, *(table.scale for table in self.tables)

    def canonical_form(self) -> dict[str, Any]:
        sizes = [self.depth, self.width, self.rows]
        return linear_form(self) | {"sizes": sizes, "hash_key": self.hash_key}

    def counter_rows(self) -> list[CounterRow]:
        rows = [CounterRow(1, self.count_scale)]
        for table in self.tables:
            rows += [CounterRow(table.width, table.scale, signed=True)] * table.rows
        return rows

    def absorber(self) -> "SignAbsorber":
        """See `LinearSpec.absorber`."""
        return SignAbsorber(self)


class SignAbsorber:
    """Adds 1 to the number of readings, and 1 or -1 to one counter in each row of each table, for
    each reading."""

    def __init__(self, spec: CellsSpec) -> None:
        self._encoder = PathEncoder(spec.domain, spec.depth)
        self._counter = SignCounter(spec.depth, spec.tables)

    def absorb(self, readings: npt.NDArray[np.float64], counters: Counters) -> None:
        """See `Absorber`."""
        for paths in self._encoder.encode(readings):
            counters[:1] += np.int32(len(paths))
            self._counter.count(paths, counters)
