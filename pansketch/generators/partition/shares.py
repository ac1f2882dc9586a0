"""Shares of readings. All bins of one attribute, or of two, at once: histograms and densities of
boxes. And what noise hides of a share in a tail."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import erfc, sqrt
from typing import TYPE_CHECKING

import numpy as np

from pansketch.domain.domain import Attribute, FloatArray
from pansketch.domain.intervals import Interval, whole
from pansketch.estimate import Estimates
from pansketch.generators.partition.box_overlap import least_point, overlap
from pansketch.generators.partition.cut_boxes import doubt_of_bins, fractions
from pansketch.generators.partition.predicate import parse_predicate
from pansketch.generators.significance import EmptyModel, squared_error

if TYPE_CHECKING:
    from pansketch.generators.partition.partition import Partition

ROUGH_BINS = 0.2  # of the error of a bin is what rough fits show (measured)
# Bins of two attributes have so many times the squared error that fits show: all shrink tables
# alike. They have so much of a least error: noise hides no reading in most of them (measured).
SHRUNK, LEAST = 1.5, 0.3
MORE = 0.8  # deviations of a share, measured: replicates show the rest
TINY = np.finfo(float).tiny
SELDOM = 0.1  # of quantiles may be a value off, and farther than two standard errors
REACHED = 1.2816  # deviations, which a normal number exceeds so seldom
CERTAIN = 1e-9  # a share, or a part of the unit interval: what is beyond it holds no reading


def bin_shares(model: "Partition", conditions: Sequence[Sequence[str]]) -> Estimates:
    """`Partition.share` of every bin at once, and its standard errors. A box lies in few bins, so
    all bins together cost little more than one."""
    inside = _inside(model, conditions)
    model.check(inside)
    if model.total <= 0:
        raise EmptyModel("there are no readings to share among bins")
    value = _shares(model, inside)
    apart = {}
    for number, other in enumerate(model.replicates):
        if other.total > 0:
            same = np.array_equal(other.low, model.low) and np.array_equal(other.high, model.high)
            around = inside if same else _inside(other, conditions)
            apart[number] = _shares(other, around) - value
    shrunk, part = (SHRUNK, LEAST) if model.fits.rough and len(inside) > 1 else (1.0, 1.0)
    squares = shrunk * squared_error(apart, model.fits, ROUGH_BINS)
    if model.noise is not None:
        least = part * model.noise.least_of(inside, model.mass) / model.total
        squares = np.maximum(squares, least**2)
    doubt = np.hypot(doubt_of_bins(model, inside), _unresolved(model, inside)) / model.total
    return Estimates(value, np.sqrt(squares + doubt**2))


def _inside(model: "Partition", conditions: Sequence[Sequence[str]]) -> dict[int, FloatArray]:
    """For each axis, by the place of its attribute, the fraction of every box in each of its bins:
    float64[bins, n]."""
    found = {}
    for texts in conditions:
        bins = [parse_predicate(text, model.domain).intervals(model.domain) for text in texts]
        (place,) = bins[0]
        ends = model.domain.attributes[place].intervals(model.low[:, place], model.high[:, place])
        low, high = (end[:, None] for end in ends)
        found[place] = np.stack([overlap(low, high, {0: each[place]}) for each in bins])
    return found


def _shares(model: "Partition", inside: dict[int, FloatArray]) -> FloatArray:
    first, *rest = inside.values()
    weighted = first * (model.mass / model.total)
    if not rest:
        return np.asarray(weighted.sum(axis=1))
    return np.asarray(weighted @ rest[0].T)


def _unresolved(model: "Partition", inside: dict[int, FloatArray]) -> FloatArray:
    """As many errors as bins, or one for all of them."""
    found = model.unresolved(inside)
    in_order = list(inside) == sorted(inside)
    return found if in_order else found.T


def least_error(model: "Partition", intervals: Mapping[int, Interval]) -> float:
    """An error of the readings inside intervals that none of them is without, in readings. Noise
    hides a few, and in a tail up to a bound so many as it explains."""
    if model.noise is None:
        return 0.0
    inside = fractions(model, intervals)
    found = model.noise.least_of(inside, model.mass).item()
    for index, (start, end) in intervals.items() if len(intervals) == 1 else ():
        attribute = model.domain.attributes[index]
        below = _below(attribute, start, end)
        if below is None:
            continue
        values = _of_values(model, index)
        part, most = float(values @ inside[index][0]), float(values.sum())
        value = attribute.from_unit(np.array([end if below else start])).item()
        readings = part if below else most - part
        found = max(found, _hidden_below(model, index, value, readings, most))
    return found


def _below(attribute: Attribute, start: float, end: float) -> bool | None:
    """Return whether an interval has the lowest value, and not the highest; False if it is the
    other way round. None where it has both or neither, or no value but an atom."""
    if attribute.categories is not None:
        return None
    if attribute.placed is not None:
        start, end = attribute.placed.plain(np.array([start, end])).tolist()
        attribute = replace(attribute, atoms=())
    low, high = (0.0, 1.0) if attribute.cyclic else whole(attribute)
    first, last = start <= low + CERTAIN, end >= min(high, 1.0) - CERTAIN
    held = end > low + CERTAIN and start < min(high, 1.0) - CERTAIN
    return first if held and first != last else None


def _of_values(model: "Partition", index: int) -> FloatArray:
    """Readings in the boxes that hold values of an attribute, and 0 in those of its atoms, which
    are no part of a tail: float64[n]."""
    placed = model.domain.attributes[index].placed
    if placed is None:
        return model.mass
    return np.where(placed.in_atom(model.low[:, index]), 0.0, model.mass)


def _hidden_below(model: "Partition", index: int, value: float, below: float, most: float) -> float:
    """An error of the number of readings up to a value. In a tail that noise explains there may be
    none of them, or as many again; elsewhere it is 0. `below`, `most`: readings up to the value
    and all, without atoms."""
    if model.noise is None:
        return 0.0
    return MORE * model.noise.explained(index, model.domain.attributes[index], value, below, most)


def value_at(model: "Partition", index: int, share: float) -> float:
    """Return the value of an attribute that a share of the readings does not exceed.

    Raises:
        EmptyModel: the noisy number of readings is not positive.
    """
    attribute, (edges, below) = model.domain.attributes[index], model.filled(index)
    place = np.interp([share], below, edges)
    if attribute.lattice is None or attribute.has_atom(place[0]):
        return float(attribute.from_unit(place)[0])
    return least_point(attribute.lattice, share, edges, below)


def least_of_quantile(model: "Partition", index: int, share: float, value: float) -> float:
    """Return an error of a quantile that the error of its share makes at least."""
    tail, points = (way(model, index, share, value) for way in (_hidden_way, _beside_points))
    return max(tail, points)


def _hidden_way(model: "Partition", index: int, share: float, value: float) -> float:
    """The error of a quantile that readings in a hidden tail make."""
    attribute, values = model.domain.attributes[index], _of_values(model, index)
    below, most = share * model.total, float(values.sum())
    if attribute.placed is not None:
        placed = attribute.placed
        held = placed.values[placed.section_of(model.low[:, index])]
        below = min(below - float(model.mass @ (held < value)), most)
    off = _hidden_below(model, index, value, below, most) / model.total
    if not off:
        return 0.0
    edges, filled = model.filled(index)
    ends = np.interp(np.clip([share - off, share + off], CERTAIN, 1 - CERTAIN), filled, edges)
    moved = attribute.from_unit(ends) - value
    return float(np.abs(moved).max())


def _beside_points(model: "Partition", index: int, share: float, value: float) -> float:
    """The error of a quantile where there is a step. It is right, or at another value of readings,
    which may be far. The errors of the shares up to it, and up to the point before, tell how likely
    that is. Two standard errors reach the other value unless that is seldom."""
    attribute, name = model.domain.attributes[index], model.domain.names[index]
    if (step := attribute.step) is None or not model.total > 0:
        return 0.0
    found = []
    for way in (1, -1):
        beside = model.cdf(name, value + way * step / 2)
        likely = _above(way * (share - beside.value), beside.standard_error)
        far = way * max(way * share + REACHED * beside.standard_error, way * beside.value + CERTAIN)
        away = abs(value_at(model, index, min(max(far, 0.0), 1.0)) - value)
        found.append(max(step, away) * (0.5 if likely >= SELDOM else sqrt(likely)))
    return max(found)


def _above(mean: float, deviation: float) -> float:
    """Return how likely a normal number of this deviation, and of this mean, is above 0."""
    return erfc(-mean / max(deviation, TINY) / sqrt(2)) / 2
