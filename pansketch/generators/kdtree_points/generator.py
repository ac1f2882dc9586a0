"""A KD-tree over a batch of raw points, with exact fresh noise: for those who hold the points.

Kreačić, Nouri, Potluru, Balch, Veloso, "Differentially private synthetic data using KD-trees"
(arXiv 2306.13211). Algorithm 1 (equal bins, those whose noisy count exceeds a threshold) is the
tree of height h = h'. Algorithms 2 and 3 halve cells from height h to h'. There are two repairs.
The bounds are the public domain, not the least and greatest value of the data. Noise is integer and
exact.

Neighbouring batches differ by adding or removing one unit. One reading is in one cell of each
height. So it changes one count of every deciding height and one count of a leaf by 1. Noise has
scale (h' - h) / eps' and 1 / eps'', with eps' + eps'' the epsilon of a reading. To replace a
reading is to remove one and to add one. For the same epsilon this needs twice those scales, which
the paper prints.

Only the returned model is protected. The points are in the memory of the caller, so a batch is not
pan-private under any intrusion. The duration of the call depends on the points.

Counts and their noise come from two sources. `Batch` is secret: raw points, whose counts leave only
with exact noise. `Redrawn` is public: the readings of a fitted tree with independent noise, for
error bars.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import get_args

import numpy as np

from pansketch.domain.cell_paths import PathEncoder
from pansketch.domain.domain import Domain, FloatArray
from pansketch.generators.kdtree_points.growth import (
    HALVINGS,
    Counts,
    EmptyCells,
    Growth,
    Layer,
    LayerPlan,
    Paths,
    check_heights,
    tau_of,
)
from pansketch.generators.kdtree_points.least_squares import REPLICATES, KdTree, Leaves, fit
from pansketch.generators.kdtree_points.sparse_noise import (
    Integers,
    Passing,
    chance_above,
    check_passing,
    explicit_passing,
    implicit_passing,
    min_threshold,
)
from pansketch.generators.partition.partition import Partition
from pansketch.privacy import MICRO, Guarantee, Privacy
from pansketch.randomness.exact_noise import Entropy
from pansketch.sketches.hierarchy import DEEPEST

DEPTH = 24
FALSE_BINS = 1.0  # Expected number of the first cells that hold noise, if all are empty.


def kdtree_points(
    points: FloatArray,
    domain: Domain,
    privacy: Privacy,
    rng: Entropy,
    *,
    depth: int | None = None,
    height: int = 0,
    tau: int | None = None,
    threshold: int | None = None,
    decisions: Fraction = Fraction(2, 3),
    empty: EmptyCells = "implicit",
    as_published: bool = False,
) -> KdTree:
    """Grow the KD-tree of a batch of raw points, private at `privacy`'s epsilon.

    A point with a NaN or an infinity is dropped, a value out of bounds is clipped. Error bars do
    not cover readings in cells that the threshold removed.

    Args:
        points: float64[n, d] in the domain's units.
        domain: d attributes.
        privacy: epsilon, and the unit: a reading or a span.
        rng: secret noise.
        depth: the paper's h'; None is 24, or all bits of the domain if that is less. Its s2, the
            least edge of a leaf, is an attribute's range over 2 ** (h' / d).
        height: the paper's h; equal to `depth` it is Algorithm 1. Its s1, the largest edge of a
            leaf, is an attribute's range over 2 ** (h / d).
        tau: the noisy count above which a cell is halved; None follows the noise (`tau_of`).
        threshold: a cell of the first height that is not halved is kept if its noisy count exceeds
            it; None follows the noise.
        decisions: eps' as a share of epsilon.
        empty: how empty cells are sampled: "implicit" is Algorithm 5, "explicit" Algorithm 4.
        as_published: use the counts as the paper does (least_squares.py). Threshold, noise and
            bounds stay ours: give `tau` for Lemma 10's, and half of epsilon for the noise.

    Returns:
        The tree, with its partition and its error bars.

    Raises:
        ValueError: the points have another shape, the unit is "key", or a number is out of range.

    Reference:
        Kreačić, Nouri, Potluru, Balch, Veloso, "Differentially private synthetic data using
        KD-trees" (arXiv 2306.13211), Algorithms 1 to 5.
    """
    deepest = min(DEEPEST, sum(attribute.max_bits for attribute in domain.attributes))
    depth = min(DEPTH, deepest) if depth is None else depth
    check_heights(height, depth, deepest)
    plan = _plan(domain, privacy, depth, height, tau, threshold, decisions, empty)
    batch = Batch(points, plan, rng)
    try:
        layers = Growth(plan, batch).layers()
    finally:
        batch.erase()
    leaves = _leaves(plan, layers, as_published)

    def replicate() -> list[Partition]:
        # Public post-processing: seeded by the noisy counts, so that an answer repeats itself.
        seed = np.abs(np.concatenate([layer.counts for layer in layers])[:4]).astype(np.int64)
        source = Redrawn(leaves, layers[0].paths, np.random.default_rng(seed))
        again = (Growth(plan, source).layers() for _ in range(REPLICATES))
        return [_leaves(plan, each, as_published).partition() for each in again]

    return KdTree(leaves.partition(replicate))


def _leaves(plan: LayerPlan, layers: list[Layer], as_published: bool) -> Leaves:
    return fit(plan.domain, plan.depth, layers, as_published=as_published)


def _plan(
    domain: Domain,
    privacy: Privacy,
    depth: int,
    height: int,
    tau: int | None,
    threshold: int | None,
    decisions: Fraction,
    empty: EmptyCells,
) -> LayerPlan:
    for name, value in (("tau", tau), ("threshold", threshold)):
        if value is not None and (isinstance(value, bool) or value != int(value) or value < 0):
            raise ValueError(f"{name} must be a whole number of 0 or more, not {value:g}")
    if not 0 < decisions < 1:
        raise ValueError(f"the share of decisions must lie between 0 and 1, not {decisions}")
    if empty not in get_args(EmptyCells):
        raise ValueError(f"empty must be one of implicit, explicit, not {empty!r}")
    epsilon = Fraction(Guarantee.of_linear_counters(privacy).reading_micro, MICRO)
    heights = depth - height
    share = Fraction(decisions) if heights else Fraction(0)
    decision_scale = heights / (share * epsilon) if heights else Fraction(1)
    leaf_scale = 1 / ((1 - share) * epsilon)
    if tau is None:
        tau = tau_of(decision_scale, 2.0**height, heights, HALVINGS) if heights else 0
    if threshold is None:
        threshold = min_threshold(leaf_scale, min(0.5, FALSE_BINS / 2.0**height))
    check_passing(1 << height, leaf_scale, int(threshold), empty == "explicit")
    if heights:
        check_passing(1 << height, decision_scale, int(tau), empty == "explicit")
    return LayerPlan(
        domain, depth, height, int(tau), int(threshold), decision_scale, leaf_scale, empty
    )


class Batch:
    """Paths of points, sorted, so that the count of a cell is the difference of two indices.
    Secret.

    Raises ValueError for points of another shape than float64[n, d].
    """

    def __init__(self, points: FloatArray, plan: LayerPlan, rng: Entropy) -> None:
        self._plan, self._rng = plan, rng
        points = np.asarray(points, np.float64)
        self._paths = np.zeros(len(points) if points.ndim else 0, np.uint64)
        kept = 0
        for paths in PathEncoder(plan.domain, plan.depth).encode(points):
            self._paths[kept : kept + len(paths)] = paths
            kept += len(paths)
        self._kept = self._paths[:kept]
        self._kept.sort()

    def erase(self) -> None:
        self._paths.fill(0)

    def occupied(self) -> Paths:
        cells = self._kept >> np.uint64(self._plan.depth - self._plan.height)
        first = np.ones(len(cells), np.bool_)
        np.not_equal(cells[1:], cells[:-1], out=first[1:])
        occupied = cells[first]
        for scratch in (cells, first):
            scratch.fill(0)
        return occupied

    def counts(self, bits: int, paths: Paths) -> Integers:
        shift = np.uint64(self._plan.depth - bits)
        before = np.searchsorted(self._kept, paths << shift)
        counts = np.searchsorted(self._kept, (paths + np.uint64(1)) << shift)
        counts -= before
        before.fill(0)
        return counts.astype(np.int64, copy=False)

    def add_noise(self, scale: Fraction, counts: Counts) -> None:
        self._rng.add_discrete_laplace(scale, counts)

    def passing(self, cells: int, scale: Fraction, threshold: int) -> Passing:
        passing = implicit_passing if self._plan.empty == "implicit" else explicit_passing
        return passing(cells, scale, threshold, self._rng)


@dataclass(frozen=True)
class Redrawn:
    """Readings like those a tree was fitted to: `first` are its cells of the first height."""

    leaves: Leaves
    first: Paths
    generator: np.random.Generator

    def occupied(self) -> Paths:
        return self.first.copy()

    def counts(self, bits: int, paths: Paths) -> FloatArray:
        return self.leaves.counts(bits, paths)

    def add_noise(self, scale: Fraction, counts: Counts) -> None:
        counts += self.generator.laplace(0.0, float(scale), len(counts))

    def passing(self, cells: int, scale: Fraction, threshold: int) -> Passing:
        many = self.generator.binomial(cells, chance_above(scale, threshold))
        indices = np.unique(self.generator.integers(0, max(cells, 1), many))
        beyond = self.generator.geometric(-np.expm1(-1 / float(scale)), len(indices))
        return indices, threshold + beyond
