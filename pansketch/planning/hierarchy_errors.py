"""Predict the error of a hierarchy before any reading (expected_errors.py).

The prediction assumes that exact levels are fitted together as privhp does: every count averaged
with the sum of its children. A deeper level only divides the counts of its parents. It locates the
share of the readings that growth reaches and noise leaves clear, and blurs the others' cells.
"""

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from math import sqrt
from typing import NamedTuple

from pansketch.planning.expected_errors import (
    OCCUPIED,
    Amount,
    Errors,
    Truth,
    bins_of,
    correlation_error,
    hidden_alone,
    hidden_in,
    marginal_error,
    pair_error,
)
from pansketch.sketches.hierarchy import HierarchySpec

DRAWN = 0.008  # total variation between readings and the boxes that a model of them has
DRAWN_ALONE = 0.0001  # W1 between them, in standard deviations
PROJECTED = 1.2  # of the noise of a running sum, where growth keeps counts from being negative
RISING = 0.4  # of the variance of a running sum, left where one attribute's may only rise
UNSHRUNK = 0.25  # total variation that noise adds at most
SMOOTH = 0.25  # of the noise of a correlation, likewise.
CARRIED = 2.0  # total variation of a pair that one standard deviation of W1 of a margin makes.
BLURRED = 3.3  # error of a pair in a cell that noise has divided, over that of an undivided one
BLURRED_ALONE = 1.5  # of one attribute, likewise
# A learned scale spreads each attribute. Readings of several may still crowd, as in the streets of
# a city: they are in a sixteenth of all cells of two.
STILL_NARROW = 2


class _Depth(NamedTuple):
    """One level. By axis: bits of a cell, and cells in the readings' range, which are not whole.
    `occupied`: cells that hold readings. `variance`: of a count, all releases together."""

    bits: tuple[int, ...]
    within: tuple[float, ...]
    occupied: float
    variance: float

    @property
    def cells(self) -> int:
        return 1 << sum(self.bits)


_Shares = list[tuple[float, _Depth]]


def hierarchy_errors(spec: HierarchySpec, draws: float, total: int, narrow: int = 0) -> Errors:
    """Predict the errors for so many draws of noise in each counter and so many readings in total.
    The range of each number is 2**-narrow of the assumed one (expected_errors.py). Of a learned
    scale it is at least 2**-`STILL_NARROW`."""
    most = [attribute.max_bits for attribute in spec.domain.attributes]
    numbers = [attribute.categories is None for attribute in spec.domain.attributes]
    varying = [axis for axis, bits in enumerate(most) if bits]
    least = [min(narrow, STILL_NARROW) if a.knots else narrow for a in spec.domain.attributes]
    narrowed = [each if number else 0 for each, number in zip(least, numbers, strict=True)]
    depths = _depths(spec, draws, total, narrowed)
    exact = _fitted(depths[: len(spec.exact_levels)])
    of_one = _shares(spec, depths, total, BLURRED_ALONE)
    of_two = _shares(spec, depths, total, BLURRED)
    known = [not n and b == m for n, b, m in zip(numbers, depths[-1].bits, most, strict=True)]

    def inside(axis: int, shares: _Shares, hidden: Callable[[float, Truth], Amount]) -> Amount:
        return sum(share * hidden(depth.within[axis], known[axis]) for share, depth in shares)

    alone = {
        axis: marginal_error(
            PROJECTED * sqrt(_running(exact, axis)) / total,
            inside(axis, of_one, hidden_alone),
            DRAWN_ALONE,
        )
        for axis in varying
    }
    pairs, related = [], []
    for a, b in combinations(varying, 2):
        noise = sqrt(_in_a_bin(exact, a, b)) / total
        bins = bins_of(exact[-1].within[a] * exact[-1].within[b])
        hidden = inside(a, of_two, hidden_in) + inside(b, of_two, hidden_in)
        margins = CARRIED * (alone[a] + alone[b]) / 2
        pairs.append(pair_error(noise, bins, hidden, margins, DRAWN, UNSHRUNK))
        if numbers[a] and numbers[b]:
            cells = 1 << exact[-1].bits[a] + exact[-1].bits[b]
            apart = SMOOTH * sqrt(exact[-1].variance * exact[-1].cells / cells) / total
            left, right = (max(1.0, exact[-1].within[axis]) for axis in (a, b))
            inverse = (sum(each / depth.within[axis] for each, depth in of_two) for axis in (a, b))
            related.append(correlation_error(apart, left, right, 1 / max(inverse)))
    return Errors(_mean(pairs), _mean(list(alone.values())), _mean(related))


def _depths(spec: HierarchySpec, draws: float, total: int, narrow: Sequence[int]) -> list[_Depth]:
    order, whole = spec.domain.split_order(spec.depth), [0] * spec.domain.dimension
    found, taken = [], 0
    for level in spec.levels:
        for axis in order[taken : level.bits]:
            whole[axis] += 1
        bits, taken = tuple(whole), level.bits
        within = tuple((1 << b) / (1 << n) for b, n in zip(bits, narrow, strict=True))
        occupied = OCCUPIED
        for cells in within:
            occupied *= max(1.0, cells)
        scale = float(level.scale)
        variance = draws * 2 * scale * scale
        if level.hash is not None:
            # Rows are averaged; what else falls into a counter is as uneven as the readings.
            variance = (variance + (total / level.width) ** 2) / level.rows
        found.append(_Depth(bits, within, max(1.0, occupied), variance))
    return found


def _fitted(exact: Sequence[_Depth]) -> list[_Depth]:
    """From the root down; the variance of a count is that of all levels below and its own."""
    fitted = [exact[-1]]
    for parent in exact[-2::-1]:
        below = fitted[-1].variance * (fitted[-1].cells // parent.cells)
        together = parent.variance * below / (parent.variance + below)
        fitted.append(parent._replace(variance=together))
    return fitted[::-1]


def _shares(spec: HierarchySpec, depths: Sequence[_Depth], total: int, blurred: float) -> _Shares:
    """Of the readings, those that are known to a level's cells and not to finer ones; those whose
    cells noise has divided count `blurred` times."""
    found = []
    located = 1.0
    first = len(spec.exact_levels)
    for parent, child in pairwise(depths[first - 1 :]):
        reached = min(1.0, spec.k * spec.fanout / child.occupied)
        each = total / child.occupied
        clear = each * each / (each * each + child.variance)
        found.append((located * (1 - reached + blurred * reached * (1 - clear)), parent))
        located *= reached * clear
    return [*found, (located, depths[-1])]


def _running(levels: Sequence[_Depth], axis: int) -> float:
    """Variance of the readings below a value of an attribute. At each level it is that of the
    occupied cells beside that value, less the information of their parents."""
    whole = 0.0
    for parent, level in pairwise(levels):
        if level.occupied <= 1.0:
            continue  # Such readings are all in one cell: growth leaves its siblings empty.
        ways = 1 << level.bits[axis] - parent.bits[axis]
        beside = max(1.0, level.occupied / max(1.0, level.within[axis]))
        whole += level.variance * (beside if beside > 1 else RISING) * (ways * ways - 1) / ways
    return whole


def _in_a_bin(levels: Sequence[_Depth], a: int, b: int) -> float:
    """Variance of a bin of two attributes, from the level that knows it best."""
    finest = levels[-1]
    bins = float(bins_of(finest.within[a] * finest.within[b]))
    return min(
        level.variance * max(1.0, level.occupied / bins)
        for level in levels
        if level is finest or level.occupied >= bins
    )


def _mean(errors: Sequence[Amount]) -> float:
    return sum(float(each) for each in errors) / len(errors) if errors else 0.0
