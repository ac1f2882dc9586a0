"""Parts of a model: one attribute, and the readings that have a value of some.

A question about a number is about the readings that have it. `Partition.share` tells how many are
without it: share({"rain": "missing"}).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain, FloatArray
from pansketch.estimate import Estimates
from pansketch.generators.model import Boxes
from pansketch.generators.partition.box_overlap import cumulative, of_values
from pansketch.generators.partition.moments import covariances
from pansketch.generators.significance import EmptyModel

if TYPE_CHECKING:
    from pansketch.generators.partition.partition import Partition


ALL = slice(None)


def present(model: "Partition", indices: Sequence[int], *, of_mean: bool = False) -> "Partition":
    """The boxes in which none of these attributes is missing; the model itself where none can be.

    Raises EmptyModel where all readings lack one of them, TooFewReadings where noise outweighs
    those that have all of them. `of_mean`: as the mean of one attribute needs.
    """
    placed = {index: model.domain.attributes[index].placed for index in indices}
    ends = {index: each.present for index, each in placed.items() if each and each.present < 1}
    if not ends:
        return model
    found = _present(model, ends)
    if model.total > 0 and found.total <= 0:
        names = ", ".join(model.domain.names[index] for index in ends)
        raise EmptyModel(f"no reading has a value: {names} is missing")
    if model.noise is not None and of_mean:
        model.noise.check_mean(found.total, *indices)
    elif model.noise is not None:
        model.noise.check(found.total, indices)
    return found


def _present(model: "Partition", ends: dict[int, float]) -> "Partition":
    held = np.ones(len(model.low), np.bool_)
    for index, end in ends.items():
        held &= model.low[:, index] < end
    return replace(
        model,
        low=model.low[held],
        high=model.high[held],
        mass=model.mass[held],
        shown=shown_of(model, held),
        replicate=lambda: [_present(each, ends) for each in model.replicates],
    )


def shown_of(
    model: "Partition", boxes: npt.NDArray[np.bool_] | slice, axes: slice = ALL
) -> tuple[FloatArray, FloatArray] | None:
    """`Partition.shown` of some boxes, along some attributes."""
    if model.shown is None:
        return None
    low, high = model.shown
    return low[boxes, axes], high[boxes, axes]


def covariances_of_present(model: "Partition", indices: tuple[int, ...]) -> Estimates:
    """Covariances of attributes by position, of each two over the readings that have both."""
    if all(present(model, [index]) is model for index in indices):
        return covariances(model, indices)
    value, errors = np.zeros((2, len(indices), len(indices)))
    for i, j in combinations_with_replacement(range(len(indices)), 2):
        pair = (indices[i], indices[j])[: 1 + (i < j)]
        found = covariances(present(model, pair), pair)
        value[i, j] = value[j, i] = found.value[0, -1]
        errors[i, j] = errors[j, i] = found.standard_error[0, -1]
    return Estimates(value, errors)


def alone(model: "Partition", position: int) -> "Partition":
    """The same boxes of one attribute."""
    column = slice(position, position + 1)
    return replace(
        model,
        domain=Domain(model.domain.attributes[column]),
        low=model.low[:, column],
        high=model.high[:, column],
        replicate=lambda: [alone(each, position) for each in model.replicates],
        unresolved=lambda inside: np.zeros(1),
        noise=None if model.noise is None else model.noise.at([position]),
        hidden=None,
        shown=shown_of(model, ALL, column),
        cells={0: model.cells[position]} if position in model.cells else {},
    )


def values_alone(boxes: Boxes) -> tuple[FloatArray, FloatArray] | None:
    """As `cumulative` returns it, of the values of one attribute's scale, without any of its atoms.
    Edges are in the unit interval of the same attribute without atoms. None if there are no values.
    `boxes`: of this attribute alone."""
    (attribute,) = boxes.domain.attributes
    shares = boxes.box_shares()
    _, low, high, shares = of_values(attribute, boxes.low[:, 0], boxes.high[:, 0], shares)
    return cumulative(low, high, shares) if shares.sum() > 0 else None
