"""Counts that noise made negative, put right: Euclidean projections onto a simplex, and of running
sums onto those that rise."""

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import FloatArray


def onto_simplex(values: FloatArray, total: FloatArray | float) -> FloatArray:
    """The nearest values that are not negative and sum to `total`: float64[..., n] -> [..., n].

    `total`: float64[...], one for each row of the last axis, or one number.
    """
    falling = np.sort(values, axis=-1)[..., ::-1]
    ranks = np.arange(1, values.shape[-1] + 1)
    # Of the largest n values as many stay as make this excess largest.
    excess = (np.cumsum(falling, axis=-1) - np.asarray(total)[..., None]) / ranks
    return np.asarray(np.maximum(values - excess.max(axis=-1, keepdims=True), 0.0))


def isotonic(values: FloatArray) -> FloatArray:
    """The nearest values that never fall in a row, float64[rows, n]: pools of adjacent violators,
    of all rows at once."""
    rows, cells = values.shape
    sums, sizes = values.reshape(-1), np.ones(values.size)
    row = np.repeat(np.arange(rows), cells)
    while True:
        means = sums / sizes
        # Values that are alike stay as they are: rounding would part them.
        first = np.append(True, (np.diff(means) >= 0) | (np.diff(row) > 0))
        if first.all():
            return np.repeat(means, sizes.astype(np.intp)).reshape(rows, cells)
        starts = np.flatnonzero(first)
        sums, sizes = np.add.reduceat(sums, starts), np.add.reduceat(sizes, starts)
        row = row[starts]


def rising(counts: FloatArray, within: npt.NDArray[np.bool_], totals: FloatArray) -> FloatArray:
    """Counts whose running sum rises from 0 to the total and is nearest to the given one:
    float64[rows, cells]. They are in the cells `within` alone, bool[rows, cells].

    That sum errs by the noise of few cells, where counts made non-negative one by one would gain
    readings in every empty one. `totals`: float64[rows].
    """
    most, counts = totals[:, None], np.where(within, counts, 0.0)
    sums = counts.sum(axis=1, keepdims=True)
    scale = most / np.where(sums == 0.0, most, sums)
    running = np.clip(np.cumsum(counts, axis=1) * scale, 0.0, most)
    # What rounding leaves of the total would extend the range of the readings to the last cell.
    last = within.shape[1] - 1 - within[:, ::-1].argmax(axis=1)
    running = np.where(np.arange(within.shape[1]) >= last[:, None], most, running)
    return np.diff(isotonic(running), prepend=0.0)
