"""Moments of a partition with error bars: covariances of its attributes, and the mean of a cyclic
one. That mean is the direction of the sum of its values as unit vectors.

Inside a box readings are taken to be spread evenly and independently in the attributes' scales.
Everything here reads released integers only, so it is post-processing and costs no privacy.
"""

from collections.abc import Sequence
from itertools import combinations
from math import expm1, hypot, log, sqrt

import numpy as np

from pansketch.domain.domain import Attribute, FloatArray
from pansketch.estimate import Estimates
from pansketch.generators.model import Boxes, OfCells
from pansketch.generators.partition.box_overlap import cumulative, of_distinct, of_values
from pansketch.generators.significance import SEEN, CumulativeNoise, squared_error, tail_power
from pansketch.planning.first_answer import WANTED

TINY = np.finfo(float).tiny
CLOSEST = 1e-9  # of a bound: a tail that begins so near the median has no distance
REACH = 2.0  # times as far from the middle as records, readings may hang together (measured)
# Parts of what noise may hide in tails that are errors, measured; and how much they grow where all
# is unsure. Models find most of these readings, which a variance is most sensitive to. Of a pair it
# is also the part of what noise hides in one cell. Far away the noise on four cells hides readings.
VARIANCE, MEAN, PAIR, CLUSTER = (1.1, 0.5), (0.6, 1.0), 0.5, 2.0
PRUNED = 1.5  # times as much of a hierarchy. Each cell that is pruned hides some of a tail.
SHRUNK = 2.0  # times the error of a pair that smooth fits show: its table is shrunk alike in all


def covariances(partition: Boxes, indices: tuple[int, ...]) -> Estimates:
    """Covariances of attributes by position, in their units, with standard errors: [k, k]."""
    value, resolution = _covariance(partition, indices)
    others = {number: _covariance(each, indices) for number, each in of_moments(partition).items()}
    if not others:
        return Estimates(value, np.sqrt(resolution + _hidden(partition, indices, np.diag(value))))
    apart = {number: found - value for number, (found, _) in others.items()}
    # Replicates with wider boxes than the partition's tell no more than theirs allow.
    wider = np.mean([allowed for _, allowed in others.values()], axis=0)
    squares = squared_error(apart, partition.fits)
    if partition.fits.rough:
        alone, squares = squares.diagonal(), SHRUNK**2 * squared_error(apart, partition.fits, 0.0)
        np.fill_diagonal(squares, alone)
    squares = np.maximum(squares, _tails(partition, indices, value))
    squares = squares + np.maximum(resolution, wider)
    largest = np.diag(value) + np.sqrt(np.diag(squares))
    return Estimates(value, np.sqrt(squares + _hidden(partition, indices, largest)))


def of_moments(partition: Boxes) -> dict[int, Boxes]:
    """Replicates that tell a moment's error, by number. Those that are fitted otherwise put noise
    anywhere inside the bounds, where it would outweigh all readings. `_beyond` bounds that."""
    return {
        number: each
        for number, each in enumerate(partition.replicates)
        if each.total > 0 and not (partition.fits.alike and number % partition.fits.alike)
    }


def _hidden(partition: Boxes, indices: tuple[int, ...], variances: FloatArray) -> FloatArray:
    """Squared error that noise leaves in covariances. At most it is that of an unknown correlation
    between attributes of at most these variances."""
    found = np.zeros((len(indices), len(indices)))
    if partition.hidden is None or len(indices) < 2:
        return found
    sides = {index: _centred(partition, index) for index in indices}
    for (i, a), (j, b) in combinations(enumerate(indices), 2):
        pair = (min(a, b), max(a, b))
        (one, far), (other, farther) = (sides[index] for index in pair)
        hidden = partition.hidden(pair, one, other, PAIR * far * farther) / partition.total**2
        found[i, j] = found[j, i] = min(hidden, variances[i] * variances[j] / 3)
    return found


def _tails(partition: Boxes, indices: tuple[int, ...], value: FloatArray) -> FloatArray:
    """Squared error of covariances for readings that noise hides beyond those that are seen:
    float64[k, k].

    Of two attributes they are the same readings if the correlation is 1. An unknown one explains a
    third of that.
    """
    beyond, lone = np.array([_beyond(partition, index, 2) for index in indices]).T
    unsure = np.array([_unsure(partition, index) for index in indices])
    part, more = VARIANCE
    alone, both = np.hypot((part + more * unsure) * beyond, lone), PAIR * beyond
    deviations = np.sqrt(np.maximum(np.diag(value), TINY))
    alike = np.minimum((value / np.outer(deviations, deviations)) ** 2, 1.0)
    found = np.outer(both, both) * (alike + (1.0 - alike) / 3)
    np.fill_diagonal(found, alone**2)
    return np.asarray(found)


def tails_of_mean(partition: Boxes, index: int) -> float:
    """Error of a mean for readings that noise hides beyond those that are seen."""
    part, more = MEAN
    beyond, lone = _beyond(partition, index, 1)
    return hypot((part + more * _unsure(partition, index)) * beyond, lone)


def _moved(order: int, near: float, bound: float, power: float) -> float:
    """See `_beyond`: by one reading that noise hides."""
    if near < TINY + CLOSEST * bound:
        return 0.0
    end, square = max(bound / near, 1.0), 2 * near**2
    return square * _integral(end, power - 1) if order == 2 else near * (1 + _integral(end, power))


def _integral(end: float, power: float) -> float:
    """That of x ** -power from 1 to an end."""
    logarithm, rest = log(end), 1 - power
    return expm1(rest * logarithm) / rest if rest else logarithm


def _beyond(partition: Boxes, index: int, order: int) -> tuple[float, float]:
    """By how much readings that noise hides may move a moment of this order: those of tails, and
    those of a cluster. The latter are as many as the noise on CLUSTER**2 cells, at any distance up
    to a bound. Errors of a hierarchy hold none: in loose bounds they would be far too wide.

    A tail begins where the noise on the running sum explains the readings in it. Others may be
    there, as many as the standard deviation of that noise. They fall as a power p of the distance
    from the median (`tail_power`). H are beyond a distance r, and none beyond a bound b. To a sum
    of squares they add 2 H r**2 times the integral of x**(1 - p) from 1 to b / r. To a sum they add
    H r and H r times that of x**-p.
    """
    attribute, noise = partition.domain.attributes[index], partition.noise
    sums = () if noise is None else noise.sums.get(index, ())
    ends = partition.low[:, index], partition.high[:, index]
    # An atom is no tail: those of the values between atoms are.
    scale, low, high, shares = of_values(attribute, *ends, partition.box_shares())
    if not sums or not shares.sum() > 0:
        return 0.0, 0.0
    edges, below = cumulative(low, high, shares)
    readings, values = below * (shares.sum() * partition.total), scale.from_unit(edges)
    alone = [each.of_values(attribute) for each in sums]
    found = [_hidden_tails(readings, values, e, e.attribute or scale, order) for e in alone]
    tails, lone = np.linalg.norm(found, axis=0) / partition.total
    return tails * (PRUNED if partition.fits.alike else 1.0), lone * (partition.fits.rough > 0)


def _hidden_tails(
    readings: FloatArray,
    values: FloatArray,
    sums: CumulativeNoise,
    attribute: Attribute,
    order: int,
) -> FloatArray:
    """Of sums: float64[2]. `readings`: below values, float64[n]; `attribute`: of the cells."""
    units = attribute.scaling.positions(values)
    median = float(np.interp(readings[-1] / 2, readings, values))
    found = []
    above = (readings[-1] - readings)[::-1], 1.0 - units[::-1], (values - median)[::-1]
    for held, units_below, away, bound in (
        (readings, units, median - values, median - attribute.origin),
        (*above, attribute.highest - median),
    ):
        hidden = sums.at(units_below)
        first = int(np.argmax(held > SEEN * hidden))
        near = max(float(away[first]), 0.0)
        middle = np.interp(held[-1] / 2, held, units_below)
        if middle - units_below[first] < 1 / len(sums.deviations):
            # Nearly all seen readings are in one cell, which tells no distance of the others. They
            # reach as far as so many of an even spread.
            near = max(near, bound * min(SEEN * float(hidden[first] / held[-1]), 1.0))
        power = tail_power(held, away, first)
        in_tail = float(hidden[first]) * _moved(order, near, bound, power)
        found.append((in_tail, CLUSTER * sums.deviations[0] * bound**order / sqrt(2 * order + 1)))
    return np.asarray(np.linalg.norm(found, axis=0))


def _unsure(partition: Boxes, index: int) -> float:
    """From 0 to 1, where questions are refused: few readings do not tell how far they reach."""
    noise = 0.0 if partition.noise is None else partition.noise.below.get(index, 0.0)
    return min(WANTED * noise / partition.total, 1.0)


def _centred(partition: Boxes, index: int) -> tuple[OfCells, float]:
    """Means of cells less that of all readings, and the way from it to the farther bound. Means are
    0 for `missing`, and far beyond all readings: a table has noise alone there."""
    attribute, shares = partition.domain.attributes[index], partition.box_shares()
    low, high = partition.low[:, index], partition.high[:, index]
    mean = shares @ of_distinct(attribute.cell_means, low, high)
    middle = shares @ (low + high) / 2
    known = max(1.0 - _unsure(partition, index), TINY) / REACH
    start = middle - (middle - low[shares > 0].min()) / known
    end = middle + (high[shares > 0].max() - middle) / known

    def centred(low: FloatArray, high: FloatArray) -> FloatArray:
        found = np.nan_to_num(attribute.cell_means(low, high) - mean)
        return np.where((high > start) & (low < end), found, 0.0)

    return centred, float(max(attribute.highest - mean, mean - attribute.origin))


def _covariance(partition: Boxes, indices: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Covariances, and their squared error for the width of the boxes: float64[k, k] each."""
    shares, centred, within = _moments(partition, indices)
    between = (centred * shares[:, None]).T @ centred
    found = np.asarray((between + between.T) / 2 + np.diag(shares @ within))
    return found, _resolution(shares, centred, within, partition.total)


def _moments(
    partition: Boxes, indices: tuple[int, ...]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shares of the boxes float64[n]; their means less the overall one, and the variances inside
    them, both float64[n, k]."""
    shares = partition.box_shares()
    means, variances = np.empty((2, len(shares), len(indices)))
    for column, index in enumerate(indices):
        attribute = partition.domain.attributes[index]
        ends = partition.low[:, index], partition.high[:, index]
        means[:, column] = of_distinct(attribute.cell_means, *ends)
        variances[:, column] = of_distinct(attribute.cell_variances, *ends)
    return shares, means - shares @ means, variances


def means(models: Sequence[Boxes], position: int) -> list[float]:
    """Of one attribute in each model, all of one domain."""
    ends = (
        np.concatenate([each.low[:, position] for each in models]),
        np.concatenate([each.high[:, position] for each in models]),
    )
    inside = of_distinct(models[0].domain.attributes[position].cell_means, *ends)
    parts = np.split(inside, np.cumsum([len(each.low) for each in models])[:-1])
    return [float(part @ each.box_shares()) for part, each in zip(parts, models, strict=True)]


def _resolution(
    shares: FloatArray, centred: FloatArray, within: FloatArray, total: float
) -> FloatArray:
    """Squared error of taking so many readings as even inside boxes: float64[k, k]. See `_moments`.

    A box's mean and the products inside it err as those of one even reading would, independently of
    other boxes. Its readings are a sample, so they err once more as those of independent ones. If
    density falls, though, all boxes' readings lie nearer to the middle than evenly. For two
    attributes that cancels. For a square it is a sixth of the box's width squared (Sheppard's
    correction, once for the centres and once for the inside).
    """
    squares = (shares**2 + shares / total)[:, None]
    apart = (squares * centred**2).T @ within
    inside = (squares * within).T @ within
    variance = apart + apart.T + (inside + inside.T) / 2
    np.fill_diagonal(variance, 2 * variance.diagonal() + (2 * shares @ within) ** 2)
    return np.asarray(variance)


FULL = 2 * np.pi


def mean_direction(attribute: Attribute, edges: FloatArray, shares: FloatArray) -> float:
    """In the attribute's unit, from low to high; `shares` float64[m] of cells between `edges`."""
    turn = np.angle(_resultant(attribute, edges, shares)) / FULL % 1.0
    value = attribute.origin + float(turn) * attribute.extent
    return value if value < attribute.highest else attribute.origin


def apart(attribute: Attribute, value: float, other: float) -> float:
    """The way from one direction to another, the shorter way round."""
    half = attribute.extent / 2
    return (other - value + half) % attribute.extent - half


def resolution(
    attribute: Attribute, edges: FloatArray, shares: FloatArray, readings: float
) -> float:
    """Error of a mean direction for the width of the cells (delta method): it grows as the vectors
    cancel."""
    length = abs(_resultant(attribute, edges, shares))
    variances = attribute.cell_variances(edges[:-1], edges[1:])
    squares = shares**2 + shares / readings
    return float(np.sqrt(squares @ variances) / max(length, 1e-9))


def unknown(attribute: Attribute) -> float:
    """The error of a direction of which nothing is known."""
    return float(attribute.extent / np.sqrt(12))


def _resultant(attribute: Attribute, edges: FloatArray, shares: FloatArray) -> complex:
    """The mean unit vector, of values spread evenly in their cells or over a cell's points."""
    low, high = edges[:-1], edges[1:]
    lattice, placed = attribute.lattice, attribute.placed
    if lattice is None:
        first, last = (low, high) if placed is None else (placed.plain(low), placed.plain(high))
        lengths = np.sinc(last - first)
        middles = (first + last) / 2
    else:
        starts, ends = lattice.sections(low, high)
        middles = (lattice.points(starts) + lattice.points(ends - 1)) / 2
        middles = (middles - attribute.origin) * (1 / attribute.extent)
        step = float(lattice.step) / attribute.extent
        lengths = np.sinc((ends - starts) * step) / np.sinc(step)
    if placed is not None:  # The one number that is an atom of a circle is where it begins.
        atom = placed.in_atom(low)
        lengths, middles = np.where(atom, 1.0, lengths), np.where(atom, 0.0, middles)
    return complex(np.sum(shares * lengths * np.exp(1j * FULL * middles)))
