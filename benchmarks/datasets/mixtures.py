"""Gaussian mixtures in the unit cube, and what an error needs of them, in closed form.

They lie so far inside that less than 10**-6 of their mass is beyond the cube; it is neglected.
"""

from dataclasses import dataclass
from math import erf, pi, sqrt

import numpy as np
import numpy.typing as npt

from pansketch import Attribute, Domain

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mixture:
    """`weights` float64[m], `means` and `deviations` float64[m, d]: components without
    correlation."""

    weights: FloatArray
    means: FloatArray
    deviations: FloatArray

    @property
    def domain(self) -> Domain:
        return Domain([Attribute(f"x{i}", low=0, high=1) for i in range(self.means.shape[1])])

    def sample(self, count: int, generator: np.random.Generator) -> FloatArray:
        """Readings, float64[count, d]."""
        which = generator.choice(len(self.weights), size=count, p=self.weights)
        shape = (count, self.means.shape[1])
        return self.means[which] + self.deviations[which] * generator.standard_normal(shape)

    @property
    def roughness(self) -> float:
        """The integral of the squared density."""
        return float(np.sum(self._pairs()))

    @property
    def slopes(self) -> list[float]:
        """For each axis, the integral of the square of the density's derivative along it."""
        apart, variances = self._apart()
        curved = (1 - apart**2 / variances) / variances
        return [float(np.sum(self._pairs() * curved[..., axis])) for axis in range(apart.shape[2])]

    def _apart(self) -> tuple[FloatArray, FloatArray]:
        apart = self.means[:, None] - self.means[None]
        return apart, self.deviations[:, None] ** 2 + self.deviations[None] ** 2

    def _pairs(self) -> FloatArray:
        """Integrals of the products of two components, with their weights: float64[m, m]."""
        apart, variances = self._apart()
        normal = np.exp(-(apart**2) / (2 * variances)) / np.sqrt(2 * pi * variances)
        return np.asarray(np.outer(self.weights, self.weights) * normal.prod(axis=2))

    def cell_shares(self, depth: int) -> FloatArray:
        """The probability of every cell, float64[2**depth], in order of path."""
        low, high = self.domain.boxes(np.arange(1 << depth, dtype=np.uint64), depth)
        shares = np.zeros(1 << depth)
        for weight, means, deviations in zip(
            self.weights, self.means, self.deviations, strict=True
        ):
            product = np.full(1 << depth, weight)
            for axis, (mean, deviation) in enumerate(zip(means, deviations, strict=True)):
                product *= _within(low[:, axis], high[:, axis], mean, deviation)
            shares += product
        return shares


def _within(low: FloatArray, high: FloatArray, mean: float, deviation: float) -> FloatArray:
    edges, place = np.unique(np.concatenate([low, high]), return_inverse=True)
    below = [0.5 * (1 + erf((edge - mean) / (deviation * sqrt(2)))) for edge in edges]
    ends = np.array(below)[place]
    return np.asarray(ends[len(low) :] - ends[: len(low)])


MIXTURES = {
    1: Mixture(
        np.array([0.5, 0.3, 0.2]),
        np.array([[0.3], [0.6], [0.75]]),
        np.array([[0.05], [0.06], [0.03]]),
    ),
    2: Mixture(
        np.array([0.5, 0.3, 0.2]),
        np.array([[0.3, 0.35], [0.6, 0.6], [0.7, 0.3]]),
        np.array([[0.05, 0.06], [0.06, 0.06], [0.04, 0.05]]),
    ),
    3: Mixture(
        np.array([0.6, 0.4]),
        np.array([[0.35, 0.4, 0.6], [0.65, 0.6, 0.35]]),
        np.array([[0.06, 0.07, 0.06], [0.07, 0.06, 0.06]]),
    ),
}
