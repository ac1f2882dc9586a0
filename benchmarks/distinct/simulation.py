"""Errors of estimated densities, many runs at once.

The final sum of a static sample's bits is drawn from its exact distribution. The number of sampled
keys that appeared is hypergeometric. Of their bits, and of the others', binomially many are 1. PPDS
as published is followed through the stream, because its level depends on the path. The product
processes the whole stream. A stream has as many appearances as keys, uniform or by Zipf's law.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import exp

import numpy as np
import numpy.typing as npt

from pansketch import DistinctSpec, Privacy, os_entropy
from pansketch.planning import Budget, Estimator

UNIVERSE = APPEARANCES = 100_000

Keys = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stream:
    """int64[APPEARANCES] keys below UNIVERSE, and how many different ones."""

    name: str
    keys: Keys
    seen: int

    @property
    def density(self) -> float:
        return self.seen / UNIVERSE


def streams() -> list[Stream]:
    """One fixed stream of each kind, so that the true densities are known."""
    return [_stream("uniform", uniform), _stream("Zipf(1)", zipf)]


def uniform(generator: np.random.Generator) -> Keys:
    return generator.integers(UNIVERSE, size=APPEARANCES)


def zipf(generator: np.random.Generator) -> Keys:
    """The key of rank r, which is r - 1, has probability proportional to 1 / r."""
    below = np.cumsum(1 / np.arange(1, UNIVERSE + 1))
    places = np.searchsorted(below, generator.random(APPEARANCES) * below[-1], side="right")
    return np.asarray(np.minimum(places, UNIVERSE - 1), np.int64)


def _stream(name: str, drawn: Callable[[np.random.Generator], Keys]) -> Stream:
    keys = drawn(np.random.default_rng(2021))
    return Stream(name, keys, len(np.unique(keys)))


FloatArray = npt.NDArray[np.float64]
Bits = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint32]

WORD_BITS = 32
# The path is followed from a level whose first bits fill the sample this many times over.
SURE = 2
HALF = Fraction(1, 2)


def static_errors(
    estimator: Estimator,
    epsilon: float,
    tracked: int,
    stream: Stream,
    runs: int,
    generator: np.random.Generator,
) -> FloatArray:
    """Estimate less truth, float64[runs], of a static sample: Dwork, OptBern, or repaired."""
    initial, updated = estimator.chances(epsilon)
    present = generator.hypergeometric(stream.seen, UNIVERSE - stream.seen, tracked, runs)
    ones = generator.binomial(present, updated) + generator.binomial(tracked - present, initial)
    estimates = (ones / tracked - initial) / (updated - initial)
    noise = _noise(estimator, epsilon, tracked, runs, generator)
    return np.asarray(estimates + noise - stream.density)


def _noise(
    estimator: Estimator, epsilon: float, tracked: int, runs: int, generator: np.random.Generator
) -> FloatArray:
    if estimator.as_published:
        scale = estimator.noise_scale(Budget(epsilon, epsilon), tracked)
        return generator.laplace(0, scale, runs)
    drawn = generator.geometric(1 - exp(-epsilon), (2, runs))
    return np.asarray(drawn[0] - drawn[1]) / (tracked * estimator.gain(epsilon))


def published_ppds_errors(
    epsilon: float, sample_size: int, stream: Stream, runs: int, generator: np.random.Generator
) -> tuple[FloatArray, Keys]:
    """Estimate less truth, float64[runs], of PPDS as published, and how many keys were at or above
    the final level, int64[runs]."""
    initial, updated = Estimator("ppds", True).chances(epsilon)
    found = [
        published_ppds_end(stream.keys, UNIVERSE, sample_size, initial, updated, generator)
        for _ in range(runs)
    ]
    ones, tracked = np.array(found).T
    estimates = (ones / tracked - initial) / (updated - initial)
    noise = generator.laplace(0, 1 / (epsilon * sample_size), runs)
    return estimates + noise - stream.density, tracked


def published_ppds_end(
    keys: Keys,
    universe: int,
    sample_size: int,
    initial: float,
    updated: float,
    generator: np.random.Generator,
) -> tuple[int, int]:
    """The number of ids in the sample after a stream, and of keys that its level tracks.

    The final level is the lowest at which the number of ones never passed `sample_size`. A key's
    level is the number of leading zeros of a random word, as likely as trailing ones. Levels whose
    first bits already overfill the sample are skipped. Raises RuntimeError if one of them would not
    overfill it, which is next to impossible for samples of 100 or more.
    """
    words = generator.integers(1 << WORD_BITS, size=universe, dtype=np.uint32)
    level = lowest = _overfull(universe * initial, sample_size)
    words, appearing = _followed(words, keys, level)
    first = generator.random(len(words)) < initial
    changes = _changes(appearing, first, generator.random(len(appearing)) < updated)
    while True:
        tracked = words < np.uint64(1 << (WORD_BITS - level))
        path = np.cumsum(changes * tracked[appearing])
        held = int(np.count_nonzero(first & tracked))
        if held + max(0, path.max(initial=0)) <= sample_size:
            break
        level += 1
    if level == lowest > 0:
        raise RuntimeError("the sample was not full at the level the path was followed from")
    return held + int(path[-1] if len(path) else 0), int(np.count_nonzero(tracked))


def _overfull(ones: float, sample_size: int) -> int:
    """The highest level whose expected number of ones is SURE samples; 0 if none is."""
    level = 0
    while ones > SURE * sample_size << (level + 1):
        level += 1
    return level


def _followed(words: Words, keys: Keys, level: int) -> tuple[Words, Keys]:
    """The words of the keys at or above a level, and their appearances as indices into these."""
    chosen = np.flatnonzero(words < np.uint64(1 << (WORD_BITS - level)))
    places = np.full(len(words), -1, np.int32)
    places[chosen] = np.arange(len(chosen))
    appearing = places[keys]
    return words[chosen], appearing[appearing >= 0].astype(np.int64)


def _changes(keys: Keys, first: Bits, drawn: Bits) -> npt.NDArray[np.int8]:
    """By how much each appearance changes the number of ones: the new bit less the key's last."""
    order = np.argsort(keys, kind="stable")
    again = np.concatenate([[False], np.diff(keys[order]) == 0])[: len(keys)]
    before = np.where(again, np.roll(drawn[order], 1), first[keys[order]])
    changes = np.empty(len(keys), np.int8)
    changes[order] = drawn[order].astype(np.int8) - before
    return changes


def product_errors(epsilon: float, memory: int, stream: Stream, runs: int) -> FloatArray:
    """Estimate less truth, float64[runs], of the product: every appearance through `update_many`,
    real entropy, another permutation in every run. State and output get epsilon each."""
    errors = np.empty(runs)
    for run in range(runs):
        spec = DistinctSpec(
            Privacy(2 * epsilon, unit="key"),
            universe=UNIVERSE,
            memory=memory,
            output_share=HALF,
            hash_key=run,
        )
        sketch = spec.start(os_entropy())
        sketch.update_many(stream.keys)
        errors[run] = sketch.release(os_entropy()).density().value - stream.density
    return errors
