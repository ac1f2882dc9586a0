"""Counts of one attribute at several resolutions, made one: generalised least squares on a tree.

Cells of few bits are sums of cells of more, and the counts of every resolution have noise of their
own. The best linear unbiased counts of the finest cells take one pass up and one down. Source: Hay,
Rastogi, Miklau and Suciu, "Boosting the accuracy of differentially private histograms through
consistency" (VLDB 2010). Here fanouts and variances may differ.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pansketch.domain.domain import FloatArray


@dataclass(frozen=True, eq=False)
class Resolution:
    """Noisy counts of one attribute's cells of so many bits, and the inverse variances of their
    errors, 0 where nothing was counted: both float64[cells]."""

    bits: int
    counts: FloatArray
    precision: FloatArray

    @property
    def turned(self) -> "Resolution":
        """The same from the other end."""
        return Resolution(self.bits, self.counts[::-1], self.precision[::-1])


@dataclass(frozen=True, eq=False)
class Fitted:
    """Counts of the finest cells, and the variances of the sums of all cells up to each of them,
    that one included: both float64[cells]."""

    counts: FloatArray
    variances: FloatArray


@dataclass(frozen=True, eq=False)
class _Upward:
    """What a resolution and all finer ones tell, and what the next finer one's cells add up to."""

    bits: int
    counts: FloatArray
    variances: FloatArray
    sums: FloatArray
    sum_variances: FloatArray


def nested_fit(resolutions: list[Resolution]) -> Fitted:
    """Best counts of the finest cells, from resolutions in rising order of bits, the first of 0.

    The finest one must have been counted.
    """
    levels = _upward(resolutions)
    root = levels[0]
    counts, within = root.counts, root.variances
    before, shared = np.zeros(1), np.zeros(1)
    for parent, child in pairwise(levels):
        owner = np.arange(len(child.counts)) >> (child.bits - parent.bits)
        part = child.variances / parent.sum_variances[owner]
        earlier = _before(part, owner)
        v, c, s = within[owner], shared[owner], parent.sum_variances[owner]
        # Of the sum of all cells before one, with its variance and its covariance to that cell.
        before = before[owner] + 2 * earlier * c + earlier**2 * v + earlier * (1 - earlier) * s
        shared = part * (c + earlier * v - earlier * s)
        within = part**2 * v + part * (1 - part) * s
        counts = child.counts + part * (counts - parent.sums)[owner]
    return Fitted(counts, np.maximum(before + 2 * shared + within, 0.0))


def _upward(resolutions: list[Resolution]) -> list[_Upward]:
    """Every count averaged with the sum of its children, by inverse variance."""
    finest = resolutions[-1]
    counts, variances = finest.counts, 1 / finest.precision
    nothing = np.zeros(0)
    levels = [_Upward(finest.bits, counts, variances, nothing, nothing)]
    for own in reversed(resolutions[:-1]):
        ways = levels[-1].bits - own.bits
        sums, sum_variances = (folded(each, ways) for each in (counts, variances))
        variances = 1 / (own.precision + 1 / sum_variances)
        counts = variances * (own.precision * own.counts + sums / sum_variances)
        levels.append(_Upward(own.bits, counts, variances, sums, sum_variances))
    return levels[::-1]


def folded(values: FloatArray, bits: int) -> FloatArray:
    """Sums over cells that so many bits fewer do not tell apart: float64[n] -> float64[cells]."""
    return np.add.reduceat(values, np.arange(0, len(values), 1 << bits))


def _before(parts: FloatArray, owner: np.ndarray[tuple[int], np.dtype[np.intp]]) -> FloatArray:
    """Sum of the parts of earlier children of the same parent."""
    running = np.cumsum(parts) - parts
    first = np.searchsorted(owner, owner)
    return np.asarray(running - running[first])
