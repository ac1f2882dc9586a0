"""A release read through a training: the ridge solution of M2M, with error bars.

Houssiau et al. (M2M) approximate a function f of a reading by features, and estimate its mean by a
times the noisy mean features. The weights a minimise the mean square over training points plus
lambda |a|^2. A ridge is the posterior mean of a model. In it, the readings' means along a
training's uncorrelated directions are independent. Their variance before the noise is tau^2 =
sigma_xi^2 / (n^2 lambda). The paper prints two: Theorem 1 has lambda = sigma_xi^2 / n^2, so tau =
1, a single point. Equation 5 and Algorithm 1 have lambda = sigma_xi^2 / n, so tau^2 = 1 / n,
readings as even as the training. Here tau is unknown: it is averaged over its posterior, given the
release. Error bars are the posterior deviation: noise, shrinkage, what the features cannot express,
and doubt about tau.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pansketch.domain.domain import FloatArray
from pansketch.estimate import Estimate
from pansketch.generators.moments.design_matrix import Values
from pansketch.generators.moments.training_points import Along, Training
from pansketch.generators.significance import Noise
from pansketch.sketches.moments.one_hot import Histograms

PublishedRidge = Literal["theorem1", "eq5"]

SPREADS = 48
MAX_SPREAD = 30.0  # A single point in a corner of the domain has about that.


@dataclass(frozen=True, eq=False)
class Sums:
    """Noisy feature sums in units of a feature, their variance, and the number of readings, of so
    many merged releases."""

    features: FloatArray
    variance: float
    readings: Estimate
    releases: int = 1

    @property
    def count(self) -> float:
        """The number of readings. Raises TooFewReadings where noise outweighs it."""
        Noise(self.releases, self.readings.standard_error).check(self.readings.value)
        return self.readings.value


@dataclass(frozen=True, eq=False)
class Means:
    """Estimated means of k functions: `value`, and `variance` with the number of readings taken as
    exact. `slope`: how much of the value comes from the sums, which that number divides."""

    value: FloatArray
    variance: FloatArray
    slope: FloatArray


class Fit:
    """The posterior of the readings' means in a training's directions.

    `ridge`: a published one; None averages over tau. Raises TooFewReadings where noise outweighs
    the number of readings.
    """

    def __init__(self, training: Training, sums: Sums, ridge: PublishedRidge | None = None) -> None:
        self._training, count = training, sums.count
        self._whole = training.turned(sums.features) / count
        self._found = self._whole - training.turned(training.mean)
        self._noise = sums.variance / count**2 / training.variances
        smallest = min(1.0, 1 / count + 1 / len(training.rows))
        spreads = np.geomspace(smallest, MAX_SPREAD, SPREADS)
        if ridge is not None:
            spreads = np.array([1.0 if ridge == "theorem1" else 1 / count])
        variances = spreads[:, None] + self._noise
        self._chances = _chances(self._found, variances)
        self._shrinkage = spreads[:, None] / variances
        self._shrunk = self._chances @ self._shrinkage
        # Histograms see no dependence: whether there is any, no direction tells.
        least = 1.0 if isinstance(training.spec.map, Histograms) else 0.0
        self._spread = max(float(self._chances @ spreads), least)

    def means(self, values: Values) -> Means:
        """Means of functions over the readings, from their values at the training's points:
        [N, k]."""
        return self.means_along(self._training.along(values))

    def means_along(self, along: Along) -> Means:
        """As `means`, of functions that have been compared with the features before."""
        each = along.mean + (self._shrinkage * self._found) @ along.parts
        value = self._chances @ each
        doubt = self._chances @ (each - value) ** 2
        squares = along.parts**2
        known = squares.T @ (self._shrunk * self._noise)
        variance = doubt + known + along.rest * self._roughness(squares)
        return Means(value, variance, along.parts.T @ (self._shrunk * self._whole))

    def _roughness(self, squares: FloatArray) -> FloatArray:
        """tau^2 of what no direction expresses: at least its mean, and at least as large as in the
        directions that matter to the function."""
        power = self._chances @ ((self._shrinkage * self._found) ** 2)
        power = power + self._shrunk * self._noise
        explained = np.maximum(squares.sum(axis=0), np.finfo(float).tiny)
        return np.asarray(np.maximum(self._spread, squares.T @ power / explained))

    @property
    def offset_and_weights(self) -> tuple[float, FloatArray]:
        """The readings' density relative to the training's, as a function of features:
        offset + weights times features."""
        weights = self._training.back(self._shrunk * self._found)
        if not self._training.intercept:
            return 0.0, weights
        return 1.0 - float(weights @ self._training.mean), weights


def _chances(found: FloatArray, variances: FloatArray) -> FloatArray:
    """Posterior of each row of variances, float64[T, K], all alike before: float64[T]."""
    logs = -0.5 * np.sum(np.log(variances) + found**2 / variances, axis=1)
    chances = np.exp(logs - logs.max())
    return np.asarray(chances / chances.sum())
