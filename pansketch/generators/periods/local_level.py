"""A smoother of estimates over time: the local level model with known noise.

A level moves as a random walk, and each estimate is the level with the noise of its own standard
error, which the releases state. One number is unknown, the variance of the level's steps. It is the
one of greatest likelihood, given all estimates of a series. The filter is Kalman's, and the
smoother that of Rauch, Tung and Striebel ("Maximum likelihood estimates of linear dynamic systems",
AIAA Journal 1965). Before the first estimate the level has a diffuse prior (Durbin and Koopman,
"Time series analysis by state space methods", section 2.9).

Everything here reads estimates from releases, so it is post-processing and costs no privacy.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import FloatArray

DECADES = (-6.0, 4.0)  # of a step's variance, in the mean noise variance
COARSE, FINE = 41, 9  # values of it that are compared, at first and around the best
DIFFUSE, UNSEEN = 1e8, 1e30  # variances of a level of which nothing is known, and of no value


@dataclass(frozen=True, eq=False)
class Levels:
    """The smoothed levels of k series at t moments.

    Args:
        value: levels, float64[t, k].
        standard_error: of the levels, float64[t, k].
        step_variance: of a step of one unit of time, float64[k].
    """

    value: FloatArray
    standard_error: FloatArray
    step_variance: FloatArray


def smooth_levels(values: FloatArray, errors: FloatArray, times: FloatArray) -> Levels:
    """The levels of k series, by their estimates at t moments.

    A level is the one under the variance of greatest likelihood. Its standard error includes that
    variance's own uncertainty. It averages over all variances, weighted by their likelihood and by
    a flat prior of the steps' standard deviation.

    Args:
        values: float64[t, k]; NaN where there is none.
        errors: their standard errors, positive and known, float64[t, k]; NaN where there is none.
        times: rising, float64[t], in the unit in which a step is counted, such as windows. A gap
            is a longer step.

    Returns:
        The levels at all moments, also at those without a value; NaN in a series of none.

    Raises:
        ValueError: shapes differ, times do not rise, or a value lacks a positive standard error.
    """
    seen = _checked(values, errors, times)
    empty = ~seen.any(axis=0)
    count = np.maximum(seen.sum(axis=0), 1)
    unit = np.sqrt(np.where(seen, errors**2, 0.0).sum(axis=0) / count) + empty
    middle = np.where(seen, values, 0.0).sum(axis=0) / count
    series = _Series(
        np.where(seen, (values - middle) / unit, 0.0),
        np.where(seen, (errors / unit) ** 2, UNSEEN),
        np.diff(times, prepend=times[:1]),
    )
    found = series.levels()
    return Levels(
        np.where(empty, np.nan, middle + unit * found.value),
        np.where(empty, np.nan, unit * found.standard_error),
        np.where(empty, np.nan, unit**2 * found.step_variance),
    )


def _checked(values: FloatArray, errors: FloatArray, times: FloatArray) -> npt.NDArray[np.bool_]:
    """True where there is a value."""
    if values.ndim != 2 or values.shape != errors.shape or times.shape != values.shape[:1]:
        raise ValueError("values and errors must be [t, k], and times [t]")
    if not len(times) or not (np.diff(times) > 0).all():
        raise ValueError("times must rise, and there must be one")
    seen = np.isfinite(values)
    if not (np.isfinite(errors[seen]) & (errors[seen] > 0)).all():
        raise ValueError("each value needs a positive standard error")
    return np.asarray(seen)


@dataclass(frozen=True, eq=False)
class _Series:
    """Values and noise variances in units of the mean noise, [t, k], and steps of time float64[t].

    Variances of a step are float64[g, k]: g of them for each series, filtered together.
    """

    values: FloatArray
    noise: FloatArray
    steps: FloatArray

    def levels(self) -> Levels:
        """The levels under the best variance, with errors under all."""
        width = self.values.shape[1]
        grid = np.repeat(np.logspace(*DECADES, COARSE)[:, None], width, axis=1)
        coarse = self._filtered(grid)
        variance = self._refined(grid, np.argmax(coarse.likelihood, axis=0))
        value, square = self._smoothed(self._filtered(variance[None]), variance[None])
        weights = np.sqrt(grid) * np.exp(coarse.likelihood - coarse.likelihood.max(axis=0))
        means, squares = self._smoothed(coarse, grid)
        squares += (means - value) ** 2
        mixed = (weights / weights.sum(axis=0) * squares).sum(axis=1)
        return Levels(value[:, 0], np.sqrt(np.maximum(mixed, square[:, 0])), variance)

    def _filtered(self, variances: FloatArray) -> "_Filtered":
        """Kalman's filter."""
        shape = (len(self.values), *variances.shape)
        means, squares, totals, offs = (np.empty(shape) for _ in range(4))
        mean, square = np.zeros(variances.shape), np.full(variances.shape, self._diffuse)
        for at, step in enumerate(self.steps):
            square = square + step * variances
            totals[at] = square + self.noise[at]
            offs[at] = self.values[at] - mean
            gain = square / totals[at]
            means[at] = mean = mean + gain * offs[at]
            squares[at] = square = square * (1 - gain)
        likelihood = -(np.log(totals) + offs**2 / totals).sum(axis=0) / 2
        return _Filtered(means, squares, likelihood)

    @property
    def _diffuse(self) -> float:
        return float(DIFFUSE * max(1.0, np.max(self.values**2)))

    def _refined(self, grid: FloatArray, best: npt.NDArray[np.intp]) -> FloatArray:
        """The variance of greatest likelihood between the neighbours of the best of a grid, or 0:
        float64[k]."""
        indices = np.arange(grid.shape[1])
        low = np.log(grid[np.maximum(best - 1, 0), indices])
        high = np.log(grid[np.minimum(best + 1, len(grid) - 1), indices])
        share = np.linspace(0.0, 1.0, FINE)[:, None]
        finer = np.concatenate([np.zeros((1, len(indices))), np.exp(low + share * (high - low))])
        return np.asarray(finer[np.argmax(self._filtered(finer).likelihood, axis=0), indices])

    def _smoothed(
        self, filtered: "_Filtered", variances: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Means and variances given all values, float64[t, g, k]: Rauch, Tung and Striebel."""
        means, squares = filtered.mean.copy(), filtered.variance.copy()
        for at in range(len(means) - 2, -1, -1):
            ahead = squares[at] + self.steps[at + 1] * variances
            part = squares[at] / ahead
            means[at] += part * (means[at + 1] - means[at])
            squares[at] += part**2 * (squares[at + 1] - ahead)
        return means, squares


@dataclass(frozen=True, eq=False)
class _Filtered:
    """Means and variances of the levels, given the estimates up to each moment, float64[t, g, k],
    and the log-likelihood float64[g, k]."""

    mean: FloatArray
    variance: FloatArray
    likelihood: FloatArray
