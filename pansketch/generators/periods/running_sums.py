"""Readings below each value of one attribute, unbiased, with the covariance of their noise.

Views and the exact levels of a hierarchy count cells of one attribute at several resolutions. The
best linear unbiased counts of the finest cells are those of generalised least squares, as in
`pairwise/multiresolution.py`; here their whole covariance is wanted. Nothing is clipped, so that
the noise of a difference of two periods is known.

Everything here reads released integers only, so it is post-processing and costs no privacy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pansketch.domain.domain import Attribute, FloatArray
from pansketch.generators.pairwise.contingency_tables import cells_of, tables_of
from pansketch.generators.pairwise.marginals import resolutions_of
from pansketch.generators.pairwise.multiresolution import Resolution, folded
from pansketch.sketches.hierarchy import HierarchySpec
from pansketch.sketches.release_model import Release
from pansketch.sketches.views import ViewsSpec

MAX_BITS = 8  # 256 cells: their covariance is of 65,536 numbers


@dataclass(frozen=True, eq=False)
class RunningSums:
    """Readings in all cells up to each one, float64[cells], of which the last is their number; and
    the covariance of the noise, float64[cells, cells]. `bits` tell the cells apart."""

    attribute: Attribute
    bits: int
    value: FloatArray
    covariance: FloatArray

    @property
    def edges(self) -> FloatArray:
        """Both ends of the cells in the attribute's unit: float64[cells + 1]."""
        return np.asarray(
            self.attribute.from_unit(np.arange(len(self.value) + 1) / (1 << self.bits))
        )

    def at(self, bits: int) -> "RunningSums":
        """The same in cells of fewer bits."""
        ends = np.minimum(
            np.arange(1, cells_of(self.attribute, bits) + 1) << (self.bits - bits), len(self.value)
        )
        return RunningSums(
            self.attribute, bits, self.value[ends - 1], self.covariance[np.ix_(ends - 1, ends - 1)]
        )


def running_sums(releases: Sequence[Release], name: str) -> RunningSums:
    """Of one attribute, from merged releases, one of each spec, added up in their coarsest cells.

    Raises:
        ValueError: there is no release, one is of a family that counts no cells of one attribute,
            the attribute is unknown or not counted, or differs between the specs.
    """
    found = [_sums(release, name) for release in releases]
    if not found:
        raise ValueError("no release is given")
    if any(each.attribute != found[0].attribute for each in found):
        raise ValueError(f"{name} has other bounds, steps or categories under other settings")
    bits = min(each.bits for each in found)
    coarse = [each.at(bits) for each in found]
    value = np.sum([each.value for each in coarse], axis=0)
    return RunningSums(
        found[0].attribute, bits, value, np.sum([each.covariance for each in coarse], axis=0)
    )


def _sums(release: Release, name: str) -> RunningSums:
    spec = release.spec
    if not isinstance(spec, ViewsSpec | HierarchySpec):
        raise ValueError(f"drift reads views or hierarchies, not a release of family {spec.family}")
    position = spec.domain.index(name)
    attribute = spec.domain.attributes[position]
    resolutions = (
        resolutions_of(tables_of(release), position)
        if isinstance(spec, ViewsSpec)
        else list(_levels(release, spec, position))
    )
    told = [each for each in resolutions if each.precision.any()]
    finest = max((each.bits for each in told), default=0)
    if not finest:
        raise ValueError(f"{name} has no counts of its own, and nothing is known of its changes")
    bits = min(finest, MAX_BITS)
    cells = cells_of(attribute, bits)
    weights, weighted = np.zeros((cells, cells)), np.zeros(cells)
    for each in (_coarser(one, bits) for one in told):
        owner = np.arange(cells) >> (bits - each.bits)
        weights += each.precision[owner][:, None] * (owner[:, None] == owner)
        weighted += (each.precision * each.counts)[owner]
    covariance = np.linalg.inv(weights)
    running = np.tri(cells)
    return RunningSums(
        attribute, bits, running @ covariance @ weighted, running @ covariance @ running.T
    )


def _coarser(resolution: Resolution, bits: int) -> Resolution:
    """In cells of at most so many bits."""
    if resolution.bits <= bits:
        return resolution
    ways = resolution.bits - bits
    return Resolution(
        bits, folded(resolution.counts, ways), 1 / folded(1 / resolution.precision, ways)
    )


def _levels(release: Release, spec: HierarchySpec, position: int) -> Iterator[Resolution]:
    """What the exact levels of a hierarchy say of one attribute. Cells that no category has are
    left out: noise alone is in them."""
    attribute = spec.domain.attributes[position]
    for level, block in zip(spec.levels, release.split(), strict=True):
        if level not in spec.exact_levels:
            continue
        bits = spec.domain.split_order(level.bits).count(position)
        low, _ = spec.domain.boxes(np.arange(level.size, dtype=np.uint64), level.bits)
        codes = np.rint(low[:, position] * (1 << bits)).astype(np.intp)
        counts = np.zeros(1 << bits)
        np.add.at(counts, codes, block)
        counts = counts[: cells_of(attribute, bits)]
        variance = (level.size >> bits) * release.noise * level.noise_variance
        yield Resolution(bits, counts, np.full(len(counts), 1 / variance))
