"""Maximum mean discrepancy: the distance of two weighted sets of points, by a Gaussian kernel.

Gretton, Borgwardt, Rasch, Schölkopf, Smola, "A kernel two-sample test" (JMLR 2012), the biased
estimate. It is the distance of the two kernel mean embeddings, which is zero for equal sets and
needs no correction for weighted points. It is exact, and computed in blocks: O(n m) time, memory of
one block.
"""

from itertools import product

import numpy as np

from pansketch.domain.domain import FloatArray

BLOCK = 1024
MEDIAN_POINTS = 2000


def mmd(
    points: FloatArray,
    others: FloatArray,
    weights: FloatArray | None = None,
    other_weights: FloatArray | None = None,
    *,
    bandwidth: float | None = None,
) -> float:
    """Maximum mean discrepancy of two sets of points, with the kernel exp(-|x - y|^2 / (2 b^2)).

    Args:
        points: float64[n, d].
        others: float64[m, d].
        weights: float64[n], of any positive sum; None: all points count alike.
        other_weights: float64[m], like `weights`.
        bandwidth: b, in the points' unit; None: `median_bandwidth` of all points.

    Returns:
        The discrepancy: 0 for equal sets, below 1.5 for any.

    Raises:
        ValueError: a set is empty or not finite, the sets differ in d, or the bandwidth is not
            positive. Or weights have another length, are negative or all zero.

    Reference:
        Gretton, Borgwardt, Rasch, Schölkopf, Smola, "A kernel two-sample test" (JMLR 2012), the
        biased estimate.
    """
    if bandwidth is None:
        bandwidth = median_bandwidth(points, others)
    own = kernel_mean(points, points, weights, weights, bandwidth=bandwidth)
    across = kernel_mean(points, others, weights, other_weights, bandwidth=bandwidth)
    theirs = kernel_mean(others, others, other_weights, other_weights, bandwidth=bandwidth)
    return float(np.sqrt(max(own - 2 * across + theirs, 0.0)))


def kernel_mean(
    points: FloatArray,
    others: FloatArray,
    weights: FloatArray | None = None,
    other_weights: FloatArray | None = None,
    *,
    bandwidth: float,
) -> float:
    """Mean of the kernel over all pairs of one point of each set, by their weights.

    Raises ValueError for sets that are empty, of different dimensions or not finite, and for a
    bandwidth that is not positive. Weights of another length, negative ones or all zero raise it
    too.
    """
    if not (np.isfinite(bandwidth) and bandwidth > 0):
        raise ValueError(f"the bandwidth must be positive, not {bandwidth:g}")
    symmetric = points is others and weights is other_weights
    points, others = _comparable(points, others)
    shares, other_shares = _shares(weights, points), _shares(other_weights, others)
    # Distances come from squares, which are exact enough only near the origin.
    centre = points.mean(axis=0)
    left, right = (points - centre) / bandwidth, (others - centre) / bandwidth
    starts = range(0, len(left), BLOCK), range(0, len(right), BLOCK)
    total = 0.0
    for start, other_start in product(*starts):
        if symmetric and other_start < start:
            continue
        rows, columns = slice(start, start + BLOCK), slice(other_start, other_start + BLOCK)
        part = float(shares[rows] @ _kernel(left[rows], right[columns]) @ other_shares[columns])
        total += 2 * part if symmetric and other_start > start else part
    return total


def median_bandwidth(points: FloatArray, others: FloatArray) -> float:
    """The median distance of two points of both sets together, of at most 2,000 at equal steps.

    Args:
        points: float64[n, d].
        others: float64[m, d].

    Returns:
        The distance, in the points' unit.

    Raises:
        ValueError: more than half of the pairs coincide, a set is empty or not finite, or the sets
            differ in d.

    Reference:
        Gretton, Borgwardt, Rasch, Schölkopf, Smola, "A kernel two-sample test" (JMLR 2012),
        section 8: the median heuristic.
    """
    together = np.concatenate(_comparable(points, others))
    some = together[:: -(-len(together) // MEDIAN_POINTS)]
    some = some - some.mean(axis=0)
    distances = np.sqrt(_squared_distances(some, some)[np.triu_indices(len(some), 1)])
    median = float(np.median(distances)) if len(distances) else 0.0
    if not median > 0:
        raise ValueError("most points coincide: there is no median distance, give a bandwidth")
    return median


def _kernel(left: FloatArray, right: FloatArray) -> FloatArray:
    squares = _squared_distances(left, right)
    squares *= -0.5
    return np.asarray(np.exp(squares, out=squares))


def _squared_distances(left: FloatArray, right: FloatArray) -> FloatArray:
    squares = left @ right.T
    squares *= -2
    squares += np.einsum("ij,ij->i", left, left)[:, None]
    squares += np.einsum("ij,ij->i", right, right)
    return np.asarray(np.maximum(squares, 0.0, out=squares))


def _comparable(points: FloatArray, others: FloatArray) -> tuple[FloatArray, FloatArray]:
    points, others = _checked(points), _checked(others)
    if points.shape[1] != others.shape[1]:
        raise ValueError(
            f"points of {points.shape[1]} and of {others.shape[1]} attributes do not compare"
        )
    return points, others


def _checked(points: FloatArray) -> FloatArray:
    points = np.asarray(points, np.float64)
    if points.ndim != 2 or not points.size:
        raise ValueError(f"points must have shape [n, d] with n, d > 0, not {list(points.shape)}")
    if not np.isfinite(points).all():
        raise ValueError("points must be finite")
    return points


def _shares(weights: FloatArray | None, points: FloatArray) -> FloatArray:
    if weights is None:
        return np.full(len(points), 1 / len(points))
    weights = np.asarray(weights, np.float64)
    if weights.shape != (len(points),):
        raise ValueError(f"weights must have shape [{len(points)}], not {list(weights.shape)}")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError("weights must be finite, none negative, and not all zero")
    return np.asarray(weights / weights.sum())
