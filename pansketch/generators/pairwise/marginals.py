"""The distribution of each attribute, from all released views that contain it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from pansketch.domain.atoms import AtomPlaces
from pansketch.domain.domain import Attribute, Domain, FloatArray
from pansketch.generators.pairwise.contingency_tables import Table, held_inside
from pansketch.generators.pairwise.multiresolution import (
    Fitted,
    Resolution,
    folded,
    nested_fit,
    set_apart,
)
from pansketch.generators.pairwise.smooth_density import smooth
from pansketch.generators.significance import SEEN, Noise, noise_of_sums, tail_power
from pansketch.generators.simplex import isotonic, onto_simplex

TINY = np.finfo(float).tiny
SURE = 1e9  # times as precise as a count is that nothing is where no reading can be
# Fits with more noise. The first of them take all noise in tails and bends for readings: it hides
# some.
REPLICATES, ROUGH = 24, 12
TAIL = 0.75  # standard deviations of noise that a tail's readings must exceed
STANDS_OUT = 4.0  # in the same: readings that end a tail, whatever noise adds behind them


@dataclass(frozen=True, eq=False)
class Margin:
    """Readings in the cells of one attribute that so many bits tell apart: float64[cells].

    `price`: of the bends of its smooth density (smooth_density.py); None where it follows none.
    """

    bits: int
    counts: FloatArray
    price: float | None = None

    def at(self, bits: int) -> FloatArray:
        """The same in cells of fewer bits."""
        return folded(self.counts, self.bits - bits)


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
    the tails beyond it fall off, see `_falling`. With atoms the cells of values have gaps, and no
    smooth density.
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
    tail = 0.0 if rough else TAIL
    if attribute.categories is not None:
        return [Margin(bits, each) for each in onto_simplex(best.counts, totals)]
    if attribute.placed is not None:
        counts = _of_atoms(resolutions, best, totals, tail, attribute.placed)
        return [Margin(bits, each) for each in counts]
    apart: FloatArray = np.zeros_like(best.counts)
    held = _reached(resolutions[-1])
    if not rough and not attribute.cyclic and not attribute.knots:
        resolutions, best, apart = set_apart(resolutions, best, held)
        totals = best.counts.sum(axis=-1)
    turned = _turned(resolutions)
    counts = _of_number(best, turned, totals, tail, held)
    ends = None
    if attribute.knots:
        ends = attribute.scaling.values(np.linspace(0.0, 1.0, counts.shape[1] + 1))
    if rough and like and not attribute.cyclic:
        places = np.arange(float(counts.shape[1])) if ends is None else (ends[1:] + ends[:-1]) / 2
        counts = _falling(counts, like.counts, best, places)
        turned_counts = counts[:, ::-1], like.counts[::-1]
        counts = _falling(*turned_counts, turned, -places[::-1])[:, ::-1]
    if rough:
        return [Margin(bits, each) for each in counts]
    others = np.append(turned.variances[::-1][1:], 0.0)  # of the sums of all cells after each
    deviations = np.sqrt(np.minimum(best.variances, others))
    near = None
    if like and like.price:
        near = like.price, np.where((apart > 0).any(axis=0), 0.0, like.counts)
    widths = None if ends is None else np.diff(ends)
    stepped = ends is None and attribute.lattice is not None
    if stepped:
        low, high = held_inside(attribute, counts.shape[1])
        widths = high - low
        # Readings may be where no point is: at the bounds, or if the stated step is not theirs.
        widths[held] = np.where(widths[held] > 0, widths[held], 1 / len(widths))
    curves, prices = smooth(resolutions, counts, best.counts, deviations, near, widths, stepped)
    return [Margin(bits, *each) for each in zip(curves + apart, prices, strict=True)]


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


def _of_atoms(
    resolutions: Sequence[Resolution],
    best: Fitted,
    totals: FloatArray,
    tail: float,
    placed: AtomPlaces,
) -> FloatArray:
    """Shares of each atom and of all values together, as of categories; then the values alone:
    float64[rows, cells]."""
    cells = placed.atom_cells(resolutions[-1].bits)
    atoms = np.flatnonzero(cells & placed.reachable(resolutions[-1].bits))
    values = best.counts[:, ~cells].sum(axis=-1, keepdims=True)
    shares = onto_simplex(np.concatenate([values, best.counts[:, atoms]], axis=1), totals)
    found = np.zeros_like(best.counts)
    rows = np.flatnonzero(shares[:, 0] > 0)
    if len(rows):
        # All readings and those of each atom are known far better than the sum of all other cells.
        variance = best.variances[-1] + float(np.sum(1 / resolutions[-1].precision[atoms]))
        known = Resolution(0, values, np.array([1 / variance]))
        alone = [_values_alone(each, placed, known) for each in resolutions]
        alone = [replace(each, counts=each.counts[rows]) for each in alone]
        held = np.flatnonzero(~cells)
        found[rows] = _of_number(nested_fit(alone), _turned(alone), shares[rows, 0], tail, held)
    found[:, atoms] = shares[:, 1:]
    return found


def _values_alone(resolution: Resolution, placed: AtomPlaces, known: Resolution) -> Resolution:
    """The same of a stream without atoms. `known`: what is known of its total."""
    if resolution.bits < placed.bits:
        return known  # Views have cells of so many bits or more, so this is the one of all cells.
    atoms = placed.atom_cells(resolution.bits)
    sure = SURE * resolution.precision.max()
    return Resolution(
        resolution.bits,
        np.where(atoms, 0.0, resolution.counts),
        np.where(atoms, sure, resolution.precision),
    )


def _of_number(
    best: Fitted,
    turned: Fitted,
    totals: FloatArray,
    tail: float,
    held: npt.NDArray[np.intp] | slice = slice(None),
) -> FloatArray:
    """Counts whose running sum rises from 0 to the total and is nearest to the best one, in the
    cells of values; `held` lists these: float64[rows, cells].

    That sum errs by the noise of few cells, where counts made non-negative one by one would gain
    readings in every empty one. Tails in which nothing stands out from the noise are empty.
    `turned`: the same fit from the other end.
    """
    places = np.arange(best.counts.shape[1])
    within = (places >= _tails(best, tail)) & (places < len(places) - _tails(turned, tail))
    within, most = within[:, held], totals[:, None]
    counts = np.where(within, best.counts[:, held], 0.0)
    sums = counts.sum(axis=1, keepdims=True)
    scale = most / np.where(sums == 0.0, most, sums)
    running = np.clip(np.cumsum(counts, axis=1) * scale, 0.0, most)
    # What rounding leaves of the total would extend the range of the readings to the last cell.
    last = within.shape[1] - 1 - within[:, ::-1].argmax(axis=1)
    running = np.where(np.arange(within.shape[1]) >= last[:, None], most, running)
    found = np.zeros_like(best.counts)
    found[:, held] = np.diff(isotonic(running), prepend=0.0)
    return found


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


def _tails(fitted: Fitted, tail: float) -> npt.NDArray[np.intp]:
    """How many cells, from the first on, hold together nothing that stands out from the noise:
    intp[rows, 1].

    Noise grows with the cells that are added up. It may hide later what stood out before, such as
    clipped readings in the first cell, and these are no tail.
    """
    sums, deviations = np.cumsum(fitted.counts, axis=1), np.sqrt(fitted.variances)
    stands_out = np.logical_or.accumulate(sums > STANDS_OUT * deviations, axis=1)
    hidden = (sums <= tail * deviations) & ~stands_out
    last = hidden.shape[1] - hidden[:, ::-1].argmax(axis=1)
    return np.where(hidden.any(axis=1), last, 0)[:, None]
