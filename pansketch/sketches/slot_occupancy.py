"""Estimate the number of keys from noisy bits, with standard errors.

A tracked slot is full if any key fell into it. A released bit is 1 with one probability for an
empty slot and with another for a full one. Inverting that gives an unbiased estimate of the share
of full slots. A sample of an enumerated universe scales the share up. Several hashed keys may share
a slot, so their estimator is linear counting, with its bias of second order removed. Its source is
Whang, Vander-Zanden and Taylor, "A linear-time probabilistic counting algorithm for database
applications" (TODS 1990). Everything here reads public integers.
"""

from dataclasses import dataclass
from math import exp, expm1, isfinite, log, log1p, sqrt

import numpy as np
import numpy.typing as npt

from pansketch.estimate import Estimate

# Full slots tell only that there are many keys, and noise makes them look empty. By more than so
# many standard errors it does in 3 of 100,000 releases.
FULL_ERRORS = 4.0


class NoEstimate(ValueError):
    """The releases do not tell the number of keys to within an error that means anything."""


@dataclass(frozen=True)
class Channel:
    """P(a bit is 1) for an empty and for a full slot."""

    empty: float
    full: float

    @property
    def gain(self) -> float:
        return self.full - self.empty

    def flipped(self, chance: float) -> "Channel":
        """The same bit after it was turned over with this probability."""
        empty, full = (p * (1 - chance) + (1 - p) * chance for p in (self.empty, self.full))
        return Channel(empty, full)


@dataclass(frozen=True)
class Occupancy:
    """Estimated share of the tracked slots that are full, and the variance that noise gives it."""

    share: float
    noise: float


def occupancy_of_count(
    ones: float, channel: Channel, output_variance: float, tracked: int, devices: int
) -> Occupancy:
    """Estimate the sum of the devices' shares of full slots. The argument is the number of ones
    among `tracked` bits with noise of `output_variance` added to it, both summed over devices."""
    weight = tracked * channel.gain
    share = (ones - devices * tracked * channel.empty) / weight
    full = min(max(share, 0.0), devices) * tracked
    bits = (devices * tracked - full) * _spread(channel.empty) + full * _spread(channel.full)
    return Occupancy(share, (bits + devices * output_variance) / weight**2)


def occupancy_of_bitmaps(sums: npt.NDArray[np.int64], channel: Channel, devices: int) -> Occupancy:
    """Estimate the share of slots that are full on any device, from every slot's number of ones,
    int64[n] of 0 to `devices`.

    A bit of 0 has the value full/gain, a bit of 1 the value (full - 1)/gain. No other values have
    mean 1 for an empty slot and 0 for a full one. So the product over devices has mean 1 for a slot
    that is empty on all of them, and 0 for any other. The mean square of the products exceeds their
    mean by their noise. Raises NoEstimate when they cannot be computed.
    """
    zero, one = channel.full / channel.gain, (channel.full - 1) / channel.gain
    slots = np.bincount(sums.astype(np.intp, copy=False), minlength=devices + 1)
    met = np.flatnonzero(slots)
    with np.errstate(over="ignore", invalid="ignore"):
        worth = np.power(zero, devices - met) * np.power(one, met)
        empty = float(slots[met] @ worth) / len(sums)
        square = float(slots[met] @ worth**2) / len(sums)
    if not isfinite(square):
        raise NoEstimate(f"a union of {devices} bitmaps at this epsilon is noise and nothing else")
    return Occupancy(1 - empty, max(square - empty, 0.0) / len(sums))


def together(parts: list[Occupancy]) -> Occupancy:
    """Of disjoint sets of keys in the same slots, where no two keys share one."""
    return Occupancy(sum(part.share for part in parts), sum(part.noise for part in parts))


@dataclass(frozen=True)
class KeyEstimator:
    """Estimator of the number of keys from counters.

    `universe`: its size if it is enumerated. `tracked` of `slots` are seen, through `channel`;
    `bitmap`: one counter for each of them, else one for all, with noise of `output_variance`.
    """

    universe: int | None
    slots: int
    tracked: int
    bitmap: bool
    channel: Channel
    output_variance: float

    def occupancy(self, counters: npt.NDArray[np.int64], devices: int) -> Occupancy:
        """By the sum of several devices' counters. Raises ValueError for what is no such sum."""
        if not self.bitmap:
            if devices > 1 and self.universe is None:
                raise ValueError("counts of hashed keys have no sum: add their estimates")
            return self._of_count(float(counters[0]), devices)
        if counters.min() < 0 or counters.max() > devices:
            raise ValueError("these are no bitmaps: a counter is not 0 or 1 for each of them")
        return occupancy_of_bitmaps(counters, self.channel, devices)

    def keys(self, found: Occupancy, devices: int) -> Estimate:
        """Raises NoEstimate if all slots may be full, for hashed keys, or if the standard error
        exceeds the universe, for a union."""
        if self.universe is None:
            return self._hashed(found, devices)
        estimate = self._sampled(found)
        if self.bitmap and devices > 1 and estimate.standard_error > self.universe:
            raise NoEstimate(
                f"the union of {devices} bitmaps has a standard error of "
                f"{estimate.standard_error:.3g} keys, more than there are in the universe; take "
                "fewer devices, or raise epsilon"
            )
        return estimate

    def planned_error(self, keys: int) -> float:
        """The standard error that one release of so many keys is expected to have.

        Raises NoEstimate as `keys` does.
        """
        full = keys / self.slots
        if self.universe is None:
            full = -expm1(keys * log1p(-1 / self.slots))
        ones = self.tracked * (self.channel.empty + full * self.channel.gain)
        return self.keys(self._of_count(ones, 1), 1).standard_error

    def _of_count(self, ones: float, devices: int) -> Occupancy:
        return occupancy_of_count(ones, self.channel, self.output_variance, self.tracked, devices)

    def _sampled(self, found: Occupancy) -> Estimate:
        """Unbiased: noise can take it below 0 or above the universe. The tracked slots are a random
        sample, and the variance of how many keys are in it is hypergeometric."""
        share = min(max(found.share, 0.0), 1.0)
        left = (self.slots - self.tracked) / max(1, self.slots - 1)
        sampling = share * (1 - share) / self.tracked * left
        return Estimate(self.slots * found.share, self.slots * sqrt(found.noise + sampling))

    def _hashed(self, found: Occupancy, devices: int) -> Estimate:
        """Linear counting. Refused unless the share of empty slots is above `FULL_ERRORS` of its
        standard errors. All slots might be full otherwise, and no number of keys too large."""
        empty = 1 - found.share
        likely = min(empty, 1.0)  # Noise can take the estimate above 1.
        variance = found.noise + self._hashing(likely)
        if likely <= FULL_ERRORS * sqrt(variance):
            raise _hopeless(empty, sqrt(variance), self.slots, devices)
        a_key = -log1p(-1 / self.slots)  # added by a key to -log(empty)
        taken = -log(empty) - variance / (2 * likely**2)
        # The logarithm is steep where few slots are empty: two errors more may be far more keys.
        error = -log1p(-2 * sqrt(variance) / likely) / 2
        return Estimate(taken / a_key, error / a_key)

    def _hashing(self, empty: float) -> float:
        """Variance of the share of empty slots among the tracked ones, by hashing alone.

        A slot is empty with probability (1 - 1/slots)**keys, two are with (1 - 2/slots)**keys.
        """
        if not 0 < empty < 1:
            return 0.0
        keys = log(empty) / log1p(-1 / self.slots)
        both = exp(keys * log1p(-2 / self.slots)) if self.slots > 2 else 0.0
        return max(0.0, (empty + (self.tracked - 1) * both) / self.tracked - empty**2)


def _hopeless(empty: float, error: float, slots: int, devices: int) -> NoEstimate:
    seen = f"a share of {empty:.2g} ± {error:.2g} of {slots} slots is empty, too little to count by"
    if error > 1:
        seen = f"the noise outweighs all {slots} slots"
    if devices == 1:
        return NoEstimate(f"{seen}: raise expected_keys, memory or epsilon")
    return NoEstimate(
        f"the union of {devices} bitmaps: {seen}; take fewer devices, or raise epsilon or "
        "expected_keys"
    )


def _spread(probability: float) -> float:
    return probability * (1 - probability)
