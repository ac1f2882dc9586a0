"""Density Sketch's state: a private count-sketch of a fine, regular histogram over a public domain.

Desai, Coleman, Shrivastava, "Density sketches for sampling and estimation" (arXiv 2102.12301): each
reading adds its sign to one counter in each of K rows of R counters; the sum of two sketches is
the sketch of both streams. A cell is the `depth` bits of a reading's path, so a histogram has
2**depth cells of one shape.

The paper keeps a heap of the heaviest cells while it streams, which shows what arrived. Here no
cell is remembered: whoever has a release finds the heavy cells in it, by enumeration up to 2**20
cells, and beyond by descent through coarser tables that the sketch carries for that purpose
(generators/density.py). Noise is drawn as for hierarchies: once at the start and, in `silent`
mode, once more at the release (docs/privacy.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import lcm

import numpy as np
import numpy.typing as npt

from pansketch.count_sketch import CountSketch, SignCounter
from pansketch.counting import COUNTER
from pansketch.domain import Domain
from pansketch.hashing import form_digest
from pansketch.linear import LinearCounters, linear_form
from pansketch.noise import Entropy
from pansketch.paths import PathEncoder
from pansketch.privacy import Guarantee, Privacy, split_budget
from pansketch.sketch import Release, WindowId, expected_nbytes
from pansketch.tabulation import SignedHash

DEEPEST = 48
ENUMERABLE_BITS = 20
FIRST_GUIDE_BITS = 16
GUIDE_STEP_BITS = 8
COUNT_SHARE = Fraction(1, 20)  # of epsilon: what the number of readings costs


@dataclass(frozen=True)
class CellsSpec:
    """Public description of a density sketch.

    `depth`: bits of a cell's path, shared among the attributes in turn. `width`, `rows`: columns R
    (a power of two) and rows K of each table. `hash_key`: public. Beyond 20 bits, coarser tables
    guide the search for heavy cells; then the finest table, from which densities are read, has half
    of the tables' budget. Raises ValueError, in one line, on sizes that cannot be.
    """

    domain: Domain
    privacy: Privacy
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
        self.domain.split_order(self.depth)
        # Derived here, so that whatever cannot work is refused now and not at the first reading.
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

    @property
    def nbytes(self) -> int:
        """Bytes of the secret state, from its first instant to its last."""
        return sum(self.blocks) * COUNTER.itemsize

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.of_linear_counters(self.privacy)

    @property
    def release_nbytes(self) -> int:
        """Bytes of one release on the wire, as expected from the entropy of its noise."""
        return expected_nbytes(self.blocks, self.scales, self.guarantee.draws)

    @property
    def max_release_nbytes(self) -> int:
        """A bound that no honest release of one window exceeds; a receiver refuses what is
        longer."""
        return 4096 + 2 * self.release_nbytes + self.nbytes

    @cached_property
    def fingerprint(self) -> bytes:
        """8 bytes over all that decides what the counters mean and how they are protected."""
        sizes = [self.depth, self.width, self.rows]
        return form_digest(linear_form(self) | {"sizes": sizes, "hash_key": self.hash_key})

    @property
    def additive(self) -> bool:
        return True

    def for_window(self, index: int) -> "CellsSpec":
        """The spec of one window: the same for all, so that windows add up."""
        return self

    def start(self, rng: Entropy) -> "CellsSketch":
        """A sketch of an empty window, noisy from its first instant."""
        return CellsSketch(self, rng)


class CellsSketch:
    """The secret state of one window: exactly `spec.nbytes` bytes of counters, and scratch."""

    def __init__(self, spec: CellsSpec, rng: Entropy) -> None:
        self._spec = spec
        self._held = LinearCounters(spec, COUNTER, rng)
        self._counters = self._held.values
        self._encoder = PathEncoder(spec.domain, spec.depth)
        self._counter = SignCounter(spec.depth, spec.tables)

    def __repr__(self) -> str:
        return f"CellsSketch({self._spec!r})"

    def __reduce__(self) -> str:
        raise TypeError("a sketch is secret: it is never copied or stored")

    def update_many(self, readings: npt.NDArray[np.float64]) -> None:
        """Absorb readings, float64[n, d] in the domain's units: 1 is added to the number of
        readings, and 1 or -1 to one counter in each row of each table.

        A reading with a NaN or an infinity is dropped, a value out of bounds is clipped. Raises
        ValueError for another shape, SketchClosed after the release.
        """
        self._held.check_open()
        for paths in self._encoder.encode(readings):
            self._counters[:1] += np.int32(len(paths))
            self._counter.count(paths, self._counters)

    def rerandomise(self, rng: Entropy) -> None:
        """An announced intrusion: a fresh draw on every counter, as large as the first."""
        self._held.check_open()
        self._held.add_noise(rng)

    def release(self, rng: Entropy, window: WindowId | None = None) -> Release:
        """The noisy counters of this window, once; the sketch is closed and its memory erased.

        `window` labels the release; without it a random identifier does. Raises SketchClosed.
        """
        return self._held.release(rng, window)
