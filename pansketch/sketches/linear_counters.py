"""Common parts of all families of linear counters: noise from the first instant, one release.

A reading changes a bounded part of the counters, by addition only. So one draw at the start covers
a snapshot, and one more at the release covers the later release. Sums of releases are releases of
sums. A family is a `LinearSpec` with its blocks and scales, and an `Absorber`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain
from pansketch.privacy import Guarantee, Privacy
from pansketch.randomness.exact_noise import Entropy
from pansketch.randomness.keyed_hash import form_digest
from pansketch.sketches.counter_bounds import CounterBounds, CounterRow, linear_bounds
from pansketch.sketches.path_counting import COUNTER
from pansketch.sketches.release_model import Release, SketchClosed, WindowId, expected_nbytes

DIGEST_BYTES = 32

Counters = npt.NDArray[Any]


@dataclass(frozen=True)
class LinearSpec(ABC):
    """A `Spec` whose sketch counts readings, block by block of one noise scale.

    A family adds its sizes, and what is abstract here. `counter`: the type of its counters.

    Args:
        domain: the attributes.
        privacy: epsilon, unit, intrusion and aggregation.
    """

    domain: Domain
    privacy: Privacy
    counter: ClassVar[np.dtype[Any]] = COUNTER

    @property
    @abstractmethod
    def family(self) -> str: ...

    @property
    @abstractmethod
    def blocks(self) -> tuple[int, ...]:
        """Lengths of the runs of counters that share one noise scale, in their order."""

    @property
    @abstractmethod
    def scales(self) -> tuple[Fraction, ...]:
        """The noise scale of each block."""

    @abstractmethod
    def counter_rows(self) -> Sequence[CounterRow]:
        """Bounds of a reading's contribution to the counters, row by row in their order."""

    @abstractmethod
    def canonical_form(self) -> dict[str, Any]:
        """All that decides what the counters mean and how they are protected: `linear_form`, and
        the family's sizes."""

    @abstractmethod
    def absorber(self) -> "Absorber":
        """Return the absorber that adds the readings of one window to its counters."""

    def state_form(self) -> "StateForm | None":
        """The form of the counters during a window, if they are not counts."""
        return None

    def start(self, rng: Entropy) -> "LinearSketch":
        """A sketch of an empty window, noisy from its first instant.

        Args:
            rng: where noise is drawn from.

        Returns:
            The sketch.

        Raises:
            ValueError: the counters are masked, which needs a window and keepers from the start.
        """
        if self.guarantee.answer_micro:
            raise ValueError(
                "a blinded sketch starts with its window and its keepers' public keys: "
                "pansketch.blinding.start"
            )
        return LinearSketch(self, rng)

    @property
    def nbytes(self) -> int:
        """Bytes of the secret state, from its first instant to its last."""
        return sum(self.blocks) * self.counter.itemsize

    @cached_property
    def guarantee(self) -> Guarantee:
        return Guarantee.of_linear_counters(self.privacy)

    @property
    def release_nbytes(self) -> int:
        """Bytes of one release on the wire, as expected from the entropy of its noise. A blinded
        release has uniform counters, and their bytes count (`pansketch.wire.blinded_nbytes`)."""
        if self.guarantee.answer_micro:
            return self.nbytes
        return expected_nbytes(self.blocks, self.scales, self.guarantee.draws)

    @property
    def max_release_nbytes(self) -> int:
        """A bound that no honest release of one window exceeds; a receiver refuses what is
        longer."""
        return 4096 + 2 * self.release_nbytes + self.nbytes

    @cached_property
    def fingerprint(self) -> bytes:
        """8 bytes over the canonical form."""
        return form_digest(self.canonical_form())

    @cached_property
    def digest(self) -> bytes:
        """32 bytes over the canonical form. They are collision-resistant, because a mask is bound
        to them, and so is the noise that a keeper adds."""
        return form_digest(self.canonical_form(), DIGEST_BYTES)

    @property
    def additive(self) -> bool:
        return True

    def counter_bounds(self, readings: int, draws: int) -> CounterBounds:
        """See `Spec.counter_bounds`."""
        return linear_bounds(self.counter_rows(), 8 * self.counter.itemsize, readings, draws)

    def for_window(self, index: int) -> Self:
        """The spec of one window: the same for all, so that windows add up."""
        return self


def linear_form(spec: LinearSpec) -> dict[str, Any]:
    """The part of a canonical form that is the same for every family."""
    guarantee = spec.guarantee
    privacy = [guarantee.epsilon_micro, str(guarantee.unit), guarantee.intrusion]
    if guarantee.answer_micro:
        privacy += ["blinded", guarantee.local_micro]
    return {
        "family": spec.family,
        "domain": [attribute.describe() for attribute in spec.domain.attributes],
        "privacy": privacy,
    }


def add_noise(
    spec: LinearSpec, rng: Entropy, counters: Counters, factor: Fraction = Fraction(1)
) -> None:
    """One draw on every counter, of the declared scale times `factor`."""
    start = 0
    for size, scale in zip(spec.blocks, spec.scales, strict=True):
        rng.add_discrete_laplace(scale * factor, counters[start : start + size])
        start += size


class Absorber(Protocol):
    """Counting rule of a family. It keeps no reading: its scratch is overwritten before a call
    returns."""

    def absorb(self, readings: npt.NDArray[np.float64], counters: Counters, /) -> None:
        """Add readings, float64[n, d] in the domain's units, to the counters.

        A reading with a NaN or an infinity is dropped, a value out of bounds is clipped. Raises
        ValueError for another shape.
        """
        ...


class StateForm(Protocol):
    """Another form of the counters while a window lasts: a bijection, in place."""

    def from_counts(self, counters: Counters, /) -> None: ...
    def to_counts(self, counters: Counters, /) -> None: ...


class LinearSketch:
    """The secret state of one window: exactly `spec.nbytes` bytes of counters, and scratch.

    Counts and noise are one number.
    """

    def __init__(self, spec: LinearSpec, rng: Entropy) -> None:
        self._spec = spec
        self._absorber = spec.absorber()
        self._form = spec.state_form()
        self._draws = 0
        self._closed = False
        self._counters: Counters = np.zeros(sum(spec.blocks), spec.counter)
        self._add_noise(rng)
        self._from_counts()

    def __repr__(self) -> str:
        return f"LinearSketch({self._spec!r})"

    def __reduce__(self) -> str:
        raise TypeError("a sketch is secret: it is never copied or stored")

    def update_many(self, readings: npt.NDArray[np.float64]) -> None:
        """Absorb readings, float64[n, d] in the domain's units, as the family counts them.

        A reading with a NaN or an infinity is dropped, a value out of bounds is clipped. Raises
        ValueError for another shape, SketchClosed after the release.
        """
        self._check_open()
        self._absorber.absorb(readings, self._counters)

    def rerandomise(self, rng: Entropy) -> None:
        """An announced intrusion: a fresh draw on every counter, as large as the first."""
        self._check_open()
        self._to_counts()
        self._add_noise(rng)
        self._from_counts()

    def release(self, rng: Entropy, window: WindowId | None = None) -> Release:
        """The noisy counters of this window, once; the sketch is closed and its memory erased.

        In `silent` mode with fresh noise: one draw survives a snapshot, the other the release.
        `window` labels the release; without it a random identifier does. Raises SketchClosed.
        """
        self._check_open()
        self._closed = True  # First: after a failure below, nothing is released twice.
        self._to_counts()
        if self._spec.guarantee.release_micro:
            self._add_noise(rng)
        label = window or WindowId("", "", rng.identifier())
        released = Release(self._spec, (label,), self._draws, self._counters.astype(np.int64))
        self._counters.fill(0)
        return released

    def _check_open(self) -> None:
        if self._closed:
            raise SketchClosed("this sketch has been released; start another one for a new window")

    def _add_noise(self, rng: Entropy) -> None:
        """One more draw on every counter."""
        add_noise(self._spec, rng, self._counters)
        self._draws += 1

    def _from_counts(self) -> None:
        if self._form is not None:
            self._form.from_counts(self._counters)

    def _to_counts(self) -> None:
        if self._form is not None:
            self._form.to_counts(self._counters)
