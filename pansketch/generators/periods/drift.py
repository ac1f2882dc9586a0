"""Test whether an attribute's distribution differs between two periods, beyond noise.

The distance of two distributions is Wasserstein's, of order 1: the mean distance that readings must
move to become those of the other period. Noise alone makes it positive. Its distribution without a
change follows from two known causes. One is the noise of the releases, whose variances are public.
The other is the sampling of so many independent readings from one distribution. Both are simulated
from a public seed. The p-value is the share of draws that reach the distance (Monte Carlo test;
Davison and Hinkley, "Bootstrap methods and their application", section 4.2).

Views and the exact levels of a hierarchy count cells of one attribute at several resolutions. The
best linear unbiased counts of the finest cells are those of generalised least squares, as in
`pairwise/multiresolution.py`; here their whole covariance is wanted. Nothing is clipped, so that
the noise of a difference of two periods is known.

Everything here reads released integers only, so it is post-processing and costs no privacy.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pansketch.domain.domain import Attribute, FloatArray
from pansketch.generators.pairwise.contingency_tables import cells_of, tables_of
from pansketch.generators.pairwise.marginals import resolutions_of
from pansketch.generators.pairwise.multiresolution import Resolution, folded
from pansketch.generators.significance import TooFewReadings
from pansketch.sketches.hierarchy import HierarchySpec
from pansketch.sketches.release_model import Release
from pansketch.sketches.views import ViewsSpec

MAX_BITS = 8  # 256 cells: their covariance is of 65,536 numbers
MAX_RATIO = 1e8  # of precisions in one equation
DRAWS = 3_999
WANTED = 4.0  # readings of a period, in standard deviations of the noise on their number


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
        """Both ends of the cells in the attribute's unit: float64[cells + 1]. `missing` has no
        value, so readings that begin to be missing move from every value to the last one."""
        found = self.attribute.from_unit(np.arange(len(self.value) + 1) / (1 << self.bits))
        return np.asarray(np.where(np.isnan(found), np.nanmax(found), found))

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
        ValueError: there is no release, or one is of a family that counts no cells of one
            attribute. Or the attribute is unknown, not counted, or differs between the specs.
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
    informative = [each for each in resolutions if each.precision.any()]
    finest = max((each.bits for each in informative), default=0)
    if not finest:
        raise ValueError(f"{name} has no counts of its own, and nothing is known of its changes")
    bits = min(finest, MAX_BITS)
    cells = cells_of(attribute, bits)
    weights, weighted = np.zeros((cells, cells)), np.zeros(cells)
    coarse = [_coarser(one, bits) for one in informative]
    # Beyond that the sums of the others are lost in rounding. Errors only become larger by it.
    most = MAX_RATIO * min(each.precision[each.precision > 0].min() for each in coarse)
    for each in coarse:
        owner = np.arange(cells) >> (bits - each.bits)
        precision = np.minimum(each.precision, most)
        weights += precision[owner][:, None] * (owner[:, None] == owner)
        weighted += (precision * each.counts)[owner]
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
    """Counts of one attribute from the exact levels of a hierarchy. Cells that no category has are
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


@dataclass(frozen=True)
class Drift:
    """Distance that an attribute's readings moved between two periods.

    Attributes:
        distance: in the attribute's unit, less what noise adds; of categories the share of readings
            that changed theirs.
        standard_error: of the distance.
        from_noise: the distance that noise and sampling alone give on average.
        p_value: the probability of a distance like the one measured, without a change.
    """

    distance: float
    standard_error: float
    from_noise: float
    p_value: float


def margin_drift(one: Sequence[Release], other: Sequence[Release], name: str) -> Drift:
    """Estimate how far one attribute moved from one period to another, which share no release.

    Args:
        one: merged releases of the first period, one of each spec: views or hierarchies.
        other: those of the second.
        name: of the attribute.

    Returns:
        The distance of the two distributions, and how likely it is without a change.

    Raises:
        ValueError: see `running_sums`.
        TooFewReadings: the noise outweighs the readings of a period.
    """
    periods = [running_sums(releases, name) for releases in (one, other)]
    for sums, releases in zip(periods, (one, other), strict=True):
        _check(sums, sum(each.count for each in releases))
    bits = min(each.bits for each in periods)
    first, second = (each.at(bits) for each in periods)
    if first.attribute != second.attribute:
        raise ValueError(f"{name} has other bounds, steps or categories in the two periods")
    apart = first.value / first.value[-1] - second.value / second.value[-1]
    # Public post-processing: seeded by the releases, so that an answer repeats itself.
    seed = [number for each in (*one, *other) for number in np.abs(each.counters[:4]).tolist()]
    draws = _draws(_covariance(first, second), np.random.default_rng(seed))
    measured = float(_distance(first, apart[None])[0])
    without, around = _distance(first, draws), _distance(first, apart + draws)
    return Drift(
        float(np.sqrt(max(measured**2 - float(np.mean(without**2)), 0.0))),
        float(np.std(around)),
        float(np.mean(without)),
        float((1 + np.count_nonzero(without >= measured)) / (1 + DRAWS)),
    )


def holm(p_values: Mapping[str, float], level: float) -> frozenset[str]:
    """Which of several tests reject.

    Args:
        p_values: by the name of a test.
        level: bound on the probability that one of them rejects wrongly.

    Returns:
        The names of those that reject.

    Reference:
        Holm, "A simple sequentially rejective multiple test procedure", 1979.
    """
    found: list[str] = []
    for rank, (name, p_value) in enumerate(sorted(p_values.items(), key=lambda each: each[1])):
        if not p_value <= level / (len(p_values) - rank):
            break
        found.append(name)
    return frozenset(found)


def _check(sums: RunningSums, releases: int) -> None:
    deviation = float(np.sqrt(sums.covariance.diagonal().max()))
    if not sums.value[-1] >= WANTED * deviation:
        raise TooFewReadings(float(sums.value[-1]), deviation, releases)


def _covariance(first: RunningSums, second: RunningSums) -> FloatArray:
    """Of the difference of the shares below each cell's end, without a change."""
    totals = first.value[-1], second.value[-1]
    pooled = (first.value + second.value) / sum(totals)
    below = np.maximum.accumulate(np.clip(pooled, 0.0, 1.0))
    below[-1] = 1.0
    sampled = np.minimum(below[:, None], below) - below[:, None] * below
    found = sampled * sum(1 / total for total in totals)
    for sums, total in zip((first, second), totals, strict=True):
        # A share is divided by a number of readings that has noise of its own.
        slope = np.eye(len(below))
        slope[:, -1] -= below
        found += slope @ sums.covariance @ slope.T / total**2
    return np.asarray(found)


def _draws(covariance: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Normal draws: float64[DRAWS, cells]."""
    squares, axes = np.linalg.eigh(covariance)
    spread = axes * np.sqrt(np.maximum(squares, 0.0))
    return np.asarray(generator.standard_normal((DRAWS, len(squares))) @ spread.T)


def _distance(sums: RunningSums, apart: FloatArray) -> FloatArray:
    """Wasserstein's distance by differences of shares below, float64[n, cells] -> [n]; of
    categories the total variation distance."""
    attribute = sums.attribute
    if attribute.categories is not None:
        return np.asarray(np.abs(np.diff(apart, prepend=0.0, axis=1)).sum(axis=1) / 2)
    if attribute.cyclic:
        # On a circle readings may move either way round: from the best point of it on.
        apart = apart - np.median(apart, axis=1, keepdims=True)
    return np.asarray(np.abs(apart) @ np.diff(sums.edges))
