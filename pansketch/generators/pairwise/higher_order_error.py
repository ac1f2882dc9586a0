"""What tables do not tell of several attributes at once: an error of questions about all of them.

A table of two attributes tells how they hang together cell by cell. Inside a cell the records made
of it are as if the attributes were independent there, however fine their own margins are. The
cells beside it bound how far from it the readings may be. Where the dependence changes much from
one cell to the next, it does so inside of them as well.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from math import inf, sqrt

import numpy as np

from pansketch.domain.domain import FloatArray
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.denoising import UnknownDetail
from pansketch.generators.partition.box_overlap import of_distinct

Pair = tuple[int, int]
OfCells = Callable[[FloatArray, FloatArray], FloatArray]
Sides = tuple[FloatArray, FloatArray]

STEEPEST = 2.0  # A share that changes from one side of a cell to the other, from twice it to none.
BENT = (1 + 1 / 3) / 2  # see `_error`
# Parts of what a copula adds inside cells, and of what cells side by side differ, that are errors
# where the copula explains a table (measured).
FOLLOWED, LEFT = 0.25, 0.2
INSIDE = 1.4  # times the error that both give (measured)
# Readings of which so few are in other cells of an attribute than the rest, by the probability that
# two of them are in different ones, tell little of how another attribute depends on it.
ELSEWHERE = 0.2
UNTOLD = 0.2  # of what noise hides of a table is an error of sums over it (measured)
TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class Dependence:
    """Boxes of a model, from `low` to `high` float64[n, d] in the unit cube and `mass` float64[n],
    and the tables of several attributes that it was made of. `untold`: by pair, what noise hides of
    its table, as `hidden_of` finds it. `beyond`: by pair, the part of its dependence that a copula
    does not explain, 0 to 1; of others all of it."""

    low: FloatArray
    high: FloatArray
    mass: FloatArray
    tables: Sequence[Table]
    untold: Mapping[Pair, UnknownDetail] = field(default_factory=dict)
    beyond: Mapping[Pair, float] = field(default_factory=dict)

    def doubt(self, inside: Mapping[int, FloatArray]) -> FloatArray:
        """An error of the numbers of readings that are in one bin of each of some attributes:
        float64, an axis for each attribute in their order.

        `inside`: by attribute the fraction of each box that is in each bin, float64[bins, n]. Two
        by two; that three may hang together otherwise than their pairs is in no table of two.
        """
        axes = sorted(inside)
        squares = np.zeros([len(inside[axis]) for axis in axes])
        for pair in combinations(axes, 2):
            first, second = (inside[axis] for axis in pair)
            others = tuple(place for place, axis in enumerate(axes) if axis not in pair)
            found = self._of_pair(pair, first, second) ** 2
            if pair in self.untold:
                most = self._allowed((first @ self.mass)[:, None], second @ self.mass)
                found = found + np.minimum(self._in_bins(pair, first, second), most**2)
            squares += np.expand_dims(found, others)
        return np.asarray(np.sqrt(squares))

    def hidden(self, pair: Pair, first: OfCells, second: OfCells, most: float) -> float:
        """Squared error that a pair's table leaves in a sum of products of a function of each
        attribute, by the ends of its cells: for its noise, and for the width of its cells. Infinite
        where no table has the pair.

        `most`: the largest product inside the bounds. Noise may hide readings of one such cell, as
        many as its deviation, at any distances up to these."""
        untold = self.untold.get(pair)
        if untold is None:
            return inf
        values = []
        for function, cells in zip((first, second), untold.hidden.shape, strict=True):
            ends = np.linspace(0, 1, cells + 1)
            values.append(function(ends[:-1], ends[1:])[None])
        lone = untold.variance * most**2 / 9
        return UNTOLD**2 * untold.error(*values).item() + lone + self._tilted(pair, first, second)

    def _tilted(self, pair: Pair, first: OfCells, second: OfCells) -> float:
        """Squared error of the same sum, as inside a cell of one attribute its readings depend on
        the other one. By how much they do the cells beside it tell.

        A density with a relative tilt t along a cell moves the mean of a function there by t times
        its covariance with the position in it. Margins tell the mean over all cells beside it.
        """
        bits = self._bits(pair) or [0, 0]
        held = self._in_cells(pair, bits, np.ones_like(self.mass))
        sides = [self._along(*each) for each in zip(pair, bits, (first, second), strict=True)]
        (means, along, values), (beside, across, others) = sides
        beyond = self.beyond.get(pair, 1.0)
        left = BENT * max(beyond, LEFT)
        found = [
            left * float(along @ _moved(held) @ beside),
            left * float(across @ _moved(held.T) @ means),
            _followed(beyond) * float(np.sum(self.mass * values * others) - means @ held @ beside),
        ]
        inside = [
            self._unknown_inside(held, (values, means), (others, beside)),
            self._unknown_inside(held.T, (others, beside), (values, means)),
        ]
        return float(np.sum(np.square(found))) + sum(inside)

    def _unknown_inside(self, held: FloatArray, own: Sides, other: Sides) -> float:
        """Squared error of a sum of products of two functions, of boxes and of cells each, where
        inside the cells of the first one any correlation is as likely as another.

        Cells tell which it is as far as they tell the readings apart. Few wide cells fit many a
        dependence, and a copula that explains them explains little.
        """
        (values, means), (others, beside), readings = own, other, held.sum(1)
        whole = float(self.mass @ values**2)
        within = whole - float(readings @ means**2)
        told = float(np.sum((held @ beside) ** 2 / np.maximum(readings, TINY)))
        part = within / max(whole, TINY)
        return part**2 * within * (float(self.mass @ others**2) - told) / 3

    def _along(
        self, axis: int, bits: int, function: OfCells
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means of a function of one attribute in cells of so many bits, and its covariances with
        the position in the cell, 0 to 1: float64[cells] each. And that of each box, float64[n]."""
        low, high = self.low[:, axis] * (1 << bits), self.high[:, axis] * (1 << bits)
        values = of_distinct(function, self.low[:, axis], self.high[:, axis])
        cells = low.astype(np.intp)
        inside = (low + high) / 2 - cells
        sums = [
            np.bincount(cells, self.mass * each, 1 << bits)
            for each in (1.0, values, inside, values * inside)
        ]
        number = np.maximum(sums[0], TINY)
        mean, middle, product = (each / number for each in sums[1:])
        return mean, product - mean * middle, values

    def _in_bins(self, pair: Pair, first: FloatArray, second: FloatArray) -> FloatArray:
        """The same for fractions of boxes in bins: float64[k, n] and float64[m, n] -> [k, m]."""
        untold, means = self.untold[pair], []
        for axis, inside, size in zip(pair, (first, second), untold.hidden.shape, strict=True):
            cells = (self.low[:, axis] * size).astype(np.intp)
            held = np.bincount(cells, self.mass, size)
            sums = [np.bincount(cells, self.mass * each, size) for each in inside]
            means.append(np.divide(sums, held, out=np.zeros_like(sums), where=held > 0))
        return untold.error(*means)

    def _of_pair(self, pair: Pair, first: FloatArray, second: FloatArray) -> FloatArray:
        bits = self._bits(pair)
        if bits is None:  # Nothing is known of the two together but what their margins allow.
            return self._unknown(first, second)
        held = self._in_cells(pair, bits, np.ones_like(self.mass))
        ones, others = (
            [self._in_cells(pair, bits, part) / np.maximum(held, TINY) for part in each]
            for each in (first, second)
        )
        beyond = self.beyond.get(pair, 1.0)
        tilts = [max(beyond, LEFT) * tilt(held, axis) for axis in (0, 1)]
        found = [_error(held, one, other, *tilts) for one, other in product(ones, others)]
        # Inside cells records may follow a copula. Readings follow it nearly where it explains the
        # table, and elsewhere anything from none of it to all.
        rows = np.array([_mean_share(held, one, 1) for one in ones])
        columns = np.array([_mean_share(held, other, 0) for other in others])
        followed = (first * self.mass) @ second.T - rows @ held @ columns.T
        followed *= _followed(beyond)
        error = INSIDE * np.hypot(np.reshape(found, followed.shape), followed)
        nothing = max(map(_nothing_told, (held.sum(1), held.sum(0))))
        return np.asarray(np.hypot(error, nothing * self._unknown(first, second)))

    def _bits(self, pair: Pair) -> list[int] | None:
        """Of the finest table of both attributes."""
        tables = (table for table in self.tables if set(pair) <= set(table.axes))
        return max(
            ([table.bits_of(axis) for axis in pair] for table in tables), key=sum, default=None
        )

    def _in_cells(self, pair: Pair, bits: list[int], part: FloatArray) -> FloatArray:
        """Readings in parts of boxes, by cell of a table: float64[2**bits, 2**bits]."""
        columns = zip(pair, bits, strict=True)
        places = [(self.low[:, axis] * (1 << b)).astype(np.intp) for axis, b in columns]
        shape = (1 << bits[0], 1 << bits[1])
        cells = np.ravel_multi_index(places, shape)
        found = np.bincount(cells, self.mass * part, shape[0] * shape[1])
        return np.asarray(found.reshape(shape), np.float64)

    def _unknown(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """The same of records' numbers, which need not be in the middle of what is allowed. Two
        such errors reach both ends from any number between."""
        one, two = (first @ self.mass)[:, None], second @ self.mass
        surplus = one + two - self.mass.sum()
        middle = (np.minimum(one, two) + np.maximum(surplus, 0.0)) / 2
        found = np.hypot(self._allowed(one, two), (first * self.mass) @ second.T - middle)
        return np.asarray(found)

    def _allowed(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """The standard deviation of numbers that may be anything their margins allow."""
        surplus = first + second - self.mass.sum()
        return np.asarray((np.minimum(first, second) - np.maximum(surplus, 0.0)) / sqrt(12))


def tilt(held: FloatArray, axis: int) -> FloatArray:
    """The relative change of the dependence of two attributes along one of them inside each cell of
    a table, estimated from the cells beside it: float64, as `held`, 0 to STEEPEST."""
    ratio = _ratio(held)
    steps = np.abs(np.diff(ratio, axis=axis))
    ends = [(0, 0), (0, 0)]
    ends[axis] = (1, 1)
    steps = np.pad(steps, ends)
    before, after = (np.delete(steps, place, axis) for place in (-1, 0))
    change = np.maximum(before, after)
    found = np.divide(change, ratio, out=np.zeros_like(held), where=ratio > 0)
    return np.asarray(np.minimum(found, STEEPEST))


def _ratio(held: FloatArray) -> FloatArray:
    """Of a table to what independent attributes with its margins have in each cell."""
    alone = held.sum(0, keepdims=True) * held.sum(1, keepdims=True)
    found = np.divide(held * held.sum(), alone, out=np.zeros_like(held), where=alone > 0)
    return np.asarray(found)


def _nothing_told(readings: FloatArray) -> float:
    """How little cells of one attribute tell of how another one depends on it: 0 to 1, where they
    are all in one of them. `readings`: float64[cells]."""
    shares = readings / max(float(readings.sum()), TINY)
    return max(0.0, 1 - float(1 - shares @ shares) / ELSEWHERE)


def _followed(beyond: float) -> float:
    """The part of what a copula adds inside cells that is an error, if it leaves so much of a table
    unexplained."""
    return FOLLOWED + (1 / sqrt(3) - FOLLOWED) * beyond


def _moved(held: FloatArray) -> FloatArray:
    """Readings times the relative change of their dependence along axis 0, less its mean over axis
    1: float64, as `held`. It is a `tilt` with a sign."""
    ratio = _ratio(held)
    change, known = np.zeros_like(held), held.sum(1) > 0
    if np.count_nonzero(known) > 1:
        change[known] = np.gradient(ratio[known], axis=0)
    tilts = np.divide(change, ratio, out=np.zeros_like(held), where=ratio > 0)
    found = held * np.clip(tilts, -STEEPEST, STEEPEST)
    told = found.sum(1, keepdims=True) / np.maximum(held.sum(1, keepdims=True), TINY)
    return np.asarray(found - held * told)


def _error(
    held: FloatArray, one: FloatArray, other: FloatArray, along: FloatArray, across: FloatArray
) -> float:
    """Error of the readings in two bins, which hold shares `one` and `other` of each cell: the
    least one of the four parts into which the bins divide the readings.

    A density with a relative tilt t has a share x + t x (1 - x) / 2 where an even one has x. A
    third more stands for bends. What one part has too much its neighbours have too little, because
    the margins tell each bin. So all four err alike. The readings of a cell are a sample besides.
    """
    first, second = BENT * along * one * (1 - one), BENT * across * other * (1 - other)
    parts = product((one, 1 - one), (other, 1 - other))
    bent = min(
        float(np.linalg.norm(held * np.hypot(rest * first, part * second))) for part, rest in parts
    )
    squares = (_sampled(*each) for each in ((held, one, other), (held.T, other.T, one.T)))
    return float(np.sqrt(bent**2 + sum(squares)))


def _sampled(held: FloatArray, one: FloatArray, other: FloatArray) -> float:
    """The variance of the number of readings in two bins, of which `one` cuts a cell of the first
    attribute. The margins tell how many are inside, and not which: a hypergeometric number."""
    first, second = (_mean_share(held, each, 1) for each in (one, other))
    return float(held.sum(axis=1) @ (first * (1 - first) * second * (1 - second)))


def _mean_share(held: FloatArray, share: FloatArray, axis: int) -> FloatArray:
    """The share of all readings of a row of cells, axis 1, or of a column, axis 0."""
    return np.asarray(np.sum(held * share, axis=axis) / np.maximum(held.sum(axis=axis), TINY))
