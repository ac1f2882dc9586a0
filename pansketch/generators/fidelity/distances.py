"""How far two portraits are from each other, and how far samples are from a portrait."""

from math import pi

import numpy as np

from pansketch.domain.domain import FloatArray
from pansketch.generators.fidelity.grid import Grid
from pansketch.generators.fidelity.portrait import Grids, Portrait

ABSOLUTE = np.sqrt(2 / pi)  # mean absolute value of a normal number, in standard deviations


def marginal_distances(left: Portrait, right: Portrait, grids: Grids) -> FloatArray:
    """Of every attribute, from its readings in cells: float64[attributes].

    W1 in standard deviations of `left`; for a cyclic attribute around the circle and in those of an
    even spread; for one with categories, total variation.
    """
    return np.array(
        [_apart(grid, left.cells[axis], right.cells[axis]) for axis, grid in grids.items()]
    )


def pair_distances(left: Portrait, right: Portrait) -> FloatArray:
    """Total variation of every pair on its bins: float64[pairs]."""
    found = [
        np.abs(left.bins[pair] / left.bins[pair].sum() - other / other.sum()).sum() / 2
        for pair, other in right.bins.items()
    ]
    return np.array(found)


def dependences(of: Portrait) -> FloatArray:
    """Total variation of every pair from independent attributes: float64[pairs]."""
    found = []
    for bins in of.bins.values():
        shares = bins / bins.sum()
        alone = np.outer(shares.sum(axis=1), shares.sum(axis=0))
        found.append(np.abs(shares - alone).sum() / 2)
    return np.array(found)


def correlations(of: Portrait, grids: Grids) -> FloatArray:
    """Of every pair of numbers that are not cyclic, and 0 of others: float64[pairs]."""
    return np.array([_correlation(of, grids, *pair) for pair in of.products])


def sampled_marginals(of: Portrait, grids: Grids, rows: float) -> FloatArray:
    """Expected `marginal_distances` from so many independent records to the portrait."""
    found = []
    for axis, grid in grids.items():
        shares = of.cells[axis] / of.cells[axis].sum()
        if grid.attribute.categories is not None:
            found.append(_of_shares(shares, rows))
            continue
        below = np.cumsum(shares)[:-1]
        spread = np.sqrt(np.maximum(below * (1 - below), 0.0) / rows)
        found.append(ABSOLUTE * float(spread @ grid.steps) / np.sqrt(grid.variance(shares)))
    return np.array(found)


def sampled_pairs(of: Portrait, rows: float) -> FloatArray:
    """Expected `pair_distances` from so many independent records to the portrait."""
    return np.array([_of_shares(bins / bins.sum(), rows) for bins in of.bins.values()])


def _of_shares(shares: FloatArray, rows: float) -> float:
    return float(ABSOLUTE / 2 * np.sqrt(np.clip(shares * (1 - shares), 0.0, None) / rows).sum())


def _apart(grid: Grid, left: FloatArray, right: FloatArray) -> float:
    left, right = left / left.sum(), right / right.sum()
    if grid.attribute.categories is not None:
        return float(np.abs(left - right).sum() / 2)
    below = np.cumsum(left - right)
    if grid.attribute.cyclic:
        # Around a circle no transport need pass the median of what is moved.
        return float(np.abs(below - np.median(below)).mean() * np.sqrt(12))
    return float(np.abs(below[:-1]) @ grid.steps / np.sqrt(grid.variance(left)))


def _correlation(of: Portrait, grids: Grids, a: int, b: int) -> float:
    if not all(_is_number(grids[axis]) for axis in (a, b)):
        return 0.0
    first, second = (of.cells[axis] / of.cells[axis].sum() for axis in (a, b))
    spread = grids[a].variance(first) * grids[b].variance(second)
    if spread <= 0:
        return 0.0
    product = of.products[a, b] / of.bins[a, b].sum()
    apart = product - (first @ grids[a].means) * (second @ grids[b].means)
    # Noise may break what no readings do.
    return float(np.clip(apart / np.sqrt(spread), -1.0, 1.0))


def _is_number(grid: Grid) -> bool:
    return grid.attribute.categories is None and not grid.attribute.cyclic
