"""Distances between records and the readings that they represent.

Only the owner of both can compute them.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from pansketch import Attribute, Domain

FloatArray = npt.NDArray[np.float64]
STEPS = 200_000  # of the quantile functions that W1 integrates
BINS = 16  # of a number: quantiles of the readings


@dataclass(frozen=True)
class Distances:
    """Distances of records from readings.

    `marginals`: W1 of each attribute in standard deviations. A cyclic attribute is measured around
    the circle, in standard deviations of the uniform distribution; a categorical one by total
    variation. `pairs`: total variation of each pair on 16 x 16 bins of the readings' quantiles.
    `correlation`: the largest error of a correlation of two numeric attributes.
    """

    marginals: FloatArray
    pairs: FloatArray
    correlation: float


def distances(domain: Domain, truth: FloatArray, records: FloatArray) -> Distances:
    """Of records from readings, both float64[n, d] in real units."""
    attributes = domain.attributes
    edges = [_edges(a, truth[:, place]) for place, a in enumerate(attributes)]
    sides = [
        [np.searchsorted(e, side[:, place], "right") for place, e in enumerate(edges)]
        for side in (truth, records)
    ]
    pairs = [
        np.abs(np.subtract(*(_shares(side[a], side[b], len(edges[b]) + 1) for side in sides))).sum()
        / 2
        for a, b in combinations(range(len(attributes)), 2)
    ]
    marginals = [_apart(a, truth[:, i], records[:, i]) for i, a in enumerate(attributes)]
    numbers = [domain.index(name) for name in domain.numbers]
    apart = np.corrcoef(truth[:, numbers].T) - np.corrcoef(records[:, numbers].T)
    return Distances(np.array(marginals), np.array(pairs), float(np.abs(apart).max()))


def _edges(attribute: Attribute, column: FloatArray) -> FloatArray:
    if attribute.categories is not None:
        return np.arange(1.0, len(attribute.categories))
    return np.quantile(column, np.arange(1, BINS) / BINS)


def _shares(first: npt.NDArray[np.intp], second: npt.NDArray[np.intp], bins: int) -> FloatArray:
    return np.bincount(first * bins + second, minlength=BINS * bins) / len(first)


def _apart(attribute: Attribute, truth: FloatArray, records: FloatArray) -> float:
    if attribute.categories is not None:
        codes = len(attribute.categories)
        both = [np.bincount(s.astype(int), minlength=codes) / len(s) for s in (truth, records)]
        return float(np.abs(both[0] - both[1]).sum() / 2)
    if attribute.cyclic:
        ends = attribute.origin + attribute.extent * np.arange(1, 1025) / 1024
        below = [np.searchsorted(np.sort(side), ends) / len(side) for side in (truth, records)]
        apart = below[0] - below[1]
        return float(np.abs(apart - np.median(apart)).mean() * np.sqrt(12))
    return wasserstein(truth, records) / float(truth.std())


def wasserstein(left: FloatArray, right: FloatArray) -> float:
    """W1 of two samples: the mean distance of their quantile functions."""
    at = (np.arange(STEPS) + 0.5) / STEPS
    first, second = (np.sort(side)[(at * len(side)).astype(np.int64)] for side in (left, right))
    return float(np.abs(first - second).mean())
