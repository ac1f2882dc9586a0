"""Counts of cells: out of counters that several cells share, and consistent with their parents."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Attribute, Domain, FloatArray
from pansketch.sketches.hierarchy_levels import Level

Paths = npt.NDArray[np.uint64]
Estimator = Callable[[Level, FloatArray, Paths, float, float], FloatArray]
"""(a sketched level, its table, cells uint64[n], all readings, draws) -> counts float64[n]"""
Consistency = Callable[[FloatArray, FloatArray], FloatArray]
"""(counts of children float64[n, ways], their parents' float64[n]) -> float64[n, ways]"""
IMPOSSIBLE = -1e15  # Far below any count: a projection leaves such a cell empty.
MAX_CACHED_CELLS = 1 << 14  # of an attribute, for `_hold_values`
ROUNDS = 8  # of descent: fewer leave readings in the wrong cell, and more change nothing


def row_counts(level: Level, block: FloatArray, paths: Paths) -> FloatArray:
    """Estimates of cells by each row of a private count-min table: float64[rows, n]."""
    assert level.hash is not None
    columns = level.hash.table(paths)
    return np.take_along_axis(block.reshape(level.rows, level.width), columns, axis=1)


def smallest_row(
    level: Level, block: FloatArray, paths: Paths, total: float, draws: float
) -> FloatArray:
    """The minimum over rows, as the paper estimates cells."""
    return np.asarray(row_counts(level, block, paths).min(axis=0))


def by_noise(
    level: Level, block: FloatArray, paths: Paths, total: float, draws: float
) -> FloatArray:
    """The minimum over rows suits one stream, where collisions outweigh noise. In a fleet's sum
    noise outweighs collisions, and the minimum is too low. There the estimate is the mean less the
    expected collisions."""
    if np.sqrt(draws * level.noise_variance) < total / level.width:
        return smallest_row(level, block, paths, total, draws)
    rows = row_counts(level, block, paths)
    return np.asarray((rows.mean(axis=0) * level.width - total) / (level.width - 1))


def separated(
    level: Level,
    block: FloatArray,
    paths: Paths,
    values: FloatArray,
    unknown: float,
    consistent: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """Counts of cells less what the others in their counters hold, float64[n].

    The cells of a counter are public, and the counts of their parents are known. Projected gradient
    descent from `values` finds consistent counts that explain the counters. `unknown`: readings in
    cells that are not among these, on average even over the counters. `consistent`: the nearest
    counts that agree with the parents.
    """
    assert level.hash is not None
    columns = level.hash.table(paths)
    columns += np.arange(level.rows)[:, None] * level.width
    counters, indices = block - unknown / level.width, columns.ravel()

    def load(held: npt.NDArray[Any]) -> FloatArray:
        weights = np.concatenate([held] * level.rows)
        return np.asarray(np.bincount(indices, weights, len(counters)), np.float64)

    def unexplained(held: FloatArray) -> FloatArray:
        return np.asarray(counters - load(held))

    held = consistent(values)
    for _ in range(ROUNDS):
        step = unexplained(held) / np.maximum(1, load(held > 0))
        held = consistent(held + step[columns].mean(axis=0))
    return np.asarray(held + unexplained(held)[columns].mean(axis=0))


def collisions(
    level: Level,
    paths: Paths,
    possible: npt.NDArray[np.bool_],
    rest: FloatArray,
    total: float,
) -> FloatArray:
    """Standard deviations of what other cells' readings add to `separated` counts: float64[n].

    A cell shares its counters with none that is `possible`, or with some. In the former case only
    the children of the `rest` are left, each with at most its parent's readings.
    """
    assert level.hash is not None
    alone = np.ones(len(paths), np.bool_)
    for columns in level.hash.table(paths):
        alone &= np.bincount(columns, possible, level.width)[columns] - possible < 1
    unknown = np.sqrt(rest.sum() * rest.max(initial=0.0) / level.width)
    return np.where(alone, min(unknown, total / level.width), total / level.width)


def pruned(
    families: FloatArray, parents: FloatArray, limits: FloatArray, most: FloatArray
) -> FloatArray:
    """Children below the limits of noise are impossible under two conditions. Noise explains all of
    them together too, and a limit is less than `most`, float64[parents], of the parent. A few
    readings in the wrong child cost little where children are near each other, and much where they
    are not."""
    out = (families < limits) & (limits < (most * parents)[:, None])
    lost = np.where(out & (families > IMPOSSIBLE), families, 0.0).sum(axis=1)
    out &= (lost < np.linalg.norm(out * limits, axis=1))[:, None]
    out &= ~out.all(axis=1, keepdims=True)
    return np.where(out, IMPOSSIBLE, families)


def told_apart(
    level: Level, paths: Paths, families: FloatArray, parents: FloatArray, limits: FloatArray
) -> npt.NDArray[np.bool_]:
    """Which children a release tells from their siblings: bool[parents, ways].

    It does not where the noise of all children together, up to their `limits`, outweighs their
    parent.
    Neither does it for siblings that share all counters: those hold their sum only.
    """
    clear = (parents > np.linalg.norm(limits, axis=1))[:, None]
    if level.hash is None:
        return np.repeat(clear, families.shape[1], axis=1)
    counters = level.hash.table(paths).reshape(level.rows, *families.shape)
    possible = families > IMPOSSIBLE
    shared = (counters[..., :, None] == counters[..., None, :]).all(axis=0)
    shared &= possible[:, :, None] & possible[:, None, :]
    return np.asarray(clear & (shared.sum(axis=2) <= 1))


def halved(families: FloatArray, parents: FloatArray) -> FloatArray:
    """PrivHP's Algorithm 4: clip at zero, give each of two children half of what is missing."""
    left = np.maximum(families, 0.0)
    left += ((parents - left.sum(axis=1)) / 2)[:, None]
    return np.asarray(np.clip(left, 0.0, parents[:, None]))


def held(domain: Domain, level: Level, paths: Paths | None = None) -> npt.NDArray[np.bool_]:
    """Return which cells hold any value: codes beyond the last category do not exist.

    A cell that is narrower than a step may lie between two of its multiples.
    """
    if paths is None:
        paths = np.arange(level.size, dtype=np.uint64)
    found = np.ones(len(paths), np.bool_)
    order = domain.split_order(level.bits)
    bounded = [a.categories is not None or a.lattice is not None for a in domain.attributes]
    if not any(bounded):
        return found
    low, _ = domain.boxes(paths, level.bits)
    for position in np.flatnonzero(bounded):
        attribute, cells = domain.attributes[position], 1 << order.count(position)
        if cells <= MAX_CACHED_CELLS:
            indices = (low[:, position] * cells).astype(np.intp)
            found &= _hold_values(attribute, cells)[indices]
        else:
            found &= _hold(attribute, low[:, position], 1 / cells)
    return found


@lru_cache(maxsize=64)
def _hold_values(attribute: Attribute, cells: int) -> npt.NDArray[np.bool_]:
    """Return which of so many equal cells hold a value of an attribute: bool[cells]."""
    return _hold(attribute, np.arange(cells) / cells, 1 / cells)


def _hold(attribute: Attribute, low: FloatArray, width: float) -> npt.NDArray[np.bool_]:
    """Return whether cells of a width hold a value, by their beginnings in the unit interval."""
    if attribute.categories is not None:
        return np.asarray(low < len(attribute.categories) / attribute.extent)
    first, _ = attribute.intervals(low, low + width)
    return np.asarray((low <= first) & (first < low + width))


def ceilings(domain: Domain) -> FloatArray:
    """End of the values of each attribute in the unit interval."""
    return np.array(
        [
            1.0 if attribute.categories is None else len(attribute.categories) / attribute.extent
            for attribute in domain.attributes
        ]
    )
