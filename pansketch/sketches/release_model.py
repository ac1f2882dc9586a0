"""The three words: Spec (public) -> Sketch (secret, single use) -> Release (public).

A spec is frozen configuration and may be logged. A sketch holds counts and noise as one number and
offers nothing but `update_many` and `release`. A release is integers, read-only, and knows what is
inside it, so that nothing is merged twice.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, e, log2
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from pansketch.estimate import Estimate
from pansketch.privacy import Guarantee
from pansketch.randomness.exact_noise import Entropy
from pansketch.sketches.counter_bounds import CounterBounds


class SketchClosed(RuntimeError):
    """The sketch has been released: a window is released once, and takes no readings afterwards."""


class MergeError(ValueError):
    """These releases do not belong in one sum; the text gives the reason."""


@dataclass(frozen=True, order=True)
class WindowId:
    """Public label of one release: window [start, end) of a device's stream.

    Args:
        device: name of the device.
        stream: name of the stream.
        sequence: number of the release, given once within an incarnation.
        start: Unix seconds.
        end: Unix seconds.
        clock_synchronised: whether the device's clock followed a better one when the window closed;
            None if unknown. Labels compare without it.
        incarnation: 8 random bytes of the device's ledger; empty without a ledger.
    """

    device: str
    stream: str
    sequence: int
    start: int = 0
    end: int = 0
    clock_synchronised: bool | None = field(default=None, compare=False)
    incarnation: bytes = b""

    @property
    def key(self) -> tuple[str, str, bytes, int, int]:
        """Key that identifies a release."""
        return self.device, self.stream, self.incarnation, self.sequence, self.start


class Sketch(Protocol):
    """Secret state of one stream in one window. `repr` shows the spec and never the state."""

    def update_many(self, readings: Any, /) -> None:
        """Absorb readings, float64[n, d], or for a sketch of keys the keys."""
        ...

    def release(self, rng: Entropy, window: WindowId | None = None) -> "Release": ...
    def rerandomise(self, rng: Entropy) -> None: ...


class Spec(Protocol):
    """Public description of a sketch. Equal fingerprints mean releases that add up."""

    @property
    def family(self) -> str: ...
    @property
    def fingerprint(self) -> bytes: ...
    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def blocks(self) -> tuple[int, ...]:
        """Lengths of the runs of counters that share one noise scale, in their order."""
        ...

    @property
    def additive(self) -> bool:
        """True if the sum of two releases is meaningful. Estimates can always be added."""
        ...

    def for_window(self, index: int) -> "Spec":
        """The spec of one public window. If hashing changes from window to window, it is another
        spec. Then releases of different windows have different fingerprints and do not merge."""
        ...

    def counter_bounds(self, readings: int, draws: int) -> CounterBounds:
        """Return bounds of an honest release of at most so many readings, with so many draws in
        each counter. It is outside of them with a probability of at most `bounds.ALLOWANCE`."""
        ...

    def start(self, rng: Entropy) -> Sketch: ...


@runtime_checkable
class CountsKeys(Protocol):
    """A spec whose releases tell how many distinct keys there were."""

    def distinct(self, release: "Release") -> Estimate: ...
    def density(self, release: "Release") -> Estimate: ...


@dataclass(frozen=True, eq=False)
class Release:
    """The output of a device: noisy integer counters and the labels of their windows.

    Two releases add up to one that stands for both.

    Args:
        spec: of the sketch.
        windows: one label for each merged release.
        draws: independent draws of the declared scale in every counter: known from the intrusion
            mode and the announced intrusions, never from readings.
        counters: int64[sum(spec.blocks)], made read-only.
        noise: variance of every counter's noise, at most so many times that of one draw of the
            declared scale; 0: `draws` times. An unblinded release has its own.
        merged: the number of merged releases without a label in `windows`. A stored sum has such
            releases, and its owner must ensure that it holds no window twice.

    Raises:
        ValueError: the counters have another type or length.
    """

    spec: Spec
    windows: tuple[WindowId, ...]
    draws: int
    counters: npt.NDArray[np.int64] = field(repr=False)
    noise: float = 0
    merged: int = 0

    def __post_init__(self) -> None:
        if not self.noise:
            object.__setattr__(self, "noise", self.draws)
        if self.counters.dtype != np.int64 or self.counters.shape != (sum(self.spec.blocks),):
            raise ValueError("the counters of a release must be int64, one for each of its spec's")
        self.counters.flags.writeable = False

    def __add__(self, other: "Release") -> "Release":
        return merge([self, other])

    @property
    def count(self) -> int:
        """Number of windows whose releases it sums."""
        return len(self.windows) + self.merged

    def split(self) -> Iterator[npt.NDArray[np.int64]]:
        """The counters block by block."""
        start = 0
        for length in self.spec.blocks:
            yield self.counters[start : start + length]
            start += length

    def distinct(self) -> Estimate:
        """Estimate the number of distinct keys.

        Returns:
            The estimate: of the window of one release, of the union of merged bitmaps, of the
            disjoint sets of merged counts.

        Raises:
            ValueError: the spec counts readings.
            NoEstimate: a ValueError; the error would mean nothing.
        """
        return self._counting_keys().distinct(self)

    def density(self) -> Estimate:
        """`distinct` as a share of an enumerated universe.

        Returns:
            The estimated share, 1 for all keys of the universe.

        Raises:
            ValueError: as `distinct`, or the universe is open.
        """
        return self._counting_keys().density(self)

    def _counting_keys(self) -> CountsKeys:
        if not isinstance(self.spec, CountsKeys):
            raise ValueError(
                f"a release of family {self.spec.family} counts readings, not distinct keys"
            )
        return self.spec


def expected_nbytes(blocks: Sequence[int], scales: Sequence[Fraction], draws: int) -> int:
    """Bytes of a release on the wire whose blocks of counters hold so many draws of these scales,
    from the entropy of that noise."""
    spread = 0.5 * log2(draws)
    bits = (
        size * max(1.0, log2(2 * e * scale) + spread)
        for size, scale in zip(blocks, scales, strict=True)
    )
    return ceil(sum(bits) / 8) + 16 * len(blocks) + 128


def merge(releases: Iterable[Release]) -> Release:
    """Return the sum of releases of one spec: commutative, associative, and closed.

    Args:
        releases: of different windows or devices.

    Returns:
        One release that stands for all their windows.

    Raises:
        MergeError: there is no release, the specs differ, several are of a spec that is not
            additive, or two contain one window.
    """
    spec: Spec | None = None
    total, draws, noise, merged = np.zeros(0, np.int64), 0, 0.0, 0
    windows: dict[tuple[str, str, bytes, int, int], WindowId] = {}
    for release in releases:
        if spec is None:
            spec, total = release.spec, np.zeros_like(release.counters)
        if release.spec.fingerprint != spec.fingerprint:
            raise MergeError(
                "releases of different specs do not merge; add their estimates instead"
            )
        if (windows or merged) and not spec.additive:
            raise MergeError(
                "counts of hashed keys are not linear in the keys: add their estimates, "
                "distinct_keys(releases, 'disjoint')"
            )
        for window in release.windows:
            if window.key in windows:
                raise MergeError(
                    f"window {window.sequence} of {window.device}/{window.stream} is in there twice"
                )
            windows[window.key] = window
        total += release.counters
        draws += release.draws
        noise += release.noise
        merged += release.merged
    if spec is None:
        raise MergeError("nothing to merge: no release was given")
    return Release(spec, tuple(sorted(windows.values())), draws, total, noise, merged)
