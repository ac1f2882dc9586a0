"""Tables less their noise, that agree with the margins: the nearest ones without negatives.

What a table has beyond independent attributes is split into resolutions by orthonormal Haar
wavelets, in which the noise stays white. Resolutions go from coarse to fine along each axis. Each
one is shrunk as a whole by the part of its energy that the noise explains. That is the positive-
part estimator of James and Stein ("Estimation with quadratic loss", 1961) with a known variance. It
keeps what noise makes larger than usual. So the part of a resolution that is kept has a bound: the
energy of usual dependence over the sum of that energy and the noise.

Cells that noise makes negative are raised to 0. That moves readings to where none are and makes
correlations weaker. So cells in which noise outweighs all that may be there are left as expected,
and the nearest table keeps an estimated covariance (`covariation`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import FloatArray
from pansketch.generators.pairwise.contingency_tables import Table, beyond_margins
from pansketch.generators.pairwise.marginals import Margin

NEAREST = 1.0  # What is kept is as near to the truth as can be, and smoother than it.
TINY = np.finfo(float).tiny
CLEAR = 0.5  # deviations of its noise, beyond which something may be there
USUAL = 0.25  # of the energy of independent attributes: what a coefficient of dependence has
FAR = 8.0  # times what is expected of a cell: how far from it the readings usually are at most
CLOSE = 1e-4  # of all readings, that may be where a margin does not want them
STEPS, SHORTENED = 50, 20  # of Newton's method; times that a step is halved
ENOUGH = 1e-4  # of the gain that is predicted for a step
RIDGE = 1e-3  # cells
LIKELY = 0.5  # What is kept has as much energy as the truth, and is as rough.
SURE = 100.0  # cells, as which a sum over cells counts that is to be kept
APART = 0.05  # of that sum with a correlation of 1: how far from what is expected it usually is
NEARLY = 0.01  # deviations of its noise, by which that sum may be missed


@dataclass(frozen=True, eq=False)
class UnknownDetail:
    """What shrinking a table of two attributes leaves unknown, in wavelets of both.

    `released`: what the table has beyond independent attributes, with noise of `variance` on each
    coefficient; `lost`: the part of it that was not kept; `hidden`: variances of what noise hides,
    all float64[cells, cells]. All are 0 where margins alone tell.
    """

    released: FloatArray
    lost: FloatArray
    hidden: FloatArray
    variance: float

    def error(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Squared error of sums of products of functions of the cells of each attribute:
        float64[k, cells] and float64[m, cells] -> float64[k, m].

        Shrinkage takes from what stands out of the noise, too: by how much, the release tells.
        """
        turned = [
            (each @ _wavelets(len(side).bit_length() - 1).T)[:, 1:]
            for each, side in zip((first, second), (self.hidden, self.hidden.T), strict=True)
        ]
        one, two = turned
        squares = [each**2 for each in turned]
        hidden = squares[0] @ self.hidden[1:, 1:] @ squares[1].T
        whole, lost = (one @ each[1:, 1:] @ two.T for each in (self.released, self.lost))
        noise = self.variance * np.outer(squares[0].sum(axis=1), squares[1].sum(axis=1))
        clear = np.maximum(1 - CLEAR**2 * noise / np.maximum(whole**2, TINY), 0.0)
        return np.asarray(hidden + lost**2 * clear)


def untold(table: Table, expected: FloatArray, kept: FloatArray) -> UnknownDetail:
    """Of a table of two attributes, float64 of whose shape are `expected` of independent ones, and
    `kept`, what became of it.

    Noise that outweighs a resolution hides as much as noise itself changes its energy.
    """
    coefficients, variance = _coefficients(table, expected)
    left, _ = _coefficients(table, kept)
    found = np.zeros_like(coefficients)
    for place in product(*(range(1, bits + 1) for bits in table.bits)):
        there = tuple(_bands(b)[p] for b, p in zip(table.bits, place, strict=True))
        band = coefficients[there]
        taken = min(1.0, band.size * variance / max(float(np.sum(band**2)), TINY))
        most = 2 * np.sqrt(2 / band.size)
        found[there] = variance * taken * most / (1 + most)
    return UnknownDetail(coefficients, left, found, variance)


def shrunk(table: Table, expected: FloatArray, alone: FloatArray, power: float = NEAREST) -> Table:
    """The table moved towards what is `expected`; `alone`: of independent attributes. Both are
    float64 of its shape.

    `power`: NEAREST, or LIKELY for a table that stands for the truth in a simulation of noise.
    """
    beyond, variance = _coefficients(table, expected)
    plausible = USUAL * float(np.sum(expected**2))
    _shrink(beyond, table.bits, variance, power, plausible / (plausible + variance))
    for axis, bits in enumerate(table.bits):
        beyond = _along(_wavelets(bits).T, beyond, axis)
    kept = beyond[tuple(slice(cells) for cells in table.counts.shape)]
    kept *= _believed(FAR * np.maximum(alone, expected), table.variance)
    return replace(table, counts=expected + kept)


def _coefficients(table: Table, expected: FloatArray) -> tuple[npt.NDArray[np.float64], float]:
    """What a table has beyond what is expected, in wavelets, and the variance of one."""
    beyond = np.zeros([1 << bits for bits in table.bits])
    beyond[tuple(slice(cells) for cells in table.counts.shape)] = table.counts - expected
    # Cells that do not exist have no noise: each coefficient has less of it, on average.
    variance = table.variance * table.size / beyond.size
    for axis, bits in enumerate(table.bits):
        beyond = _along(_wavelets(bits), beyond, axis)
    return beyond, variance


def _shrink(
    coefficients: FloatArray, bits: tuple[int, ...], variance: float, power: float, believed: float
) -> None:
    """Shrinks each resolution in place. `believed`: the part that is kept at most."""
    for resolution in product(*(_bands(each) for each in bits)):
        band = coefficients[resolution]
        energy = float(np.sum(band**2))
        noise = band.size * variance
        band *= (believed * (1 - noise / energy)) ** power if energy > noise else 0.0


def _bands(bits: int) -> list[slice]:
    """Rows of the wavelets by resolution: their mean, then 1, 2, 4, ... of them."""
    return [slice(0, 1), *(slice(1 << level, 2 << level) for level in range(bits))]


@cache
def _wavelets(bits: int) -> FloatArray:
    """The orthonormal Haar wavelets of 2**bits cells, one a row, coarse ones first."""
    rows = np.ones((1, 1))
    for _ in range(bits):
        finest = np.kron(np.eye(len(rows)), [1.0, -1.0])
        rows = np.vstack([np.kron(rows, [1.0, 1.0]), finest]) / np.sqrt(2)
    return rows


def _along(matrix: FloatArray, table: npt.NDArray[np.float64], axis: int) -> FloatArray:
    turned = np.tensordot(matrix, table, axes=(1, axis))
    return np.asarray(np.moveaxis(turned, 0, axis))


@dataclass(frozen=True, eq=False)
class KeptSum:
    """A weighted sum of a table's cells, and the `value` that it is to have. `weights`: float64 of
    the table's shape, of squares that add up to 1, so that its noise is that of a cell."""

    weights: FloatArray
    value: float


def covariation(
    table: Table,
    expected: FloatArray,
    alone: FloatArray,
    values: Sequence[FloatArray],
    atoms: bool = False,
) -> KeptSum | None:
    """How two numbers vary together: what the table tells of it beyond what is `expected`. None
    where all readings are in one cell of an attribute.

    `alone`: as in `shrunk`. `values`: of each attribute's cells less their mean, float64[cells].
    `atoms`: one has some, whose values are 0; that readings with a value of one number have other
    values of the other is no covariation.
    Noise is the same in all cells, and it counts most far from the mean, where readings are rarest.
    So cells count as if dependence were as large as what independent attributes have there, and
    their sum as if it were APART from what is expected.
    """
    products = np.outer(*values)
    weights = products * _believed(alone, table.variance)
    if atoms:
        weights = beyond_margins(weights, np.where(products != 0, alone, 0.0))
    norm = float(np.linalg.norm(weights))
    if norm <= TINY:
        return None
    weights /= norm
    # Of a correlation of 1: about the most that a table can have.
    squares = np.vdot(products**2, alone) / np.vdot(products != 0, alone)
    most = np.vdot(weights, products * alone) / np.sqrt(squares)
    beyond = np.vdot(weights, table.counts - expected) * _believed(APART * most, table.variance)
    return KeptSum(weights, float(np.clip(np.vdot(weights, expected) + beyond, -most, most)))


def _believed(usual: FloatArray, variance: float) -> FloatArray:
    """The part that is no noise of this variance, if so much is usual (Wiener, "Extrapolation,
    interpolation, and smoothing of stationary time series", 1949)."""
    return np.asarray(usual**2 / (usual**2 + variance))


def consistent(table: Table, margins: Mapping[int, Margin], kept: KeptSum | None = None) -> Table:
    """The nearest table that has these margins and no negative cell. Its `kept` sum counts for SURE
    cells.

    Such a table is max(0, counts + a number for each cell of each axis + a number times the sum's
    weights). The numbers minimise a convex function whose slope is by how much the margins and the
    sum are missed, found by Newton's method (Qi and Sun, "A nonsmooth version of Newton's method",
    1993).
    """
    wanted = [margins[axis].at(bits) for axis, bits in zip(table.axes, table.bits, strict=True)]
    held = np.ix_(*table.reach) if table.reach else ...
    if table.reach:
        wanted = [each[reach] for each, reach in zip(wanted, table.reach, strict=True)]
    released, near = table.counts[held], CLOSE * float(wanted[0].sum())
    weights = kept.weights[held] if kept else np.zeros(released.shape)
    dual = _Dual(released, wanted, KeptSum(weights, kept.value if kept else 0.0))
    found = np.zeros_like(table.counts)
    found[held] = dual.solve(near, NEARLY * max(near, float(np.sqrt(table.variance))))
    return replace(table, counts=found)


@dataclass(frozen=True, eq=False)
class _Dual:
    """A function of a number for each cell of each axis, and of one for the kept sum."""

    released: FloatArray
    wanted: list[FloatArray]
    kept: KeptSum

    def solve(self, near: float, closer: float) -> FloatArray:
        """Counts that miss no margin by more than `near` readings and the kept sum by no more than
        `closer`, if so many STEPS find them."""
        ends = np.cumsum(self.released.shape)
        spread = _spread(_lacking(self.released, self.wanted), self.released.shape)
        numbers = np.concatenate([*spread, [0.0]])
        value, counts = self._at(numbers)
        for _ in range(STEPS):
            slope = self._slope(numbers, counts)
            *missed, last = (float(np.abs(each).sum()) for each in np.split(slope, ends))
            if max(missed) <= near and last <= closer:
                break
            step = np.linalg.solve(self._curvature(counts > 0), -slope)
            falls, length = float(slope @ step), 1.0
            for _ in range(SHORTENED):
                then, others = self._at(numbers + length * step)
                if then <= value + ENOUGH * length * falls:
                    break
                length /= 2
            numbers, value, counts = numbers + length * step, then, others
        return counts

    def _at(self, numbers: FloatArray) -> tuple[float, FloatArray]:
        """The function, and the counts that the numbers give."""
        moved = self.released + numbers[-1] * self.kept.weights
        *each, last = np.split(numbers, np.cumsum(moved.shape))
        for axis, own in enumerate(each):
            moved += own.reshape(-1, *(1,) * (moved.ndim - axis - 1))
        counts = np.maximum(moved, 0.0)
        squares = float(np.vdot(counts, counts)) + float(last @ last) / SURE
        target = np.concatenate([*self.wanted, [self.kept.value]])
        return squares / 2 - float(target @ numbers), counts

    def _slope(self, numbers: FloatArray, counts: FloatArray) -> FloatArray:
        missed = np.vdot(self.kept.weights, counts) - self.kept.value + numbers[-1] / SURE
        return -np.concatenate([*_lacking(counts, self.wanted), [-missed]])

    def _curvature(self, positive: npt.NDArray[np.bool_]) -> FloatArray:
        """How many positive cells two cells of the margins share, and what they hold of the sum's
        weights; and a little more on the diagonal, where the margins repeat each other or nothing
        is positive."""
        axes, held = range(positive.ndim), self.kept.weights * positive
        shared = np.block([[_shared(positive, one, other) for other in axes] for one in axes])
        sums = [held.sum(axis=tuple(a for a in axes if a != axis)) for axis in axes]
        found = np.pad(shared, (0, 1))
        found[-1] = found[:, -1] = np.append(np.concatenate(sums), np.vdot(held, held) + 1 / SURE)
        found[np.diag_indices_from(found)] += RIDGE
        return np.asarray(found)


def _shared(positive: npt.NDArray[np.bool_], first: int, second: int) -> FloatArray:
    others = tuple(a for a in range(positive.ndim) if a not in (first, second))
    sums = np.add.reduce(positive, axis=others, dtype=np.float64)
    if first == second:
        return np.diag(sums)
    return np.asarray(sums if first < second else sums.T)


def _lacking(counts: FloatArray, wanted: list[FloatArray]) -> list[FloatArray]:
    """By axis: what the sums over all other axes are below those that are wanted."""
    axes = range(counts.ndim)
    sums = (np.add.reduce(counts, axis=tuple(a for a in axes if a != axis)) for axis in axes)
    return [margin - own for margin, own in zip(wanted, sums, strict=True)]


def _spread(lacking: list[FloatArray], shape: tuple[int, ...]) -> list[FloatArray]:
    """What each margin lacks, over all cells that it is the sum of: added to counts that lack it,
    the nearest table of the wanted margins."""
    size = prod(shape)
    twice = (len(shape) - 1) * lacking[0].sum() / size
    return [
        lack * (len(lack) / size) - (0.0 if axis else twice) for axis, lack in enumerate(lacking)
    ]
