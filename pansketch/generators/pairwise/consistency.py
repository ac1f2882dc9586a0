"""Tables of several attributes that agree with the margins: the nearest ones without negatives."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pansketch.domain.domain import FloatArray
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.marginals import Margin

ROUNDS = 100
CLOSE = 1e-4  # of all readings, that may be where a margin does not want them


def consistent(table: Table, margins: Mapping[int, Margin]) -> Table:
    """The nearest table that has these margins and no negative cell.

    A projection onto the intersection of two convex sets, by Dykstra's alternating projections
    (Boyle and Dykstra, 1986): the one onto given margins has a closed form.
    """
    wanted = [margins[axis].at(bits) for axis, bits in zip(table.axes, table.bits, strict=True)]
    held = np.ix_(*table.reach) if table.reach else ...
    if table.reach:
        wanted = [each[reach] for each, reach in zip(wanted, table.reach, strict=True)]
    counts, correction = table.counts[held], np.zeros_like(table.counts[held])
    sums = _margins(counts)
    for _ in range(ROUNDS):
        moved = _with_margins(counts, sums, wanted) + correction
        counts = np.maximum(moved, 0.0)
        correction = moved - counts
        sums = _margins(counts)
        misfit = max(float(np.abs(s - w).sum()) for s, w in zip(sums, wanted, strict=True))
        if misfit <= CLOSE * wanted[0].sum():
            break
    found = np.zeros_like(table.counts)
    found[held] = counts
    return replace(table, counts=found)


def independent(table: Table, margins: Mapping[int, Margin]) -> FloatArray:
    """What the cells of a table would hold if its attributes had nothing to do with each other."""
    product = np.ones(())
    for axis, bits in zip(table.axes, table.bits, strict=True):
        counts = margins[axis].at(bits)
        product = product[..., None] * (counts / counts.sum())
    return np.asarray(product * counts.sum())


def _margins(counts: FloatArray) -> list[FloatArray]:
    """The sums over all other axes, for each axis."""
    axes = range(counts.ndim)
    return [counts.sum(axis=tuple(a for a in axes if a != axis)) for axis in axes]


def _with_margins(
    counts: FloatArray, sums: list[FloatArray], wanted: list[FloatArray]
) -> FloatArray:
    """The nearest table of given margins: what each of `sums` lacks is spread evenly over its
    cells."""
    lacking = wanted[0].sum() - counts.sum()
    found = counts - (counts.ndim - 1) * lacking / counts.size
    for axis, (own, margin) in enumerate(zip(sums, wanted, strict=True)):
        lack = (margin - own) * (len(margin) / counts.size)
        found = found + lack.reshape(-1, *(1,) * (counts.ndim - axis - 1))
    return np.asarray(found)
