"""Public domains: readings to the unit cube, the unit cube to cell paths, and back.

Nothing here is learned from data. Bounds, scales and categories are public configuration.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log1p
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

Scale = Literal["linear", "log"]
FloatArray = npt.NDArray[np.float64]

MOST_BITS = 30  # of one continuous attribute: finer than any sensor


@dataclass(frozen=True)
class Attribute:
    """One attribute of a reading: a bounded number, or one of a list of categories.

    `low`, `high`: public bounds in `unit`; values beyond them are clipped. `scale="log"` makes
    cells equally wide in log(1 + (x - low) / resolution); `resolution`, in `unit`, is where the
    scale turns from linear to logarithmic. With `categories` a reading holds the index of its
    category. Raises ValueError on bounds or categories that make no sense.
    """

    name: str
    low: float | None = None
    high: float | None = None
    unit: str = ""
    scale: Scale = "linear"
    categories: tuple[str, ...] | None = None
    resolution: float = 1.0

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("an attribute needs a name")
        if self.scale not in get_args(Scale):
            raise ValueError(f"scale must be one of linear, log, not {self.scale!r}")
        if self.categories is not None:
            self._check_categories()
            return
        if self.low is None or self.high is None:
            raise ValueError(f"{self.name}: give low and high, or categories")
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

    def _check_categories(self) -> None:
        names = tuple(self.categories or ())
        object.__setattr__(self, "categories", names)
        if self.low is not None or self.high is not None:
            raise ValueError(f"{self.name}: give either low and high, or categories, not both")
        if len(names) < 2 or len(set(names)) != len(names):
            raise ValueError(f"{self.name}: categories must be two or more different names")

    @property
    def most_bits(self) -> int:
        """How often this attribute can be halved."""
        if self.categories is not None:
            return (len(self.categories) - 1).bit_length()
        return MOST_BITS

    @property
    def origin(self) -> float:
        """Where the unit interval begins, in the attribute's own unit."""
        return 0.0 if self.categories is not None else float(self.low or 0.0)

    @property
    def extent(self) -> float:
        """Length of the scaled interval that the unit interval stands for."""
        if self.categories is not None:
            return float(1 << self.most_bits)
        span = float(self.high or 0.0) - self.origin
        return log1p(span / self.resolution) if self.scale == "log" else span

    @property
    def highest(self) -> float:
        """The largest value a reading may hold: `high`, or the last category's code."""
        return float(len(self.categories) - 1 if self.categories is not None else self.high or 0.0)

    def to_unit(self, value: float) -> float:
        """A value in the attribute's unit, clipped, as a point of [0, 1]; categories by their
        code."""
        shifted = min(max(value, self.origin), self.highest) - self.origin
        if self.scale == "log" and self.categories is None:
            shifted = log1p(shifted / self.resolution)
        return shifted / self.extent

    def from_unit(self, points: FloatArray) -> FloatArray:
        """Points of [0, 1] as values in the attribute's unit; categories as whole codes."""
        scaled = points * self.extent
        if self.categories is not None:
            return np.minimum(np.floor(scaled), self.highest)
        if self.scale == "log":
            scaled = np.expm1(scaled) * self.resolution
        return np.clip(self.origin + scaled, self.origin, self.highest)

    def cell_means(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Mean value of a point spread evenly over each unit interval [low, high)."""
        if self.scale == "log" and self.categories is None:
            a, b = low * self.extent, high * self.extent
            return self.origin + self.resolution * ((np.exp(b) - np.exp(a)) / (b - a) - 1)
        return np.asarray((self.from_unit(low) + self.from_unit(high)) / 2)

    def code(self, category: str) -> int:
        """The code of a category. Raises ValueError for a number or an unknown name."""
        if self.categories is None:
            raise ValueError(f"{self.name} is a number and has no categories")
        if category not in self.categories:
            raise ValueError(
                f"{self.name} has no category {category!r}: {', '.join(self.categories)}"
            )
        return self.categories.index(category)

    def describe(self) -> dict[str, Any]:
        """Canonical form: what a fingerprint covers. The unit's name does not change a sketch."""
        if self.categories is not None:
            return {"name": self.name, "categories": list(self.categories)}
        form: dict[str, Any] = {"name": self.name, "low": self.low, "high": self.high}
        if self.scale == "log":
            form |= {"scale": "log", "resolution": float(self.resolution)}
        return form


@dataclass(frozen=True)
class Domain:
    """An ordered set of attributes: the unit cube [0, 1)^d that cells divide.

    Raises ValueError for no attributes or for two of one name.
    """

    attributes: tuple[Attribute, ...]

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        object.__setattr__(self, "attributes", tuple(attributes))
        if not self.attributes:
            raise ValueError("a domain needs at least one attribute")
        if len(set(self.names)) != len(self.names):
            raise ValueError("two attributes of a domain have the same name")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def dimension(self) -> int:
        return len(self.attributes)

    def index(self, name: str) -> int:
        """Position of an attribute. Raises ValueError that lists the known names."""
        if name not in self.names:
            raise ValueError(f"unknown attribute {name!r}; there is {', '.join(self.names)}")
        return self.names.index(name)

    def split_order(self, depth: int) -> tuple[int, ...]:
        """Which attribute each of `depth` bits of a path halves: in turn, while it has bits left.

        Raises ValueError when the attributes cannot be halved so often.
        """
        left = [attribute.most_bits for attribute in self.attributes]
        if depth > sum(left):
            raise ValueError(f"depth {depth} is more than the {sum(left)} bits of the attributes")
        order: list[int] = []
        while len(order) < depth:
            for position, bits in enumerate(left):
                if bits and len(order) < depth:
                    left[position] -= 1
                    order.append(position)
        return tuple(order)

    def boxes(self, paths: npt.NDArray[np.uint64], depth: int) -> tuple[FloatArray, FloatArray]:
        """Cells as boxes of the unit cube: uint64[n] paths of `depth` bits -> low, high
        float64[n, d]."""
        low = np.zeros((len(paths), self.dimension))
        side = np.ones(self.dimension)
        for place, position in enumerate(self.split_order(depth)):
            side[position] /= 2
            bit = (paths >> np.uint64(depth - 1 - place)) & np.uint64(1)
            low[:, position] += bit * side[position]
        return low, low + side

    def from_unit(self, points: FloatArray) -> FloatArray:
        """Points of the unit cube, float64[n, d], as readings in real units."""
        columns = [a.from_unit(points[:, i]) for i, a in enumerate(self.attributes)]
        return np.stack(columns, axis=1)

    def interval(self, name: str, wanted: "tuple[float, float] | str") -> tuple[float, float]:
        """A range (low, high) or a category of one attribute, as a unit interval.

        Raises ValueError for an unknown attribute or category, and for low > high.
        """
        attribute = self.attributes[self.index(name)]
        if isinstance(wanted, str):
            code = attribute.code(wanted)
            return code / attribute.extent, (code + 1) / attribute.extent
        if attribute.categories is not None:
            raise ValueError(
                f"{name} has categories: name one of {', '.join(attribute.categories)}"
            )
        low, high = wanted
        if not low <= high:
            raise ValueError(f"{name}: the range's low end must not exceed its high end")
        return attribute.to_unit(low), attribute.to_unit(high)

    def intervals(
        self, wanted: "Mapping[str, tuple[float, float] | str]"
    ) -> dict[int, tuple[float, float]]:
        """`interval` for several attributes, keyed by position."""
        return {self.index(name): self.interval(name, value) for name, value in wanted.items()}
