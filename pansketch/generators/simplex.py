"""Counts that noise made negative, put right: Euclidean projection onto a simplex."""

import numpy as np

from pansketch.domain.domain import FloatArray


def onto_simplex(values: FloatArray, total: FloatArray | float) -> FloatArray:
    """The nearest values that are not negative and sum to `total`: float64[..., n] -> [..., n].

    `total`: float64[...], one for each row of the last axis, or one number.
    """
    falling = -np.sort(-values, axis=-1)
    ranks = np.arange(1, values.shape[-1] + 1)
    excess = (np.cumsum(falling, axis=-1) - np.asarray(total)[..., None]) / ranks
    kept = np.maximum((falling > excess).sum(axis=-1, keepdims=True) - 1, 0)
    shift = np.take_along_axis(excess, kept, axis=-1)
    return np.asarray(np.maximum(values - shift, 0.0))
