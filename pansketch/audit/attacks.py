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

from pansketch.audit.statistical import NoNoise
from pansketch.audit.subjects import Subject
from pansketch.noise import Entropy

PCG64_PERIOD = 1 << 128
READINGS = 5
GRID = 1 << 53
TRIALS = 200


class Pcg64Entropy:
    """Noise as many programs draw it: from numpy's default generator."""

    def __init__(self) -> None:
        self._generator = np.random.Generator(np.random.PCG64())

    def add_discrete_laplace(self, scale: Fraction, counters: npt.NDArray[np.int32]) -> None:
        counters += _from_uniforms(scale, self._generator.random((2, len(counters))))

    def identifier(self) -> int:
        return int(self._generator.integers(1 << 62))


class _Holding:
    """A sketch and the source that drew its noise, as both stand in a process's memory."""

    def __init__(self, sketch: Any, rng: Any) -> None:
        self.sketch, self.rng = sketch, rng


def _from_uniforms(scale: Fraction, uniforms: npt.NDArray[np.float64]) -> npt.NDArray[np.int32]:
    geometric = np.floor(-np.log1p(-uniforms) * float(scale)).astype(np.int32)
    return np.asarray(geometric[0] - geometric[1])


def rewound(source: Callable[[], Entropy], subject: Subject) -> tuple[bool, str]:
    """Takes the memory in the middle of a window and tries to compute the exact counts from it."""
    rng = source()
    sketch = subject.spec.start(rng)
    for _ in range(READINGS):
        sketch.update_many(subject.reading(0))
    generators = list(_generators(_Holding(sketch, rng)))
    if not generators:
        return False, "no generator state in memory to rewind"
    found = subject.counts(sketch) - _initial_noise(subject, generators[0])
    truth = _exact_counts(subject)
    if (found == truth).all():
        return True, f"rewound: all {len(found)} exact counts recovered from memory"
    return False, "a generator's state is in memory, but rewinding it gave other counts"


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
    counters = sum(subject.spec.blocks)
    back = np.random.PCG64()
    back.state = generator.state
    back.advance(PCG64_PERIOD - 2 * counters)
    again = Pcg64Entropy()
    again._generator = np.random.Generator(back)
    return np.asarray(subject.counts(subject.spec.start(again)))


def _exact_counts(subject: Subject) -> npt.NDArray[np.int64]:
    sketch = subject.spec.start(NoNoise())
    for _ in range(READINGS):
        sketch.update_many(subject.reading(0))
    return subject.counts(sketch)


def floats_betray(subject: Subject) -> tuple[bool, str]:
    """Tells counts 0 and 1 apart by which floats Laplace noise can reach (Mironov, CCS 2012).

    A float sampler maps 2**53 uniforms to noise: around one count it reaches some floats and around
    the other different ones. A single release that only one count can explain has infinite loss.
    """
    scale = float(Fraction(1) / Fraction(subject.epsilon_micro, 10**6))
    generator = np.random.Generator(np.random.PCG64())
    betrayed = 0
    for _ in range(TRIALS):
        step = int(generator.integers(1, GRID))
        released = 1.0 + _float_noise(step, scale)
        betrayed += _reachable(released, 1.0, scale) and not _reachable(released, 0.0, scale)
    return betrayed > 0, f"{betrayed} of {TRIALS} releases can stem from one count only"


def _float_noise(step: int, scale: float) -> float:
    return float(-scale * np.log(step / GRID))


def _reachable(released: float, count: float, scale: float) -> bool:
    """Whether some uniform on the sampler's grid leads from `count` to exactly `released`."""
    if released < count:
        return False
    nearest = round(np.exp((count - released) / scale) * GRID)
    # The logarithm is flat here: several neighbouring uniforms may round to one float.
    near = range(max(1, nearest - 64), min(GRID, nearest + 65))
    return any(count + _float_noise(step, scale) == released for step in near)
