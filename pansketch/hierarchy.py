"""PrivHP's state: a private hierarchy of counters over a public domain.

Holland, Camtepe, Thapa, Xue, "Private synthetic data generation in bounded memory" (PrivHP),
Algorithm 1: exact counters for the shallow levels, one private count-min table for each deeper
level, and the budget shared among the levels so that the paper's error bound is least. A cell at
level l is the first l bits of a reading's path; a step from one level to the next takes
log2(fanout) bits.

The paper draws noise once, at the start. That protects one output, not a snapshot followed by
publications; `silent` mode adds a second, fresh draw at the release (docs/privacy.md).
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pansketch.counting import COUNTER, PathCounter
from pansketch.domain import Domain
from pansketch.hashing import form_digest
from pansketch.levels import Level, Sizes, derive_levels
from pansketch.linear import LinearCounters, linear_form
from pansketch.noise import Entropy
from pansketch.paths import PathEncoder
from pansketch.privacy import Guarantee, Privacy
from pansketch.sketch import Release, WindowId, expected_nbytes

DEEPEST = 48


@dataclass(frozen=True)
class HierarchySpec:
    """Public description of a hierarchy.

    `depth`: bits of a path. `k`: pruning, the cells that growth refines at each deeper level;
    levels of at most log2(k) bits are exact. `width`, `rows`: the count-min table of each deeper
    level (width a power of two). `fanout`: 2, 4, 8 or 16 children of a cell. `hash_key`: public.
    Raises ValueError, in one line, on sizes that cannot be.
    """

    domain: Domain
    privacy: Privacy
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
        self.domain.split_order(self.depth)
        # Derived here, so that whatever cannot work is refused now and not at the first reading.
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
        sizes = [self.depth, self.k, self.width, self.rows, self.fanout]
        return form_digest(linear_form(self) | {"sizes": sizes, "hash_key": self.hash_key})

    @property
    def additive(self) -> bool:
        return True

    def for_window(self, index: int) -> "HierarchySpec":
        """The spec of one window: the same for all, so that windows add up."""
        return self

    def start(self, rng: Entropy) -> "HierarchySketch":
        """A sketch of an empty window, noisy from its first instant."""
        return HierarchySketch(self, rng)


class HierarchySketch:
    """The secret state of one window: exactly `spec.nbytes` bytes of counters, and scratch.

    A reading must reach one counter of every exact level. Only the deepest exact level is
    updated: a shallower one is held as its difference from the sum of its children, which no
    reading changes. The map between the two forms is a bijection, so the state carries exactly
    the paper's noise.
    """

    def __init__(self, spec: HierarchySpec, rng: Entropy) -> None:
        self._spec = spec
        self._held = LinearCounters(spec, COUNTER, rng)
        self._counters = self._held.values
        self._encoder = PathEncoder(spec.domain, spec.depth)
        self._counter = PathCounter(spec.depth, (spec.exact_levels[-1], *spec.sketched_levels))
        self._sums = np.zeros(spec.exact_levels[-1].size, COUNTER)
        self._to_differences()

    def __repr__(self) -> str:
        return f"HierarchySketch({self._spec!r})"

    def __reduce__(self) -> str:
        raise TypeError("a sketch is secret: it is never copied or stored")

    def update_many(self, readings: npt.NDArray[np.float64]) -> None:
        """Absorb readings, float64[n, d] in the domain's units: one exact counter and `rows`
        counters of every sketched level each.

        A reading with a NaN or an infinity is dropped, a value out of bounds is clipped. Raises
        ValueError for another shape, SketchClosed after the release.
        """
        self._held.check_open()
        for paths in self._encoder.encode(readings):
            self._counter.count(paths, self._counters)

    def rerandomise(self, rng: Entropy) -> None:
        """An announced intrusion: a fresh draw on every counter, as large as the first."""
        self._held.check_open()
        self._to_counts()
        self._held.add_noise(rng)
        self._to_differences()

    def release(self, rng: Entropy, window: WindowId | None = None) -> Release:
        """The noisy counters of this window, once; the sketch is closed and its memory erased.

        `window` labels the release; without it a random identifier does. Raises SketchClosed.
        """
        self._held.check_open()
        self._to_counts()
        return self._held.release(rng, window)

    def _block(self, level: Level) -> npt.NDArray[np.int32]:
        return self._counters[level.offset : level.offset + level.size]

    def _to_differences(self) -> None:
        for parent, child in pairwise(self._spec.exact_levels):
            self._move_children(np.subtract, parent, child)

    def _to_counts(self) -> None:
        for parent, child in reversed([*pairwise(self._spec.exact_levels)]):
            self._move_children(np.add, parent, child)

    def _move_children(self, operation: np.ufunc, parent: Level, child: Level) -> None:
        sums, counters = self._sums[: parent.size], self._block(parent)
        # The children's noise alone must not stay behind: with the state it would give counts.
        np.add.reduce(self._block(child).reshape(parent.size, -1), axis=1, out=sums, dtype=COUNTER)
        operation(counters, sums, out=counters)
        sums.fill(0)
