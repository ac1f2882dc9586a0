"""Particles that follow the strongest dependences: attribute by attribute, each given some others.

The order and the tables are chosen as Prim's algorithm grows a tree of greatest mutual information
(Chow and Liu, "Approximating discrete probability distributions with dependence trees", 1968). A
table of three attributes or more conditions on all of those that are there already.

What numbers have in common that no table joins: one hidden factor, where the tables show one.

A tree of dependences lets the correlation of two numbers fade with every table between them. That
is right for a chain of causes. It is wrong for sensors of one quantity, which all follow the same
hidden number. Views tell which it is where they close a circle: the tree leaves out the weakest
table, and predicts its correlation as a product along a path. A model of one factor predicts it as
a product of two loadings (Spearman, "General intelligence, objectively determined and measured",
1904). The factor is believed by as much as it explains the correlations better than the tree does.

Loadings are found by alternating least squares on the copulas' correlations alone (the principle of
Harman and Jones, "Factor analysis by minimizing residuals", 1966).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import FloatArray
from pansketch.generators.pairwise.contingency_tables import Table
from pansketch.generators.pairwise.gaussian_copula import (
    ALIKE,
    finer,
    scores_inside,
    scores_of_cells,
    unexplained,
)
from pansketch.generators.pairwise.marginals import Margin, has_atoms

Cells = npt.NDArray[np.intp]
Pair = tuple[int, int]

SWEEPS = 200
RIDGE = 0.01  # of a sum of squared loadings: one of little weight stays small
MOST = 0.98  # A loading: no number is the factor itself.


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
    scores = Scores(loadings(_correlations(tables, margins, angles)), count, generator)
    found: dict[int, Cells] = {}
    for link in links(tables, tuple(margins)):
        margin = margins[link.position]
        order = np.argsort(scores.beyond(link.position, link.given))
        if link.table is None:
            nothing = np.zeros(count, np.intp)
            found[link.position] = _drawn(nothing, margin.counts[None, :], order, generator)
            continue
        table, angle = link.table, angles.get(link.table.axes, 0.0)
        if angle:
            table = finer(table, margins, angle)
        bits = table.bits_of(link.position)
        rows = _rows(table, link.given, link.position)
        rows = np.where(rows.sum(axis=1, keepdims=True) > 0, rows, margin.at(bits))
        coarse = _drawn(_cells(table, link.given, found, margins), rows, order, generator)
        inside = generator.permutation(count)
        if abs(np.sin(angle)) > ALIKE and bits < margin.bits:
            (other,) = link.given
            given = _scores_of(found[other], margins[other], generator)
            mixed = unexplained(link.table, margins, angle)
            inside = _inside(
                given, coarse, scores_of_cells(margin, bits), (angle, mixed), generator
            )
        found[link.position] = _refined(coarse, margin, bits, inside, generator)
    return found


def _scores_of(cells: Cells, margin: Margin, generator: np.random.Generator) -> FloatArray:
    """Normal scores of particles, in the middle of their finest cells; any of those with an atom:
    float64[n]."""
    low, high = scores_of_cells(margin, margin.bits)
    found = ((low + high) / 2)[cells]
    if margin.placed is not None:
        atoms = margin.placed.atom_cells(margin.bits)[cells]
        found[atoms] = generator.standard_normal(int(atoms.sum()))
    return found


def _inside(
    given: FloatArray,
    coarse: Cells,
    ends: tuple[FloatArray, FloatArray],
    copula: tuple[float, float],
    generator: np.random.Generator,
) -> Cells:
    """The order of particles inside their coarse cells: by a score that the copula draws given that
    of another number, so that near-duplicates stay near each other. intp[n]

    `ends`: scores of both ends of all coarse cells. `copula`: its angle, and the part of the
    particles that are independent of it.
    """
    angle, mixed = copula
    low, high = (each[coarse] for each in ends)
    scores = scores_inside(given, low, high, angle, generator.random(len(coarse)))
    free = generator.random(len(coarse)) < mixed
    scores[free] = (low + (high - low) * generator.random(len(coarse)))[free]
    return np.argsort(scores)


def _correlations(
    tables: Sequence[Table],
    margins: Mapping[int, Margin],
    angles: Mapping[tuple[int, ...], float],
) -> dict[Pair, float]:
    """Of normal scores, by the axes of the tables of two. No factor is sought in numbers that have
    atoms: the place of an atom among the cells is no value."""
    pairs = [each.axes for each in tables if len(each.axes) == 2 and not has_atoms(each, margins)]
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


def _refined(
    coarse: Cells, margin: Margin, bits: int, order: Cells, generator: np.random.Generator
) -> Cells:
    """A finest cell inside each coarse one, as the margin has them, in this order of particles."""
    if bits == margin.bits:
        return coarse
    ways = 1 << (margin.bits - bits)
    rows = np.zeros((len(margin.at(bits)), ways))
    rows.reshape(-1)[: len(margin.counts)] = margin.counts
    empty = rows.sum(axis=1) <= 0
    rows[empty] = 1.0
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


def loadings(correlations: Mapping[Pair, float]) -> dict[int, float]:
    """Of the normal scores of numbers on their common factor, by position; none where a tree of
    dependences explains the correlations as well.

    `correlations`: of normal scores, by the positions of each table's two numbers; 0 where noise
    hides them. Where tables tell of all pairs there is nothing to guess, and no factor.
    """
    positions = sorted({each for pair in correlations for each in pair})
    if len(positions) < 3:
        return {}
    places = {position: place for place, position in enumerate(positions)}
    known = np.zeros((len(positions), len(positions)), np.bool_)
    found = np.zeros(known.shape)
    for (one, other), value in correlations.items():
        i, j = places[one], places[other]
        known[i, j] = known[j, i] = True
        found[i, j] = found[j, i] = value
    if known.sum() == len(positions) * (len(positions) - 1):
        return {}
    tree, signs = _tree(found, known)
    loads = _fitted(found, known, signs)
    of_tree = float(np.sum((tree - found)[known] ** 2))
    of_factor = float(np.sum((np.outer(loads, loads) - found)[known] ** 2))
    if of_factor >= of_tree:
        return {}
    loads *= np.sqrt(1 - of_factor / of_tree)
    return dict(zip(positions, loads.tolist(), strict=True))


def _tree(found: FloatArray, known: npt.NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Correlations that the tree of the strongest ones predicts, and each number's sign in it."""
    told, signs = np.eye(len(found)), np.ones(len(found))
    there = np.zeros(len(found), np.bool_)
    there[0] = True
    while not there.all():
        strength = np.where(known & there[:, None] & ~there, np.abs(found), -1.0)
        parent, child = map(int, np.unravel_index(np.argmax(strength), strength.shape))
        if strength[parent, child] < 0:  # No table joins those that are left with these.
            child = int(np.argmin(there))
        else:
            own = found[parent, child]
            told[child, there] = told[there, child] = own * told[parent, there]
            signs[child] = signs[parent] * (1 if own >= 0 else -1)
        there[child] = True
    return told, signs


def _fitted(found: FloatArray, known: npt.NDArray[np.bool_], signs: FloatArray) -> FloatArray:
    usual = np.sqrt(np.abs(found).sum(axis=1) / np.maximum(known.sum(axis=1), 1))
    loads = signs * np.minimum(usual, MOST)
    for _ in range(SWEEPS):
        for each, beside in enumerate(known):
            own = float(found[each] @ loads) / (float(beside @ loads**2) + RIDGE)
            loads[each] = min(max(own, -MOST), MOST)
    return np.asarray(loads)


class Scores:
    """Normal scores of so many particles, of numbers with a common factor."""

    def __init__(
        self, loads: Mapping[int, float], count: int, generator: np.random.Generator
    ) -> None:
        self._loads, self._count, self._generator = loads, count, generator
        self._factor = generator.standard_normal(count) if loads else np.zeros(0)
        self._scores: dict[int, FloatArray] = {}

    def beyond(self, position: int, given: Sequence[int]) -> FloatArray:
        """What a number's score has beyond what the scores of others tell of it: float64[count], in
        the order in which its particles lie inside the same cells of these others."""
        own = self._generator.standard_normal(self._count)
        load = self._loads.get(position, 0.0)
        if not load:
            return own
        score = load * self._factor + np.sqrt(1 - load**2) * own
        self._scores[position] = score
        others = [each for each in given if each in self._scores]
        if not others:
            return np.asarray(score)
        loads = np.array([self._loads[each] for each in others])
        together = np.outer(loads, loads)
        np.fill_diagonal(together, 1.0)
        parts = np.linalg.solve(together, load * loads)
        told = sum(part * self._scores[each] for part, each in zip(parts, others, strict=True))
        return np.asarray(score - told)
