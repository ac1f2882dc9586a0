"""Two attacks that do not need a small universe: rewinding a generator, and reading floats' last
bits.

Each is aimed at a planted mechanism, where it must succeed, and at the product, where it must not.
"""

import gc
from collections.abc import Callable, Iterator
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch import Entropy
from pansketch.randomness import Chance, Counters
from pansketch_audit.mechanisms.subjects import Subject
from pansketch_audit.mechanisms.zero_noise import NoNoise

PCG64_PERIOD = 1 << 128
READINGS, KEYS = 5, 40
MAX_DRAWS_SINCE = 64
GRID = 1 << 53
TRIALS = 200


class Pcg64Entropy:
    """Noise as many programs draw it: from numpy's default generator."""

    def __init__(self) -> None:
        self._generator = np.random.Generator(np.random.PCG64())

    def add_discrete_laplace(self, scale: Fraction, counters: Counters) -> None:
        drawn = _from_uniforms(scale, self._generator.random((2, len(counters))))
        np.add(counters, drawn, out=counters, casting="unsafe")

    def fill_bernoulli(self, chance: Chance, bits: npt.NDArray[np.uint8]) -> None:
        np.less(self._generator.random(len(bits)), chance.probability, out=bits.view(np.bool_))

    def identifier(self) -> int:
        return int(self._generator.integers(1 << 62))


class _Holding:
    """A sketch and the source that drew its noise, as both stand in a process's memory."""

    def __init__(self, sketch: Any, rng: Any) -> None:
        self.sketch, self.rng = sketch, rng


def _from_uniforms(scale: Fraction, uniforms: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    geometric = np.floor(-np.log1p(-uniforms) * float(scale)).astype(np.int64)
    return np.asarray(geometric[0] - geometric[1])


def rewound(source: Callable[[], Entropy], subject: Subject) -> tuple[bool, str]:
    """Takes the memory in the middle of a window and tries to compute its secrets. These are the
    exact counts, or the bits that were drawn again, whose keys must have appeared."""
    rng = source()
    sketch = subject.spec.start(rng)
    begun = subject.counts(sketch)
    for unit in _fed(subject):
        sketch.update_many(unit)
    generators = list(_generators(_Holding(sketch, rng)))
    if not generators:
        return False, "no generator state in memory to rewind"
    now = subject.counts(sketch)
    if subject.unit == "key":
        return _redrawn_bits(begun, now, _initial_bits(subject, generators[0], now))
    if (now - _initial_noise(subject, generators[0]) == _exact_counts(subject)).all():
        return True, f"rewound: all {len(now)} exact counts recovered from memory"
    return False, "a generator's state is in memory, but rewinding it gave other counts"


def _fed(subject: Subject) -> list[npt.NDArray[Any]]:
    """One reading several times, or several keys."""
    if subject.unit == "key":
        return [subject.reading(index) for index in range(min(KEYS, len(subject.universe)))]
    return [subject.reading(0)] * READINGS


def _generators(root: object) -> Iterator[Any]:
    """Every random bit generator that can be reached from an object."""
    seen, waiting = {id(root)}, [root]
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, np.random.BitGenerator):
            yield thing
        for each in gc.get_referents(thing):
            if id(each) not in seen and not isinstance(each, type | ModuleType):
                seen.add(id(each))
                waiting.append(each)


def _initial_noise(subject: Subject, generator: Any) -> npt.NDArray[np.int64]:
    """The noise of a window's start, drawn again from the generator wound back to before it."""
    return _restarted(subject, generator, 2 * sum(subject.spec.blocks))


def _initial_bits(subject: Subject, generator: Any, now: npt.NDArray[np.int64]) -> Any:
    """The bits at a window's start. The number of draws since then is unknown. The right number
    reproduces nearly all current bits, any other number does not."""
    tried = (_restarted(subject, generator, len(now) + draws) for draws in range(MAX_DRAWS_SINCE))
    return min(tried, key=lambda bits: int((bits != now).sum()))


def _restarted(subject: Subject, generator: Any, draws: int) -> npt.NDArray[np.int64]:
    """The memory of a window's start, with the generator rewound by so many draws."""
    back = np.random.PCG64()
    back.state = generator.state
    back.advance(PCG64_PERIOD - draws)
    again = Pcg64Entropy()
    again._generator = np.random.Generator(back)
    return np.asarray(subject.counts(subject.spec.start(again)))


def _redrawn_bits(begun: Any, now: Any, rewound_to: Any) -> tuple[bool, str]:
    if (rewound_to != begun).any():
        return False, "a generator's state is in memory, but rewinding it gave other bits"
    drawn_again = int((now != begun).sum())
    return True, (
        f"rewound: all {len(begun)} initial bits recovered from memory, and {drawn_again} that "
        "changed since: their keys appeared, for certain"
    )


def _exact_counts(subject: Subject) -> npt.NDArray[np.int64]:
    sketch = subject.spec.start(NoNoise())
    for unit in _fed(subject):
        sketch.update_many(unit)
    return subject.counts(sketch)


def distinguish_floats(subject: Subject) -> tuple[bool, str]:
    """Tells counts 0 and 1 apart by which floats Laplace noise can reach (Mironov, CCS 2012).

    A float sampler maps 2**53 uniforms to noise: around one count it reaches some floats and around
    the other different ones. A single release that only one count can explain has infinite loss.
    """
    scale = float(Fraction(1) / Fraction(subject.epsilon_micro, 10**6))
    generator = np.random.Generator(np.random.PCG64())
    explained = 0
    for _ in range(TRIALS):
        step = int(generator.integers(1, GRID))
        released = 1.0 + _float_noise(step, scale)
        explained += _reachable(released, 1.0, scale) and not _reachable(released, 0.0, scale)
    return explained > 0, f"{explained} of {TRIALS} releases can stem from one count only"


def _float_noise(step: int, scale: float) -> float:
    return float(-scale * np.log(step / GRID))


def _reachable(released: float, count: float, scale: float) -> bool:
    """Return whether some uniform on the sampler's grid leads from `count` to exactly
    `released`."""
    if released < count:
        return False
    nearest = round(np.exp((count - released) / scale) * GRID)
    # The logarithm is flat here: several neighbouring uniforms may round to one float.
    near = range(max(1, nearest - 64), min(GRID, nearest + 65))
    return any(count + _float_noise(step, scale) == released for step in near)
