"""Children that are never negative and sum to their parent."""

from collections.abc import Callable

import numpy as np

from pansketch.domain.domain import FloatArray

Consistency = Callable[[FloatArray, FloatArray], FloatArray]
"""(counts of children float64[n, ways], their parents' float64[n]) -> float64[n, ways]"""


def projected(families: FloatArray, parents: FloatArray) -> FloatArray:
    """Nearest non-negative counts that sum to the parent's: Euclidean projection onto a simplex."""
    falling = -np.sort(-families, axis=1)
    ranks = np.arange(1, families.shape[1] + 1)
    excess = (np.cumsum(falling, axis=1) - parents[:, None]) / ranks
    kept = np.maximum((falling > excess).sum(axis=1) - 1, 0)
    shift = np.take_along_axis(excess, kept[:, None], axis=1)
    return np.asarray(np.maximum(families - shift, 0.0))


def halved(families: FloatArray, parents: FloatArray) -> FloatArray:
    """PrivHP's Algorithm 4: clip at zero, give each of two children half of what is missing."""
    left = np.maximum(families, 0.0)
    left += ((parents - left.sum(axis=1)) / 2)[:, None]
    return np.asarray(np.clip(left, 0.0, parents[:, None]))
