"""Estimate one number of keys, with its standard error, from the noisy bitmaps of several levels.

A level samples keys: half of them fall into level 0, a quarter into level 1, and the last level
takes the rest. So for any number of keys some level is neither empty nor full. This is the
multiresolution bitmap of Estan, Varghese and Fisk ("Bitmap algorithms for counting active flows on
high-speed links", IMC 2003). Here its bits pass through a noisy channel.

All levels are read together. The estimate solves the quasi-score equation, where each level weighs
by the information that it has about the number of keys (Wedderburn, Biometrika 1974). Everything
here reads public integers.
"""

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
import numpy.typing as npt

from pansketch.estimate import Estimate
from pansketch.sketches.slot_occupancy import (
    FULL_ERRORS,
    Channel,
    NoEstimate,
    Occupancy,
    occupancy_of_bitmaps,
    occupancy_of_count,
)

MAX_LEVELS = 16
MIN_SLOTS = 4  # of a level, on average: a tiny state has fewer levels
GRID_POINTS = 512
LEAST_LOAD, GREATEST_LOAD = -20.0, 30.0  # keys a slot: of the first level, and of the last one
MAX_STEPS = 60
LIKELY_ERRORS = (2, 3)  # the standard errors within which the likelihood is read
LEAST_VARIANCE = 1e-30  # at a huge epsilon the noise of a level rounds to nothing
FULL = 0.2  # The last level is full, to within five standard errors: by chance below 1e-6.

Floats = npt.NDArray[np.float64]


def level_sizes(bits: int) -> tuple[int, ...]:
    """Slots of each level, so many `bits` in total; all levels but the first are equal.

    The first one has half as many again. Few keys fill only the first levels, so this lowers the
    largest relative error over the whole range of counts.
    """
    levels = max(1, min(MAX_LEVELS, bits // MIN_SLOTS))
    other = 2 * bits // (2 * levels + 1)
    return (bits - (levels - 1) * other, *(levels - 1) * (other,))


def level_shares(levels: int) -> Floats:
    """The share of all keys that falls into each level: float64[levels], of sum 1."""
    powers = np.arange(1, levels + 1, dtype=np.float64)
    powers[-1] = levels - 1
    return np.asarray(np.exp2(-powers))


@dataclass(frozen=True)
class LevelEstimator:
    """Estimator of the number of keys from the counters of all levels.

    `sizes`: slots of each level, seen through `channel`. `bitmap`: one counter for each slot, else
    one for each level, with noise of `output_variance`.
    """

    sizes: tuple[int, ...]
    bitmap: bool
    channel: Channel
    output_variance: float

    def keys(self, counters: npt.NDArray[np.int64], devices: int) -> Estimate:
        """By the sum of several devices' bitmaps, or by one device's counts.

        Raises ValueError for counters that are no such sum, NoEstimate when all levels are full or
        the noise outweighs the keys.
        """
        parts = self._occupancies(counters, devices)
        shares = np.array([part.share for part in parts])
        noise = np.array([part.noise for part in parts])
        return self._checked(self._solved(shares, noise), shares, noise, devices)

    def planned_error(self, keys: int) -> float:
        """The standard error that one release of so many keys is expected to have.

        Raises NoEstimate as `keys` does.
        """
        noise = np.array([self._of_count(0.0, size).noise for size in self.sizes])
        shares = 1 - self._moments(float(keys), noise)[0]
        return self._checked(float(keys), shares, noise, 1).standard_error

    def _occupancies(self, counters: npt.NDArray[np.int64], devices: int) -> list[Occupancy]:
        if not self.bitmap:
            if devices > 1:
                raise ValueError("counts of hashed keys have no sum: add their estimates")
            pairs = zip(counters.tolist(), self.sizes, strict=True)
            return [self._of_count(float(ones), size) for ones, size in pairs]
        if counters.min() < 0 or counters.max() > devices:
            raise ValueError("these are no bitmaps: a counter is not 0 or 1 for each of them")
        parts = np.split(counters, np.cumsum(self.sizes[:-1]))
        return [occupancy_of_bitmaps(part, self.channel, devices) for part in parts]

    def _of_count(self, ones: float, size: int) -> Occupancy:
        return occupancy_of_count(ones, self.channel, self.output_variance, size, 1)

    @property
    def _rates(self) -> Floats:
        """The load, in keys a slot, that one key adds to each level: float64[levels]."""
        return level_shares(len(self.sizes)) / np.array(self.sizes, np.float64)

    @property
    def _grid(self) -> Floats:
        """Numbers of keys, of all magnitudes: float64[GRID_POINTS]."""
        low, high = np.arcsinh([LEAST_LOAD, GREATEST_LOAD / (self._rates[-1] * self.sizes[0])])
        return np.asarray(self.sizes[0] * np.sinh(np.linspace(low, high, GRID_POINTS)))

    def _solved(self, shares: Floats, noise: Floats) -> float:
        """The root of the quasi-score nearest to the most likely point of a grid.

        The grid comes first: with much noise the score has further roots.
        """
        rates, grid = self._rates, self._grid
        keys = float(grid[self._misfit(grid[:, None], shares, noise).argmin()])
        for _ in range(MAX_STEPS):
            empty, variance = self._moments(keys, noise)
            slope = rates * np.minimum(empty, 1)
            step = float((slope * (shares - 1 + empty) / variance).sum())
            step /= float((slope**2 / variance).sum())
            reach = 0.5 * (abs(keys) + self.sizes[0])
            keys = float(np.clip(keys + np.clip(step, -reach, reach), grid[0], grid[-1]))
            if abs(step) <= 1e-9 * reach:
                break
        return keys

    def _misfit(self, keys: float | Floats, shares: Floats, noise: Floats) -> Floats:
        """Minus twice the logarithm of the likelihood, but for a constant; inf keys fill all."""
        empty, variance = self._moments(keys, noise)
        return np.asarray(((1 - empty - shares) ** 2 / variance + np.log(variance)).sum(axis=-1))

    def _moments(self, keys: float | Floats, noise: Floats) -> tuple[Floats, Floats]:
        """The expected share of empty slots of each level, and the variance of the observed share.
        Keys arrive as a Poisson process."""
        load = keys * self._rates
        # Straight on below 0, where noise may lead: a curve would take noise for information there.
        empty = np.exp(-np.maximum(load, 0)) - np.minimum(load, 0)
        full = np.maximum(1 - empty, 0)
        hashing = empty * full / np.array(self.sizes, np.float64)
        return empty, np.maximum(noise + hashing, LEAST_VARIANCE)

    def _checked(self, keys: float, shares: Floats, noise: Floats, devices: int) -> Estimate:
        """The estimate with its standard error and without its bias of second order.

        With much noise far more keys may be nearly as likely, which no curvature at the estimate
        shows. Numbers as likely as two or three standard errors away are no farther in errors.
        """
        rates, grid = self._rates, self._grid
        empty, variance = self._moments(keys, noise)
        slope = rates * np.minimum(empty, 1)
        information = float((slope**2 / variance).sum())
        least = self._misfit(keys, shares, noise)
        if information <= 0 or self._misfit(inf, shares, noise) < least + FULL_ERRORS**2:
            raise self._full(devices)
        misfit = self._misfit(grid[:, None], shares, noise) - least
        ends = (np.abs(grid[misfit <= n**2] - keys).max(initial=0.0) / n for n in LIKELY_ERRORS)
        farthest = float(max(ends, default=0.0))
        # The number of keys is fixed, not Poisson: that knowledge takes away its variance.
        error = sqrt(max(1 / information, farthest**2) - min(max(keys, 0.0), 1 / information))
        # A load's error is the relative error of the share of empty slots.
        if error * float(rates[-1]) > FULL:
            raise self._full(devices)
        if error > max(float(sum(self.sizes)), abs(keys) / 2):
            raise self._noisy(keys, error, devices)
        curvature = float((slope**2 * rates / variance).sum()) if keys > 0 else 0.0
        return Estimate(keys - curvature / (2 * information**2), error)

    def _full(self, devices: int) -> NoEstimate:
        who = "the bitmap" if devices == 1 else f"the union of {devices} bitmaps"
        return NoEstimate(
            f"{who} shows no empty slot on any of {len(self.sizes)} levels, to within five "
            "standard errors: too many keys, or too much noise; raise memory or epsilon"
        )

    def _noisy(self, keys: float, error: float, devices: int) -> NoEstimate:
        what, change = ("the levels", "raise epsilon")
        if devices > 1:
            what = f"the union of {devices} bitmaps"
            change = "take fewer devices, or raise epsilon"
        return NoEstimate(
            f"{what}: the standard error of {error:.3g} outweighs {keys:.3g} keys; {change}"
        )
