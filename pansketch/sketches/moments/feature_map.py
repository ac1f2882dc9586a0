"""Feature maps of moment sketches: what one reading adds to the sums.

Houssiau, Schellekens, Chatalic, Annamraju, de Montjoye (M2M, arXiv 2211.14062) sketch a stream by
sums of random Fourier features (RFF), of one-hot hashes (RACE) or of histograms (HIST). Here a
feature is a whole number, computed from positions by integer arithmetic and a fixed table alone: a
map has finitely many values, its sensitivity is the largest L1 norm among them, rounding included,
and every machine computes the same features. What is random in a map derives from a public key.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from pansketch.domain.fixed_point import Positions
from pansketch.sketches.counter_bounds import CounterRow

Features = Literal["rff", "race", "hist"]


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
        """How many numbers are computed for each reading."""
        ...

    @property
    def canonical(self) -> bytes:
        """All integers that define the map."""
        ...

    def counter_rows(self, scale: Fraction) -> Iterable[CounterRow]:
        """The features as rows of counters whose noise has this scale."""
        ...

    def sums(self, block: int) -> FeatureSums: ...
