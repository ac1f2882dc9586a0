"""Decide whether releases have enough readings to answer, and how many releases would.

The noise of merged releases grows as the root of their number, and the readings as their number. So
an answer is given once the readings exceed the noise several times over. Before, a fit follows the
noise, and an error bar of such a fit is not reliable.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import ceil, hypot, log, sqrt
from typing import NamedTuple

import numpy as np

from pansketch.domain.domain import Attribute, FloatArray
from pansketch.planning.first_answer import EIGHTHS, WANTED

UNSHOWN = (1 + sqrt(2)) ** 2 - 1  # squared biases of a model beyond the one in its replicates
SEEN = 2.0  # in the same: a smaller number of readings does not differ from zero
SLOWEST, FASTEST = 1.0, 2.0  # powers of a hidden tail: of finite means, and of finite variances
WIDER = 4.0  # times the readings of a tail, among which its power shows
LESS = 0.4  # of that power: tails of readings fall ever slower, or ever faster


class EmptyModel(ValueError):
    """The noisy total is not positive: there are no readings to describe, and no records are
    generated."""


class TooFewReadings(EmptyModel):
    """The noise outweighs the readings.

    Args:
        readings: their noisy number.
        deviation: standard deviation of the noise that they are compared with, in readings.
        releases: number of releases that hold them.
    """

    def __init__(self, readings: float, deviation: float, releases: int) -> None:
        self.readings, self.deviation, self.releases = readings, deviation, releases
        super().__init__(f"the noise outweighs the readings: {self._outlook()}")

    @property
    def more(self) -> int | None:
        """About how many more releases like these an answer needs. None if the number of readings
        does not differ significantly from zero."""
        if self.readings < SEEN * self.deviation:
            return None
        wanted = self.releases * (WANTED * self.deviation / self.readings) ** 2
        return max(1, ceil(wanted) - self.releases)

    def wanted(self, readings: float) -> int:
        """About how many releases of so many readings each an answer needs."""
        return ceil((WANTED * self.deviation / readings) ** 2 / max(self.releases, 1))

    def _outlook(self) -> str:
        if self.more is None:
            return "how many more releases are needed is not known yet"
        return f"about {self.more:,} more releases are needed, and there are {self.releases:,}"


@dataclass(frozen=True, eq=False)
class CumulativeNoise:
    """Standard deviations of the noise on the number of readings below the end of each cell of an
    attribute: float64[cells]. None: the attribute is the model's own."""

    deviations: FloatArray
    attribute: Attribute | None = None

    def of_values(self, own: Attribute) -> "CumulativeNoise":
        """The same of the cells of values, without those of atoms. `own`: of the model."""
        attribute = self.attribute or own
        if attribute.placed is None:
            return self
        held = ~attribute.placed.atom_cells(len(self.deviations).bit_length() - 1)
        return CumulativeNoise(self.deviations[held], replace(attribute, atoms=()))

    def at(self, parts: FloatArray) -> FloatArray:
        """Of the noise on the readings in such a part of the cells, from either end: float64, as
        `parts`."""
        ends = np.arange(1, len(self.deviations) + 1) / len(self.deviations)
        return np.asarray(np.interp(parts, ends, self.deviations))


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the noise in a model of so many merged releases, in readings. One is
    of the noise on their number. By attribute, the largest and the least are of that on the number
    below a value.

    `coarse`: the largest one below the end of an eighth of the cells. A mean needs no more: inside
    of them noise moves it by a part of their width. `sums`: all of them, of each sketch
    that is added up.
    """

    releases: int
    total: float
    below: Mapping[int, float] = field(default_factory=dict)
    least: Mapping[int, float] = field(default_factory=dict)
    coarse: Mapping[int, float] = field(default_factory=dict)
    sums: Mapping[int, tuple[CumulativeNoise, ...]] = field(default_factory=dict)

    def check(self, readings: float, attributes: Iterable[int] = ()) -> None:
        """Raises TooFewReadings where the noisy number of readings does not outweigh it."""
        largest = max([self.total, *(self.below.get(each, 0.0) for each in attributes)])
        if not readings > 0 or readings < WANTED * largest:
            raise TooFewReadings(readings, largest, self.releases)

    def check_mean(self, readings: float, attribute: int) -> None:
        """As `check`, for the mean of one attribute."""
        known = self.coarse if attribute in self.coarse else self.below
        replace(self, below=known).check(readings, [attribute])

    def least_of(self, inside: Mapping[int, FloatArray], mass: FloatArray) -> FloatArray:
        """An error that no number of readings in bins is without: float64, an axis for each
        attribute. A few may be where nothing stands out of the noise.

        What noise hides in a bin of one attribute may be all in one bin of another. The probability
        of each is its share, to which noise may add as well. A bin of all values hides nothing.
        `inside`: by attribute the fraction of each box in each bin, float64[bins, n]. `mass`:
        readings in the boxes.
        """
        least, held = {}, {}
        for axis, each in inside.items():
            least[axis] = self.least.get(axis, 0.0) * (each.min(axis=1, initial=1.0) < 1)
            held[axis] = np.clip((each @ mass + least[axis]) / mass.sum(), 0.0, 1.0)
        squares = np.zeros([len(each) for each in held.values()])
        for axis, alone in least.items():
            factors = (alone**2 if other == axis else each for other, each in held.items())
            squares += reduce(np.multiply.outer, factors)
        return np.sqrt(squares)

    def explained(
        self, axis: int, attribute: Attribute, value: float, below: float, total: float
    ) -> float:
        """The standard deviation of the noise on the readings on one side of a value, if it
        explains them; 0 if it explains neither side. `attribute`: of the model; `below`: readings
        up to the value, of a `total` number, all without atoms."""
        found = [np.zeros(2)]
        for each in (known.of_values(attribute) for known in self.sums.get(axis, ())):
            own = each.attribute or attribute
            place = own.scaling.positions(np.array([value])).item()
            parts = np.array([place, 1.0 - place])
            found.append(each.at(parts) * (parts > 0))  # Beyond a bound there is nothing to hide.
        deviations = np.linalg.norm(found, axis=0)
        sides = np.array([below, total - below])
        return float(deviations[sides < SEEN * deviations].max(initial=0.0))

    def at(self, indices: Sequence[int]) -> "Noise":
        """The same of attributes in another order: by the new position, the old one."""
        below, least, coarse = (
            {new: known[old] for new, old in enumerate(indices) if old in known}
            for known in (self.below, self.least, self.coarse)
        )
        sums = {new: self.sums[old] for new, old in enumerate(indices) if old in self.sums}
        return replace(self, below=below, least=least, coarse=coarse, sums=sums)

    def of(self, attributes: Sequence[Attribute]) -> "Noise":
        """The same for a model of other attributes than these, which its sketch has."""
        sums = {
            axis: tuple(replace(e, attribute=e.attribute or attributes[axis]) for e in each)
            for axis, each in self.sums.items()
        }
        return replace(self, sums=sums)

    def __add__(self, other: "Noise") -> "Noise":
        return Noise(
            self.releases + other.releases,
            hypot(self.total, other.total),
            _together(self.below, other.below),
            _together(self.least, other.least),
            _together(self.coarse, other.coarse),
            {
                axis: self.sums.get(axis, ()) + other.sums.get(axis, ())
                for axis in {*self.sums, *other.sums}
            },
        )


def noise_of_sums(releases: int, variances: Mapping[int, FloatArray]) -> Noise:
    """From the variances of the noise on the running sums of each attribute's cells, of which the
    last one is that on their number."""
    return Noise(
        releases,
        sqrt(min(float(each[-1]) for each in variances.values())),
        {axis: sqrt(float(each.max())) for axis, each in variances.items()},
        {axis: sqrt(float(each.min())) for axis, each in variances.items()},
        {axis: sqrt(float(_eighths(each).max())) for axis, each in variances.items()},
        {axis: (CumulativeNoise(np.sqrt(each)),) for axis, each in variances.items()},
    )


def _eighths(sums: FloatArray) -> FloatArray:
    """Of running sums those up to the end of each eighth of the cells; of fewer cells all."""
    step = max(1, len(sums) // EIGHTHS)
    return sums[step - 1 :: step]


def _together(one: Mapping[int, float], other: Mapping[int, float]) -> dict[int, float]:
    return {axis: hypot(one.get(axis, 0.0), other.get(axis, 0.0)) for axis in {*one, *other}}


def tail_power(held: FloatArray, away: FloatArray, first: int) -> float:
    """A power of the distance from the median, as which a tail that noise hides falls at least.

    The readings next to the tail show it. Where they do not, only Markov's inequality is left, and
    beyond Chebyshev's nothing is relied on.

    Args:
        held: readings from the end of the tail up to each place, float64[n]; they rise.
        away: distances of these places from the median, float64[n]; they fall.
        first: the place where the tail begins.
    """
    place = int(np.searchsorted(held, WIDER * held[first]))
    if place >= len(held) or not away[first] > away[place] > 0:
        return SLOWEST
    # A difference, for the readings of a smooth tail may be too few for a quotient.
    power = (log(held[place]) - log(held[first])) / log(away[first] / away[place])
    return min(max(LESS * power, SLOWEST), FASTEST)


class Fits(NamedTuple):
    """How the replicates of a model are fitted, by their number.

    `alike`: every so many-th as the model is, the first one too; 0: none. `fewer`: boxes of a
    replicate over those of the model. Replicate 0 then has no noise but the model's, the others are
    compared with it, and theirs are numbers after it; 0: there is none such. `rough`: the first so
    many follow noise wherever it leads, as no fit of the model does.
    """

    alike: int = 0
    fewer: float = 0.0
    rough: int = 0


def squared_error(apart: Mapping[int, FloatArray], fits: Fits, rough: float = 0.5) -> FloatArray:
    """The squared error that noise leaves in answers, in their shape; 0 without a replicate.

    A fit that keeps counts from being negative has a bias, which grows as the noise. Replicates
    have twice its variance. So the mean of those that are fitted alike departs from the model by
    sqrt(2) - 1 of the bias (SIMEX; Cook and Stefanski, "Simulation-extrapolation estimation in
    parametric measurement error models", 1994). What chance explains of that mean is no bias. A
    mean of few squares is itself uncertain, see `student`.

    Args:
        apart: by the number of a replicate, how far its answers are from those of the model.
        fits: how they are fitted. By how much a replicate of fewer boxes without noise departs from
            the model, the model departs from the tables in proportion.
        rough: the part of the squared error that rough fits show.
    """
    if fits.fewer and 0 in apart:
        alone = apart[0]
        others = {number - 1: each - alone for number, each in apart.items() if number}
        squares = squared_error(others, fits._replace(fewer=0.0), rough)
        return squares + (fits.fewer * alone) ** 2
    if not apart:
        return np.zeros(())
    numbers, answers = np.array(list(apart)), np.array(list(apart.values()))
    loose = numbers < fits.rough
    parts = [(rough, loose), (1.0 - rough, ~loose)] if loose.any() and not loose.all() else []
    parts = parts or [(1.0, np.ones_like(loose))]
    squares = sum(part * np.mean(answers[which] ** 2, axis=0) for part, which in parts)
    freedom = 1 / sum(part**2 / np.count_nonzero(which) for part, which in parts if part)
    same = answers[numbers % fits.alike == 0] if fits.alike else answers[:0]
    if len(same) > 1:
        shown = same.mean(axis=0) ** 2 - same.var(axis=0, ddof=1) / len(same)
        squares = squares + UNSHOWN * np.maximum(shown, 0.0)
    return np.asarray(squares * student(freedom) ** 2)


def student(freedom: float) -> float:
    """By how much an error from so few replicates is larger, so that two of it hold as often as
    two standard deviations of a normal number do.

    The first terms of the expansion of Student's quantile z + (z**3 + z) / (4 * freedom) +
    (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2), at z = 2 and divided by it.
    """
    return 1 + 5 / (4 * freedom) + 49 / (32 * freedom**2)
