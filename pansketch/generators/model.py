"""The result of every generator: a model that draws samples and answers questions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from pansketch.domain.domain import Domain, FloatArray
from pansketch.estimate import Estimate, Estimates
from pansketch.generators.significance import Fits, Noise

# A range (low, high), or a category, of each attribute named.
Wanted = Mapping[str, tuple[float, float] | str]


class Sampler(Protocol):
    """Anything that draws points in real units: float64[count, d]."""

    def sample(self, count: int, generator: np.random.Generator, /) -> FloatArray: ...


OfCells = Callable[[FloatArray, FloatArray], FloatArray]
Hidden = Callable[[tuple[int, int], OfCells, OfCells, float], float]


class Boxes(Protocol):
    """Weighted boxes. See `Partition`."""

    @property
    def domain(self) -> Domain: ...
    @property
    def low(self) -> FloatArray: ...
    @property
    def high(self) -> FloatArray: ...
    @property
    def total(self) -> float: ...
    @property
    def hidden(self) -> Hidden | None: ...
    @property
    def noise(self) -> Noise | None: ...
    @property
    def replicates(self) -> "Sequence[Boxes]": ...
    @property
    def fits(self) -> Fits: ...
    def box_shares(self) -> FloatArray: ...


class FittedModel(Protocol):
    """A model of merged releases, by any generator. Its answers hold standard errors.

    A question that a model does not answer raises ValueError: a model of feature sums has no
    quantiles and no ranges.
    """

    @property
    def domain(self) -> Domain: ...
    @property
    def readings(self) -> Estimate:
        """Their estimated number, with the noise on it."""
        ...

    def alone(self, position: int) -> Boxes | None:
        """The model of one attribute.

        Args:
            position: of the attribute in the domain.

        Returns:
            Weighted boxes over a domain of this attribute alone; None where the model has none.
        """
        ...

    def mean(self, name: str) -> Estimate:
        """Mean of an attribute; of a cyclic one the circular mean.

        Args:
            name: of the attribute.

        Returns:
            The mean, in the attribute's unit.

        Raises:
            ValueError: the attribute is unknown or has categories.
            EmptyModel: noise outweighs the readings (`TooFewReadings`), or there are none.
        """
        ...

    def cdf(self, name: str, x: float) -> Estimate:
        """Share of readings at or below a value.

        Args:
            name: of the attribute.
            x: the value, in the attribute's unit.

        Returns:
            The share.

        Raises:
            ValueError: the attribute is unknown, cyclic or has categories, or `x` is not finite.
            EmptyModel: noise outweighs the readings (`TooFewReadings`), or there are none.
        """
        ...

    def quantile(self, name: str, q: float) -> Estimate:
        """The value below which a share of readings lies.

        Args:
            name: of the attribute.
            q: the share, in [0, 1].

        Returns:
            The value, in the attribute's unit. With a step: the least multiple of it that a share
            `q` does not exceed.

        Raises:
            ValueError: the attribute is unknown, cyclic or has categories, or `q` is
                outside [0, 1].
            EmptyModel: noise outweighs the readings (`TooFewReadings`), or there are none.
        """
        ...

    def count(self, wanted: Wanted | str, /) -> Estimate:
        """Number of readings for which a conjunction holds.

        Args:
            wanted: a range (low, high), both ends included, or a category, by the attribute's name;
                or text such as "temp > 20 & wind = NE" (partition/predicate.py).

        Returns:
            The number of readings.

        Raises:
            ValueError: an attribute or category is unknown, low > high and the attribute is not
                cyclic, or the text does not parse.
            EmptyModel: noise outweighs the readings (`TooFewReadings`), or there are none.
        """
        ...

    def share(self, wanted: Wanted | str, /) -> Estimate:
        """`count` as a share of all readings.

        Args:
            wanted: as for `count`.

        Returns:
            The share.

        Raises:
            ValueError: as `count`.
            EmptyModel: noise outweighs the readings (`TooFewReadings`), or there are none.
        """
        ...

    def bin_shares(self, bins: Sequence[Sequence[str]]) -> Estimates:
        """`share` of every bin of one attribute, or of two.

        Args:
            bins: conditions; bins[0] holds one for each bin of the first attribute.

        Returns:
            Shares, [bins] or [bins of the first, bins of the second].

        Raises:
            ValueError: as `count`.
            EmptyModel: noise outweighs the readings (`TooFewReadings`), or there are none.
        """
        ...

    def covariance(self, names: tuple[str, ...] | None = None) -> Estimates:
        """Covariances of attributes.

        Args:
            names: k attributes; None: all numbers that are not cyclic.

        Returns:
            Covariances, in the product of both units: [k, k].

        Raises:
            ValueError: an attribute is unknown, cyclic or has categories, or there is none at all.
            EmptyModel: noise outweighs the readings (`TooFewReadings`), or there are none.
        """
        ...

    def check(self, attributes: Iterable[int] | None = None) -> None:
        """Refuse a question whose answer would be noise.

        Args:
            attributes: their positions; None: all.

        Raises:
            TooFewReadings: noise outweighs what the model knows of them.
        """
        ...

    def sampler(self) -> Sampler:
        """Return a sampler of synthetic records.

        Returns:
            A sampler of points in real units.

        Raises:
            EmptyModel: noise outweighs the readings, or there are none.
            ValueError: the model's points do not fit its features.
        """
        ...
