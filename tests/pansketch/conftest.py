"""Driven sources of noise, golden bytes, and a spec of every family, for the library's tests."""

from fractions import Fraction

import msgpack
import numpy as np
import pytest

from pansketch import Attribute, Domain, HierarchySpec, Privacy, WindowId, decode, encode, peek
from pansketch.hashing import digest
from pansketch.noise import Chance
from pansketch.words import OsWords


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
    """The windows of a golden vector, whose clocks are numbers as on the wire."""

    def windows(vector):
        clocks = [entry[5] if len(entry) > 5 else 0 for entry in vector["windows"]]
        entries = zip(vector["windows"], clocks, strict=True)
        return tuple(WindowId(*entry[:5], [None, True, False][clock]) for entry, clock in entries)

    return windows


@pytest.fixture
def as_version_1():
    """The bytes that version 1 of the wire gave a release: its windows have no clock."""

    def version_1(data):
        fields = msgpack.unpackb(data[13:])
        fields[2] = [entry[:5] for entry in fields[2]]
        body = msgpack.packb(fields)
        return b"PANS\1" + digest(body, 8) + body

    return version_1


@pytest.fixture
def has_golden_bytes(as_version_1):
    """Checks that a vector's bytes are those of its version for a release, and say all of it."""

    def check(vector, release):
        golden = bytes.fromhex(vector["bytes"])
        written = encode(release)
        assert golden == (written if golden[4] == 2 else as_version_1(written))
        assert peek(golden).version == golden[4]
        again = decode(golden, release.spec)
        assert again.counters.tolist() == vector["counters"]
        assert (again.windows, again.draws) == (release.windows, vector["draws"])
        clocks = [window.clock_synchronised for window in again.windows]
        assert clocks == [window.clock_synchronised for window in release.windows]
        assert encode(again) == written

    return check
