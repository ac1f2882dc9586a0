"""What a trusted curator, who has all readings, does with the same epsilon: one noise, one draw.

`adaptive_grid`: two coordinates. A coarse grid has half of epsilon. Its cells are divided as finely
as their noisy counts allow, with the other half. Source: Qardaji, Yang, Li, "Differentially private
grids for geospatial data", ICDE 2013.

`tree`: the marginals of MST without its graphical-model inference, which a tree does not need.
Noisy margins have equal cells, and those below the noise are merged. The exponential mechanism
chooses a spanning tree of pairs. Noisy tables of these pairs are projected and raked to the
margins. Records follow the tree. Source: McKenna, Miklau, Sheldon, "Winning the NIST contest",
2021. The noise is Laplace's, so that epsilon is comparable. Neighbours differ by one reading, as
ours do; the number of readings is taken as known. A reading without all attributes is left out.

Both take numbers only, no categories and no circles.
"""

from itertools import combinations
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.datasets.small_streams import FloatArray
from pansketch import Domain
from pansketch.generators.simplex import onto_simplex

Generator = np.random.Generator
IntArray = npt.NDArray[np.int64]
COARSE, FINE = 10.0, 5.0  # the constants c and c2 of adaptive grids
EQUAL = 32  # cells of an attribute, before those that noise drowns are merged
DROWNED = 3.0  # deviations of the noise
ROUNDS = 30  # of proportional fitting
SCARCE = 1e-6  # readings in a cell that holds none


def adaptive_grid(
    domain: Domain, rows: FloatArray, epsilon: float, count: int, generator: Generator
) -> FloatArray:
    """Records, float64[count, 2], of two coordinates."""
    units, half = unit_readings(domain, rows), epsilon / 2
    coarse = max(10, ceil(sqrt(len(rows) * epsilon / COARSE) / 4))
    place = np.minimum((units * coarse).astype(np.int64), coarse - 1)
    cell = place[:, 0] * coarse + place[:, 1]
    held = np.bincount(cell, minlength=coarse**2) + generator.laplace(0, 1 / half, coarse**2)
    low, width, mass = [], [], []
    order = np.argsort(cell, kind="stable")
    ends = np.searchsorted(cell[order], np.arange(coarse**2 + 1))
    for each, noisy in enumerate(held.tolist()):
        inside = units[order[ends[each] : ends[each + 1]]]
        corner = np.array(divmod(each, coarse)) / coarse
        fine = ceil(sqrt(max(noisy, 0.0) * half / FINE)) or 1
        at = np.clip(((inside - corner) * coarse * fine).astype(np.int64), 0, fine - 1)
        found = np.bincount(at[:, 0] * fine + at[:, 1], minlength=fine**2)
        counts = found + generator.laplace(0, 1 / half, fine**2)
        # The coarse count and the sum of the fine ones, by inverse variance, as the paper does.
        level = (fine**2 * noisy + counts.sum()) / (fine**2 + 1)
        mass.append(counts + (level - counts.sum()) / fine**2)
        steps = np.stack(np.divmod(np.arange(fine**2), fine), axis=1)
        low.append(corner + steps / (coarse * fine))
        width.append(np.full(fine**2, 1 / (coarse * fine)))
    shares = np.maximum(np.concatenate(mass), 0.0)
    which = generator.choice(len(shares), count, p=shares / shares.sum())
    inside = generator.random((count, 2)) * np.concatenate(width)[which, None]
    return on_steps(domain, np.concatenate(low)[which] + inside)


def tree(
    domain: Domain, rows: FloatArray, epsilon: float, count: int, generator: Generator
) -> FloatArray:
    """Records, float64[count, d]; a third of epsilon each for margins, choice and tables."""
    units, dimension = unit_readings(domain, rows), domain.dimension
    cells = [_cells(column, epsilon / 3 / dimension, generator) for column in units.T]
    codes = np.stack([_code(*each) for each in zip(units.T, cells, strict=True)], axis=1)
    edges = _spanning(codes, cells, epsilon / 3, generator)
    # With two attributes there is nothing to choose.
    scale = len(edges) / (epsilon / 3 if dimension > 2 else 2 * epsilon / 3)
    drawn = np.empty((count, dimension), np.int64)
    root = edges[0][0]
    drawn[:, root] = generator.choice(len(cells[root].shares), count, p=cells[root].shares)
    for parent, child in edges:
        exact = _table(codes, cells, parent, child)
        noisy = (exact + generator.laplace(0, scale, exact.shape)).reshape(1, -1)
        table = onto_simplex(noisy, np.array([float(len(units))])).reshape(exact.shape)
        fitted = _raked(table + SCARCE, cells[parent].shares, cells[child].shares)
        below = np.cumsum(fitted / fitted.sum(axis=1, keepdims=True), axis=1)
        beyond = below[drawn[:, parent]] < generator.random((count, 1))
        drawn[:, child] = np.minimum(beyond.sum(axis=1), below.shape[1] - 1)
    within = generator.random((count, dimension))
    for axis, each in enumerate(cells):
        left, right = each.ends[drawn[:, axis]], each.ends[drawn[:, axis] + 1]
        within[:, axis] = left + (right - left) * within[:, axis]
    return on_steps(domain, within)


class _Cells(NamedTuple):
    """`ends` float64[k + 1] of cells in the unit interval, which hold these `shares` float64[k]."""

    ends: FloatArray
    shares: FloatArray


def _cells(column: FloatArray, epsilon: float, generator: Generator) -> _Cells:
    """Equal cells; neighbours are merged until noise does not drown them, as MST does."""
    place = np.clip((column * EQUAL).astype(np.int64), 0, EQUAL - 1)
    noisy = np.bincount(place, minlength=EQUAL) + generator.laplace(0, 1 / epsilon, EQUAL)
    ends, counts = [0.0], [0.0]
    for cell, count in enumerate(noisy.tolist()):
        if counts[-1] > DROWNED * sqrt(2) / epsilon:
            ends.append(cell / EQUAL)
            counts.append(0.0)
        counts[-1] += count
    positive = np.maximum(counts, 1.0)
    return _Cells(np.array([*ends, 1.0]), positive / positive.sum())


def _code(column: FloatArray, cells: _Cells) -> IntArray:
    return np.searchsorted(cells.ends[1:-1], column, "right")


def _table(codes: IntArray, cells: list[_Cells], first: int, second: int) -> FloatArray:
    shape = len(cells[first].shares), len(cells[second].shares)
    flat = codes[:, first] * shape[1] + codes[:, second]
    return np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)


def _spanning(
    codes: IntArray, cells: list[_Cells], epsilon: float, generator: Generator
) -> list[tuple[int, int]]:
    """Edges (known, new) from a root on: each time one of those that dependence makes likely."""
    dimension = len(cells)
    apart = {}
    for a, b in combinations(range(dimension), 2):
        product = len(codes) * np.outer(cells[a].shares, cells[b].shares)
        apart[a, b] = apart[b, a] = float(np.abs(_table(codes, cells, a, b) - product).sum())
    known, edges = {0}, list[tuple[int, int]]()
    while len(known) < dimension:
        open_ = [(a, b) for a in known for b in range(dimension) if b not in known]
        scores = np.array([apart[each] for each in open_]) * epsilon / (dimension - 1) / 2
        chosen = open_[int(np.argmax(scores + generator.gumbel(size=len(open_))))]
        known.add(chosen[1])
        edges.append(chosen)
    return edges


def _raked(table: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    for _ in range(ROUNDS):
        table = table * (rows / table.sum(axis=1))[:, None]
        table = table * (columns / table.sum(axis=0))
    return table


def unit_readings(domain: Domain, rows: FloatArray) -> FloatArray:
    """Complete readings in the unit cube, float64[n, d], clipped to the bounds."""
    complete = rows[np.isfinite(rows).all(axis=1)]
    clipped = [
        np.clip(complete[:, place], each.origin, each.highest)
        for place, each in enumerate(domain.attributes)
    ]
    scaled = [a.scaling.positions(c) for a, c in zip(domain.attributes, clipped, strict=True)]
    return np.stack(scaled, axis=1)


def on_steps(domain: Domain, units: FloatArray) -> FloatArray:
    """Points of the unit cube in real units, on the steps of attributes that have them."""
    records = domain.from_unit(units)
    for place, attribute in enumerate(domain.attributes):
        if attribute.step is not None:
            records[:, place] = np.rint(records[:, place] / attribute.step) * attribute.step
    return records
