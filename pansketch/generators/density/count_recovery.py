"""Counts of cells out of a released count-sketch, by the mean or the median over its rows.

Each row estimates a cell's count by its counter there times the cell's sign: unbiased, with
variance (F2 - c**2) / R + v, where F2 is the sum of the squares of all cells' counts, c the cell's
own count and v the noise of one counter. The mean of K rows has a K-th of that. Collisions are
rare and large, which the median withstands; noise is neither, and there the mean is nearer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import FloatArray
from pansketch.sketches.count_sketch import CountSketch

Recovery = Literal["auto", "mean", "median"]
Paths = npt.NDArray[np.uint64]
CELLS_AT_ONCE = 1 << 16


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
        """What "auto" stands for here: the mean where noise outweighs collisions."""
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
    return np.stack([row.take(places) for row, places in zip(signed, slots, strict=True)])


def _some(paths: Paths) -> Iterator[Paths]:
    for start in range(0, len(paths), CELLS_AT_ONCE):
        yield paths[start : start + CELLS_AT_ONCE]


def _mean(rows: FloatArray) -> FloatArray:
    return np.asarray(rows.mean(axis=0))


def _median(rows: FloatArray) -> FloatArray:
    """By a sorting network over whole rows: far faster than sorting each cell's few numbers."""
    ordered = list(rows)
    for last in range(len(ordered) - 1, 0, -1):
        for place in range(last):
            pair = ordered[place : place + 2]
            ordered[place : place + 2] = [np.minimum(*pair), np.maximum(*pair)]
    return np.asarray((ordered[(len(rows) - 1) // 2] + ordered[len(rows) // 2]) / 2)
