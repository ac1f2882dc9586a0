"""PrivHP's growth with each of its choices open, to measure one against another.

The only file that reaches behind `pansketch.generators.privhp`; it takes the steps from there and
changes nothing but the choice that is compared.
"""

from collections.abc import Callable

import numpy as np

from pansketch import Partition, Release
from pansketch.domain import FloatArray
from pansketch.generators import privhp as growth
from pansketch.hierarchy import HierarchySpec
from pansketch.levels import Level

Estimator = Callable[[FloatArray, float, float], FloatArray]
"""(the row estimates float64[rows, n], the noise's and the collisions' deviation) -> float64[n]"""


def smallest(rows: FloatArray, noise: float, collisions: float) -> FloatArray:
    return np.asarray(rows.min(axis=0))


def average(rows: FloatArray, noise: float, collisions: float) -> FloatArray:
    return np.asarray(rows.mean(axis=0))


def middle(rows: FloatArray, noise: float, collisions: float) -> FloatArray:
    return np.asarray(np.median(rows, axis=0))


def by_spread(rows: FloatArray, noise: float, collisions: float) -> FloatArray:
    """Minimum where the collisions, as seen in the table itself, spread wider than the noise."""
    return smallest(rows, 0, 0) if noise < collisions else average(rows, 0, 0)


ESTIMATORS: dict[str, Estimator] = {
    "min": smallest,
    "mean": average,
    "median": middle,
    "by spread": by_spread,
}


def grown(
    release: Release,
    *,
    least_squares: bool = True,
    projection: bool = True,
    estimator: Estimator | None = None,
) -> Partition:
    """The generator of a release by these choices; without an estimator by the library's own."""
    spec = release.spec
    assert isinstance(spec, HierarchySpec)
    blocks = [block.astype(np.float64) for block in release.split()]
    exact = list(zip(spec.exact_levels, blocks, strict=False))
    total = float(blocks[0][0])
    if least_squares:
        exact = growth._least_squares(spec, exact)
    root = np.maximum(exact[0][1], 0.0)
    frontier = growth._Frontier(0, np.zeros(1, np.uint64), root)
    for level, counts in exact[1:]:
        frontier = growth._refine(spec, frontier, level, counts, not projection)
    leaves = []
    for level, block in zip(spec.sketched_levels, blocks[len(exact) :], strict=True):
        frontier, rest = growth._heaviest(frontier, spec.k)
        leaves.append(rest)
        children = growth._children(frontier, level)
        if estimator is None:
            counts = growth._estimate(level, block, children, total, release.draws, False)
        else:
            counts = _estimated(level, block, children, release.draws, total, estimator)
        frontier = growth._refine(spec, frontier, level, counts, not projection)
    return growth._partition(spec, [*leaves, frontier])


def _estimated(
    level: Level,
    block: FloatArray,
    paths: growth.Paths,
    draws: int,
    total: float,
    estimator: Estimator,
) -> FloatArray:
    """Counts by an estimator, less the readings that collide with a cell on average.

    The projection onto the parent's count takes no notice of what is added to all children alike.
    """
    assert level.hash is not None
    rows = np.take_along_axis(
        block.reshape(level.rows, level.width), level.hash.table(paths), axis=1
    )
    noise_variance = draws * level.noise_variance
    collisions = max(0.0, float(block.var()) - noise_variance) ** 0.5
    counts = estimator(rows, noise_variance**0.5, collisions)
    return counts if estimator is smallest else counts - total / level.width
