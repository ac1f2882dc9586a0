"""Shares of all bins of one attribute, or of two, at once: histograms and densities of boxes."""

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
