"""What error a hierarchy will have, predicted before any reading (expected_errors.py).

Its levels are taken to be fitted together as privhp does: every count averaged with the sum of its
children. Of the levels beyond the exact ones only the heaviest cells are known, less what other
cells in the same counters hide.
"""

from collections.abc import Sequence
from itertools import combinations, pairwise
from math import sqrt
from typing import NamedTuple

from pansketch.expected_errors import (
    OCCUPIED,
    Errors,
    bins_of,
    correlation_error,
    hidden_in,
    marginal_error,
    pair_error,
)
from pansketch.hierarchy import HierarchySpec
from pansketch.privacy import Guarantee

DRAWN = 0.008  # total variation between readings and the boxes that a model of them has
DRAWN_ALONE = 0.0001  # W1 between them, in standard deviations
RISING = 0.4  # of the variance of a running sum, left where one attribute's may only rise
UNSHRUNK = 0.2  # total variation that noise adds at most


class _Fitted(NamedTuple):
    """One level: bits of each attribute in its cells, and the variance of a count, all releases
    together."""

    bits: tuple[int, ...]
    variance: float

    @property
    def cells(self) -> int:
        return 1 << sum(self.bits)


def hierarchy_errors(spec: HierarchySpec, releases: int, total: int) -> Errors:
    """Of so many merged releases with so many readings in them all together."""
    levels = _fitted(spec, releases, total)
    kinds = [a.categories is not None for a in spec.domain.attributes]
    most = [a.most_bits for a in spec.domain.attributes]
    varying = [axis for axis, bits in enumerate(most) if bits]
    finest = levels[-1].bits
    alone = {
        axis: marginal_error(
            sqrt(_running(levels, axis)) / total,
            1 << finest[axis],
            kinds[axis] and finest[axis] == most[axis],
            DRAWN_ALONE,
        )
        for axis in varying
    }
    pairs, related = [], []
    for a, b in combinations(varying, 2):
        hidden = sum(
            hidden_in(1 << finest[axis], kinds[axis] and finest[axis] == most[axis])
            for axis in (a, b)
        )
        cells = 1 << finest[a] + finest[b]
        noise = sqrt(_in_a_bin(levels, a, b)) / total
        pairs.append(pair_error(noise, cells, hidden, (alone[a] + alone[b]) / 2, DRAWN, UNSHRUNK))
        if not (kinds[a] or kinds[b]):
            apart = sqrt(levels[-1].variance * levels[-1].cells / cells) / total
            related.append(correlation_error(apart, 1 << finest[a], 1 << finest[b]))
    return Errors(_mean(pairs), _mean(list(alone.values())), _mean(related))


def _fitted(spec: HierarchySpec, releases: int, total: int) -> list[_Fitted]:
    """From the root down; the variance of a count is that of all levels below and its own."""
    draws = Guarantee.of_linear_counters(spec.privacy).draws * releases
    order = spec.domain.split_order(spec.depth)
    levels: list[_Fitted] = []
    below = 0.0
    for level in reversed(spec.levels):
        taken = order[: level.bits]
        bits = tuple(taken.count(axis) for axis in range(spec.domain.dimension))
        scale = float(level.scale)
        variance = draws * 2 * scale * scale
        if level.hash is not None:
            # Rows are averaged; what else falls into a counter is as uneven as the readings.
            variance = (variance + (total / level.width) ** 2) / level.rows
            variance *= max(1.0, OCCUPIED * (1 << level.bits) / (spec.k * spec.fanout))
        if levels:
            below *= 1 << sum(levels[-1].bits) - level.bits
            variance = variance * below / (variance + below)
        levels.append(_Fitted(bits, variance))
        below = variance
    return levels[::-1]


def _running(levels: Sequence[_Fitted], axis: int) -> float:
    """Variance of the readings below a value of an attribute: at each level the cells beside that
    value, as far as they are occupied, less what their parents know."""
    whole = 0.0
    for parent, level in pairwise(levels):
        ways = 1 << level.bits[axis] - parent.bits[axis]
        beside = 1 << sum(level.bits) - level.bits[axis]
        occupied = max(1.0, OCCUPIED * beside) if beside > 1 else RISING
        whole += level.variance * occupied * (ways * ways - 1) / ways
    return whole


def _in_a_bin(levels: Sequence[_Fitted], a: int, b: int) -> float:
    """Variance of a bin of two attributes, from the level that knows it best."""
    finest = levels[-1]
    bins = bins_of(1 << finest.bits[a] + finest.bits[b])
    return min(
        level.variance * max(1.0, OCCUPIED * level.cells / bins)
        for level in levels
        if level is finest or OCCUPIED * level.cells >= bins
    )


def _mean(errors: Sequence[float]) -> float:
    return sum(errors) / len(errors) if errors else 0.0
