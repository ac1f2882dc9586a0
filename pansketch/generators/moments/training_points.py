"""Training points of M2M: points of a public distribution that stand for readings.

The features of these points, and of functions of them, depend on no release. A release gives the
points weights (Houssiau, Schellekens, Chatalic, Annamraju, de Montjoye, M2M, arXiv 2211.14062,
implicit M2M), by which synthetic records are drawn from them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain, FloatArray
from pansketch.generators.moments.design_matrix import Design, Values, design_of
from pansketch.generators.simplex import onto_simplex
from pansketch.sketches.moments.sketch import MomentsSpec

MAX_DECOMPOSED = 1024
DIRECTIONS = 256
POWER_STEPS = 2
SMALLEST = 1e-12  # Of the largest eigenvalue: below it stands the rounding of sums.

Function = Callable[[FloatArray], npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Along:
    """Functions of a reading in a training's directions: `mean` float64[k], `parts` float64[K, k],
    and `rest` float64[k], the variance that no direction explains."""

    mean: FloatArray
    parts: FloatArray
    rest: FloatArray


@dataclass(frozen=True, eq=False)
class Training:
    """The features of a spec at public points: for any number of releases of these features.

    The features are turned into uncorrelated directions of variance 1 at the points. Of more than
    1,024 features the 256 directions of largest variance are kept.

    Args:
        spec: of the moment sketch.
        rows: the points, float64[N, d] in real units.
        intercept: subtract the features' means, so that the constant function is known exactly. The
            paper does not.

    Raises:
        ValueError: there are fewer than two points, or they have another shape or are not finite.

    Reference:
        Houssiau, Schellekens, Chatalic, Annamraju, de Montjoye (M2M, arXiv 2211.14062).
    """

    spec: MomentsSpec
    rows: FloatArray
    intercept: bool = True
    design: Design = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or len(self.rows) < 2:
            raise ValueError("training needs at least two points, float64[n, d]")
        object.__setattr__(self, "design", design_of(self.spec, self.rows))

    @cached_property
    def mean(self) -> FloatArray:
        """Means of the features, or zeros without an intercept: float64[size]."""
        if not self.intercept:
            return np.zeros(self.design.size)
        return self.design.means_with(np.ones((len(self.rows), 1)))[:, 0]

    @cached_property
    def _decomposition(self) -> tuple[FloatArray, FloatArray]:
        moments = self.design.second_moments() - np.outer(self.mean, self.mean)
        large = len(moments) > MAX_DECOMPOSED
        variances, vectors = _leading(moments) if large else np.linalg.eigh(moments)
        kept = variances > SMALLEST * max(float(variances.max()), SMALLEST)
        return variances[kept], vectors[:, kept]

    @property
    def variances(self) -> FloatArray:
        """Variances of the kept directions at the points: float64[K], positive."""
        return self._decomposition[0]

    def turned(self, features: FloatArray) -> FloatArray:
        """float64[size] features in the kept directions, in units of their deviations:
        float64[K]."""
        variances, vectors = self._decomposition
        return np.asarray((features @ vectors) / np.sqrt(variances))

    def back(self, directions: FloatArray) -> FloatArray:
        """Weights of directions, float64[K], as weights of features: float64[size]."""
        variances, vectors = self._decomposition
        return np.asarray(vectors @ (directions / np.sqrt(variances)))

    def along(self, values: Values) -> Along:
        """Functions by their values at the points: [N, k] numbers or truth values."""
        mean = values.mean(axis=0) if self.intercept else np.zeros(values.shape[1])
        with_features = self.design.means_with(values) - np.outer(self.mean, mean)
        parts = np.stack([self.turned(column) for column in with_features.T], axis=1)
        squares = np.array(
            [np.mean((column - m) ** 2) for column, m in zip(values.T, mean, strict=True)]
        )
        return Along(mean, parts, np.maximum(squares - np.sum(parts**2, axis=0), 0.0))


def uniform(domain: Domain, count: int, generator: np.random.Generator) -> FloatArray:
    """Rows spread evenly over the domain's scales and categories: float64[count, d]."""
    points = generator.random((count, domain.dimension))
    for position, attribute in enumerate(domain.attributes):
        if attribute.categories is not None:
            points[:, position] *= len(attribute.categories) / attribute.extent
    return domain.from_unit(points)


def _leading(moments: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Approximate the leading eigenpairs of a large matrix by subspace iteration (Halko,
    Martinsson, Tropp, SIAM Review 2011, Algorithm 4.4). The start is fixed, so that answers repeat.

    Any orthonormal directions serve, so single precision is enough to find them.
    """
    basis = np.random.default_rng(0).standard_normal((len(moments), DIRECTIONS), np.float32)
    single = moments.astype(np.float32)
    for _ in range(POWER_STEPS):
        basis = np.linalg.qr(single @ basis)[0]
    exact = np.linalg.qr(basis.astype(np.float64))[0]
    variances, turn = np.linalg.eigh(exact.T @ moments @ exact)
    return variances, exact @ turn


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
        indices = np.searchsorted(cumulative, generator.random(count) * cumulative[-1], "right")
        return np.asarray(self.points[np.minimum(indices, len(cumulative) - 1)])


def weighted_points(points: FloatArray, weights: FloatArray, domain: Domain) -> WeightedPoints:
    """The training's points by the readings' density there, as near to it as none is negative.

    Features that cannot follow a density leave ripples of both signs around it. Setting negative
    weights to zero alone would leave too much weight where there are no readings. So the weights
    are projected onto the simplex: the nearest ones of the same sum.
    """
    return WeightedPoints(_as_given(points, domain), onto_simplex(weights, len(weights)))


def _as_given(points: FloatArray, domain: Domain) -> FloatArray:
    """The training's points; of an attribute with a step, the nearest multiples of it."""
    lattices = [attribute.lattice for attribute in domain.attributes]
    if all(lattice is None for lattice in lattices):
        return points
    points = points.copy()
    for index, lattice in enumerate(lattices):
        if lattice is not None:
            points[:, index] = lattice.points(lattice.nearest(points[:, index]))
    return points
