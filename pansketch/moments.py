"""Moment sketches: private sums of features, from which any mean of the readings is estimated.

Houssiau, Schellekens, Chatalic, Annamraju, de Montjoye, "M2M: a general method to perform various
data analysis tasks from a differentially private sketch" (arXiv 2211.14062), sketches RFF, RACE and
HIST. The number of readings is released with noise of its own, for a share of epsilon.

The paper adds real noise to real sums once, which floating point betrays and a snapshot followed by
a release undoes. Here features, sums and noise are integers, and `silent` mode adds a second, fresh
draw at the release (docs/privacy.md).
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import isfinite
from typing import get_args

import numpy as np
import numpy.typing as npt

from pansketch.domain import Domain
from pansketch.features import FeatureMap, Features
from pansketch.fourier import Fourier
from pansketch.hashing import digest, form_digest
from pansketch.linear import LinearCounters, linear_form
from pansketch.noise import Entropy
from pansketch.onehot import Histograms, Race
from pansketch.positions import PositionEncoder
from pansketch.privacy import MICRO, Guarantee, Privacy
from pansketch.projections import Projections
from pansketch.sketch import Release, WindowId, expected_nbytes

COUNTER = np.dtype(np.int64)
VALUES_AT_ONCE = 1 << 17  # Of all rows together: their scratch stays in the second-level cache.
MOST_READINGS_AT_ONCE = 2048
LARGEST_SCALE = 1 << 40  # Larger noise would leave counters of 64 bits no room.
SMOOTHEST, SHARPEST = 64.0, 1 / 64


@dataclass(frozen=True)
class MomentsSpec:
    """Public description of a moment sketch.

    `features`: "rff", `m` cosines and sines of m / 2 Gaussian frequencies, whose kernel has
    bandwidth `sigma` in unit intervals; "race", `rows` hashes into `width` buckets, at bandwidth
    `sigma`; "hist", one histogram of `bins` bins for each attribute, or a bin a category. Sizes of
    other features are ignored. `num_share`: the share of epsilon that the number of readings
    costs. `hash_key`: public. Raises ValueError, in one line, on what cannot be.
    """

    domain: Domain
    privacy: Privacy
    features: Features = "rff"
    m: int = 200
    sigma: float = 1.0
    rows: int = 80
    width: int = 80
    bins: int = 100
    num_share: float = 0.02
    hash_key: int = 0
    family: str = field(default="moments", init=False)
    map: FeatureMap = field(init=False, repr=False, compare=False)
    scales: tuple[Fraction, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, low, high in (
            ("m", 2, 4096),
            ("rows", 1, 1024),
            ("width", 2, 4096),
            ("bins", 2, 4096),
            ("hash_key", 0, (1 << 64) - 1),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} must be a whole number, not {type(value).__name__}")
            if not low <= value <= high:
                raise ValueError(f"{name} must lie between {low} and {high}, not {value}")
        if self.features not in get_args(Features):
            known = ", ".join(get_args(Features))
            raise ValueError(f"features must be one of {known}, not {self.features!r}")
        if self.m % 2:
            raise ValueError(f"m counts cosines and sines, so it must be even, not {self.m}")
        self._check_fraction("sigma", SHARPEST, SMOOTHEST)
        self._check_fraction("num_share", 1e-6, 1 - 1e-6)
        # Derived here, so that whatever cannot work is refused now and not at the first reading.
        PositionEncoder(self.domain, 1)
        object.__setattr__(self, "map", self._derive_map())
        object.__setattr__(self, "scales", self._derive_scales())

    def _check_fraction(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} must be a number, not {type(value).__name__}")
        if not (isfinite(value) and low <= value <= high):
            raise ValueError(f"{name} must lie between {low:g} and {high:g}, not {value:g}")
        object.__setattr__(self, name, float(value))

    def _derive_map(self) -> FeatureMap:
        if self.features == "hist":
            return Histograms.of(self.domain, self.bins)
        count = self.m // 2 if self.features == "rff" else self.rows
        projections = Projections.derive(
            self.hash_key, f"moments/{self.features}", count, self.domain.dimension, self.sigma
        )
        return Fourier(projections) if self.features == "rff" else Race(projections, self.width)

    def _derive_scales(self) -> tuple[Fraction, ...]:
        epsilon = Fraction(self.guarantee.reading_micro, MICRO)
        share = Fraction(str(self.num_share))
        scales = 1 / (epsilon * share), self.map.sensitivity / (epsilon * (1 - share))
        if max(scales) > LARGEST_SCALE:
            raise ValueError(
                "epsilon is too small for so many features: give fewer, or a larger one"
            )
        return scales

    @property
    def blocks(self) -> tuple[int, ...]:
        """The number of readings, then the features."""
        return 1, self.map.size

    @property
    def nbytes(self) -> int:
        """Bytes of the secret state, from its first instant to its last."""
        return sum(self.blocks) * COUNTER.itemsize

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.of_linear_counters(self.privacy)

    @property
    def release_nbytes(self) -> int:
        """Bytes of one release on the wire, as expected from the entropy of its noise."""
        return expected_nbytes(self.blocks, self.scales, self.guarantee.draws)

    @property
    def max_release_nbytes(self) -> int:
        """A bound that no honest release of one window exceeds; a receiver refuses what is
        longer. Sums outgrow their noise: it leaves room for 2**32 readings."""
        return 4096 + 2 * self.release_nbytes + 4 * self.nbytes

    @cached_property
    def fingerprint(self) -> bytes:
        """8 bytes over all that decides what the counters mean and how they are protected.

        The map enters by its integers, so it covers the hash key and all sizes.
        """
        form = linear_form(self)
        form["privacy"].append(str(Fraction(str(self.num_share))))
        form |= {"features": self.features, "map": digest(self.map.canonical, 16).hex()}
        return form_digest(form)

    @property
    def additive(self) -> bool:
        return True

    def for_window(self, index: int) -> "MomentsSpec":
        """The spec of one window: the same for all, so that windows add up."""
        return self

    def start(self, rng: Entropy) -> "MomentsSketch":
        """A sketch of an empty window, noisy from its first instant."""
        return MomentsSketch(self, rng)


class MomentsSketch:
    """The secret state of one window: exactly `spec.nbytes` bytes of counters, and scratch."""

    def __init__(self, spec: MomentsSpec, rng: Entropy) -> None:
        block = max(1, min(MOST_READINGS_AT_ONCE, VALUES_AT_ONCE // spec.map.rows))
        self._spec = spec
        self._held = LinearCounters(spec, COUNTER, rng)
        self._counters = self._held.values
        self._encoder = PositionEncoder(spec.domain, block)
        self._sums = spec.map.sums(block)

    def __repr__(self) -> str:
        return f"MomentsSketch({self._spec!r})"

    def __reduce__(self) -> str:
        raise TypeError("a sketch is secret: it is never copied or stored")

    def update_many(self, readings: npt.NDArray[np.float64]) -> None:
        """Absorb readings, float64[n, d] in the domain's units: 1 is added to the number of
        readings, and a reading's features to their sums.

        A reading with a NaN or an infinity is dropped, a value out of bounds is clipped. Raises
        ValueError for another shape, SketchClosed after the release.
        """
        self._held.check_open()
        number, features = self._counters[:1], self._counters[1:]
        for positions in self._encoder.encode(readings):
            number += positions.shape[1]
            self._sums.add(positions, features)

    def rerandomise(self, rng: Entropy) -> None:
        """An announced intrusion: a fresh draw on every counter, as large as the first."""
        self._held.check_open()
        self._held.add_noise(rng)

    def release(self, rng: Entropy, window: WindowId | None = None) -> Release:
        """The noisy counters of this window, once; the sketch is closed and its memory erased.

        `window` labels the release; without it a random identifier does. Raises SketchClosed.
        """
        return self._held.release(rng, window)
