"""Shares of readings. All bins of one attribute, or of two, at once: histograms and densities of
boxes. And what noise hides of a share in a tail."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pansketch.domain.domain import FloatArray
from pansketch.estimate import Estimates
from pansketch.generators.partition.box_overlap import overlap
from pansketch.generators.partition.cut_boxes import doubt_of_bins
from pansketch.generators.partition.predicate import parse_predicate
from pansketch.generators.significance import EmptyModel, squared_error

if TYPE_CHECKING:
    from pansketch.generators.partition.partition import Partition

MORE = 0.8  # deviations of a share, measured: replicates show the rest
CERTAIN = 1e-9  # a share: what is beyond it holds no reading


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
    doubt, unresolved = doubt_of_bins(model, inside), _unresolved(model, inside)
    hidden = doubt**2 + unresolved**2
    if model.noise is not None:
        hidden = hidden + model.noise.least_of(inside, model.mass) ** 2
    return Estimates(value, np.sqrt(squared_error(apart, model.alike) + hidden / model.total**2))


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


def hidden_share(model: "Partition", index: int, value: float, share: float) -> float:
    """An error of the share of readings up to a value. In a tail that noise explains there may be
    none of them, or as many again; elsewhere it is 0."""
    attribute, noise = model.domain.attributes[index], model.noise
    if noise is None or attribute.placed is not None:
        return 0.0
    explained = noise.explained(index, attribute, value, share * model.total, model.total)
    return MORE * explained / model.total


def hidden_way(model: "Partition", index: int, share: float, value: float) -> float:
    """The error of a quantile that this error of its share makes, among the readings."""
    off = hidden_share(model, index, value, share)
    if not off:
        return 0.0
    edges, below = model.filled(index)
    ends = np.interp(np.clip([share - off, share + off], CERTAIN, 1 - CERTAIN), below, edges)
    moved = model.domain.attributes[index].from_unit(ends) - value
    return float(np.abs(moved).max())
