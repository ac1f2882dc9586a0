"""Errors of questions that cut boxes: nobody knows on which side of a cut their readings lie."""

from collections.abc import Mapping
from math import hypot
from typing import TYPE_CHECKING

import numpy as np

from pansketch.domain.domain import FloatArray
from pansketch.domain.intervals import Interval
from pansketch.generators.partition.box_overlap import cumulative, steepness

if TYPE_CHECKING:
    from pansketch.generators.partition.partition import Partition


def doubt(model: "Partition", intervals: Mapping[int, Interval]) -> float:
    """Readings in boxes that intervals cut, as an error of those inside.

    A cut box of which a fraction f is inside contributes sqrt(f (1 - f) / 3): at f = 1/2 the
    standard deviation of a uniform share. Neighbouring boxes may err together, so they add up.
    """
    fraction = model.overlap(intervals)
    cut = float(model.mass @ np.sqrt(fraction * (1 - fraction) / 3))
    inside = {axis: model.overlap({axis: each})[None] for axis, each in intervals.items()}
    piles = sum(piled(model, axis, each, fraction)[0] ** 2 for axis, each in inside.items())
    least = 0.0 if model.noise is None else model.noise.least_of(intervals)
    return hypot(cut, float(np.sqrt(piles)), least, model.unresolved(inside).item())


def doubt_of_bins(model: "Partition", inside: Mapping[int, FloatArray]) -> FloatArray:
    """Readings of boxes that a bin cuts, bin by bin. `inside`: by attribute the fraction of each
    box in each bin, float64[bins, n]."""
    first, *rest = inside.values()
    rows = []
    for fractions in first:
        boxes = np.flatnonzero(fractions)
        part = fractions[boxes] * rest[0][:, boxes] if rest else fractions[None, boxes]
        rows.append(np.sqrt(np.clip(part * (1 - part), 0, None) / 3) @ model.mass[boxes])
    return np.stack(rows) if rest else np.concatenate(rows)


def piled(model: "Partition", axis: int, inside: FloatArray, whole: FloatArray) -> FloatArray:
    """Readings that may lie on one value of an attribute: an error of those in its bins.

    A cell that holds far more than the cells beside it may hold a value with mass of its own, which
    is on one side of a cut wherever that is. `inside`: fractions of boxes in bins,
    float64[bins, n]; `whole`: those of all attributes asked for, float64[n] or as `inside`.
    """
    edges, below = cumulative(model.low[:, axis], model.high[:, axis], model.box_shares())
    steep = steepness(edges, below)
    own = steep[np.clip(np.searchsorted(edges, model.low[:, axis]), 0, len(steep) - 1)]
    cut = (inside > 0) & (inside < 1)
    apart = np.sqrt(np.clip(inside**2 - inside + 1 / 3, 0.0, None))
    others = np.divide(whole, inside, out=np.zeros_like(inside), where=cut)
    return np.asarray((cut * apart * others) @ (own * model.mass))
