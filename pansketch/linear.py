"""What all sketches of linear counters share: noise from the first instant, released once.

A reading changes a bounded part of the counters, by addition only. So one draw at the start covers
a snapshot, one more at the release covers what is published after it, and sums of releases are
releases of sums.
"""

from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pansketch.domain import Domain
from pansketch.noise import Entropy
from pansketch.sketch import Release, SketchClosed, Spec, WindowId

Counters = npt.NDArray[Any]


class LinearSpec(Spec, Protocol):
    """A spec whose sketch holds counters of readings, block by block of one noise scale."""

    @property
    def domain(self) -> Domain: ...
    @property
    def scales(self) -> tuple[Fraction, ...]:
        """The noise scale of each block."""
        ...


class LinearCounters:
    """The secret counters of one window of a spec, in `values`: counts and noise as one number."""

    def __init__(self, spec: LinearSpec, counter: np.dtype[Any], rng: Entropy) -> None:
        self._spec = spec
        self._draws = 0
        self._closed = False
        self.values: Counters = np.zeros(sum(spec.blocks), counter)
        self.add_noise(rng)

    def __repr__(self) -> str:
        return f"LinearCounters({self._spec!r})"

    def __reduce__(self) -> str:
        raise TypeError("a sketch is secret: it is never copied or stored")

    def check_open(self) -> None:
        """Raises SketchClosed after the release."""
        if self._closed:
            raise SketchClosed("this sketch has been released; start another one for a new window")

    def add_noise(self, rng: Entropy) -> None:
        """One more draw on every counter."""
        start = 0
        for size, scale in zip(self._spec.blocks, self._spec.scales, strict=True):
            rng.add_discrete_laplace(scale, self.values[start : start + size])
            start += size
        self._draws += 1

    def release(self, rng: Entropy, window: WindowId | None) -> Release:
        """The noisy counters, once; their memory is erased. Raises SketchClosed.

        In `silent` mode with fresh noise: one draw survives a snapshot, the other the release.
        `window` labels the release; without it a random identifier does.
        """
        self.check_open()
        self._closed = True  # First: whatever fails from here on, nothing is released twice.
        if self._spec.guarantee.release_micro:
            self.add_noise(rng)
        label = window or WindowId("", "", rng.identifier())
        released = Release(self._spec, (label,), self._draws, self.values.astype(np.int64))
        self.values.fill(0)
        return released


def linear_form(spec: LinearSpec) -> dict[str, Any]:
    """The part of a fingerprint's form that is the same for every family."""
    promise = spec.guarantee
    return {
        "family": spec.family,
        "domain": [attribute.describe() for attribute in spec.domain.attributes],
        "privacy": [promise.epsilon_micro, str(promise.unit), promise.intrusion],
    }
