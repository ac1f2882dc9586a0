"""The private measure mechanism (PMM) for one attribute: the offline reference of one_attribute.py.

He, Vershynin and Zhu, "Algorithmically effective differentially private synthetic data" (COLT
2023). The unit interval is halved r = ceil(log2(epsilon n)) times. The cells of each level j from 0
to r are counted, and the counts get integer Laplace noise of scale

    sigma_j = S / (epsilon sqrt(D_(j-1))),    S = the sum of sqrt(D_(j-1)) over the levels.

D_j is the sum of the diameters of the cells of level j, and D_(-1) = D_0. Negative counts become 0.
Then, from the root down, two children are both raised or both lowered until they sum to their
parent. A leaf of m readings becomes m points of it.

Derived here: in one dimension every D_j is 1, so all levels have scale (r + 1) / epsilon. The paper
leaves open by how much which child is changed: both ways below are allowed. Leaves are taken as
evenly spread, like their points on average.

A reading is in one cell of each level. So adding or removing one costs the sum of 1 / sigma_j,
epsilon. Both methods are held to that here; replacing a reading would cost either at most twice
that.
"""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, log2

import numpy as np
import numpy.typing as npt

from pansketch import Entropy
from pansketch.privacy import MICRO

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Curve = tuple[FloatArray, FloatArray]
"""A distribution function, straight between its points: where, and the share below."""
Consistency = Callable[[IntArray, IntArray], IntArray]
"""(parents int64[n], children int64[n, 2], none negative) -> left children int64[n]"""

COUNTER_BYTES = 4  # As the sketch's own.


def pmm(readings: FloatArray, epsilon: float, rng: Entropy) -> list[Curve]:
    """The model of readings float64[n] in [0, 1], for each way to consistency, of the same noise.

    Without mass, which the noise makes unlikely, the model is uniform.
    """
    levels = noisy_counts(readings, epsilon, rng)
    edges = np.linspace(0, 1, len(levels[-1]) + 1)
    leaves = [consistent(levels, way) for way in CONSISTENCIES.values()]
    sums = [np.concatenate([[0], np.cumsum(each)]) for each in leaves]
    return [(edges, each / each[-1] if each[-1] else edges) for each in sums]


def depth_of(count: int, epsilon: float) -> int:
    """The number of halvings of the interval: r."""
    return max(1, ceil(log2(epsilon * count)))


def noise_scale(depth: int, epsilon: float) -> Fraction:
    """sigma of every level: the losses of r + 1 levels sum to epsilon exactly."""
    return (depth + 1) / Fraction(round(epsilon * MICRO), MICRO)


def noisy_counts(readings: FloatArray, epsilon: float, rng: Entropy) -> list[IntArray]:
    """Counts of all cells, root first, level j int64[2**j]: noisy, and none below 0.

    `readings`: float64[n], in [0, 1].
    """
    depth = depth_of(len(readings), epsilon)
    scale = noise_scale(depth, epsilon)
    levels = [_noisy(counts, scale, rng) for counts in _exact_counts(readings, depth)]
    return levels[::-1]


def _exact_counts(readings: FloatArray, depth: int) -> list[IntArray]:
    """Leaves first."""
    last = (1 << depth) - 1
    cells = np.minimum((readings * (1 << depth)).astype(np.int64), last)
    levels = [np.bincount(cells, minlength=1 << depth).astype(np.int64)]
    for _ in range(depth):
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
    return levels


def _noisy(counts: IntArray, scale: Fraction, rng: Entropy) -> IntArray:
    rng.add_discrete_laplace(scale, counts := counts.copy())
    return np.maximum(counts, 0)


def proportional(parents: IntArray, children: IntArray) -> IntArray:
    """Each child in proportion to its own count; half of the parent's where both have none."""
    sums = children.sum(axis=1)
    shares = parents * children[:, 0] // np.maximum(sums, 1)
    return np.asarray(np.where(sums == 0, parents // 2, shares))


def even(parents: IntArray, children: IntArray) -> IntArray:
    """Half of the difference to each child, as far as it stays in range."""
    half = (parents - children.sum(axis=1)) // 2
    return np.asarray(np.clip(children[:, 0] + half, 0, parents))


CONSISTENCIES: dict[str, Consistency] = {"proportional": proportional, "even": even}


def consistent(levels: list[IntArray], way: Consistency) -> IntArray:
    """Leaves that sum to the root's count: int64[2**r]."""
    mass = levels[0]
    for counts in levels[1:]:
        left = way(mass, counts.reshape(-1, 2))
        mass = np.column_stack([left, mass - left]).ravel()
    return mass


def data_nbytes(count: int) -> int:
    """The readings, which an offline mechanism keeps until it counts them."""
    return 8 * count


def leaves_nbytes(count: int, epsilon: float) -> int:
    """One counter for every leaf: the minimum for exact counts of this partition, if n is known in
    advance. Until the noise is drawn they protect no reading."""
    return COUNTER_BYTES << depth_of(count, epsilon)


def tree_nbytes(count: int, epsilon: float) -> int:
    """One counter for every cell of every level."""
    return 2 * leaves_nbytes(count, epsilon) - COUNTER_BYTES


def w1(curve: Curve, readings: FloatArray) -> float:
    """W1 between a model and readings float64[n]: the area between their distribution functions."""
    points = np.sort(np.concatenate([curve[0], readings]))
    below = np.searchsorted(np.sort(readings), points[:-1], "right") / len(readings)
    model = np.interp(points, *curve)
    start, end = model[:-1] - below, model[1:] - below
    across = np.abs(start) + np.abs(end)
    # At a crossing of the curves the area is two triangles and not a trapezium.
    crossing = (start**2 + end**2) / np.maximum(across, np.finfo(float).tiny)
    heights = np.where(start * end < 0, crossing, across) / 2
    return float(heights @ np.diff(points))
