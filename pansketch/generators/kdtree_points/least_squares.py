"""Readings in the leaves of a KD-tree, estimated from all of its noisy counts.

Kreačić, Nouri, Potluru, Balch, Veloso, "Differentially private synthetic data using KD-trees"
(arXiv 2306.13211), keep the noisy counts of the leaves. The counts that decided halvings are public
too, so all of them are fitted here. Least squares over the tree come first. Then no count is
negative, and children sum to their parent. `as_published` keeps the leaves' counts, negative ones
as zero. benchmarks/kdtree/kdtree.py compares the two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain, FloatArray
from pansketch.generators.density.cell_counts import boxes
from pansketch.generators.kdtree_points.growth import Layer, Paths
from pansketch.generators.partition.partition import Partition
from pansketch.generators.significance import EmptyModel

REPLICATES = 24


@dataclass(frozen=True, eq=False)
class KdTree:
    """Leaves of a KD-tree.

    Args:
        partition: the leaves as weighted boxes; its quantiles, means, counts and shares have
            standard errors.

    Reference:
        Kreačić, Nouri, Potluru, Balch, Veloso, "Differentially private synthetic data using
        KD-trees" (arXiv 2306.13211).
    """

    partition: Partition

    def weighted_points(self) -> tuple[FloatArray, FloatArray]:
        """Centres of the leaves and the readings in each. A category is that of the centre.

        Returns:
            Centres, float64[n, d] in real units, and numbers of readings, float64[n].

        Raises:
            EmptyModel: no leaf holds readings.
            TooFewReadings: an EmptyModel; noise outweighs the readings.
        """
        self.partition.check()
        if self.partition.total <= 0:
            raise EmptyModel("no leaf of the tree holds readings: too few of them for this epsilon")
        middle = (self.partition.low + self.partition.high) / 2
        return self.partition.domain.from_unit(middle), self.partition.mass.copy()

    def sample(self, count: int, generator: np.random.Generator) -> FloatArray:
        """Synthetic records, spread evenly within a leaf.

        Args:
            count: number of records.
            generator: draws them.

        Returns:
            float64[count, d] in real units.

        Raises:
            EmptyModel: no leaf holds readings, or noise outweighs them.
            ValueError: the count is negative.
        """
        return self.partition.sample(count, generator)


@dataclass(frozen=True)
class Leaves:
    """Leaves in order of path, the readings in each, and their boxes of the unit cube.

    `starts`: the first path of `depth` bits of each; `bits`: its height.
    """

    domain: Domain
    depth: int
    starts: Paths
    bits: npt.NDArray[np.int64]
    mass: FloatArray
    low: FloatArray
    high: FloatArray

    def partition(self, replicate: Callable[[], Sequence[Partition]] = tuple) -> Partition:
        """The leaves that hold anything."""
        held = self.mass > 0
        return Partition(self.domain, self.low[held], self.high[held], self.mass[held], replicate)

    def counts(self, bits: int, paths: Paths) -> FloatArray:
        """Readings in cells of a height; those of a leaf are even within it."""
        shift = np.uint64(self.depth - bits)
        first = np.searchsorted(self.starts, paths << shift)
        last = np.searchsorted(self.starts, (paths + np.uint64(1)) << shift)
        below = np.concatenate([[0.0], np.cumsum(self.mass)])
        counts = below[last] - below[first]
        if not len(self.starts):
            return np.asarray(counts)
        owner = np.searchsorted(self.starts, paths << shift, side="right") - 1
        above = np.uint64(self.depth) - self.bits[owner].astype(np.uint64)
        same = (paths << shift) >> above == self.starts[owner] >> above
        inside = np.flatnonzero((owner >= 0) & (self.bits[owner] < bits) & same)
        owner = owner[inside]
        part = _volume(*boxes(self.domain, paths[inside], bits))
        whole = _volume(self.low[owner], self.high[owner])
        shares = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
        counts[inside] = self.mass[owner] * shares
        return np.asarray(counts)


def fit(domain: Domain, depth: int, layers: Sequence[Layer], *, as_published: bool) -> Leaves:
    """The leaves of a tree whose paths have at most `depth` bits."""
    masses = [layer.counts for layer in layers] if as_published else fitted(layers)
    parts = []
    for layer, mass in zip(layers, masses, strict=True):
        kept = ~layer.halved & layer.possible
        paths = layer.paths[kept]
        starts = paths << np.uint64(depth - layer.bits)
        ends = boxes(domain, paths, layer.bits)
        parts.append(
            (starts, np.full(len(paths), layer.bits, np.int64), np.maximum(mass[kept], 0.0), *ends)
        )
    starts, bits, mass, low, high = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(starts)
    return Leaves(domain, depth, starts[order], bits[order], mass[order], low[order], high[order])


def fitted(layers: Sequence[Layer]) -> list[FloatArray]:
    """The readings in every cell of every layer: none negative, children summing to parents."""
    estimates = least_squares(layers)
    masses = [np.maximum(estimates[0], 0.0)]
    for parent, layer, found in zip(layers, layers[1:], estimates[1:], strict=False):
        held = np.where(layer.possible, found, -np.inf)
        whole = masses[-1][parent.halved]
        # The nearest point of the segment of two counts that sum to their parent's.
        first = np.clip((whole + held[::2] - held[1::2]) / 2, 0.0, whole)
        masses.append(np.stack([first, whole - first], axis=1).ravel())
    return masses


def least_squares(layers: Sequence[Layer]) -> list[FloatArray]:
    """Every count averaged with the sum of its children's, by inverse variance, bottom up."""
    estimates: list[FloatArray] = []
    below = np.zeros(0)
    for layer in reversed(layers):
        estimate, variance = np.where(layer.possible, layer.counts, 0.0), layer.variances
        if estimates:
            sums, spread = (x.reshape(-1, 2).sum(axis=1) for x in (estimates[-1], below))
            weight = spread / (spread + variance[layer.halved])
            estimate[layer.halved] = weight * estimate[layer.halved] + (1 - weight) * sums
            variance[layer.halved] *= weight
        estimates.append(estimate)
        below = variance
    return estimates[::-1]


def _volume(low: FloatArray, high: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(high - low, 0.0).prod(axis=1))
