"""PrivHP: a release of a hierarchy becomes a model, whose errors are seen by growing it again from
counters with more noise."""

from dataclasses import replace
from itertools import cycle

import numpy as np

from pansketch.domain.domain import FloatArray
from pansketch.generators.hierarchy.growth import OURS, PUBLISHED, grow
from pansketch.generators.pairwise.multiresolution import Resolution, nested_fit
from pansketch.generators.partition.partition import Partition
from pansketch.generators.significance import Noise, noise_of_sums
from pansketch.sketches.hierarchy import HierarchySpec
from pansketch.sketches.release_model import Release

REPLICATES = 24


def privhp(release: Release, *, as_published: bool = False) -> Partition:
    """Grow the PrivHP partition of a release, merged or not. It costs no further epsilon.

    Args:
        release: of a hierarchy.
        as_published: grow as the paper does: minimum over rows, its two-child consistency, no
            least squares.

    Returns:
        A model of the readings: it samples records and answers queries with standard errors.

    Raises:
        ValueError: the release is of another family, or `as_published` has a fanout other than 2,
            which the paper does not define.

    Reference:
        Holland, Camtepe, Thapa, Xue, "Private synthetic data generation in bounded memory"
        (PrivHP), Algorithms 2 and 3.
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
    steps = PUBLISHED if as_published else OURS
    partition = grow(spec, blocks, draws, steps)

    def replicate() -> list[Partition]:
        # Public post-processing: seeded by the release, so that an answer repeats itself.
        generator = np.random.default_rng(np.abs(release.counters[:4]))
        noisy = (with_noise(spec, blocks, draws, generator) for _ in range(REPLICATES))
        # Noise hides what pruning takes away: every other replicate keeps it.
        ways = cycle((steps, replace(steps, prunes=False)))
        return [grow(spec, each, draws, way) for each, way in zip(noisy, ways, strict=False)]

    return replace(partition, replicate=replicate, noise=noise_of(release))


def noise_of(release: Release) -> Noise:
    """What the readings of a release of a hierarchy have to outweigh. Raises ValueError for another
    family."""
    spec = release.spec
    if not isinstance(spec, HierarchySpec):
        raise ValueError(f"a hierarchy is wanted, not a release of family {spec.family}")
    variances = {}
    for position in range(spec.domain.dimension):
        precisions: dict[int, float] = {}
        for level in spec.exact_levels:
            bits = spec.domain.split_order(level.bits).count(position)
            cells = level.size >> bits  # of the level in one of the attribute's
            precision = 1 / (cells * release.draws * level.noise_variance)
            precisions[bits] = precisions.get(bits, 0.0) + precision
        resolutions = [
            Resolution(bits, np.zeros(1 << bits), np.full(1 << bits, precisions[bits]))
            for bits in sorted(precisions)
        ]
        variances[position] = nested_fit(resolutions).variances
    return noise_of_sums(len(release.windows), variances)


def with_noise(
    spec: HierarchySpec, released: list[FloatArray], draws: int, generator: np.random.Generator
) -> list[FloatArray]:
    """What was released with as much noise again: its own is still in it, and in no fit."""
    deviations = [np.sqrt(draws * level.noise_variance) for level in spec.levels]
    return [
        block + generator.normal(0, deviation, len(block))
        for block, deviation in zip(released, deviations, strict=True)
    ]
