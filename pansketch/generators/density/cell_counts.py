"""Counts of cells out of released count-sketches, and the heaviest cells among them.

Each row estimates a cell's count by its counter there times the cell's sign. The estimate is
unbiased, with variance (F2 - c**2) / R + v. F2 is the sum of the squares of all cells' counts, c
the cell's own count and v the noise of one counter. The mean of K rows has a K-th of that variance.
Collisions are rare and large, which the median withstands; noise is neither, and there the mean is
nearer.

The heaviest cells are found in nothing but the release. Up to 2**20 cells are all looked at.
Beyond, a search descends: the heaviest cells of the coarsest table, then the heaviest among their
children in the next one, down to the finest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain, FloatArray
from pansketch.sketches.cells import ENUMERABLE_BITS, GUIDE_STEP_BITS
from pansketch.sketches.count_sketch import CountSketch

Recovery = Literal["auto", "mean", "median"]
Paths = npt.NDArray[np.uint64]
CELLS_AT_ONCE = 1 << 16
MAX_CELLS = 1 << ENUMERABLE_BITS
MAX_CELLS_OF_A_DESCENT = MAX_CELLS >> (GUIDE_STEP_BITS - 2)  # Their children fit in memory.
MIN_DESCENDING = 4096  # Light cells that collide with a heavy one must not crowd others out.


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """A count-sketch of a release: `counters` float64[rows, width], each with `draws` draws."""

    sketch: CountSketch
    counters: FloatArray
    draws: float

    @property
    def noise_variance(self) -> float:
        """Variance of the noise of one counter."""
        return self.draws * self.sketch.noise_variance

    @property
    def second_moment(self) -> float:
        """F2, unbiased: what a row's squares sum to is F2 and the variance of its noise."""
        squares = np.mean(np.sum(self.counters**2, axis=1))
        return float(squares - self.sketch.width * self.noise_variance)

    def variance(self, recovery: Recovery = "mean") -> float:
        """Variance of a light cell's count, recovered by the mean; F2 as the table tells it."""
        collisions = max(self.second_moment, 0.0) / self.sketch.width
        return (collisions + self.noise_variance) / self.sketch.rows

    def choose(self, recovery: Recovery) -> Recovery:
        """Resolve "auto": the mean where noise outweighs collisions."""
        if recovery != "auto":
            return recovery
        noisy = self.noise_variance >= self.second_moment / self.sketch.width
        return "mean" if noisy else "median"

    def counts(self, paths: Paths, recovery: Recovery = "auto") -> FloatArray:
        """Estimated counts of cells: uint64[n] -> float64[n]. Negative ones occur."""
        combine = {"mean": _mean, "median": _median}[self.choose(recovery)]
        parts = [combine(self.row_counts(some)) for some in _some(paths)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def row_counts(self, paths: Paths) -> FloatArray:
        """Each row's estimate: uint64[n] -> float64[rows, n]."""
        return read_slots(self.counters, self.sketch.hash.table(paths))


def read_slots(table: FloatArray, slots: npt.NDArray[np.intp]) -> FloatArray:
    """Counters times the signs that slots stand for: float64[rows, width] at intp[rows, n] ->
    float64[rows, n]."""
    signed = np.stack([table, -table], axis=2).reshape(len(table), -1)
    return np.stack([row.take(indices) for row, indices in zip(signed, slots, strict=True)])


def _some(paths: Paths) -> Iterator[Paths]:
    for start in range(0, len(paths), CELLS_AT_ONCE):
        yield paths[start : start + CELLS_AT_ONCE]


def _mean(rows: FloatArray) -> FloatArray:
    return np.asarray(rows.mean(axis=0))


def _median(rows: FloatArray) -> FloatArray:
    """By a sorting network over whole rows: far faster than sorting each cell's few numbers."""
    ordered = list(rows)
    for last in range(len(ordered) - 1, 0, -1):
        for index in range(last):
            pair = ordered[index : index + 2]
            ordered[index : index + 2] = [np.minimum(*pair), np.maximum(*pair)]
    return np.asarray((ordered[(len(rows) - 1) // 2] + ordered[len(rows) // 2]) / 2)


def heaviest(
    tables: Sequence[ReleasedTable], domain: Domain, cells: int, *, recovery: Recovery
) -> tuple[Paths, FloatArray]:
    """At most `cells` cells of the last table and their counts, all positive, in order of path.

    Ties fall by path, so that every machine finds the same cells.
    """
    first = possible_cells(domain, tables[0].sketch.bits)
    wide = max(cells, MIN_DESCENDING) if len(tables) > 1 else cells
    found, counts = top(first, tables[0].counts(first, recovery), wide)
    for parent, child in pairwise(tables):
        step = child.sketch.bits - parent.sketch.bits
        suffixes = np.arange(1 << step, dtype=np.uint64)
        children = ((found << np.uint64(step))[:, None] | suffixes).ravel()
        children = children[_possible(domain, children, child.sketch.bits)]
        wide = cells if child is tables[-1] else wide
        found, counts = top(children, child.counts(children, recovery), wide)
    return found, counts


def possible_cells(domain: Domain, bits: int) -> Paths:
    """Every cell of `bits` bits but those beyond the last category of an attribute."""
    paths = np.arange(1 << bits, dtype=np.uint64)
    return paths[_possible(domain, paths, bits)]


def boxes(domain: Domain, paths: Paths, bits: int) -> tuple[FloatArray, FloatArray]:
    """Possible cells as boxes of the unit cube, without what lies beyond the last category."""
    low, high = domain.boxes(paths, bits)
    return low, np.minimum(high, _ceilings(domain))


def _ceilings(domain: Domain) -> FloatArray:
    """End of the values of each attribute in the unit interval."""
    return np.array(
        [
            1.0 if attribute.categories is None else len(attribute.categories) / attribute.extent
            for attribute in domain.attributes
        ]
    )


def _possible(domain: Domain, paths: Paths, bits: int) -> npt.NDArray[np.bool_]:
    """Return whether cells hold any value: codes beyond the last category do not exist."""
    held = np.ones(len(paths), np.bool_)
    order = domain.split_order(bits)
    for position, attribute in enumerate(domain.attributes):
        if attribute.categories is None:
            continue
        indices = [index for index, owner in enumerate(order) if owner == position]
        first = np.zeros_like(paths)  # The first code of the cell, in cells of codes.
        for index in indices:
            bit = (paths >> np.uint64(bits - 1 - index)) & np.uint64(1)
            first = (first << np.uint64(1)) | bit
        codes = first << np.uint64(attribute.max_bits - len(indices))
        held &= codes < len(attribute.categories)
    return held


def top(paths: Paths, counts: FloatArray, cells: int) -> tuple[Paths, FloatArray]:
    """At most `cells` of these cells, those with the highest counts, all positive, in their
    order."""
    kept = np.flatnonzero(counts > 0)
    if len(kept) > cells:
        least = np.partition(counts[kept], -cells)[-cells]
        above, ties = (np.flatnonzero(test(counts, least)) for test in (np.greater, np.equal))
        kept = np.sort(np.concatenate([above, ties[: cells - len(above)]]))
    return paths[kept], counts[kept]
