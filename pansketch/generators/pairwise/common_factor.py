"""What numbers have in common that no table joins: one hidden factor, where the tables show one.

A tree of dependences lets the correlation of two numbers fade with every table between them. That
is right for a chain of causes. It is wrong for sensors of one quantity, which all follow the same
hidden number. Views tell which it is where they close a circle: the tree leaves out the weakest
table, and predicts its correlation as a product along a path. A model of one factor predicts it as
a product of two loadings (Spearman, "General intelligence, objectively determined and measured",
1904). The factor is believed by as much as it explains the correlations better than the tree does.

Loadings are found by alternating least squares on the copulas' correlations alone (the principle of
Harman and Jones, "Factor analysis by minimizing residuals", 1966).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import FloatArray

Pair = tuple[int, int]

SWEEPS = 200
RIDGE = 0.01  # of a sum of squared loadings: one of little weight stays small
MOST = 0.98  # A loading: no number is the factor itself.


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
        parent, child = np.unravel_index(np.argmax(strength), strength.shape)
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
    return loads


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
