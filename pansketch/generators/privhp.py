"""PrivHP's growth: a merged hierarchy release becomes a partition of the domain.

Holland, Camtepe, Thapa, Xue (PrivHP), Algorithms 2 and 3, read as: cells of the exact levels are
all kept; from there the children of the k heaviest cells are estimated from their level's table,
made consistent with their parents, and so on down; cells that are not refined are leaves, and the
leaves of every depth together carry all mass. (The loop bounds printed in the paper are off by
one.)

Three changes, each post-processing, each measured in benchmarks/growth.py against the paper's own
choice (`as_published=True`): exact levels are fitted by weighted least squares before they are made
consistent, consistency is a projection, and the estimator of a sketched cell follows the noise.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pansketch.domain import FloatArray
from pansketch.generators.partition import Partition
from pansketch.hierarchy import HierarchySpec
from pansketch.levels import Level
from pansketch.sketch import Release

Paths = npt.NDArray[np.uint64]
REPLICATES = 24
IMPOSSIBLE = -1e15  # Far below any count: a projection leaves such a cell empty.


@dataclass(frozen=True)
class _Frontier:
    """Cells of one depth, and the readings in each."""

    bits: int
    paths: Paths
    mass: FloatArray


def privhp(release: Release, *, as_published: bool = False) -> Partition:
    """The generator of a release, merged or not.

    `as_published` grows as the paper does: minimum over rows, its two-child consistency, no least
    squares. Raises ValueError for a release of another family, and for `as_published` with a fanout
    other than 2, which the paper does not define.
    """
    spec = release.spec
    if not isinstance(spec, HierarchySpec):
        raise ValueError(
            f"PrivHP grows from a hierarchy, not from a release of family {spec.family}"
        )
    if as_published and spec.fanout != 2:
        raise ValueError("the published algorithm has two children a cell: use fanout 2")
    blocks = [block.astype(np.float64) for block in release.split()]
    draws = release.draws
    partition, fitted = _grow(spec, blocks, draws, as_published)

    def replicate() -> list[Partition]:
        # Public post-processing: seeded by the release, so that an answer repeats itself.
        generator = np.random.default_rng(np.abs(release.counters[:4]))
        noisy = (_with_noise(spec, fitted, draws, generator) for _ in range(REPLICATES))
        return [_grow(spec, each, draws, as_published)[0] for each in noisy]

    return Partition(spec.domain, partition.low, partition.high, partition.mass, replicate)


def _with_noise(
    spec: HierarchySpec, fitted: list[FloatArray], draws: int, generator: np.random.Generator
) -> list[FloatArray]:
    """Counters as a stream like the fitted one would have released them."""
    deviations = [np.sqrt(draws * level.noise_variance) for level in spec.levels]
    return [
        block + generator.normal(0, deviation, len(block))
        for block, deviation in zip(fitted, deviations, strict=True)
    ]


def _grow(
    spec: HierarchySpec, blocks: list[FloatArray], draws: int, as_published: bool
) -> tuple[Partition, list[FloatArray]]:
    """The partition, and the counters that a noiseless stream of its readings would have left."""
    exact = list(zip(spec.exact_levels, blocks, strict=False))
    total = float(blocks[0][0])
    if not as_published:
        exact = _least_squares(spec, exact)
    frontier = _Frontier(0, np.zeros(1, np.uint64), np.maximum(exact[0][1], 0.0))
    fitted, leaves = [frontier.mass], []
    for level, counts in exact[1:]:
        frontier = _refine(spec, frontier, level, counts, as_published)
        fitted.append(frontier.mass)
    for level, block in zip(spec.sketched_levels, blocks[len(exact) :], strict=True):
        frontier, rest = _heaviest(frontier, spec.k)
        leaves.append(rest)
        children = _children(frontier, level)
        counts = _estimate(level, block, children, total, draws, as_published)
        frontier = _refine(spec, frontier, level, counts, as_published)
        fitted.append(_sketched(level, frontier, float(fitted[0][0])))
    leaves.append(frontier)
    return _partition(spec, leaves), fitted


def _sketched(level: Level, frontier: _Frontier, total: float) -> FloatArray:
    """A level's table without noise: its cells where they fall, everything else evenly spread."""
    assert level.hash is not None
    elsewhere = (total - frontier.mass.sum()) / level.width
    rows = [
        np.bincount(columns, weights=frontier.mass, minlength=level.width)
        for columns in level.hash.table(frontier.paths)
    ]
    return np.asarray(np.concatenate(rows) + elsewhere)


def _least_squares(
    spec: HierarchySpec, exact: list[tuple[Level, FloatArray]]
) -> list[tuple[Level, FloatArray]]:
    """Every exact count averaged with the sum of its children, by inverse variance, bottom up.

    The upward pass of Hay et al., "Boosting the accuracy of differentially private histograms
    through consistency" (VLDB 2010), for levels of unequal noise. Cells that cannot be hold
    nothing.
    """
    exact = [(level, np.where(_possible(spec, level), counts, 0.0)) for level, counts in exact]
    level, fitted = exact[-1]
    variance = level.noise_variance
    result = [(level, fitted)]
    for (parent, counts), (child, _) in reversed([*pairwise(exact)]):
        ways = child.size // parent.size
        sums, sum_variance = fitted.reshape(parent.size, ways).sum(axis=1), variance * ways
        weight = sum_variance / (sum_variance + parent.noise_variance)
        fitted = weight * counts + (1 - weight) * sums
        variance = weight * parent.noise_variance
        result.append((parent, fitted))
    return result[::-1]


def _refine(
    spec: HierarchySpec, frontier: _Frontier, level: Level, counts: FloatArray, as_published: bool
) -> _Frontier:
    """Children of the frontier, with counts made consistent: never negative, summing to the
    parent."""
    paths = _children(frontier, level)
    counts = np.where(_possible(spec, level, paths), counts, IMPOSSIBLE)
    families = counts.reshape(len(frontier.mass), -1)
    consistent = _halved if as_published else _projected
    return _Frontier(level.bits, paths, consistent(families, frontier.mass).ravel())


def _children(frontier: _Frontier, level: Level) -> Paths:
    step = level.bits - frontier.bits
    suffixes = np.arange(1 << step, dtype=np.uint64)
    return ((frontier.paths << np.uint64(step))[:, None] | suffixes).ravel()


def _possible(
    spec: HierarchySpec, level: Level, paths: Paths | None = None
) -> npt.NDArray[np.bool_]:
    """Whether cells hold any value: codes beyond the last category do not exist."""
    if paths is None:
        paths = np.arange(level.size, dtype=np.uint64)
    if all(attribute.categories is None for attribute in spec.domain.attributes):
        return np.ones(len(paths), np.bool_)
    low, _ = spec.domain.boxes(paths, level.bits)
    return np.asarray((low < _ceilings(spec)).all(axis=1))


def _ceilings(spec: HierarchySpec) -> FloatArray:
    """Where the values of each attribute end in the unit interval."""
    return np.array(
        [
            1.0 if attribute.categories is None else len(attribute.categories) / attribute.extent
            for attribute in spec.domain.attributes
        ]
    )


def _heaviest(frontier: _Frontier, k: int) -> tuple[_Frontier, _Frontier]:
    """The k heaviest cells, and the rest. Ties fall by path, so that every machine grows alike."""
    order = np.argsort(-frontier.mass, kind="stable")
    parts = np.sort(order[:k]), np.sort(order[k:])
    hot, rest = (_Frontier(frontier.bits, frontier.paths[p], frontier.mass[p]) for p in parts)
    return hot, rest


def _estimate(
    level: Level, block: FloatArray, paths: Paths, total: float, draws: int, as_published: bool
) -> FloatArray:
    """Estimated counts of cells: uint64[n] -> float64[n], from one private count-min table.

    The minimum over rows suits one stream, where collisions outweigh noise; in a fleet's sum noise
    outweighs them and the minimum sits low, so there it is the mean less the expected collisions.
    """
    assert level.hash is not None
    columns = level.hash.table(paths)
    rows = np.take_along_axis(block.reshape(level.rows, level.width), columns, axis=1)
    noise = np.sqrt(draws * level.noise_variance)
    if as_published or noise < total / level.width:
        return np.asarray(rows.min(axis=0))
    return np.asarray((rows.mean(axis=0) * level.width - total) / (level.width - 1))


def _projected(families: FloatArray, parents: FloatArray) -> FloatArray:
    """Nearest non-negative counts that sum to the parent's: Euclidean projection onto a simplex."""
    falling = -np.sort(-families, axis=1)
    ranks = np.arange(1, families.shape[1] + 1)
    excess = (np.cumsum(falling, axis=1) - parents[:, None]) / ranks
    kept = np.maximum((falling > excess).sum(axis=1) - 1, 0)
    shift = np.take_along_axis(excess, kept[:, None], axis=1)
    return np.asarray(np.maximum(families - shift, 0.0))


def _halved(families: FloatArray, parents: FloatArray) -> FloatArray:
    """PrivHP's consistency: clip at zero, give each of two children half of what is missing."""
    left = np.maximum(families, 0.0)
    left += ((parents - left.sum(axis=1)) / 2)[:, None]
    return np.asarray(np.clip(left, 0.0, parents[:, None]))


def _partition(spec: HierarchySpec, leaves: list[_Frontier]) -> Partition:
    boxes = [spec.domain.boxes(leaf.paths, leaf.bits) for leaf in leaves]
    low = np.concatenate([box[0] for box in boxes])
    high = np.minimum(np.concatenate([box[1] for box in boxes]), _ceilings(spec))
    mass = np.concatenate([leaf.mass for leaf in leaves])
    held = mass > 0
    return Partition(spec.domain, low[held], high[held], mass[held])
