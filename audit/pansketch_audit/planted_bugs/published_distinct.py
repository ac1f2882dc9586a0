"""Pan-private distinct sampling as it was published, with two mistakes that the product repairs.

It exists to be caught: the audit and the benchmarks use it, and no configuration reaches it.

Source: Digalakis, Karystinos and Garofalakis, "Improved Pan-Private Stream Density Estimation",
arXiv 2111.08784, algorithm PPDS. It is the distinct sampling of Gibbons (VLDB 2001) over the
randomised bits of Dwork, Naor, Pitassi, Rothblum and Yekhanin, "Pan-Private Streaming Algorithms"
(ICS 2010).

The sample holds the ids of keys whose bit is 1. It begins with every key of the universe whose
first bit, Bernoulli(p_init), is 1. Every appearance of a key of the sample's level or above draws
its bit again, Bernoulli(p_upd), and the key is added or removed. Whenever more than `sample_size`
ids are in, the level rises by one and ids of lower levels leave. It never sinks again, and this is
the first mistake: every draw of a key may be the one that overfills the sample.

An example of the loss: keys at levels 0, 1, 0, 2, a sample of 3, and the state "level 0, ids 1, 2,
3". The empty stream reaches it with p_init**3 (1 - p_init). If key 0 appeared T times, none of its
draws may have been a 1 either, which is a factor (1 - p_upd)**T. So the loss of the state is T
ln(1/(1 - p_upd)) = T ln(1 + e**epsilon), at epsilon 0.5: 0.97 T. No other state shows more of key
0, and the guarantee was 0.5 for every T. Key 1 loses everything: "level 1, id 3 alone" cannot be
reached unless key 1 appears. Otherwise the overflow leaves both 1 and 3 in.

The second mistake is the noise of the output, see `scale_on_bits`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import tanh

import numpy as np

from pansketch import Entropy
from pansketch.randomness import LogOdds


@dataclass(frozen=True)
class Sample:
    """All that the algorithm remembers: its level, and the ids in the sample, rising."""

    level: int
    ids: tuple[int, ...]


@dataclass(frozen=True)
class PublishedPpds:
    """`levels[key]`: how often the universe's key survives halving, such as the trailing zeros of
    its hash. `sample_size`: how many ids the sample holds at most. `epsilon`: what the state and
    the output are each meant to spend.
    """

    levels: tuple[int, ...]
    sample_size: int
    epsilon: Fraction

    @property
    def chances(self) -> tuple[LogOdds, LogOdds]:
        """p_init = (1 - tanh(epsilon / 2)) / 2 and p_upd = (1 + tanh(epsilon / 2)) / 2."""
        return LogOdds(-self.epsilon), LogOdds(self.epsilon)

    def begin(self, rng: Entropy) -> Sample:
        """The sample before the first key."""
        bits = np.empty(len(self.levels), np.uint8)
        rng.fill_bernoulli(self.chances[0], bits)
        return self._fitted(Sample(0, tuple(np.flatnonzero(bits).tolist())))

    def appear(self, sample: Sample, key: int, rng: Entropy) -> Sample:
        """The sample after one appearance of a key."""
        if self.levels[key] < sample.level:
            return sample
        bit = np.empty(1, np.uint8)
        rng.fill_bernoulli(self.chances[1], bit)
        others = tuple(each for each in sample.ids if each != key)
        ids = tuple(sorted((*others, key))) if bit[0] else others
        return self._fitted(Sample(sample.level, ids))

    def density(self, sample: Sample) -> float:
        """Unbiased share of the universe that appeared, before the output's noise.

        The number of keys at or above a level is public. NaN if there is none.
        """
        tracked = sum(level >= sample.level for level in self.levels)
        if not tracked:
            return float("nan")
        initial, updated = (chance.probability for chance in self.chances)
        return (len(sample.ids) / tracked - initial) / (updated - initial)

    def start(self, rng: Entropy) -> "PublishedSketch":
        return PublishedSketch(self, rng)

    def _fitted(self, sample: Sample) -> Sample:
        level, ids = sample.level, sample.ids
        while len(ids) > self.sample_size:
            level += 1
            ids = tuple(each for each in ids if self.levels[each] >= level)
        return Sample(level, ids)


class PublishedSketch:
    """The algorithm with the verbs of a sketch: keys are indices into the universe."""

    def __init__(self, spec: PublishedPpds, rng: Entropy) -> None:
        self.spec, self._rng = spec, rng
        self.sample = spec.begin(rng)

    def update_many(self, keys: Iterable[int]) -> None:
        for key in keys:
            self.sample = self.spec.appear(self.sample, int(key), self._rng)


def scale_on_bits(epsilon: float) -> float:
    """Parameter of the published output noise, as it lies on the sum of the m tracked bits.

    The papers add Laplace(1 / (epsilon m)) to the density. Its sensitivity is 1 / m before the
    correction for the bits' noise, and 1 / (m tanh(epsilon / 2)) afterwards. On the sum, which one
    key moves by 1, that is Laplace(tanh(epsilon / 2) / epsilon) instead of Laplace(1 / epsilon).
    """
    return tanh(epsilon / 2) / epsilon
