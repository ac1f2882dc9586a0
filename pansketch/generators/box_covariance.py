"""Covariances of the attributes of a partition, with error bars.

Inside a box readings are taken to be spread evenly and independently in the attributes' scales.
Everything here reads released integers only, so it is post-processing and costs no privacy.
"""

import numpy as np

from pansketch.domain import FloatArray
from pansketch.generators.estimates import Estimates
from pansketch.generators.partition import Partition


def covariance(partition: Partition, names: tuple[str, ...] | None = None) -> Estimates:
    """Covariances of attributes (all numbers unless told, but cyclic ones), in their units: [k, k].

    The standard errors hold the noise of the releases and the width of the boxes. Raises ValueError
    for an unknown attribute, a cyclic one, one with categories, or none at all; EmptyModel when the
    noisy number of readings is not positive.
    """
    attributes = partition.domain.attributes
    if names is None:
        names = tuple(a.name for a in attributes if a.categories is None and not a.cyclic)
    places = tuple(partition._ordered(name) for name in names)
    if not places:
        raise ValueError("there is no covariance without an attribute that is a number")
    value = _covariance(partition, places)
    resolution = _resolution(partition, places)
    others = [each for each in partition.replicates if each.total > 0]
    if not others:
        return Estimates(value, np.sqrt(resolution))
    noise = np.mean([(_covariance(each, places) - value) ** 2 for each in others], axis=0)
    # Replicates with wider boxes than the partition's tell no more than theirs allow.
    wider = np.mean([_resolution(each, places) for each in others], axis=0)
    return Estimates(value, np.sqrt(noise + np.maximum(resolution, wider)))


def _covariance(partition: Partition, places: tuple[int, ...]) -> FloatArray:
    shares, centred, within = _moments(partition, places)
    between = (centred * shares[:, None]).T @ centred
    return np.asarray((between + between.T) / 2 + np.diag(shares @ within))


def _moments(
    partition: Partition, places: tuple[int, ...]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shares of the boxes float64[n]; their means less the overall one, and the variances inside
    them, both float64[n, k]."""
    shares = partition._shares()
    means, variances = np.empty((2, len(shares), len(places)))
    for column, place in enumerate(places):
        attribute = partition.domain.attributes[place]
        low, high = partition.low[:, place], partition.high[:, place]
        means[:, column] = attribute.cell_means(low, high)
        variances[:, column] = attribute.cell_variances(low, high)
    return shares, means - shares @ means, variances


def _resolution(partition: Partition, places: tuple[int, ...]) -> FloatArray:
    """Squared error of taking readings as even inside boxes: float64[k, k].

    A box's mean and the products inside it err as those of one even reading would, each box by
    itself. Where density falls, though, all boxes' readings lie nearer to the middle than evenly:
    of two attributes that cancels, of a square it is a sixth of the box's width squared (Sheppard's
    correction, once for the centres and once for what is inside).
    """
    shares, centred, within = _moments(partition, places)
    squares = (shares**2)[:, None]
    apart = (squares * centred**2).T @ within
    inside = (squares * within).T @ within
    variance = apart + apart.T + (inside + inside.T) / 2
    np.fill_diagonal(variance, 2 * variance.diagonal() + (2 * shares @ within) ** 2)
    return np.asarray(variance)
