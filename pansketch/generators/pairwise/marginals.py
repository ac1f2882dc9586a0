"""The distribution of each attribute, from all released views that contain it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from pansketch.domain.atoms import AtomPlaces
from pansketch.domain.domain import Attribute, Domain, FloatArray
from pansketch.generators.pairwise.contingency_tables import Table, measured, values_inside
from pansketch.generators.pairwise.multiresolution import (
    Fitted,
    Resolution,
    folded,
    nested_fit,
    possible_step,
    set_apart,
    values_alone,
)
from pansketch.generators.pairwise.smooth_density import smooth
from pansketch.generators.significance import SEEN, Noise, noise_of_sums, tail_power
from pansketch.generators.simplex import onto_simplex, rising

TINY = np.finfo(float).tiny
ROUNDING = 1e-9  # of all readings
SURE = 1e9  # times as precise as a count is that nothing is where no reading can be
# Fits with more noise. The first of them take all noise in tails and bends for readings: it hides
# some.
REPLICATES, ROUGH = 24, 12
# Standard deviations of noise that a tail's readings must exceed. Readings are lost where the limit
# is high, and noise is far from all readings where it is low. Many readings lose a small share.
TAIL, HIGHEST, HIDDEN = 0.75, 2.0, 0.003
STANDS_OUT = 4.0  # in the same: readings that end a tail, whatever noise adds behind them


@dataclass(frozen=True, eq=False)
class Margin:
    """Readings in the cells of one attribute that so many bits tell apart: float64[cells].

    `price`: of the bends of its smooth density (smooth_density.py); None where it follows none.
    `placed`: the attribute's. `step`: see `possible_step`.
    """

    bits: int
    counts: FloatArray
    price: float | None = None
    placed: AtomPlaces | None = None
    step: float = 0.0

    def at(self, bits: int) -> FloatArray:
        """The same in cells of fewer bits."""
        return folded(self.counts, self.bits - bits)

    def values(self, bits: int) -> npt.NDArray[np.intp]:
        """The cells of so many bits that hold no atom."""
        if self.placed is None:
            return np.arange(len(self.at(bits)))
        return np.flatnonzero(~self.placed.atom_cells(bits))


def margins_of(
    domain: Domain,
    tables: Sequence[Table],
    *,
    rough: bool = False,
    like: Mapping[int, Margin] = MappingProxyType({}),
) -> dict[int, Margin]:
    """Every attribute that is in a view, by position, in the finest cells that views have of it.

    Counts are never negative, and all margins add up to the same number. There is none if that
    number is not positive. `rough`, `like`: see `margin_of`.
    """
    found: dict[int, Margin] = {}
    total = 0.0
    for position in sorted({axis for table in tables for axis in table.axes}):
        attribute, resolutions = domain.attributes[position], resolutions_of(tables, position)
        margin = margin_of(attribute, resolutions, rough=rough, like=like.get(position))
        if margin is None:
            return {}
        # Cells that no reading can be in tell of the noise, so estimates of the total differ. No
        # table has two margins of different totals.
        own = float(margin.counts.sum())
        total = total or own
        found[position] = replace(margin, counts=margin.counts * (total / own))
    return found


def margin_of(
    attribute: Attribute,
    resolutions: Sequence[Resolution],
    *,
    rough: bool = False,
    like: Margin | None = None,
) -> Margin | None:
    """One attribute's margin; None without a positive total.

    `rough`: nothing is taken for noise, neither in the tails nor between neighbours. `like`: the
    margin of the same readings with less noise. This one is as smooth or smoother; of a `rough` one
    the tails beyond it fall off, see `_falling`.
    """
    alone = [replace(each, counts=each.counts[None]) for each in resolutions]
    return margins_alike(attribute, alone, rough=rough, like=like)[0]


def margins_alike(
    attribute: Attribute,
    resolutions: Sequence[Resolution],
    *,
    rough: bool = False,
    like: Margin | None = None,
) -> list[Margin | None]:
    """`margin_of` each row of counts: float64[rows, cells]. Many rows cost little more than one."""
    totals = nested_fit(resolutions).counts.sum(axis=-1)
    rows = np.flatnonzero(totals > 0)
    found: list[Margin | None] = [None] * len(totals)
    if len(rows):
        positive = [replace(each, counts=each.counts[rows]) for each in resolutions]
        for row, margin in zip(rows, _positive(attribute, positive, rough, like), strict=True):
            found[row] = margin
    return found


def _positive(
    attribute: Attribute, resolutions: Sequence[Resolution], rough: bool, like: Margin | None
) -> list[Margin]:
    """`margins_alike` of rows with a positive total."""
    best = nested_fit(resolutions)
    totals, bits = best.counts.sum(axis=-1), resolutions[-1].bits
    if attribute.categories is not None:
        return [Margin(bits, each) for each in onto_simplex(best.counts, totals)]
    if attribute.placed is None:
        return _of_number(attribute, resolutions, np.arange(1 << bits), rough, like)
    # Shares of each atom and of all values together, as of categories; then the values alone.
    atoms = attribute.placed.atom_cells(bits)
    one_each = np.flatnonzero(atoms & attribute.placed.reachable(bits))
    values = best.counts[:, ~atoms].sum(axis=-1, keepdims=True)
    shares = onto_simplex(np.concatenate([values, best.counts[:, one_each]], axis=1), totals)
    counts = np.zeros_like(best.counts)
    counts[:, one_each] = shares[:, 1:]
    found = [Margin(bits, each, placed=attribute.placed) for each in counts]
    if len(rows := np.flatnonzero(shares[:, 0] > ROUNDING * totals)):
        alone = values_alone(resolutions, attribute.placed)
        alone = [replace(each, counts=each.counts[rows]) for each in alone]
        near = replace(like, counts=like.counts[~atoms]) if like else None
        own = _of_number(attribute, alone, np.flatnonzero(~atoms), rough, near)
        for row, margin in zip(rows, own, strict=True):
            counts[row, ~atoms] = margin.counts * (shares[row, 0] / margin.counts.sum())
            found[row] = replace(found[row], price=margin.price, step=margin.step)
    return found


def _of_number(
    attribute: Attribute,
    resolutions: Sequence[Resolution],
    cells: npt.NDArray[np.intp],
    rough: bool,
    like: Margin | None,
) -> list[Margin]:
    """Margins of the values of a number. `cells`: those that hold values, whose counts
    `resolutions` and `like` have."""
    best, bits = nested_fit(resolutions), resolutions[-1].bits
    totals = best.counts.sum(axis=-1)
    apart: FloatArray = np.zeros_like(best.counts)
    held = _reached(resolutions[-1])
    if not rough and not attribute.cyclic and not attribute.knots:
        resolutions, best, apart = set_apart(resolutions, best, held)
        totals = best.counts.sum(axis=-1)
    turned = _turned(resolutions)
    places = np.arange(len(cells))
    within = (places >= _tails(best, rough)) & (places < len(places) - _tails(turned, rough))
    counts = np.zeros_like(best.counts)
    counts[:, held] = rising(best.counts[:, held], within[:, held], totals)
    ends = measured(attribute, np.append(cells, cells[-1] + 1) / (1 << bits))
    if rough and like and not attribute.cyclic:
        middles = (ends[1:] + ends[:-1]) / 2
        counts = _falling(counts, like.counts, best, middles)
        turned_counts = counts[:, ::-1], like.counts[::-1]
        counts = _falling(*turned_counts, turned, -middles[::-1])[:, ::-1]
    if rough:
        return [Margin(bits, each) for each in counts]
    others = np.append(turned.variances[::-1][1:], 0.0)  # of the sums of all cells after each
    deviations = np.sqrt(np.minimum(best.variances, others))
    steps, near = [0.0] * len(totals), None
    if attribute.step is None and like is None:
        finest = 1 / sqrt(resolutions[-1].precision.min())
        low, high = (attribute.from_unit(each / (1 << bits)) for each in (cells, cells + 1))
        steps = [possible_step(low, high, each, finest) for each in best.counts]
    if like and like.price:
        near = like.price, np.where((apart > 0).any(axis=0), 0.0, like.counts)
    widths = room = np.diff(ends)
    if attribute.lattice is not None:
        low, high = values_inside(attribute, 1 << bits)
        room = (high - low)[cells]
    # Readings may be where no point is: at the bounds, or if the stated step is not theirs.
    room[held] = np.where(room[held] > 0, room[held], widths[held])
    curves, prices = smooth(resolutions, counts, best.counts, deviations, near, widths, room)
    fits = zip(curves + apart, prices, steps, strict=True)
    return [Margin(bits, found, price, step=step) for found, price, step in fits]


def _reached(finest: Resolution) -> npt.NDArray[np.intp]:
    """Cells that are not known to be empty, in order."""
    return np.flatnonzero(finest.precision < np.sqrt(SURE) * finest.precision.min())


def _turned(resolutions: Sequence[Resolution]) -> Fitted:
    """The best fit of the running sum from the other end."""
    return nested_fit([each.turned for each in resolutions])


def noise_of(tables: Sequence[Table], releases: int) -> Noise:
    """What the readings of so many merged releases have to outweigh."""
    positions = sorted({axis for table in tables for axis in table.axes})
    variances = {each: nested_fit(resolutions_of(tables, each)).variances for each in positions}
    return noise_of_sums(releases, variances)


def resolutions_of(tables: Sequence[Table], position: int) -> list[Resolution]:
    """What the views tell about one attribute, by bits; views without it tell the total."""
    sums: dict[int, FloatArray] = {0: np.zeros(1)}
    precisions: dict[int, FloatArray] = {0: np.zeros(1)}
    for table in tables:
        held = position in table.axes
        counts = table.along(position) if held else np.array([table.total])
        bits = table.bits_of(position) if held else 0
        reach = table.reach_of(position) if held else np.ones(1, np.bool_)
        precision = np.full(len(counts), np.count_nonzero(reach) / (table.size * table.variance))
        precision[~reach] *= SURE
        sums[bits] = sums.get(bits, 0.0) + precision * counts
        precisions[bits] = precisions.get(bits, 0.0) + precision
    return [
        Resolution(bits, sums[bits] / np.maximum(precisions[bits], TINY), precisions[bits])
        for bits in sorted(sums)
    ]


def _falling(counts: FloatArray, seen: FloatArray, best: Fitted, places: FloatArray) -> FloatArray:
    """Counts float64[rows, cells] whose lower tail falls at least as a power of the distance from
    the middle (`tail_power`), or as the `seen` readings do, float64[cells].

    A tail is where noise explains the seen readings. It may have as many as noise moves its sum,
    in either direction, and puts them anywhere inside the bounds. Most of loose bounds is far from
    all readings. `best`: the fits with their noise. `places`: of the cells, in one unit; they rise.
    """
    below, held = np.cumsum(counts, axis=1), np.cumsum(seen)
    middle = int(np.searchsorted(held, held[-1] / 2))
    tail = int(np.searchsorted(held > SEEN * np.sqrt(best.variances), True))
    if not 0 < tail < middle:
        return counts
    away = places[middle] - places[:tail]
    # A tail that noise has made smaller than none hides as many as one that it has made larger.
    moved = np.abs(best.counts[:, :tail].sum(axis=1) - held[tail - 1])
    moved = np.minimum(moved, below[:, -1])[:, None]
    found = below[:, tail - 1 : tail]
    power = tail_power(held, places[middle] - places, tail)
    most = np.maximum(found, moved) * (away[-1] / away) ** power
    below[:, :tail] = np.where(moved > found, most, below[:, :tail])
    below[:, :tail] = np.minimum(below[:, :tail], np.maximum(most, held[:tail]))
    return np.diff(np.maximum.accumulate(below, axis=1), prepend=0.0)


def _tails(fitted: Fitted, rough: bool) -> npt.NDArray[np.intp]:
    """How many cells, from the first on, hold together nothing that stands out from the noise:
    intp[rows, 1]. If `rough`, all that is positive stands out.

    Noise grows with the cells that are added up. It may hide later what stood out before, such as
    clipped readings in the first cell, and these are no tail.
    """
    sums, deviations = np.cumsum(fitted.counts, axis=1), np.sqrt(fitted.variances)
    stands_out = np.logical_or.accumulate(sums > STANDS_OUT * deviations, axis=1)
    limits = np.clip(HIDDEN * sums[:, -1:], TAIL * deviations, HIGHEST * deviations)
    hidden = (sums <= (0.0 if rough else limits)) & ~stands_out
    last = hidden.shape[1] - hidden[:, ::-1].argmax(axis=1)
    return np.where(hidden.any(axis=1), last, 0)[:, None]


def has_atoms(table: Table, margins: Mapping[int, Margin]) -> bool:
    """Whether a number of a table has atoms."""
    return any(margins[axis].placed is not None for axis in table.axes)


def independent(table: Table, margins: Mapping[int, Margin]) -> FloatArray:
    """What the cells of a table would hold if its attributes had nothing to do with each other."""
    product = np.ones(())
    for axis, bits in zip(table.axes, table.bits, strict=True):
        counts = margins[axis].at(bits)
        product = product[..., None] * (counts / counts.sum())
    return np.asarray(product * counts.sum())
