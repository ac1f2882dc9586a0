"""One attribute of a reading: its public bounds and scale, and what a value becomes on it."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isfinite, log1p, nextafter
from typing import Any, Literal, get_args

import numpy as np

from pansketch.domain.quantization import Lattice, Owners
from pansketch.domain.scale import FloatArray, Scaling

Scale = Literal["linear", "log", "learned"]

MAX_BITS = 30  # of one continuous attribute: finer than any sensor
MAX_KNOT_BITS = 10  # a learned scale has 2 to 2**10 parts


@dataclass(frozen=True)
class Attribute:
    """One attribute of a reading: a bounded number, one of a list of categories, or a constant.

    A constant, or a single category, takes no bit of a path: every synthetic record has it, and the
    column of the readings is ignored, even if it is no number.

    Args:
        name: unique in its domain.
        low: public lower bound, in `unit`; values below are clipped.
        high: public upper bound, in `unit`; values above are clipped.
        unit: for people; it is in no fingerprint.
        scale: "linear"; "log": cells equally wide in log(1 + (x - low) / resolution); "learned":
            equally many knots apart.
        categories: names; a reading holds the index of its category.
        resolution: where a log scale turns from linear to logarithmic, in `unit`.
        step: the sensor's own resolution, in `unit`: values are k * step for whole k, counted from
            0. It shapes what generators give and nothing else, so it is in no fingerprint.
        cyclic: `high` is `low` again, and values beyond wrap.
        constant: the value of every record.
        knots: of a learned scale, in `unit`: float[2**b + 1], rising from `low` to `high`. Between
            two of them cells are equally wide.

    Raises:
        ValueError: the arguments contradict each other, or a bound is not finite.
    """

    name: str
    low: float | None = None
    high: float | None = None
    unit: str = ""
    scale: Scale = "linear"
    categories: tuple[str, ...] | None = None
    resolution: float = 1.0
    step: float | None = None
    cyclic: bool = False
    constant: float | None = None
    knots: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("an attribute needs a name")
        if self.scale not in get_args(Scale):
            known = ", ".join(get_args(Scale))
            raise ValueError(f"scale must be one of {known}, not {self.scale!r}")
        object.__setattr__(self, "knots", tuple(float(knot) for knot in self.knots))
        if bool(self.knots) != (self.scale == "learned"):
            raise ValueError(f"{self.name}: a learned scale has knots, and no other has")
        if self.categories is not None:
            self._check_categories()
        elif self.constant is not None:
            self._check_constant(self.constant)
        else:
            self._check_bounds()
            self._check_step()

    def _check_categories(self) -> None:
        names = tuple(self.categories or ())
        object.__setattr__(self, "categories", names)
        if self.low is not None or self.high is not None:
            raise ValueError(f"{self.name}: give either low and high, or categories, not both")
        if self.step is not None or self.cyclic or self.constant is not None:
            raise ValueError(f"{self.name}: categories have no step, no constant and no circle")
        if self.knots:
            raise ValueError(f"{self.name}: categories have no learned scale")
        if not names or len(set(names)) != len(names):
            raise ValueError(f"{self.name}: categories must be one or more different names")

    def _check_constant(self, constant: float) -> None:
        if self.low is not None or self.high is not None or self.step is not None:
            raise ValueError(f"{self.name}: a constant has no low, no high and no step")
        if self.scale != "linear" or self.cyclic:
            raise ValueError(f"{self.name}: a constant has no scale and no circle")
        if not isfinite(constant):
            raise ValueError(f"{self.name}: a constant must be finite")
        object.__setattr__(self, "constant", float(constant))

    def _check_bounds(self) -> None:
        if self.low is None or self.high is None:
            raise ValueError(f"{self.name}: give low and high, or categories, or a constant")
        # As floats, so that 0 and 0.0 in a configuration mean the same domain.
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if not (isfinite(self.low) and isfinite(self.high) and isfinite(self.high - self.low)):
            raise ValueError(f"{self.name}: low and high must be finite")
        if self.low >= self.high:
            raise ValueError(
                f"{self.name}: low must be less than high, but {self.low:g} >= {self.high:g}"
            )
        if not (isfinite(self.resolution) and self.resolution > 0):
            raise ValueError(f"{self.name}: resolution must be positive")
        if self.cyclic and self.scale != "linear":
            raise ValueError(f"{self.name}: only a linear scale can be cyclic")
        if self.knots:
            self._check_knots(self.low, self.high)
        # Whatever a reading holds, its place on the scale must be a finite number.
        if not (isfinite(self.extent) and isfinite(2.0**MAX_BITS / self.extent)):
            raise ValueError(f"{self.name}: the range from low to high is too small or too large")

    def _check_knots(self, low: float, high: float) -> None:
        """None may hide a cell: each part of the scale is wide enough to be halved."""
        parts = len(self.knots) - 1
        if not 2 <= parts <= 1 << MAX_KNOT_BITS or parts & (parts - 1):
            raise ValueError(
                f"{self.name}: knots must number a power of two and one, from 3 to "
                f"{(1 << MAX_KNOT_BITS) + 1}, not {len(self.knots)}"
            )
        if not all(isfinite(knot) for knot in self.knots):
            raise ValueError(f"{self.name}: knots must be finite")
        if (self.knots[0], self.knots[-1]) != (low, high):
            raise ValueError(f"{self.name}: the first knot must be low, and the last one high")
        narrowest = (high - low) * 2.0**-MAX_BITS
        if min(after - before for before, after in pairwise(self.knots)) < narrowest:
            raise ValueError(f"{self.name}: knots must rise, by {narrowest:g} or more each")

    def _check_step(self) -> None:
        if self.step is None:
            return
        if not (isfinite(self.step) and self.step > 0):
            raise ValueError(f"{self.name}: step must be positive")
        if self.step > self.highest - self.origin:
            raise ValueError(f"{self.name}: step must not exceed the range from low to high")
        try:
            _ = self.lattice
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None

    @property
    def max_bits(self) -> int:
        """How often this attribute can be halved."""
        if self.categories is not None:
            return (len(self.categories) - 1).bit_length()
        return MAX_BITS if self.constant is None else 0

    @property
    def varies(self) -> bool:
        """Whether readings differ in it: not in a constant, nor in a single category."""
        return self.max_bits > 0

    @property
    def origin(self) -> float:
        """Where the unit interval begins, in the attribute's own unit."""
        if self.categories is not None:
            return 0.0
        return float(self.low or 0.0) if self.constant is None else self.constant

    @property
    def extent(self) -> float:
        """Length of the scaled interval that the unit interval stands for."""
        if self.categories is not None:
            return float(1 << self.max_bits)
        if self.constant is not None or self.knots:
            return 1.0
        span = float(self.high or 0.0) - self.origin
        return log1p(span / self.resolution) if self.scale == "log" else span

    @property
    def highest(self) -> float:
        """The largest value a reading may hold: `high`, the last category's code, the constant."""
        if self.categories is not None:
            return float(len(self.categories) - 1)
        return float(self.high or 0.0) if self.constant is None else self.constant

    @cached_property
    def scaling(self) -> Scaling:
        resolution = self.resolution if self.scale == "log" and self.categories is None else None
        return Scaling(self.origin, self.extent, resolution, self.knots)

    @cached_property
    def lattice(self) -> Lattice | None:
        """The values that a sensor with this step can give; None without a step.

        Raises:
            ValueError: the bounds hold no multiple of the step, or it is too fine to be told apart.
                The constructor raises it first.
        """
        if self.step is None:
            return None
        return Lattice.between(
            self.step, self.origin, self.highest, self.scaling, cyclic=self.cyclic
        )

    def to_unit(self, value: float) -> float:
        """A value in the attribute's unit, clipped, as a point of [0, 1]; categories by their code.

        On a circle it is wrapped instead, exactly, to a point of [0, 1): `high` is 0.
        """
        if self.cyclic:
            return min((value - self.origin) % self.extent / self.extent, nextafter(1.0, 0.0))
        shifted = min(max(value, self.origin), self.highest) - self.origin
        if self.scaling.segments is not None:
            return float(self.scaling.segments.places(np.array([shifted]))[0])
        if self.scaling.resolution is not None:
            shifted = log1p(shifted / self.resolution)
        return shifted / self.extent

    def from_unit(self, points: FloatArray) -> FloatArray:
        """Points of [0, 1] as values in the attribute's unit; categories as whole codes."""
        if self.categories is not None:
            return np.minimum(np.floor(points * self.extent), self.highest)
        return np.clip(self.scaling.values(points), self.origin, self.highest)

    def inside(
        self, low: FloatArray, high: FloatArray, owners: Owners, shares: FloatArray
    ) -> FloatArray:
        """A value in one of the unit intervals [low, high), float64[m], for each of `owners`,
        intp[n], the interval's index: float64[n]. `shares`: how far in it, from 0 to 1.

        With a step it is one of the interval's points, or the one nearest to its middle if it
        holds none: [low, high) is taken as a cell is, by the places that an encoder computes.
        """
        if self.lattice is not None:
            return self.lattice.inside(low, high, owners, shares)
        units = shares * (high - low)[owners]
        units += low[owners]
        values = self.from_unit(units)
        if self.cyclic:
            values[values >= self.highest] = self.origin  # Rounding alone brings them there.
        return values

    def intervals(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Unit intervals as what of them readings can fill: with a step, from one point to
        another."""
        return (low, high) if self.lattice is None else self.lattice.intervals(low, high)

    def cell_means(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Mean value of a point spread evenly over each unit interval [low, high)."""
        if self.lattice is not None:
            return self.lattice.means(low, high)
        if self.scaling.resolution is not None or self.knots:
            return self.scaling.means(low, high)
        return np.asarray((self.from_unit(low) + self.from_unit(high)) / 2)

    def cell_variances(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Variance of a point spread evenly over each unit interval [low, high)."""
        if self.lattice is not None:
            return self.lattice.variances(low, high)
        return self.scaling.variances(low, high) if self.varies else np.zeros(np.shape(low))

    def code(self, category: str) -> int:
        """The code of a category.

        Args:
            category: its name.

        Returns:
            Its index in `categories`.

        Raises:
            ValueError: the attribute is a number, or has no such category.
        """
        if self.categories is None:
            raise ValueError(f"{self.name} is a number and has no categories")
        if category not in self.categories:
            raise ValueError(
                f"{self.name} has no category {category!r}: {', '.join(self.categories)}"
            )
        return self.categories.index(category)

    def describe(self) -> dict[str, Any]:
        """Canonical form: what a fingerprint covers. Unit and step do not change a sketch."""
        if self.categories is not None:
            return {"name": self.name, "categories": list(self.categories)}
        if self.constant is not None:
            return {"name": self.name, "constant": self.constant}
        form: dict[str, Any] = {"name": self.name, "low": self.low, "high": self.high}
        if self.scale == "log":
            form |= {"scale": "log", "resolution": float(self.resolution)}
        if self.knots:
            form |= {"scale": "learned", "knots": list(self.knots)}
        return form | {"cyclic": True} if self.cyclic else form
