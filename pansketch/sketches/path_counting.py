"""Adding the paths of readings to a hierarchy's counters: fast, and leaving no copies behind.

Only the deepest exact level and the sketched levels are touched; the shallower exact levels are
held as differences (pansketch/sketches/hierarchy.py). All scratch is overwritten before a call
returns.
"""

import numpy as np
import numpy.typing as npt

from pansketch.domain.cell_paths import READINGS_AT_ONCE
from pansketch.erasable_arrays import Indices, as_indices, block, spare_words
from pansketch.randomness.keyed_hash import FOLD_MULTIPLIER, fold
from pansketch.sketches.hierarchy_levels import Level

COUNTER = np.dtype(np.int32)
ONE = np.int32(1)
FEW_READINGS = 16  # Up to here, one pass over all levels beats one histogram a row.

Counters = npt.NDArray[np.int32]
Paths = npt.NDArray[np.uint64]


class PathCounter:
    """Counts paths of `depth` bits into the counters of some levels, deepest exact level first."""

    def __init__(self, depth: int, levels: tuple[Level, ...]) -> None:
        self._depth = depth
        self._levels = levels
        self._slots = _Slots(depth, levels)
        self._prefixes, self._mixed, self._columns = np.zeros((3, READINGS_AT_ONCE), np.uint64)
        self._spare = spare_words(READINGS_AT_ONCE)
        self._tally = np.zeros(max(level.width for level in levels), COUNTER)

    def count(self, paths: Paths, counters: Counters) -> None:
        """Add 1 to one counter in each row of each level, for each path."""
        if len(paths) <= FEW_READINGS:
            self._slots.count(paths, counters)
        else:
            self._count_many(paths, counters)

    def _count_many(self, paths: Paths, counters: Counters) -> None:
        """One histogram for every row of every level whose cells outnumber the readings.

        A table is a linear image of its level's cells. So, with fewer cells than readings, the
        cells are counted once and each cell's count is added to its counters.
        """
        count = len(paths)
        prefixes = self._prefixes[:count]
        scratch = self._mixed[:count], self._columns[:count]
        crowded = 1 + sum(2 << level.bits <= count for level in self._levels[1:])
        deepest = self._levels[crowded - 1].bits
        np.right_shift(paths, np.uint64(self._depth - deepest), out=prefixes)
        cells = np.bincount(as_indices(prefixes, self._spare), minlength=1 << deepest)
        self._count_cells(self._levels[:crowded], cells, counters)
        for level in self._levels[crowded:]:
            assert level.hash is not None
            np.right_shift(paths, np.uint64(self._depth - level.bits), out=prefixes)
            rows = level.table(counters)
            for row, columns in zip(rows, level.hash.columns(prefixes, *scratch), strict=True):
                self._add_histogram(row, columns)
        for used in (prefixes, *scratch, self._spare[:count]):
            used.fill(0)

    def _count_cells(self, levels: tuple[Level, ...], cells: Indices, counters: Counters) -> None:
        """Add the counts of the last level's cells to its counters, then to the levels above."""
        for level in reversed(levels):
            ways = len(cells) >> level.bits
            if ways > 1:
                finer = cells
                cells = finer[::ways].copy()
                for index in range(1, ways):
                    cells += finer[index::ways]
                finer.fill(0)
            counts = cells.astype(COUNTER)
            if level.hash is None:
                exact = level.table(counters)[0]
                exact += counts
            else:
                keys = np.arange(len(counts), dtype=np.uint64)
                for row, columns in zip(level.table(counters), level.hash.table(keys), strict=True):
                    np.add.at(row, columns, counts)
            counts.fill(0)
        cells.fill(0)

    def _add_histogram(self, counters: Counters, columns: npt.NDArray[np.uint64]) -> None:
        histogram = np.bincount(as_indices(columns, self._spare), minlength=len(counters))
        tally = self._tally[: len(counters)]
        np.copyto(tally, histogram, casting="unsafe")
        counters += tally
        histogram.fill(0)
        tally.fill(0)


class _Slots:
    """Every counter that one path touches, computed for a few paths in one pass over all levels.

    An index is (key * multiplier + addend ^ fold(key)) >> shift & mask + offset, where the key is
    path >> prefix. An exact level is the same with multiplier 1, no fold and no shift.
    """

    def __init__(self, depth: int, levels: tuple[Level, ...]) -> None:
        rows = []
        for level in levels:
            hashed, folding = [(1, 0, 0)], 0
            if level.hash is not None:
                hashed = [(*level.hash.words[word], shift) for word, shift in level.hash.shifts]
                folding = FOLD_MULTIPLIER
            for row, (multiplier, addend, shift) in enumerate(hashed):
                offset = level.offset + row * level.width
                prefix = depth - level.bits
                rows.append((prefix, folding, multiplier, addend, shift, level.width - 1, offset))
        self._columns = [np.array(part, np.uint64)[:, None] for part in zip(*rows, strict=True)]
        shape = len(rows), FEW_READINGS
        self._indices, self._folded, self._shifted = (np.zeros(shape, np.uint64) for _ in range(3))
        self._spare = spare_words(self._indices.size)

    def count(self, paths: Paths, counters: Counters) -> None:
        """Add 1 to every counter of at most `FEW_READINGS` paths."""
        prefix, folding, multiplier, addend, shift, mask, offset = self._columns
        scratch = self._indices, self._folded, self._shifted
        indices, folded, shifted = (block(each, len(paths)) for each in scratch)
        np.copyto(indices, paths)
        np.right_shift(indices, prefix, out=indices)
        fold(indices, folding, folded, shifted)
        np.multiply(indices, multiplier, out=indices)
        np.add(indices, addend, out=indices)
        np.bitwise_xor(indices, folded, out=indices)
        np.right_shift(indices, shift, out=indices)
        np.bitwise_and(indices, mask, out=indices)
        np.add(indices, offset, out=indices)
        np.add.at(counters, as_indices(indices.reshape(-1), self._spare), ONE)
        for used in (indices, folded, shifted, self._spare):
            used.fill(0)
