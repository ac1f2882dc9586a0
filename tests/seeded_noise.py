"""The product's own exact noise, drawn from a seed: a test with it leaves nothing to chance."""

import numpy as np
import numpy.typing as npt

from pansketch.randomness.exact_noise import ExactNoise


class SeededWords:
    """Words of a seeded generator: `pansketch.randomness.random_words.Words`."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def fill(self, words: npt.NDArray[np.uint64]) -> None:
        words[:] = self._generator.integers(2**64, size=len(words), dtype=np.uint64)


def seeded_noise(seed: int) -> ExactNoise:
    """Return a source of noise that repeats itself."""
    return ExactNoise(SeededWords(seed))
