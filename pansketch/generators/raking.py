"""Weights of particles under which they follow all tables: iterative proportional fitting.

Deming and Stephan (1940), on particles instead of cells, for the cells of all attributes together
are far too many. Its limit is, of all distributions that agree with the tables, the one nearest to
the particles' own in relative entropy (Csiszar, 1975).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pansketch.domain import FloatArray

PASSES = 30
WORTH = 0.98  # of the misfit of the pass before: with more, another pass is not worth its time
LEAST, MOST = 0.05, 20.0  # of one step: cells with few particles must not run away


@dataclass(frozen=True, eq=False)
class Target:
    """Which cell of a table each particle lies in, intp[n], and what the cells are to hold."""

    cells: npt.NDArray[np.intp]
    counts: FloatArray

    def held(self, weights: FloatArray) -> FloatArray:
        """What the cells hold under these weights."""
        held = np.bincount(self.cells, weights=weights, minlength=len(self.counts))
        return held.astype(np.float64, copy=False)


def raked(targets: Sequence[Target], weights: FloatArray) -> FloatArray:
    """Weights float64[n] that bring each target's cells, in turn, to what they are to hold.

    Tables that contradict each other leave a compromise, in which the last target is right.
    """
    weights, before = weights.copy(), np.inf
    for _ in range(PASSES):
        misfit = sum(_rake(target, weights) for target in targets)
        if misfit > WORTH * before:
            break
        before = misfit
    return weights


def _rake(target: Target, weights: FloatArray) -> float:
    """One step, in place; by how much the cells were off."""
    held = target.held(weights)
    factor = np.clip(target.counts, held * LEAST, held * MOST)
    np.divide(factor, held, out=factor, where=held > 0)
    weights *= factor[target.cells]
    return float(np.abs(target.counts - held).sum())
