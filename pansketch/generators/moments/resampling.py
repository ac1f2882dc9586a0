"""Synthetic records of a moment sketch: its training's points, drawn by their weights.

Houssiau, Schellekens, Chatalic, Annamraju, de Montjoye (M2M, arXiv 2211.14062) let weighted points
stand for the readings wherever a learner takes weights (implicit M2M). Here they are drawn.
"""

from dataclasses import dataclass

import numpy as np

from pansketch.domain.domain import Domain, FloatArray


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Points in real units, float64[n, d], and their weights float64[n], which are not negative and
    1 on average."""

    points: FloatArray
    weights: FloatArray

    def sample(self, count: int, generator: np.random.Generator) -> FloatArray:
        """Points drawn by weight: float64[count, d]. Of many records several are the same point.

        Raises ValueError for a negative count.
        """
        if count < 0:
            raise ValueError("the number of records must not be negative")
        cumulative = np.cumsum(self.weights)
        places = np.searchsorted(cumulative, generator.random(count) * cumulative[-1], "right")
        return np.asarray(self.points[np.minimum(places, len(cumulative) - 1)])


def weighted_points(points: FloatArray, weights: FloatArray, domain: Domain) -> WeightedPoints:
    """The training's points by the readings' density there, as near to it as none is negative.

    Features that cannot follow a density leave ripples of both signs around it. Negative weights
    set to zero alone would leave too much weight where there are no readings: the nearest weights
    of the same sum are taken (a projection onto the simplex).
    """
    falling = -np.sort(-weights)
    excess = (np.cumsum(falling) - len(weights)) / np.arange(1, len(weights) + 1)
    shift = excess[int(np.count_nonzero(falling > excess)) - 1]
    return WeightedPoints(_as_given(points, domain), np.maximum(weights - shift, 0.0))


def _as_given(points: FloatArray, domain: Domain) -> FloatArray:
    """The training's points; of an attribute with a step, the nearest multiples of it."""
    lattices = [attribute.lattice for attribute in domain.attributes]
    if all(lattice is None for lattice in lattices):
        return points
    points = points.copy()
    for place, lattice in enumerate(lattices):
        if lattice is not None:
            points[:, place] = lattice.points(lattice.nearest(points[:, place]))
    return points
