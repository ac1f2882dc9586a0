"""What every generator makes of releases: a model that samples and answers questions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from pansketch.domain.domain import Domain, FloatArray
from pansketch.estimate import Estimate, Estimates

# A range (low, high), or a category, of each attribute named.
Wanted = Mapping[str, tuple[float, float] | str]


class Sampler(Protocol):
    """Anything that draws points in real units: float64[count, d]."""

    def sample(self, count: int, generator: np.random.Generator, /) -> FloatArray: ...


class FittedModel(Protocol):
    """A model of merged releases, whatever generator made it.

    Its answers hold standard errors. They raise ValueError for an attribute or a condition that
    the domain does not have, and for a question that the model does not answer; TooFewReadings
    where noise outweighs the readings. A model of feature sums answers no quantiles and no ranges.
    """

    @property
    def domain(self) -> Domain: ...
    def mean(self, name: str) -> Estimate: ...
    def cdf(self, name: str, x: float) -> Estimate: ...
    def quantile(self, name: str, q: float) -> Estimate: ...
    def count(self, wanted: Wanted | str, /) -> Estimate: ...
    def share(self, wanted: Wanted | str, /) -> Estimate: ...
    def bin_shares(self, bins: Sequence[Sequence[str]]) -> Estimates:
        """`share` of every bin of one attribute, or of two: bins[0] holds a condition for each bin
        of the first attribute. Estimates of shape [bins] or [bins of the first, of the second]."""
        ...

    def covariance(self, names: tuple[str, ...] | None = None) -> Estimates: ...
    def check(self, attributes: Iterable[int] | None = None) -> None:
        """Raises TooFewReadings where noise outweighs what the model knows of attributes, by
        position; of all of them unless told."""
        ...

    def sampler(self) -> Sampler:
        """What draws synthetic records."""
        ...
