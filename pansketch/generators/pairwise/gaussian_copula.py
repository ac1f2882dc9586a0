"""How two numbers hang together where noise hides the cells of their table: by a Gaussian copula.

A copula has one parameter for a whole table, so all cells together tell it where no single one
stands out from the noise. The margins are known already. Its angle is the arc sine of the
correlation of the normal scores. The likeliest angle is the one of least squares, for the noise is
the same on all cells. It is shrunk as resolutions are (denoising.py), so that attributes whose
dependence noise explains stay independent. Where noise makes many angles likely, the likeliest
of them is unreliable. Their mean is taken, if they together are likelier than independence.

A copula also tells what a table cannot: how two numbers hang together inside a cell. Finer tables
tell it down to FINEST bits. Below that, scores of single particles do, of near-duplicates only
(`scores_inside`): of others a copula says too little of what is in a cell with many readings.

It is about the readings that have a value of both numbers: cells of atoms add nothing to it, and
nothing to what it tells. Their dependences are in the cells of the table alone.
"""

from collections.abc import Mapping
from math import ceil
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Attribute, FloatArray
from pansketch.generators.pairwise.contingency_tables import Table, beyond_margins
from pansketch.generators.pairwise.marginals import (
    Margin,
    has_atoms,
    independent,
)

Turned = npt.NDArray[np.float32]
Cells = npt.NDArray[np.intp]

STEPS = 32  # of a quarter turn: angles that are tried
NODES, WEIGHTS = np.polynomial.legendre.leggauss(2)  # of a step; it is smooth
TELLING = 5  # bits of an attribute, of the cells that tell an angle: finer ones tell little more
FINEST = 7  # bits of an attribute, of what is drawn along a copula
MIXED = 0.02  # of a finer table, at least, is independent: no cell must be without any
ROUNDS = 15
FARTHEST = 1e-12  # of readings: no score is farther out
TINY = np.finfo(float).tiny
NOTHING = 1e-200  # readings
SCARCE = 1e-9  # of all readings: so many tell nothing
ALIKE = 0.98  # correlation of the scores of near-duplicates, at least
LOGISTIC = 1.702  # deviations of a normal distribution in the unit of a logistic one that is near
MOST = 500.0  # of these units: beyond it nothing is left but errors of rounding


def has_copula(attribute: Attribute) -> bool:
    """Whether its values have an order from one end to the other."""
    return attribute.categories is None and not attribute.cyclic


def turned(table: Table, margins: Mapping[int, Margin]) -> Turned:
    """What copulas of two numbers add to the shares of coarser cells of their table: of each angle
    that is tried, in rising order, float32[angles, cells, cells]."""
    table = _coarser(table)
    first, second = _both_scores(table, margins)
    step = np.pi / 2 / STEPS
    sides = [np.cumsum(_turned(first, second, turn, STEPS - 1), axis=0) for turn in (-step, step)]
    every = [sides[0][::-1], np.zeros_like(sides[0][:1]), sides[1]]
    return _among_all(_cells(np.concatenate(every)), table, margins).astype(np.float32)


def likeliest_angle(table: Table, margins: Mapping[int, Margin], shares: Turned) -> float:
    """Of the copula of a table of two numbers, shrunk by its standard error: in radians, below a
    quarter turn. 0 where they are independent or noise hides their dependence. `shares`: `turned`,
    by margins like these."""
    table = _coarser(table)
    alone = independent(table, margins)
    beyond, found = table.counts - alone, alone.sum() * shares
    if has_atoms(table, margins):
        # Who has a value of one number may have other values of the other: that is no copula.
        held = of_values(table, margins)
        beyond, found = beyond[held], beyond_margins(found[..., *held], alone[held])
    misfits = (found**2).sum(axis=(1, 2)) / 2 - np.tensordot(found, beyond, 2)
    misfits /= table.variance
    best = int(np.clip(np.argmin(misfits), 1, len(misfits) - 2))
    before, least, after = misfits[best - 1 : best + 2]
    bend = before - 2 * least + after
    step = np.pi / 2 / STEPS
    if bend < 1:  # The error is above a step, so the angles that are tried tell how likely each is.
        angles = step * np.arange(1 - STEPS, STEPS)
        likely = np.exp(misfits.min() - misfits)
        slab = likely * np.cos(angles) * step / 2  # any correlation is as likely as another
        whole, none = float(slab.sum()), float(likely[STEPS - 1])
        return float(slab @ angles) / (whole + none) if whole > none else 0.0
    inside = float(np.clip((before - after) / (2 * bend), -1, 1))
    angle, squared_error = (best - (STEPS - 1) + inside) * step, step**2 / bend
    return float(angle * max(0.0, 1 - squared_error / max(angle**2, TINY)))


def dependent(table: Table, margins: Mapping[int, Margin], angle: float) -> FloatArray:
    """What the cells of a table of two would hold under a copula of this angle."""
    alone = independent(table, margins)
    if not angle:
        return alone
    beyond = _beyond(*_both_scores(table, margins), angle)
    return np.asarray(alone + alone.sum() * _among_all(beyond, table, margins))


def finer(table: Table, margins: Mapping[int, Margin], angle: float) -> Table:
    """The same table in finer cells, in which two numbers hang together as under the copula, as far
    as it explains the table's own cells. Clusters may hang together otherwise than inside each.

    Its margins are met closely and its own cells nearly, by proportional fitting; there is no
    reach.
    """
    bits = tuple(
        max(own, min(FINEST, margins[axis].bits))
        for axis, own in zip(table.axes, table.bits, strict=True)
    )
    if bits == table.bits:
        return table
    fine = Table(table.axes, bits, np.zeros([1 << each for each in bits]), table.variance)
    alone = independent(fine, margins)
    counts = np.maximum(dependent(fine, margins, angle), 0.0)
    counts += max(MIXED, unexplained(table, margins, angle)) * (alone - counts)
    ways = [1 << new - old for new, old in zip(bits, table.bits, strict=True)]
    parts = (len(table.counts), ways[0], -1, ways[1])
    for _ in range(ROUNDS):
        held = counts.reshape(parts).sum(axis=(1, 3))
        counts *= np.kron(_factors(table.counts, held), np.ones(ways))
        for place in (0, 1):
            wanted = alone.sum(axis=1 - place, keepdims=True)
            counts *= _factors(wanted, counts.sum(axis=1 - place, keepdims=True))
    return Table(table.axes, bits, counts, table.variance)


def unexplained(table: Table, margins: Mapping[int, Margin], angle: float) -> float:
    """What a table has beyond its copula, over what it has beyond independence: 0 to 1. So much of
    it is taken to be independent inside its cells. Atoms have no part in it."""
    whole, left = (table.counts - dependent(table, margins, each) for each in (0.0, angle))
    if has_atoms(table, margins):
        held, alone = of_values(table, margins), independent(table, margins)
        whole, left = (beyond_margins(each[held], alone[held]) for each in (whole, left))
    return min(1.0, float(np.linalg.norm(left)) / max(float(np.linalg.norm(whole)), TINY))


def beyond_copula(table: Table, margins: Mapping[int, Margin], angle: float) -> float:
    """The part of a table of two numbers that its copula does not explain, 0 to 1: of all cells
    beyond independence, or of what is inside cells twice as wide, if that is more.

    Clusters hang together by where they are, and inside of each their readings may be independent.
    """
    both = table.counts, dependent(table, margins, angle)
    (held, own), (_, copula) = (_inside_wider(np.maximum(each, 0.0)) for each in both)
    wrong, told = (float(np.linalg.norm(held * each)) for each in (own - copula, copula))
    inside = min(wrong, told) / told if told > 0 else float(wrong > 0)
    return max(unexplained(table, margins, angle), inside)


def _inside_wider(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Readings in cells twice as wide, and the share of them that the first quarter of each has
    beyond independent attributes: float64[rows / 2, columns / 2] each. It is as much for all."""
    rows, columns = counts.shape
    parts = counts.reshape(rows // 2, 2, columns // 2, 2)
    held = parts.sum(axis=(1, 3))
    apart = parts[:, 0, :, 0] * parts[:, 1, :, 1] - parts[:, 0, :, 1] * parts[:, 1, :, 0]
    return held, np.asarray(apart / np.maximum(held, SCARCE * held.sum()) ** 2)


def scores_inside(
    given: FloatArray, low: FloatArray, high: FloatArray, angle: float, random: FloatArray
) -> FloatArray:
    """Normal scores of a number between `low` and `high`, drawn given the scores of another one
    under a copula of this angle: float64[n]. `random`: uniform, float64[n].

    The normal distribution is taken for a logistic one, which can be inverted. It differs by 0.01.
    """
    mean, spread = np.sin(angle) * given, np.cos(angle) / LOGISTIC
    # The lower tail has the digits that the upper one lacks.
    sign = np.where(low + high > 2 * mean, -1.0, 1.0)
    ends = [np.clip(sign * (end - mean) / spread, -MOST, MOST) for end in (low, high)]
    first, last = (1 / (1 + np.exp(-each)) for each in ends)
    drawn = first + random * (last - first)
    return np.asarray(np.clip(mean + sign * spread * np.log(drawn / (1 - drawn)), low, high))


def scores_of(margin: Margin, bits: int) -> FloatArray:
    """Normal scores of all ends of cells of values of so many bits: float64[cells + 1]."""
    below = np.concatenate([[0.0], np.cumsum(margin.at(bits)[margin.values(bits)])])
    shares = np.clip(below / max(below[-1], TINY), FARTHEST, 1 - FARTHEST)
    return np.array([NormalDist().inv_cdf(share) for share in shares.tolist()])


def scores_of_cells(margin: Margin, bits: int) -> tuple[FloatArray, FloatArray]:
    """Normal scores of both ends of all cells of so many bits, float64[cells] each: 0 of those of
    atoms, which have none."""
    ends, held = scores_of(margin, bits), margin.values(bits)
    low, high = np.zeros((2, len(margin.at(bits))))
    low[held], high[held] = ends[:-1], ends[1:]
    return low, high


def of_values(table: Table, margins: Mapping[int, Margin]) -> tuple[Cells, Cells]:
    """The cells of a table that hold no atom, as an index of it."""
    both = zip(table.axes, table.bits, strict=True)
    rows, columns = (margins[axis].values(bits) for axis, bits in both)
    return rows[:, None], columns[None, :]


def _among_all(shares: FloatArray, table: Table, margins: Mapping[int, Margin]) -> FloatArray:
    """Shares of the readings that have values, float64[..., values, values], as those of all
    readings in the cells of a table."""
    held = of_values(table, margins)
    found = np.zeros((*shares.shape[:-2], *table.counts.shape))
    part = independent(table, margins)
    found[..., *held] = shares * (part[held].sum() / part.sum())
    return found


def _coarser(table: Table) -> Table:
    bits = tuple(min(TELLING, each) for each in table.bits)
    counts = table.counts.reshape(1 << bits[0], -1, 1 << bits[1], table.counts.shape[1] >> bits[1])
    variance = table.variance * table.size / (counts.shape[0] * counts.shape[2])
    return Table(table.axes, bits, counts.sum(axis=(1, 3)), variance)


def _factors(wanted: FloatArray, held: FloatArray) -> FloatArray:
    """What brings sums to wanted ones; what is as good as nothing is left out."""
    return np.asarray(np.divide(wanted, held, out=np.zeros_like(held), where=held > NOTHING))


def _both_scores(table: Table, margins: Mapping[int, Margin]) -> tuple[FloatArray, FloatArray]:
    """Normal scores of the inner ends of cells: float64[cells - 1, 1] and float64[1, cells - 1]."""
    each = [
        scores_of(margins[axis], bits)[1:-1]
        for axis, bits in zip(table.axes, table.bits, strict=True)
    ]
    return each[0][:, None], each[1][None, :]


def _beyond(first: FloatArray, second: FloatArray, angle: float) -> FloatArray:
    """Shares of cells beyond those of independent numbers."""
    steps = max(1, ceil(STEPS * abs(angle) / (np.pi / 2)))
    below = _turned(first, second, angle / steps, steps).sum(axis=0, keepdims=True)
    return np.asarray(_cells(below)[0])


def _turned(first: FloatArray, second: FloatArray, step: float, count: int) -> FloatArray:
    """By how much the share below both scores grows with each of so many steps from angle 0, in
    radians: float64[count, cells - 1, cells - 1].

    The derivative of the bivariate normal distribution by the correlation is its density (Plackett,
    "A reduction formula for normal multivariate integrals", 1954).
    """
    angles = step * (np.arange(count)[:, None] + (1 + NODES) / 2)[..., None, None]
    apart = first**2 + second**2 - 2 * np.sin(angles) * (first * second)
    density = np.exp(apart / (-2 * np.cos(angles) ** 2))
    return np.asarray(np.tensordot(WEIGHTS, density, (0, 1)) * (step / (4 * np.pi)))


def _cells(below: FloatArray) -> FloatArray:
    padded = np.pad(below, ((0, 0), (1, 1), (1, 1)))
    return np.diff(np.diff(padded, axis=1), axis=2)
