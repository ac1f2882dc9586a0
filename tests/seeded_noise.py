"""The product's own exact noise, drawn from a seed: a test with it leaves nothing to chance."""

import os
from collections import Counter
from zlib import crc32

import numpy as np
import numpy.typing as npt

from pansketch.randomness.exact_noise import ExactNoise

_drawn: Counter[str] = Counter()


class SeededWords:
    """Words of a seeded generator: `pansketch.randomness.random_words.Words`."""

    def __init__(self, *seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def fill(self, words: npt.NDArray[np.uint64]) -> None:
        words[:] = self._generator.integers(2**64, size=len(words), dtype=np.uint64)


def seeded_noise(*seed: int) -> ExactNoise:
    """Return a source of noise that repeats itself."""
    return ExactNoise(SeededWords(*seed))


def noise_of_test() -> ExactNoise:
    """Return a source that the name of the running test seeds: the first, the second, and so on.

    With the kernel's randomness, a limit that holds in nearly all runs fails in some of thousands.
    Only tests of that randomness itself need it.
    """
    name = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    _drawn[name] += 1
    return seeded_noise(crc32(name.encode()), _drawn[name])
