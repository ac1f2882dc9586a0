"""The product's own exact noise, drawn from a seed: a test with it leaves nothing to chance."""

import os
from collections import Counter
from contextlib import AbstractContextManager
from unittest import mock
from zlib import crc32

import numpy as np
import numpy.typing as npt

from pansketch.randomness.exact_noise import ExactNoise

NAME = "PYTEST_CURRENT_TEST"
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


class WordsOfTest:
    """Words that the name of the running test seeds, whichever test drew before it."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._words = SeededWords()

    def fill(self, words: npt.NDArray[np.uint64]) -> None:
        name = os.environ.get(NAME, "").rpartition(" ")[0]
        if name != self._name:
            _drawn[name] += 1
            self._name, self._words = name, SeededWords(crc32(name.encode()), _drawn[name])
        self._words.fill(words)


def noise_of_test() -> ExactNoise:
    """Return a source that each test seeds by its name: its first source, its second, and so on.

    With the kernel's randomness, a limit that holds in nearly all runs fails in some of thousands.
    Only tests of that randomness itself need it.
    """
    return ExactNoise(WordsOfTest())


def noise_of_fixture(name: str) -> AbstractContextManager[object]:
    """Let the name of a fixture seed what it draws. A test of any file may be its first."""
    return mock.patch.dict(os.environ, {NAME: f"{name} (setup)"})
