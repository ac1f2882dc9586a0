"""Count-sketches of cells, and adding the paths of readings to them.

Charikar, Chen, Farach-Colton, "Finding frequent items in data streams" (ICALP 2002). As for
hierarchies (pansketch/sketches/path_counting.py), all scratch is overwritten before a call returns.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import sinh

import numpy as np
import numpy.typing as npt

from pansketch.domain.cell_paths import BLOCK, READINGS_AT_ONCE
from pansketch.erasable_arrays import as_indices, spare_words
from pansketch.randomness.keyed_hash import SignedHash, Words
from pansketch.sketches.path_counting import COUNTER, FEW_READINGS

SIGN_BIT = np.uint64(1)

Counters = npt.NDArray[np.int32]


@dataclass(frozen=True)
class CountSketch:
    """A count-sketch of the cells of `bits` bits: `rows` x `width` counters from `offset`."""

    bits: int
    offset: int
    rows: int
    width: int
    scale: Fraction
    hash: SignedHash

    @property
    def size(self) -> int:
        return self.rows * self.width

    @property
    def noise_variance(self) -> float:
        """Variance of one draw on one counter."""
        return laplace_variance(self.scale)

    def of(self, counters: Counters) -> Counters:
        """This table's part of a sketch's counters, as a view: int32[rows, width]."""
        return counters[self.offset : self.offset + self.size].reshape(self.rows, self.width)


def laplace_variance(scale: Fraction) -> float:
    """Variance of a discrete Laplace draw."""
    return 0.5 / sinh(0.5 / float(scale)) ** 2


class SignCounter:
    """Adds the signs of paths of `depth` bits to tables; its scratch is erased after each call."""

    def __init__(self, depth: int, tables: tuple[CountSketch, ...]) -> None:
        self._depth = depth
        self._tables = tables
        widest = max(table.width for table in tables)
        # Scratch that fits the second-level cache, unless whole histograms would cost more.
        self._block = min(max(BLOCK, 2 * widest), READINGS_AT_ONCE)
        self._prefixes = np.zeros(self._block, np.uint64)
        self._scratch = np.zeros((3, self._block), np.uint64)
        self._tally = np.zeros(2 * widest, COUNTER)
        self._spare = spare_words(self._block)
        self._columns = np.zeros(FEW_READINGS, np.uint64)
        self._signs = np.zeros(FEW_READINGS, COUNTER)

    def count(self, paths: Words, counters: Counters) -> None:
        """Add 1 or -1 to one counter in each row of each table, for each path: uint64[n]."""
        for start in range(0, len(paths), self._block):
            some = paths[start : start + self._block]
            for table in self._tables:
                self._count_table(some, table, table.of(counters))
        self._prefixes[: len(paths)].fill(0)
        self._scratch[:, : len(paths)].fill(0)
        self._spare[: len(paths)].fill(0)

    def _count_table(self, paths: Words, table: CountSketch, rows: Counters) -> None:
        add = self._add_few if len(paths) <= FEW_READINGS else self._add_histogram
        prefixes = self._prefixes[: len(paths)]
        np.right_shift(paths, np.uint64(self._depth - table.bits), out=prefixes)
        for row, slots in zip(rows, table.hash.slots(prefixes, self._scratch), strict=True):
            add(row, slots)

    def _add_few(self, row: Counters, slots: Words) -> None:
        """One counter after the other: for a few readings a whole histogram is too much."""
        columns, signs = self._columns[: len(slots)], self._signs[: len(slots)]
        np.right_shift(slots, SIGN_BIT, out=columns)
        np.bitwise_and(slots, SIGN_BIT, out=slots)
        np.copyto(signs, slots, casting="unsafe")
        np.multiply(signs, np.int32(-2), out=signs)
        np.add(signs, np.int32(1), out=signs)
        np.add.at(row, as_indices(columns, self._spare), signs)
        columns.fill(0)
        signs.fill(0)

    def _add_histogram(self, row: Counters, slots: Words) -> None:
        """Counts of the slots of a row; the even ones are added, the odd ones taken away."""
        histogram = np.bincount(as_indices(slots, self._spare), minlength=2 * len(row))
        tally = self._tally[: 2 * len(row)]
        np.copyto(tally, histogram, casting="unsafe")
        row += tally[0::2]
        row -= tally[1::2]
        histogram.fill(0)
        tally.fill(0)
