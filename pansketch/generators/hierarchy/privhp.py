"""PrivHP: a release of a hierarchy becomes a model. Its errors are estimated by growing it from
counters with more noise, and with other cells in one counter."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, repeat

import numpy as np

from pansketch.domain.domain import FloatArray
from pansketch.generators.hierarchy.cell_counts import Paths
from pansketch.generators.hierarchy.growth import OURS, PUBLISHED, grow
from pansketch.generators.pairwise.multiresolution import Resolution, nested_fit
from pansketch.generators.partition.partition import Partition
from pansketch.generators.significance import Fits, Noise, noise_of_sums
from pansketch.sketches.hierarchy import HierarchySpec
from pansketch.sketches.release_model import Release

REPLICATES = 24
ALIKE = 2  # Every other replicate is grown as the model is.
POINTS = 8


def privhp(release: Release, *, as_published: bool = False) -> Partition:
    """Grow the PrivHP partition of a release, merged or not. It costs no further epsilon.

    Args:
        release: of a hierarchy.
        as_published: grow as the paper does: minimum over rows, the two-child consistency of
            Algorithm 4, no least squares, no pruning by noise.

    Returns:
        A model of the readings: it samples records and answers queries with standard errors.

    Raises:
        ValueError: the release is of another family, or `as_published` has a fanout other than 2,
            which the paper does not define.

    Reference:
        Holland, Camtepe, Thapa, Xue, "Private synthetic data generation in bounded memory"
        (PrivHP), Algorithms 3 and 4.
    """
    spec = release.spec
    if not isinstance(spec, HierarchySpec):
        raise ValueError(
            f"PrivHP grows from a hierarchy, not from a release of family {spec.family}"
        )
    if as_published and spec.fanout != 2:
        raise ValueError("the published algorithm has two children a cell: use fanout 2")
    blocks = [block.astype(np.float64) for block in release.split()]
    draws = release.noise
    steps = PUBLISHED if as_published else OURS
    partition = grow(spec, blocks, draws, steps)

    def replicate() -> list[Partition]:
        # Public post-processing: seeded by the release, so that an answer repeats itself.
        generator = np.random.default_rng(np.abs(release.counters[:4]))
        # Noise hides what pruning takes away: every other replicate keeps it.
        ways = cycle((steps, replace(steps, prunes=False)))
        hashed = hashed_otherwise(spec, blocks, partition, generator, REPLICATES)
        return [
            grow(other, *with_noise(other, each, draws, generator), way)
            for (other, each), way in zip(hashed, ways, strict=False)
        ]

    return replace(partition, replicate=replicate, noise=noise_of(release), fits=Fits(alike=ALIKE))


def hashed_otherwise(
    spec: HierarchySpec,
    blocks: list[FloatArray],
    fitted: Partition,
    generator: np.random.Generator,
    keys: int,
) -> Iterator[tuple[HierarchySpec, list[FloatArray]]]:
    """Simulate the counters under other hash keys: for so many keys, the spec and the blocks.

    The hash key decides which cells share a counter, and it is random too. The contribution of the
    fitted model to each table is subtracted, and its contribution under another key is added. The
    residual stays.
    """
    if not spec.sketched_levels:
        yield from repeat((spec, blocks), keys)
        return
    paths, mass = _scattered(spec, fitted, generator)
    own = _tables(spec, paths, mass)
    left = [block - table for block, table in zip(blocks, own, strict=True)]
    for number in range(keys):
        other = replace(spec, hash_key=(spec.hash_key + 1 + number) % (1 << 64))
        tables = _tables(other, paths, mass)
        yield other, [rest + table for rest, table in zip(left, tables, strict=True)]


def _scattered(
    spec: HierarchySpec, fitted: Partition, generator: np.random.Generator
) -> tuple[Paths, FloatArray]:
    """Deepest cells with the mass of a model's boxes: uint64[n], float64[n]. A box of several cells
    has POINTS in it."""
    whole = 2.0**-spec.depth
    ways = np.where((fitted.high - fitted.low).prod(axis=1) > 1.5 * whole, POINTS, 1)
    boxes = np.repeat(np.arange(len(ways)), ways)
    sides = (fitted.high - fitted.low)[boxes]
    units = fitted.low[boxes] + sides * generator.random(sides.shape)
    order = spec.domain.split_order(spec.depth)
    paths = np.zeros(len(boxes), np.uint64)
    for axis in order:
        units[:, axis] *= 2
        bit = units[:, axis] >= 1
        units[:, axis] -= bit
        paths = paths << np.uint64(1) | bit.astype(np.uint64)
    return paths, (fitted.mass / ways)[boxes]


def _tables(spec: HierarchySpec, paths: Paths, mass: FloatArray) -> list[FloatArray]:
    """Counters of the sketched levels for cells of so much mass, 0 in the exact levels."""
    found = []
    for level in spec.levels:
        block = np.zeros((level.rows, level.width))
        if level.hash is not None:
            for row, columns in zip(
                block,
                level.hash.table(paths >> np.uint64(spec.depth - level.bits)),
                strict=True,
            ):
                row += np.bincount(columns, mass, level.width)
        found.append(block.ravel())
    return found


def noise_of(release: Release) -> Noise:
    """Return the noise that the readings of a hierarchy's release have to outweigh. Raises
    ValueError for another family."""
    spec = release.spec
    if not isinstance(spec, HierarchySpec):
        raise ValueError(f"a hierarchy is wanted, not a release of family {spec.family}")
    variances = {}
    for position in range(spec.domain.dimension):
        precisions: dict[int, float] = {}
        for level in spec.exact_levels:
            bits = spec.domain.split_order(level.bits).count(position)
            cells = level.size >> bits  # of the level in one of the attribute's
            precision = 1 / (cells * release.noise * level.noise_variance)
            precisions[bits] = precisions.get(bits, 0.0) + precision
        resolutions = [
            Resolution(bits, np.zeros(1 << bits), np.full(1 << bits, precisions[bits]))
            for bits in sorted(precisions)
        ]
        variances[position] = nested_fit(resolutions).variances
    return noise_of_sums(release.count, variances)


def with_noise(
    spec: HierarchySpec, released: list[FloatArray], draws: float, generator: np.random.Generator
) -> tuple[list[FloatArray], float]:
    """The release with as much noise again, and how many draws that is: its own noise is still in
    it, and in no fit."""
    deviations = [np.sqrt(draws * level.noise_variance) for level in spec.levels]
    noisy = [
        block + generator.normal(0, deviation, len(block))
        for block, deviation in zip(released, deviations, strict=True)
    ]
    return noisy, 2 * draws
