"""Sketches whose counters are masked: a snapshot of one shows uniform numbers for any readings.

A mask is added at the window's start, at every later epoch and at the release. So snapshots of
different epochs, and the release, are independent and uniform to an observer who lacks the masks of
one keeper. Readings are added in between as to any other sketch. With `local_epsilon` the counters
hold the two draws of the local mode as well, at that weaker epsilon.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch.blinding.masks import Masks, SodiumMasks, WindowMasks
from pansketch.randomness.exact_noise import KeyEntropy
from pansketch.sketches.linear_counters import LinearSpec, add_noise
from pansketch.sketches.release_model import SketchClosed, WindowId


@dataclass(frozen=True, eq=False)
class BlindedRelease:
    """Release of a device with masked counters: uniform integers, and the public keys by which
    keepers alone compute the masks.

    Args:
        spec: of the sketch.
        window: the label that the masks are bound to.
        keepers: 8 bytes for each keeper whose masks the counters hold.
        epochs: the public key of every epoch, 32 bytes each, in order.
        counters: modulo 2**32 or 2**64, in the type of the spec's counters, made read-only.

    Raises:
        ValueError: the counters have another type or length.
    """

    spec: LinearSpec
    window: WindowId
    keepers: tuple[bytes, ...]
    epochs: tuple[bytes, ...]
    counters: npt.NDArray[Any] = field(repr=False)

    def __post_init__(self) -> None:
        wanted = self.spec.counter, (sum(self.spec.blocks),)
        if (self.counters.dtype, self.counters.shape) != wanted:
            raise ValueError("the counters of a blinded release have its spec's type and number")
        self.counters.flags.writeable = False


class BlindedSketch:
    """The secret state of one window: masked counters, and scratch. No key, seed or mask stays in
    it between two calls. `start` makes one.

    Args:
        spec: of linear counters, with aggregation "blinded".
        rng: where keys, and noise of `local_epsilon`, are drawn from.
        window: the release's label.
        masks: of this window.
    """

    def __init__(
        self, spec: LinearSpec, rng: KeyEntropy, window: WindowId, masks: WindowMasks
    ) -> None:
        self._spec, self._window, self._masks = spec, window, masks
        self._absorber = spec.absorber()
        self._form = spec.state_form()
        self._closed = False
        self._counters: npt.NDArray[Any] = np.zeros(sum(spec.blocks), spec.counter)
        self._add_local_noise(rng)
        self._masks.begin_epoch(rng, self._counters)
        if self._form is not None:
            self._form.from_counts(self._counters)

    def __repr__(self) -> str:
        return f"BlindedSketch({self._spec!r})"

    def __reduce__(self) -> str:
        raise TypeError("a sketch is secret: it is never copied or stored")

    def update_many(self, readings: npt.NDArray[np.float64]) -> None:
        """Absorb readings, as the sketch of the same spec without masks does.

        Args:
            readings: float64[n, d] in the domain's units. A reading with a NaN or an infinity is
                dropped, a value out of bounds is clipped.

        Raises:
            SketchClosed: after the release.
            ValueError: another shape.
        """
        self._check_open()
        self._absorber.absorb(readings, self._counters)

    def begin_epoch(self, rng: KeyEntropy) -> None:
        """Add fresh masks: snapshots before and after this moment show nothing together.

        Args:
            rng: where the epoch's key is drawn from.

        Raises:
            SketchClosed: after the release.
            ValueError: the window has had the maximum number of epochs.
        """
        self._check_open()
        if self._form is not None:
            self._form.to_counts(self._counters)
        try:
            self._masks.begin_epoch(rng, self._counters)
        finally:
            if self._form is not None:
                self._form.from_counts(self._counters)

    def rerandomise(self, rng: KeyEntropy) -> None:
        """An announced intrusion: see `begin_epoch`.

        Args:
            rng: where the epoch's key is drawn from.

        Raises:
            SketchClosed: after the release.
        """
        self.begin_epoch(rng)

    def release(self, rng: KeyEntropy) -> BlindedRelease:
        """The masked counters of this window, once, under masks that no snapshot has seen; the
        sketch is closed and its memory erased.

        Args:
            rng: where the last epoch's key is drawn from.

        Returns:
            The release, with the label that the sketch began with.

        Raises:
            SketchClosed: it was released before.
        """
        self._check_open()
        self._closed = True  # First: after a failure below, nothing is released twice.
        if self._form is not None:
            self._form.to_counts(self._counters)
        self._add_local_noise(rng)
        self._masks.begin_epoch(rng, self._counters, last=True)
        masks, counters = self._masks, self._counters.copy()
        released = BlindedRelease(
            self._spec, self._window, masks.keeper_ids, masks.epoch_keys, counters
        )
        self._counters.fill(0)
        return released

    def _check_open(self) -> None:
        if self._closed:
            raise SketchClosed("this sketch has been released; start another one for a new window")

    def _add_local_noise(self, rng: KeyEntropy) -> None:
        if factor := self._spec.guarantee.local_factor:
            add_noise(self._spec, rng, self._counters, factor)


def start(
    spec: LinearSpec,
    rng: KeyEntropy,
    fleet: str,
    window: WindowId,
    keepers: tuple[bytes, ...],
    masks: Masks[Any] | None = None,
) -> BlindedSketch:
    """A sketch of an empty window, masked from its first instant.

    Args:
        spec: of linear counters, with aggregation "blinded".
        rng: where keys, and noise of `local_epsilon`, are drawn from.
        fleet: its name.
        window: the release's label. A device uses a label for one sketch only.
        keepers: public keys, 32 bytes each: at least two.
        masks: where masks come from; None: libsodium.

    Returns:
        The sketch.

    Raises:
        ValueError: the spec is not blinded, or the keepers are too few, equal or of low order.
        BlindingUnavailable: PyNaCl is not installed.
    """
    if not isinstance(spec, LinearSpec) or not spec.guarantee.answer_micro:
        raise ValueError("this spec is not blinded: give it Privacy(aggregation='blinded')")
    by = SodiumMasks() if masks is None else masks
    return BlindedSketch(spec, rng, window, WindowMasks(spec, fleet, window, keepers, by))
