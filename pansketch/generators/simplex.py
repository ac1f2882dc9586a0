"""Counts that noise made negative, put right: Euclidean projection onto a simplex."""

import numpy as np

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
