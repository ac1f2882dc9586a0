"""Density Sketch's generator: a released table becomes a density, and a sampler of its heavy cells.

Desai, Coleman, Shrivastava, "Density sketches for sampling and estimation" (arXiv 2102.12301). f_C,
the density anywhere, is the count of a point's cell, estimated from its rows. f_S draws a cell
among the heaviest by its count, and a point evenly within it. The heavy cells are found in the
release (density/cell_counts.py), as the paper's appendix D proposes for private sketches. Two
changes: their counts are fitted to the table together (density/unbiased_counts.py), and the number
of readings is a counter of its own. `as_published=True` reads each cell independently and divides
by the sum of all cells' counts, as the paper does. benchmarks/density/density.py and
benchmarks/papers/density_sketches.py compare the two.
"""

from functools import partial
from math import sqrt
from typing import get_args

import numpy as np

from pansketch.domain.domain import FloatArray
from pansketch.estimate import Estimate
from pansketch.generators.density.cell_counts import (
    MAX_CELLS,
    MAX_CELLS_OF_A_DESCENT,
    Paths,
    Recovery,
    ReleasedTable,
    boxes,
    heaviest,
    possible_cells,
    top,
)
from pansketch.generators.density.model import DensityModel
from pansketch.generators.density.unbiased_counts import fit_counts, signed_measure
from pansketch.generators.partition.partition import Partition
from pansketch.generators.significance import Noise
from pansketch.sketches.cells import ENUMERABLE_BITS, CellsSpec
from pansketch.sketches.count_sketch import laplace_variance
from pansketch.sketches.release_model import Release

MIN_FITTED = 4096


def density(
    release: Release,
    *,
    cells: int = 4096,
    recovery: Recovery = "auto",
    as_published: bool = False,
) -> DensityModel:
    """The model of a release, merged or not.

    Args:
        release: of a density sketch.
        cells: maximum number of heavy cells.
        recovery: how a cell's count follows from the rows of a table. "auto" takes the mean where
            noise outweighs collisions, else the median.
        as_published: use the counts as the paper does. The number of readings is then the sum of
            all cells' counts, n-hat of Theorem 4. Beyond 20 bits of depth there are too many cells
            to sum, and it stays the release's own counter.

    Returns:
        The model, with its error bars.

    Raises:
        ValueError: the release is of another family, or an argument is out of range.

    Reference:
        Desai, Coleman, Shrivastava, "Density sketches for sampling and estimation"
        (arXiv 2102.12301), Theorem 4 for n-hat.
    """
    spec = release.spec
    if not isinstance(spec, CellsSpec):
        raise ValueError(
            f"a density is read off a density sketch, not a release of family {spec.family}"
        )
    if recovery not in get_args(Recovery):
        raise ValueError(f"recovery must be one of auto, mean, median, not {recovery!r}")
    most = MAX_CELLS if spec.depth <= ENUMERABLE_BITS else MAX_CELLS_OF_A_DESCENT
    if not 1 <= cells <= most:
        raise ValueError(f"cells must lie between 1 and {most} at depth {spec.depth}, not {cells}")
    tables = _tables(spec, release)
    readings = Estimate(
        float(release.counters[0]), sqrt(release.noise * laplace_variance(spec.count_scale))
    )
    find = partial(heaviest, tables, spec.domain, recovery=recovery)
    noise = Noise(release.count, readings.standard_error)
    if as_published:
        paths, counts = find(cells)
        if spec.depth <= ENUMERABLE_BITS:
            readings = _summed(tables[-1], spec, recovery)
    else:
        # The next heaviest cells are fitted too, because their readings are in the same counters.
        # As many cells are fitted as the counters can separate, or more.
        paths, counts = find(max(2 * cells, min(MIN_FITTED, tables[-1].sketch.size)))
        counts = fit_counts(tables[-1], paths, counts, max(readings.value, 0.0))
        paths, counts = top(paths, counts, cells)
    partition = _partition(release, tables[0], readings, noise, paths, counts)
    return DensityModel(spec, readings, paths, counts, tables[-1], recovery, partition)


def _tables(spec: CellsSpec, release: Release) -> list[ReleasedTable]:
    _, *blocks = (block.astype(np.float64) for block in release.split())
    return [
        ReleasedTable(sketch, block.reshape(sketch.rows, sketch.width), release.noise)
        for sketch, block in zip(spec.tables, blocks, strict=True)
    ]


def _summed(table: ReleasedTable, spec: CellsSpec, recovery: Recovery) -> Estimate:
    """The paper's n-hat, the sum of all cells' counts. Two cells of one counter add twice the
    product of their counts to the variance, n**2 / (R K) in all. Hashing is 3-independent, and over
    all cells at once its variance may be twice that of full independence, which stands here."""
    cells = possible_cells(spec.domain, spec.depth)
    total = float(table.counts(cells, recovery).sum())
    variance = len(cells) * table.variance(recovery) + total**2 / table.sketch.size
    return Estimate(total, sqrt(variance))


def _partition(
    release: Release,
    first: ReleasedTable,
    readings: Estimate,
    noise: Noise,
    paths: Paths,
    counts: FloatArray,
) -> Partition:
    """The sampler: the heavy cells by their counts, scaled to all readings."""
    spec = release.spec
    assert isinstance(spec, CellsSpec)
    masses = counts * (max(readings.value, 0.0) / counts.sum()) if len(counts) else counts

    def replicate() -> list[Partition]:
        # Public post-processing: seeded by the release, so that an answer repeats itself.
        generator = np.random.default_rng(np.abs(release.counters[:4]))
        return signed_measure(first, spec.domain, readings).replicates(generator)

    low, high = boxes(spec.domain, paths, spec.depth)
    return Partition(spec.domain, low, high, masses, replicate, noise=noise)
