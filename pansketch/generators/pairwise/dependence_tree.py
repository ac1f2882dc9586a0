"""Particles that follow the strongest dependences: attribute by attribute, each given some others.

The order and the tables are chosen as Prim's algorithm grows a tree of greatest mutual information
(Chow and Liu, "Approximating discrete probability distributions with dependence trees", 1968). A
table of three attributes or more conditions on all of those that are there already.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import FloatArray
from pansketch.generators.pairwise.common_factor import Scores, loadings
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.gaussian_copula import finer
from pansketch.generators.pairwise.marginals import Margin

Cells = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class ConditionalTable:
    """An attribute, the table that it is drawn from, and the attributes that it is drawn given."""

    position: int
    table: Table | None
    given: tuple[int, ...]


def links(tables: Sequence[Table], positions: Sequence[int]) -> Iterator[ConditionalTable]:
    """All attributes, each after those that it is given; ties fall by their order."""
    left = list(positions)
    there: set[int] = set()
    while left:
        best, most = ConditionalTable(left[0], None, ()), 0.0
        for table in tables:
            given = tuple(axis for axis in table.axes if axis in there)
            for position in table.axes if given else ():
                if position in left and (known := information(table, given, position)) > most:
                    best, most = ConditionalTable(position, table, given), known
        yield best
        left.remove(best.position)
        there.add(best.position)


def information(table: Table, given: tuple[int, ...], position: int) -> float:
    """Mutual information of an attribute with some others, in nats."""
    joint = _rows(table, given, position) / table.total
    product = joint.sum(axis=1)[:, None] * joint.sum(axis=0)
    held = joint > 0
    return float(np.sum(joint[held] * np.log(joint[held] / product[held])))


def particles(
    tables: Sequence[Table],
    margins: Mapping[int, Margin],
    angles: Mapping[tuple[int, ...], float],
    count: int,
    generator: np.random.Generator,
) -> dict[int, Cells]:
    """Finest cells of so many particles of equal weight, by attribute: intp[count] each.

    `angles`: of the copulas that tables follow inside their cells, by their axes.
    """
    scores = Scores(loadings(_correlations(tables, angles)), count, generator)
    found: dict[int, Cells] = {}
    for link in links(tables, tuple(margins)):
        margin = margins[link.position]
        order = np.argsort(scores.beyond(link.position, link.given))
        if link.table is None:
            nothing = np.zeros(count, np.intp)
            found[link.position] = _drawn(nothing, margin.counts[None, :], order, generator)
            continue
        table = link.table
        if table.axes in angles:
            table = finer(table, margins, angles[table.axes])
        bits = table.bits_of(link.position)
        rows = _rows(table, link.given, link.position)
        rows = np.where(rows.sum(axis=1, keepdims=True) > 0, rows, margin.at(bits))
        coarse = _drawn(_cells(table, link.given, found, margins), rows, order, generator)
        found[link.position] = _refined(coarse, margin, bits, generator)
    return found


def _correlations(
    tables: Sequence[Table], angles: Mapping[tuple[int, ...], float]
) -> dict[tuple[int, int], float]:
    """Of normal scores, by the axes of the tables of two."""
    pairs = [table.axes for table in tables if len(table.axes) == 2]
    return {(axes[0], axes[1]): float(np.sin(angles.get(axes, 0.0))) for axes in pairs}


def _rows(table: Table, given: tuple[int, ...], position: int) -> FloatArray:
    counts = table.onto((*given, position))
    return counts.reshape(-1, counts.shape[-1])


def _cells(
    table: Table,
    given: tuple[int, ...],
    found: Mapping[int, Cells],
    margins: Mapping[int, Margin],
) -> Cells:
    """Where each particle lies in the rows that are given."""
    shape = table.onto(given).shape
    coarse = [found[axis] >> (margins[axis].bits - table.bits_of(axis)) for axis in given]
    return np.asarray(np.ravel_multi_index(coarse, shape))


def _refined(coarse: Cells, margin: Margin, bits: int, generator: np.random.Generator) -> Cells:
    """A finest cell inside each coarse one, as the margin has them."""
    if bits == margin.bits:
        return coarse
    ways = 1 << (margin.bits - bits)
    rows = np.zeros((len(margin.at(bits)), ways))
    rows.reshape(-1)[: len(margin.counts)] = margin.counts
    empty = rows.sum(axis=1) <= 0
    rows[empty] = 1.0
    order = generator.permutation(len(coarse))
    return coarse * ways + _drawn(coarse, rows, order, generator)


def _drawn(rows: Cells, weights: FloatArray, order: Cells, generator: np.random.Generator) -> Cells:
    """For each particle one column of its row of weights: intp[n], float64[rows, columns].

    Particles of one row get evenly spaced places in its cumulative weights, in this order of
    all particles, so that their shares are as near to the weights as whole particles allow.
    """
    order = order[np.argsort(rows[order], kind="stable")]
    sorted_rows = rows[order]
    sizes = np.bincount(rows, minlength=len(weights))
    rank = np.arange(len(rows)) - (np.cumsum(sizes) - sizes)[sorted_rows]
    shift = generator.random(len(weights))[sorted_rows]
    places = (rank + shift) / sizes[sorted_rows]
    cumulative = np.cumsum(weights, axis=1)
    cumulative /= cumulative[:, -1:]
    # Row r lies in [r, r + 1), so one search serves all rows.
    edges = (cumulative + np.arange(len(weights))[:, None]).reshape(-1)
    columns = np.searchsorted(edges, places + sorted_rows, "right") - sorted_rows * weights.shape[1]
    drawn = np.empty(len(rows), np.intp)
    drawn[order] = np.clip(columns, 0, weights.shape[1] - 1)
    return drawn
