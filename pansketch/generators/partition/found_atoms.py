"""Values with mass of their own, found in an earlier private release: post-processing, no epsilon.

A cell that holds far more readings than both cells beside it may hold such a value, or a narrow
crowd. It is taken for a value where the cell is narrow beside the other readings, and where its
excess stands out of the noise. Which value it is only the cell tells: it has one point of the
sensor's step, or a bound, or zero. Otherwise an operator has to know.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pansketch.domain.domain import Attribute, FloatArray
from pansketch.estimate import Estimate
from pansketch.generators.model import Boxes, FittedModel
from pansketch.generators.partition.box_overlap import steepness
from pansketch.generators.partition.present import values_alone

STEEP = 0.8  # ten times as dense as the cells beside it
CLEAR = 5.0  # standard errors of a cell's share: among a thousand cells noise alone is rarer
MIN_SHARE = 0.02
NARROW = 8.0  # cells of its width, that the middle half of the other readings are spread over
QUARTERS = (0.25, 0.75)


@dataclass(frozen=True)
class Spike:
    """A cell of an attribute that holds a value with mass of its own.

    Attributes:
        name: of the attribute.
        share: of the readings that have a value but an atom.
        low: end of the cell, in the attribute's unit.
        high: its other end.
        value: the value, None where the cell does not tell.
    """

    name: str
    share: Estimate
    low: float
    high: float
    value: float | None


def found_atoms(model: FittedModel) -> tuple[Spike, ...]:
    """Values that may be declared as atoms of their attributes.

    Args:
        model: made of earlier releases of the stream.

    Returns:
        Spikes of numbers that are not cyclic, by attribute and value. Missing readings leave no
        trace in a release where `missing` is no atom.

    Raises:
        ValueError: the model holds no readings, or has no boxes.
    """
    if model.readings.value <= 0:
        raise ValueError("nothing to find: the model holds no readings")
    return tuple(
        spike
        for place, attribute in enumerate(model.domain.attributes)
        if attribute.categories is None and attribute.varies and not attribute.cyclic
        for spike in _spikes(model.alone(place), attribute)
    )


def _spikes(boxes: Boxes | None, attribute: Attribute) -> Iterator[Spike]:
    if boxes is None:
        raise ValueError("nothing to find: the model has no boxes")
    curve = values_alone(boxes)
    if curve is None or len(curve[0]) < 4:
        return
    edges, below = curve
    shares, steep = np.diff(below), steepness(edges, below)
    others = [
        np.diff(np.interp(edges, *alone, 0.0, 1.0))
        for each in boxes.replicates
        if each.total > 0 and (alone := values_alone(each)) is not None
    ]
    errors = np.sqrt(np.mean((np.array(others) - shares) ** 2, axis=0)) if others else 0 * shares
    scale = replace(attribute, atoms=())
    values = scale.from_unit(edges)
    for cell in np.flatnonzero(
        (steep >= STEEP) & (shares >= np.maximum(MIN_SHARE, CLEAR * errors))
    ):
        rest = np.where(np.arange(len(shares)) == cell, 0.0, shares)
        if rest.sum() < max(MIN_SHARE, CLEAR * errors[cell]):
            continue
        first, last = np.interp(QUARTERS, np.append(0.0, np.cumsum(rest)) / rest.sum(), values)
        low, high = float(values[cell]), float(values[cell + 1])
        if last - first < NARROW * (high - low):
            continue
        value = _value(scale, edges[cell : cell + 2])
        yield Spike(attribute.name, Estimate(shares[cell], errors[cell]), low, high, value)


def _value(attribute: Attribute, ends: FloatArray) -> float | None:
    """The one value of a cell, or its bound, or zero."""
    if attribute.lattice is not None:
        starts, after = attribute.lattice.sections(ends[:1], ends[1:])
        if after[0] - starts[0] == 1:
            return float(attribute.lattice.points(starts)[0])
    low, high = attribute.from_unit(ends).tolist()
    if low <= attribute.origin:
        return attribute.origin
    if high >= attribute.highest:
        return attribute.highest
    return 0.0 if low <= 0 < high else None
