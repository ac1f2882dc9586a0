"""PrivHP's growth with each of its choices open, to measure one against another.

It takes the steps from `pansketch.generators.hierarchy.growth` and changes nothing but the choice
that is compared.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from pansketch import HierarchySpec, Release
from pansketch.domain import FloatArray
from pansketch.generators import Partition
from pansketch.generators.hierarchy import cell_counts, growth
from pansketch.generators.simplex import onto_simplex
from pansketch.sketches.hierarchy_levels import Level

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
    prunes: bool = True,
    separates: bool = True,
) -> Partition:
    """The generator of a release by these choices; without an estimator by the library's own."""
    spec = release.spec
    assert isinstance(spec, HierarchySpec)
    steps = growth.Steps(
        least_squares,
        onto_simplex if projection else cell_counts.halved,
        cell_counts.by_noise if estimator is None else partial(_estimated, estimator),
        prunes,
        separates,
    )
    blocks = [block.astype(np.float64) for block in release.split()]
    return growth.grow(spec, blocks, release.draws, steps)


def published(
    release: Release,
    *,
    least_squares: bool = False,
    projection: bool = False,
    estimator: Estimator | None = smallest,
    prunes: bool = False,
    separates: bool = False,
) -> Partition:
    """The paper's choices, but for those that are named."""
    return grown(
        release,
        least_squares=least_squares,
        projection=projection,
        estimator=estimator,
        prunes=prunes,
        separates=separates,
    )


def _estimated(
    estimator: Estimator,
    level: Level,
    block: FloatArray,
    paths: cell_counts.Paths,
    total: float,
    draws: float,
) -> FloatArray:
    """Counts by an estimator, less the readings that collide with a cell on average.

    The projection onto the parent's count takes no notice of what is added to all children alike.
    """
    rows = cell_counts.row_counts(level, block, paths)
    noise_variance = draws * level.noise_variance
    collisions = max(0.0, float(block.var()) - noise_variance) ** 0.5
    counts = estimator(rows, noise_variance**0.5, collisions)
    return counts if estimator is smallest else counts - total / level.width
