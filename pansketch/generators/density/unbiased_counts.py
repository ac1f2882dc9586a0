"""Unbiased counts of all cells of a count-sketch: signed and noisy.

Choosing heavy cells and keeping counts from going negative bring a sampler near the truth. The
sampler itself does not show its remaining error. Counts read off the table for all cells alike have
no bias in any sum of them: in a mean, a share, a count. So a sampler's error bar is its distance
from them, together with their own noise.

Collisions are most of that noise, unless a guess of the histogram is taken out of the table and
added again. A guess that depends on a row's counters would explain its noise too, and bias it.
Therefore each row has a guess of its own, fitted to the other rows, whose hashing is independent.

A fit takes the counts of all known cells at once. A table is a linear image of the histogram. So
the non-negative counts whose own table is nearest to the released one, in least squares, explain
the collisions among themselves. The algorithm is accelerated projected gradient with a constant
step (Beck, Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse
problems", SIAM J. Imaging Sciences 2009).
"""

from dataclasses import dataclass, replace
from math import log2, sqrt

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain, FloatArray
from pansketch.estimate import Estimate
from pansketch.generators.density.cell_counts import (
    Paths,
    ReleasedTable,
    boxes,
    heaviest,
    possible_cells,
    read_slots,
)
from pansketch.generators.partition.partition import Partition
from pansketch.generators.simplex import onto_simplex

STEPS = 50
POWER_STEPS = 4


def fit_counts(table: ReleasedTable, paths: Paths, counts: FloatArray, most: float) -> FloatArray:
    """Counts of cells, float64[n] >= 0, with a sum of at most `most`; `counts` is the start."""
    if not len(paths):
        return counts
    image = Image(table.sketch.hash.table(paths), table.sketch.width)
    fitted = ahead = at_most(counts, most)
    length, momentum = 1 / image.norm(), 1.0
    for _ in range(STEPS):
        residual = table.counters - image.of(ahead)
        nearer = at_most(ahead + length * image.back(residual), most)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = nearer + (momentum - 1) / following * (nearer - fitted)
        fitted, momentum = nearer, following
    return fitted


def at_most(counts: FloatArray, most: float) -> FloatArray:
    """The nearest non-negative counts whose sum is no more than `most`."""
    clipped = np.maximum(counts, 0.0)
    if clipped.sum() <= most:
        return clipped
    return onto_simplex(counts, most)


@dataclass(frozen=True, eq=False)
class Image:
    """The linear map from counts of cells to a table without noise, and its transpose.

    `slots`: intp[rows, n], of each cell in each row (pansketch/randomness/keyed_hash.py).
    """

    slots: npt.NDArray[np.intp]
    width: int

    def of(self, counts: FloatArray) -> FloatArray:
        """float64[n] -> float64[rows, width]"""
        sums = self._sums(counts)
        return sums[:, 0::2] - sums[:, 1::2]

    def back(self, table: FloatArray) -> FloatArray:
        """The transpose: float64[rows, width] -> float64[n]."""
        return np.asarray(read_slots(table, self.slots).sum(axis=0))

    def norm(self) -> float:
        """An upper bound of the largest eigenvalue of the map followed by its transpose.

        Collatz-Wielandt on the map without signs, whose eigenvalue is no smaller.
        """
        vector, bound = np.ones(self.slots.shape[1]), 0.0
        for _ in range(POWER_STEPS):
            sums = self._sums(vector)
            unsigned = (sums[:, 0::2] + sums[:, 1::2]).repeat(2, axis=1)
            following = np.take_along_axis(unsigned, self.slots, axis=1).sum(axis=0)
            bound = float(np.max(following / vector))
            vector = following / following.max()
        return bound

    def _sums(self, counts: FloatArray) -> FloatArray:
        """Sums of the counts in each slot: float64[n] -> float64[rows, 2 * width]."""
        rows = [np.bincount(row, weights=counts, minlength=2 * self.width) for row in self.slots]
        return np.stack(rows)


REPLICATES = 24
GUESSED_CELLS = 4096
COARSEST_BITS, FINEST_BITS = 3, 16


@dataclass(frozen=True, eq=False)
class SignedMeasure:
    """Unbiased counts of all cells: `guess` float64[n] and what `beyond`, a table, adds to it.

    `deviations`: float64[rows, 1], of each row's counters: noise, and readings that the guess does
    not explain, which collide.
    """

    domain: Domain
    readings: Estimate
    cells: Paths
    guess: FloatArray
    beyond: ReleasedTable
    deviations: FloatArray

    def replicates(self, generator: np.random.Generator) -> list[Partition]:
        """The measure with independent noise, summed up in boxes that outweigh their noise."""
        bits = self.beyond.sketch.bits
        shift = np.uint64(bits - min(bits, self._box_bits()))
        paths, members = np.unique(self.cells >> shift, return_inverse=True)
        low, high = boxes(self.domain, paths, bits - int(shift))
        found = []
        for _ in range(REPLICATES):
            counts = self._with_noise(generator)
            masses = np.bincount(members, weights=counts, minlength=len(paths))
            found.append(Partition(self.domain, low, high, masses.astype(np.float64)))
        return found

    def _with_noise(self, generator: np.random.Generator) -> FloatArray:
        shape = self.beyond.counters.shape
        noisy = self.beyond.counters + self.deviations * generator.standard_normal(shape)
        counts = self.guess + replace(self.beyond, counters=noisy).counts(self.cells, "mean")
        total = generator.normal(self.readings.value, self.readings.standard_error)
        return np.asarray(counts + (total - counts.sum()) / len(counts))

    def _box_bits(self) -> int:
        """So many boxes that an average one holds four deviations of its noise."""
        deviation = sqrt(float(np.mean(self.deviations**2)) / len(self.deviations))
        largest = max(self.readings.value, 1.0) / max(4 * deviation, 1e-9)
        return int(np.clip(2 * log2(largest) - self.beyond.sketch.bits, COARSEST_BITS, FINEST_BITS))


def signed_measure(table: ReleasedTable, domain: Domain, readings: Estimate) -> SignedMeasure:
    """The measure of a table whose cells can all be looked at."""
    sketch, cells = table.sketch, possible_cells(domain, table.sketch.bits)
    guess, beyond = np.zeros(len(cells)), table.counters.copy()
    for row in range(sketch.rows):
        paths, counts = _guess(table, row, domain, readings.value)
        slots = sketch.hash.table(paths)[row : row + 1]
        beyond[row] -= Image(slots, sketch.width).of(counts)[0]
        guess[np.searchsorted(cells, paths)] += counts / sketch.rows
    squares = np.sum(beyond**2, axis=1, keepdims=True)
    unexplained = np.maximum(squares - sketch.width * table.noise_variance, 0.0)
    deviations = np.sqrt(table.noise_variance + unexplained / sketch.width)
    return SignedMeasure(
        domain, readings, cells, guess, replace(table, counters=beyond), deviations
    )


def _guess(
    table: ReleasedTable, row: int, domain: Domain, readings: float
) -> tuple[Paths, FloatArray]:
    """Cells and counts that the other rows alone tell; nothing where there is no other."""
    if table.sketch.rows == 1:
        return np.zeros(0, np.uint64), np.zeros(0)
    shifts = table.sketch.hash.shifts
    others = replace(table.sketch.hash, shifts=(*shifts[:row], *shifts[row + 1 :]))
    sketch = replace(table.sketch, rows=table.sketch.rows - 1, hash=others)
    left = replace(table, sketch=sketch, counters=np.delete(table.counters, row, axis=0))
    paths, counts = heaviest([left], domain, GUESSED_CELLS, recovery="auto")
    return paths, fit_counts(left, paths, counts, max(readings, 0.0))
