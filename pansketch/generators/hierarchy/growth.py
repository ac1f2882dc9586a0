"""PrivHP's growth: a merged hierarchy release becomes a partition of the domain.

Holland, Camtepe, Thapa, Xue (PrivHP), Algorithms 3 and 4, with loop bounds corrected by one. All
cells of the exact levels are kept. Below them, the children of the k heaviest cells are estimated
from their level's table and made consistent with their parents, level by level. Cells that are not
refined are leaves. The leaves of all depths together hold all readings.

Five changes are post-processing; benchmarks/hierarchy/growth.py compares each with the paper's
choice (`as_published=True`). Exact levels are fitted by weighted least squares before consistency,
which is a projection. Estimators of sketched cells follow the noise. Counts of parents separate
cells that share a counter. Children that noise explains stay empty where it would carry readings
far.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import log, sqrt

import numpy as np
import numpy.typing as npt

from pansketch.domain.attribute import Attribute
from pansketch.domain.domain import FloatArray
from pansketch.generators.hierarchy.cell_counts import (
    IMPOSSIBLE,
    Consistency,
    Estimator,
    Paths,
    by_noise,
    ceilings,
    collisions,
    halved,
    held,
    pruned,
    separated,
    smallest_row,
    told_apart,
)
from pansketch.generators.partition.partition import Partition
from pansketch.generators.simplex import onto_simplex
from pansketch.sketches.hierarchy import HierarchySpec
from pansketch.sketches.hierarchy_levels import Level

# Deviations of its noise, above which a cell's readings stand out: at most and at least.
CLEAR, LEAST_CLEAR = 4.0, 2.0
NEAR, FAR = 0.03, 0.2  # of a parent's readings, that a child may lose to its siblings at most
VERY_WIDE = 2  # of the readings' spread: so wide is a slab that is looked at as a whole
QUARTERS = (0.25, 0.75)


@dataclass(frozen=True)
class _Frontier:
    """Cells of one depth, and the readings in each. `shown`: bits of the narrowest cell around each
    that the release tells from its siblings, intp[n]."""

    bits: int
    paths: Paths
    mass: FloatArray
    shown: npt.NDArray[np.intp]

    def of(self, cells: npt.NDArray[np.intp]) -> "_Frontier":
        return _Frontier(self.bits, self.paths[cells], self.mass[cells], self.shown[cells])


@dataclass(frozen=True)
class _Counts:
    """Estimates of the cells of a level before they are made consistent, float64[n]. `deviation`:
    the standard one of each, float64[n], or of all of them, float64[1]."""

    level: Level
    values: FloatArray
    deviation: FloatArray

    def clear(self, cells: int) -> float:
        """Deviations above which a cell's readings stand out, the noise of so many beside it. In
        the wide cells of exact levels noise would carry readings far."""
        most = sqrt(2 * log(max(cells, 2)))
        return CLEAR if self.level.hash is None else min(max(most, LEAST_CLEAR), CLEAR)


@dataclass(frozen=True)
class Steps:
    """Choices in the steps of the growth."""

    least_squares: bool
    consistent: Consistency
    estimate: Estimator
    prunes: bool
    separates: bool


def grow(spec: HierarchySpec, blocks: list[FloatArray], draws: float, steps: Steps) -> Partition:
    """The partition that these blocks of counters grow into, without replicates and noise."""
    if not steps.prunes:
        return _grown(spec, blocks, draws, steps, None)
    once = _grown(spec, blocks, draws, steps, np.full(spec.domain.dimension, np.inf))
    return _grown(spec, blocks, draws, steps, _spread(once))


def _grown(
    spec: HierarchySpec,
    blocks: list[FloatArray],
    draws: float,
    steps: Steps,
    spread: FloatArray | None,
) -> Partition:
    """`spread`: of the readings along each attribute, in the unit interval; None: no pruning."""
    levels = zip(spec.exact_levels, blocks, strict=False)
    exact = [_Counts(each, counts, _deviation(each, draws)) for each, counts in levels]
    total = float(blocks[0][0])
    if steps.least_squares:
        exact = _least_squares(spec, exact)
    whole = np.maximum(exact[0].values, 0.0)
    frontier = _Frontier(0, np.zeros(1, np.uint64), whole, np.zeros(1, np.intp))
    leaves = []
    for counts in exact[1:]:
        frontier = _refine(spec, frontier, counts, steps.consistent, spread)
    for level, block in zip(spec.sketched_levels, blocks[len(exact) :], strict=True):
        frontier, rest = _heaviest(frontier, spec.k)
        leaves.append(rest)
        children = _children(frontier, level)
        values = steps.estimate(level, block, children, total, draws)
        shared = np.array([total / level.width])
        if steps.separates:
            possible = held(spec.domain, level, children)
            consistent = partial(_consistent, steps.consistent, possible, frontier.mass)
            unknown = float(rest.mass.sum())
            values = separated(level, block, children, values, unknown, consistent)
            filled = np.repeat(frontier.mass > 0, len(children) // len(frontier.mass))
            shared = collisions(level, children, possible & filled, rest.mass, total)
        noise = _deviation(level, draws) / np.sqrt(level.rows)
        counts = _Counts(level, values, np.hypot(noise, shared))
        frontier = _refine(spec, frontier, counts, steps.consistent, spread)
    leaves.append(frontier)
    return _partition(spec, leaves)


def _deviation(level: Level, draws: float) -> FloatArray:
    return np.sqrt([draws * level.noise_variance])


def _spread(partition: Partition) -> FloatArray:
    """The middle half of the readings along each attribute, as a distance (`_distances`); infinite
    for categories, which are near to nothing."""
    middles, mass = (partition.low + partition.high) / 2, partition.mass
    found = np.full(partition.domain.dimension, np.inf)
    for axis, attribute in enumerate(partition.domain.attributes):
        if attribute.categories is None and mass.sum() > 0:
            order = np.argsort(middles[:, axis], kind="stable")
            running = np.cumsum(mass[order]) / mass.sum()
            first, last = (order[np.searchsorted(running, each)] for each in QUARTERS)
            ends = np.array([partition.high[last, axis], partition.low[first, axis]])
            found[axis] = np.subtract(*_distances(attribute, ends))
    return found


def _least_squares(spec: HierarchySpec, exact: list[_Counts]) -> list[_Counts]:
    """Every exact count averaged with the sum of its children, by inverse variance, bottom up.

    The upward pass of Hay et al., "Boosting the accuracy of differentially private histograms
    through consistency" (VLDB 2010), for levels of unequal noise. Cells that cannot be hold
    nothing.
    """
    exact = [
        replace(each, values=np.where(held(spec.domain, each.level), each.values, 0.0))
        for each in exact
    ]
    fitted = [exact[-1]]
    for parent in exact[-2::-1]:
        child = fitted[-1]
        ways = child.level.size // parent.level.size
        sums = child.values.reshape(parent.level.size, ways).sum(axis=1)
        sum_variance, own = child.deviation**2 * ways, parent.deviation**2
        weight = sum_variance / (sum_variance + own)
        values = weight * parent.values + (1 - weight) * sums
        fitted.append(_Counts(parent.level, values, np.sqrt(weight * own)))
    return fitted[::-1]


def _refine(
    spec: HierarchySpec,
    frontier: _Frontier,
    counts: _Counts,
    consistent: Consistency,
    spread: FloatArray | None,
) -> _Frontier:
    """Children of the frontier, with counts made consistent: never negative, summing to the
    parent."""
    level = counts.level
    paths = _children(frontier, level)
    possible = np.where(held(spec.domain, level, paths), counts.values, IMPOSSIBLE)
    families = possible.reshape(len(frontier.mass), -1)
    beside = int(np.count_nonzero(families[frontier.mass > 0] > IMPOSSIBLE))
    limits = counts.clear(beside) * np.broadcast_to(counts.deviation, len(paths))
    limits = limits.reshape(families.shape)
    if spread is not None:
        families = _without_slabs(spec, frontier, counts, families, VERY_WIDE * spread)
        # A parent that is wider than the readings spread has children far from each other.
        wide = _sides(spec, frontier.paths, frontier.bits) > spread
        most = np.where(wide.any(axis=1), FAR, NEAR)
        families = pruned(families, frontier.mass, limits, most)
    apart = told_apart(level, paths, families, frontier.mass, limits)
    apart &= (frontier.shown == frontier.bits)[:, None]
    shown = np.where(apart, level.bits, frontier.shown[:, None]).ravel()
    return _Frontier(level.bits, paths, consistent(families, frontier.mass).ravel(), shown)


def _consistent(
    consistency: Consistency,
    possible: npt.NDArray[np.bool_],
    parents: FloatArray,
    counts: FloatArray,
) -> FloatArray:
    families = np.where(possible, counts, IMPOSSIBLE).reshape(len(parents), -1)
    return consistency(families, parents).ravel()


def _distances(attribute: Attribute, units: FloatArray) -> FloatArray:
    """Convert positions to distances from the start; a learned scale does not define them."""
    if not attribute.knots:
        return units
    return (attribute.from_unit(units) - attribute.origin) / (attribute.highest - attribute.origin)


def _sides(spec: HierarchySpec, paths: Paths, bits: int) -> FloatArray:
    """Widths of cells along each attribute, float64[n, d]."""
    low, high = spec.domain.boxes(paths, bits)
    columns = zip(spec.domain.attributes, low.T, high.T, strict=True)
    return np.stack([_distances(a, up) - _distances(a, down) for a, down, up in columns], axis=1)


def _without_slabs(
    spec: HierarchySpec,
    frontier: _Frontier,
    counts: _Counts,
    families: FloatArray,
    widest: FloatArray,
) -> FloatArray:
    """Children in a slab across an attribute, and wider along it than `widest`, are impossible if
    noise explains all of the slab. No single cell stands out if another attribute divides the
    readings."""
    level, values = counts.level, families.ravel()
    children = _children(frontier, level)
    wide = _sides(spec, children, level.bits) > widest
    if not wide.any():
        return families
    # Children of an empty parent are as empty for any values of their counters.
    possible = (families > IMPOSSIBLE).ravel() & np.repeat(frontier.mass > 0, families.shape[1])
    low, _ = spec.domain.boxes(children, level.bits)
    empty = np.zeros(len(values), np.bool_)
    for axis in np.flatnonzero(wide.any(axis=0)):
        _, slabs = np.unique(low[:, axis], return_inverse=True)
        cells = np.bincount(slabs, possible)
        variances = np.bincount(slabs, possible * counts.deviation**2)
        limit = counts.clear(int(np.count_nonzero(cells))) * np.sqrt(variances)
        explained = np.bincount(slabs, np.where(possible, values, 0.0)) < limit
        explained &= limit < FAR * frontier.mass.sum()
        empty |= explained[slabs] & wide[:, axis]
    without = empty.reshape(families.shape)
    without &= ~without.all(axis=1, keepdims=True)
    return np.where(without, IMPOSSIBLE, families)


def _children(frontier: _Frontier, level: Level) -> Paths:
    step = level.bits - frontier.bits
    suffixes = np.arange(1 << step, dtype=np.uint64)
    return ((frontier.paths << np.uint64(step))[:, None] | suffixes).ravel()


def _heaviest(frontier: _Frontier, k: int) -> tuple[_Frontier, _Frontier]:
    """The k heaviest cells that hold readings, at least one, and the rest. Ties fall by path, so
    that every machine grows alike."""
    order = np.argsort(-frontier.mass, kind="stable")
    hottest = max(1, min(k, np.count_nonzero(frontier.mass > 0)))
    parts = np.sort(order[:hottest]), np.sort(order[hottest:])
    return frontier.of(parts[0]), frontier.of(parts[1])


def _partition(spec: HierarchySpec, leaves: list[_Frontier]) -> Partition:
    leaves = [leaf.of(np.flatnonzero(leaf.mass > 0)) for leaf in leaves]
    boxes = [spec.domain.boxes(leaf.paths, leaf.bits) for leaf in leaves]
    low = np.concatenate([box[0] for box in boxes])
    high = np.minimum(np.concatenate([box[1] for box in boxes]), ceilings(spec.domain))
    sides = 1 / spec.domain.cells_along(spec.depth)
    side = sides[np.concatenate([leaf.shown for leaf in leaves])]
    start = np.floor(low / side) * side
    mass = np.concatenate([leaf.mass for leaf in leaves])
    return Partition(spec.domain, low, high, mass, shown=(start, start + side))


OURS = Steps(
    least_squares=True, consistent=onto_simplex, estimate=by_noise, prunes=True, separates=True
)
PUBLISHED = Steps(
    least_squares=False, consistent=halved, estimate=smallest_row, prunes=False, separates=False
)
