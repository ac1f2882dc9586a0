"""A KD-tree over a merged hierarchy release: weighted points, samples, answers with error bars.

Kreačić, Nouri, Potluru, Balch, Veloso, "Differentially private synthetic data using KD-trees"
(arXiv 2306.13211). The paper counts raw points within bounds taken from them. Here the bounds are
the public domain, and the counts are those of a release, so everything is post-processing.
`kdtree_points` (generators/kdtree_points/) is the same tree over a batch of raw points.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from types import EllipsisType

import numpy as np

from pansketch.domain.domain import FloatArray
from pansketch.generators.hierarchy.cell_counts import by_noise
from pansketch.generators.hierarchy.privhp import hashed_otherwise, noise_of, with_noise
from pansketch.generators.kdtree_points.growth import (
    HALVINGS,
    Layer,
    Mask,
    Paths,
    check_heights,
    grow,
    passing_chance,
    possible,
)
from pansketch.generators.kdtree_points.least_squares import REPLICATES, KdTree, Leaves, fit
from pansketch.generators.kdtree_points.sparse_noise import min_threshold
from pansketch.generators.partition.partition import Partition
from pansketch.sketches.hierarchy import HierarchySpec
from pansketch.sketches.hierarchy_levels import Level
from pansketch.sketches.release_model import Release

MAX_HEIGHT = 20  # Cells of less height are halved in any case, however many there are.

Declared = float | EllipsisType | None


def kdtree(
    release: Release,
    *,
    tau: float | None = None,
    decision_scale: Declared = None,
    leaf_scale: Declared = None,
    height: int = 0,
    depth: int | None = None,
    as_published: bool = False,
) -> KdTree:
    """Grow the KD-tree of a release, merged or not.

    No more than the hierarchy's `k` cells of one height are halved, the heaviest.

    Args:
        release: of a hierarchy.
        tau: the noisy count above which a cell is halved; None follows `decision_scale`.
        decision_scale: Laplace scale of the counts that decide; None or ... is what the release
            declares.
        leaf_scale: Laplace scale of the counts of leaves; None or ... is what the release declares.
        height: the paper's h; cells of less are halved in any case. The paper's s1, the largest
            edge of a leaf, is an attribute's range over 2 ** (h / d).
        depth: the paper's h'; no cell is halved there. None is the depth of the hierarchy. The
            paper's s2, the least edge of a leaf, is an attribute's range over 2 ** (h' / d).
        as_published: use the counts as the paper does (kdtree_points/least_squares.py).

    Returns:
        The tree, with its partition and its error bars.

    Raises:
        ValueError: the release is of another family, or a number is out of range.

    Reference:
        Kreačić, Nouri, Potluru, Balch, Veloso, "Differentially private synthetic data using
        KD-trees" (arXiv 2306.13211), Algorithms 2 and 3.
    """
    spec = release.spec
    if not isinstance(spec, HierarchySpec):
        raise ValueError(
            f"a KD-tree grows from a hierarchy, not from a release of family {spec.family}"
        )
    depth = spec.depth if depth is None else depth
    check_heights(height, depth, spec.depth)
    if height > MAX_HEIGHT:
        raise ValueError(f"height must be at most {MAX_HEIGHT} here, not {height}")
    chance = passing_chance(2.0**height, depth - height, HALVINGS)
    given = _scale("decision_scale", decision_scale), _scale("leaf_scale", leaf_scale)
    if tau is not None and not (np.isfinite(tau) and tau >= 0):
        raise ValueError(f"tau must be a number of 0 or more, not {tau:g}")
    blocks = [block.astype(np.float64) for block in release.split()]
    counts = _Counts(spec, blocks, release.noise, height, depth, tau, chance, given)
    leaves = _leaves(counts, as_published)

    def replicate() -> list[Partition]:
        # Public post-processing: seeded by the release, so that an answer repeats itself.
        generator = np.random.default_rng(np.abs(release.counters[:4]))
        noisy = []
        for other, each in hashed_otherwise(spec, blocks, partition, generator, REPLICATES):
            louder, draws = with_noise(other, each, release.noise, generator)
            noisy.append(replace(counts, spec=other, blocks=louder, draws=draws))
        return [_leaves(each, as_published).partition() for each in noisy]

    partition = leaves.partition()
    return KdTree(replace(partition, replicate=replicate, noise=noise_of(release)))


def _scale(name: str, scale: Declared) -> float | None:
    if scale is None or isinstance(scale, EllipsisType):
        return None
    if not (np.isfinite(scale) and scale > 0):
        raise ValueError(f"{name} must be a positive Laplace scale, not {scale:g}")
    return float(scale)


@dataclass(frozen=True)
class _Counts:
    """The counts of a hierarchy at every height, also between its levels: sums of the next one."""

    spec: HierarchySpec
    blocks: list[FloatArray]
    draws: float
    height: int
    depth: int
    tau: float | None
    chance: float
    given: tuple[float | None, float | None]

    @property
    def total(self) -> float:
        return float(self.blocks[0][0])

    def layer(self, bits: int, paths: Paths) -> Layer:
        """Cells of a height, and which of them are halved."""
        place = next(i for i, level in enumerate(self.spec.levels) if level.bits >= bits)
        level, block = self.spec.levels[place], self.blocks[place]
        ways = 1 << (level.bits - bits)
        cells = (
            (paths << np.uint64(level.bits - bits))[:, None] | np.arange(ways, dtype=np.uint64)
        ).ravel()
        held = possible(self.spec.domain, cells, level.bits)
        counts = np.where(held, self._of(level, block, cells), 0.0).reshape(-1, ways).sum(axis=1)
        declared = float(np.sqrt(ways * self._variance(level) / 2))
        decision, leaf = (declared if given is None else given for given in self.given)
        there = np.asarray(held.reshape(-1, ways).any(axis=1))
        halved = np.asarray(there & self._halved(bits, counts, decision))
        return Layer(bits, paths, halved, there, counts, (decision, leaf))

    def _of(self, level: Level, block: FloatArray, cells: Paths) -> FloatArray:
        if level.hash is None:
            return np.asarray(block[cells.astype(np.intp)])
        return by_noise(level, block, cells, self.total, self.draws)

    def _variance(self, level: Level) -> float:
        """Of one cell's count: its noise and, in a table, the readings that collide with it."""
        if level.hash is None:
            return self.draws * level.noise_variance
        collisions = max(self.total, 0.0) / level.width
        return self.draws * level.noise_variance / level.rows + collisions**2

    def _halved(self, bits: int, counts: FloatArray, scale: float) -> Mask:
        if bits >= self.depth:
            return np.zeros(len(counts), np.bool_)
        if bits < self.height:
            return np.ones(len(counts), np.bool_)
        tau = self.tau
        if tau is None:
            tau = min_threshold(Fraction(scale), self.chance)
        halved = np.asarray(counts > tau)
        if halved.sum() > self.spec.k:
            # Ties fall by path, so that every machine grows alike.
            halved[np.argsort(-counts, kind="stable")[self.spec.k :]] = False
        return halved


def _leaves(counts: _Counts, as_published: bool) -> Leaves:
    layers = grow(counts.layer(0, np.zeros(1, np.uint64)), counts.layer)
    return fit(counts.spec.domain, counts.spec.depth, layers, as_published=as_published)
