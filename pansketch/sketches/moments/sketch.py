"""Moment sketches: private sums of features, from which any mean of the readings is estimated.

Houssiau, Schellekens, Chatalic, Annamraju, de Montjoye, "M2M: a general method to perform various
data analysis tasks from a differentially private sketch" (arXiv 2211.14062). A sketch holds sums of
random Fourier features (RFF), of one-hot hashes (RACE) or of histograms (HIST). The number of
readings is released with noise of its own, for a share of epsilon.

The paper adds real noise to real sums once, which floating point betrays and a snapshot followed by
a release undoes. Here features, sums and noise are integers, and `silent` mode adds a second, fresh
draw at the release (docs/explanation/privacy.md). A feature is computed from positions by integer
arithmetic and a fixed table alone. So a map has finitely many values, and every machine computes
the same features. The sensitivity is the largest L1 norm among the values, rounding included. All
randomness of a map derives from a public key.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite
from typing import Any, ClassVar, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from pansketch.domain.fixed_point import PositionEncoder, Positions
from pansketch.privacy import MICRO
from pansketch.randomness.keyed_hash import digest
from pansketch.sketches.counter_bounds import CounterRow
from pansketch.sketches.linear_counters import Counters, LinearSpec, linear_form
from pansketch.sketches.moments.fourier import Fourier
from pansketch.sketches.moments.one_hot import Histograms, Race
from pansketch.sketches.moments.projections import Projections

Features = Literal["rff", "race", "hist"]
VALUES_AT_ONCE = 1 << 17  # Of all rows together: their scratch stays in the second-level cache.
MAX_READINGS_AT_ONCE = 2048
MAX_SCALE = 1 << 40  # Larger noise would leave counters of 64 bits no room.


class FeatureSums(Protocol):
    """Adds the features of some readings to counters. Holds scratch, overwritten in each call."""

    def add(self, positions: Positions, counters: npt.NDArray[np.int64]) -> None:
        """uint32[d, n] positions, n at most the block's length; int64[size] counters, in place."""
        ...


class FeatureMap(Protocol):
    """A public map from positions to features."""

    @property
    def size(self) -> int:
        """Number of features."""
        ...

    @property
    def one(self) -> int:
        """Steps of a feature of value 1."""
        ...

    @property
    def sensitivity(self) -> int:
        """The largest L1 norm of one reading's features, in steps."""
        ...

    @property
    def rows(self) -> int:
        """Number of values that are computed for each reading."""
        ...

    @property
    def canonical(self) -> bytes:
        """All integers that define the map."""
        ...

    def counter_rows(self, scale: Fraction) -> Iterable[CounterRow]:
        """The features as rows of counters whose noise has this scale."""
        ...

    def sums(self, block: int) -> FeatureSums: ...


SMOOTHEST, SHARPEST = 64.0, 1 / 64


@dataclass(frozen=True)
class MomentsSpec(LinearSpec):
    """Public description of a moment sketch.

    Sizes of other features are ignored.

    Args:
        domain: the attributes of a reading.
        privacy: epsilon, unit (a reading or a span) and intrusion.
        features: "rff", cosines and sines of Gaussian frequencies; "race", hashes into buckets;
            "hist", one histogram for each attribute.
        m: number of cosines and sines of "rff", of m / 2 frequencies.
        sigma: bandwidth of the kernel of "rff" and "race", in unit intervals.
        rows: hashes of "race".
        width: buckets of each hash of "race".
        bins: bins of each histogram of "hist"; categories have a bin each.
        count_share: share of epsilon that the number of readings costs, in (0, 1): the paper's
            epsilon_den; its epsilon_num is what is left for the features.
        hash_key: public 64-bit key of the features.

    Raises:
        ValueError: a size is out of range.

    Reference:
        Houssiau, Schellekens, Chatalic, Annamraju, de Montjoye (M2M, arXiv 2211.14062).
    """

    features: Features = "rff"
    m: int = 200
    sigma: float = 1.0
    rows: int = 80
    width: int = 80
    bins: int = 100
    count_share: float = 0.02
    hash_key: int = 0
    family: str = field(default="moments", init=False)
    counter: ClassVar[np.dtype[Any]] = np.dtype(np.int64)
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
        self._check_fraction("count_share", 1e-6, 1 - 1e-6)
        # Derived here, so that impossible parameters are refused now and not at the first reading.
        self.domain.refuse_atoms()
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
        share = Fraction(str(self.count_share))
        scales = 1 / (epsilon * share), self.map.sensitivity / (epsilon * (1 - share))
        if max(scales) > MAX_SCALE:
            raise ValueError(
                "epsilon is too small for so many features: give fewer, or a larger one"
            )
        return scales

    @property
    def blocks(self) -> tuple[int, ...]:
        """The number of readings, then the features."""
        return 1, self.map.size

    @property
    def max_release_nbytes(self) -> int:
        """A bound that no honest release of one window exceeds; a receiver refuses what is
        longer. Sums outgrow their noise: it leaves room for 2**32 readings."""
        return 4096 + 2 * self.release_nbytes + 4 * self.nbytes

    def canonical_form(self) -> dict[str, Any]:
        """The map enters by its integers, so it covers the hash key and all sizes."""
        form = linear_form(self)
        form["privacy"].append(str(Fraction(str(self.count_share))))
        return form | {"features": self.features, "map": digest(self.map.canonical, 16).hex()}

    def counter_rows(self) -> list[CounterRow]:
        count, features = self.scales
        return [CounterRow(1, count), *self.map.counter_rows(features)]

    def absorber(self) -> "FeatureAbsorber":
        """See `LinearSpec.absorber`."""
        return FeatureAbsorber(self)


class FeatureAbsorber:
    """Adds 1 to the number of readings, and a reading's features to their sums."""

    def __init__(self, spec: MomentsSpec) -> None:
        block = max(1, min(MAX_READINGS_AT_ONCE, VALUES_AT_ONCE // spec.map.rows))
        self._encoder = PositionEncoder(spec.domain, block)
        self._sums = spec.map.sums(block)

    def absorb(self, readings: npt.NDArray[np.float64], counters: Counters) -> None:
        """See `Absorber`."""
        number, features = counters[:1], counters[1:]
        for positions in self._encoder.encode(readings):
            number += positions.shape[1]
            self._sums.add(positions, features)
