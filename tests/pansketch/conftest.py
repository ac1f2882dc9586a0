"""Driven sources of noise, golden bytes, and a spec of every family, for the library's tests."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from pansketch import (
    Attribute,
    Domain,
    HierarchySpec,
    Privacy,
    WindowId,
    decode,
    encode,
    read_header,
)
from pansketch.randomness.exact_noise import Chance
from pansketch.randomness.random_words import OsWords


class NoNoise:
    """An `Entropy` that adds nothing, so that a test sees what the construction itself does."""

    def __init__(self):
        self.named = 0

    def add_discrete_laplace(self, scale, counters):
        assert scale > 0

    def fill_bernoulli(self, chance, bits):
        """Every bit is the likelier one, so that only presence is seen."""
        bits.fill(chance.probability > 0.5)

    def identifier(self):
        self.named += 1
        return self.named


class KnownNoise(NoNoise):
    """An `Entropy` that draws a fixed pseudo-random tape and remembers it: (scale or chance, draws)
    of every call."""

    def __init__(self, seed):
        super().__init__()
        self._generator = np.random.default_rng(seed)
        self.draws: list[tuple[Fraction | Chance, np.ndarray]] = []

    def add_discrete_laplace(self, scale, counters):
        drawn = self._generator.integers(-50, 50, len(counters)).astype(counters.dtype)
        self.draws.append((scale, drawn))
        counters += drawn

    def fill_bernoulli(self, chance, bits):
        bits[:] = self._generator.random(len(bits)) < chance.probability
        self.draws.append((chance, bits.copy()))


class Tape:
    """Words that a test writes down; reading beyond their end is an error."""

    def __init__(self, *words):
        self.words = list(words)

    def fill(self, words):
        for place in range(len(words)):
            words[place] = self.words.pop(0)


class WatchedWords(OsWords):
    """The kernel's words, counted, and the buffers they were read into."""

    def __init__(self, fail_after=None):
        super().__init__()
        self.read, self.seen, self._left = 0, [], fail_after

    def fill(self, words):
        if self._left is not None:
            if not self._left:
                raise OSError("no randomness")
            self._left -= 1
        super().fill(words)
        self.read += len(words)
        self.seen.append(words)


class RecordedArray(np.ndarray):
    """An array whose copies go to `made` as well; views have no memory of their own."""

    made: list[np.ndarray] | None = None

    def __array_finalize__(self, source):
        self.made = getattr(source, "made", None)
        if self.made is not None and self.base is None:
            self.made.append(self)


class RecordingNumPy:
    """NumPy, and in `made` every array with secrets that it makes."""

    MAKERS = ("empty", "empty_like", "zeros", "searchsorted", "bincount", "unpackbits", "packbits")

    def __init__(self):
        self.made = []

    def __getattr__(self, name):
        value = getattr(np, name)
        return partial(self._make, value) if name in self.MAKERS else value

    def _make(self, value, *words, **named):
        array = value(*words, **named)
        if not isinstance(array, np.ndarray):
            return array
        recorded = array.view(RecordedArray)
        recorded.made = self.made
        self.made.append(recorded)
        return recorded


@pytest.fixture
def arrays_of(monkeypatch):
    """`arrays_of(*modules)`: the arrays that these modules make with NumPy from then on, and their
    copies: what an intruder finds in memory beside the state."""

    def record(*modules):
        recording = RecordingNumPy()
        for module in modules:
            monkeypatch.setattr(module, "np", recording)
        return recording.made

    return record


@pytest.fixture
def tape():
    return Tape


@pytest.fixture
def watched_words():
    return WatchedWords


@pytest.fixture
def no_noise():
    return NoNoise()


@pytest.fixture
def known_noise():
    return KnownNoise


@pytest.fixture
def weather():
    return Domain(
        [
            Attribute("temp", low=-40, high=60, unit="degC"),
            Attribute("pm25", low=0, high=1000, unit="ug/m3", scale="log"),
        ]
    )


@pytest.fixture
def make_spec(weather):
    """A small hierarchy with exact and sketched levels; keyword arguments override its sizes."""

    def make(**changes):
        sizes = {"depth": 12, "k": 16, "width": 64, "rows": 2, "fanout": 4} | changes
        domain = sizes.pop("domain", weather)
        privacy = sizes.pop("privacy", Privacy(epsilon=1.0))
        return HierarchySpec(domain, privacy, **sizes)

    return make


@pytest.fixture
def readings():
    """Readings inside the weather domain: float64[n, 2]."""

    def draw(count, seed=0):
        generator = np.random.default_rng(seed)
        return np.column_stack(
            [generator.normal(12, 9, count), np.exp(generator.normal(4, 0.8, count))]
        )

    return draw


@pytest.fixture
def windows_of():
    """The windows of a golden vector: clocks are numbers as on the wire, incarnations hex."""

    def window(device, stream, sequence, start, end, clock, incarnation):
        known = [None, True, False][clock]
        return WindowId(device, stream, sequence, start, end, known, bytes.fromhex(incarnation))

    def windows(vector):
        return tuple(window(*entry) for entry in vector["windows"])

    return windows


@pytest.fixture
def has_golden_bytes():
    """Check that a vector's bytes are those of a release, and hold all of it."""

    def check(vector, release):
        golden = bytes.fromhex(vector["bytes"])
        assert golden == encode(release)
        assert golden[4] == read_header(golden).version == 3
        again = decode(golden, release.spec)
        assert again.counters.tolist() == vector["counters"]
        assert (again.windows, again.draws) == (release.windows, vector["draws"])
        clocks = [window.clock_synchronised for window in again.windows]
        assert clocks == [window.clock_synchronised for window in release.windows]
        assert encode(again) == golden

    return check
