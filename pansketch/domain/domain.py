"""Public domains: readings to the unit cube, the unit cube to cell paths, and back.

Nothing here is learned from data. Bounds, scales and categories are public configuration.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pansketch.domain import intervals as ranges
from pansketch.domain.attribute import MAX_BITS, Attribute, Scale
from pansketch.domain.scale import FloatArray

__all__ = ["MAX_BITS", "Attribute", "Domain", "FloatArray", "Scale"]


@dataclass(frozen=True)
class Domain:
    """An ordered set of attributes: the unit cube [0, 1)^d that cells divide.

    Args:
        attributes: d of them, in the order of a reading's columns.

    Raises:
        ValueError: there is no attribute, two have one name, or none of them varies.
    """

    attributes: tuple[Attribute, ...]

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        object.__setattr__(self, "attributes", tuple(attributes))
        if not self.attributes:
            raise ValueError("a domain needs at least one attribute")
        if len(set(self.names)) != len(self.names):
            raise ValueError("two attributes of a domain have the same name")
        if not any(attribute.varies for attribute in self.attributes):
            raise ValueError("a domain needs an attribute that varies, and all here are constant")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def dimension(self) -> int:
        return len(self.attributes)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the attributes that have covariances: without categories, and not cyclic."""
        found = (a for a in self.attributes if a.categories is None and not a.cyclic)
        return tuple(attribute.name for attribute in found)

    def index(self, name: str) -> int:
        """Position of an attribute.

        Args:
            name: of the attribute.

        Returns:
            Its column in a reading, 0 to d - 1.

        Raises:
            ValueError: no attribute has this name; the text lists the names.
        """
        if name not in self.names:
            raise ValueError(f"unknown attribute {name!r}; there is {', '.join(self.names)}")
        return self.names.index(name)

    def split_order(self, depth: int) -> tuple[int, ...]:
        """Which attribute each bit of a path halves: in turn, while an attribute has bits left.

        Args:
            depth: number of bits.

        Returns:
            Positions of attributes, `depth` of them.

        Raises:
            ValueError: the attributes cannot be halved so often.
        """
        left = [attribute.max_bits for attribute in self.attributes]
        if depth > sum(left):
            raise ValueError(f"depth {depth} is more than the {sum(left)} bits of the attributes")
        order: list[int] = []
        while len(order) < depth:
            for position, bits in enumerate(left):
                if bits and len(order) < depth:
                    left[position] -= 1
                    order.append(position)
        return tuple(order)

    def refuse_atoms(self) -> None:
        """For sketches and generators that have no cells for atoms.

        Raises:
            ValueError: an attribute has atoms.
        """
        for attribute in self.attributes:
            if attribute.atoms:
                raise ValueError(f"{attribute.name} has atoms, and only views count atoms")

    def boxes(self, paths: npt.NDArray[np.uint64], depth: int) -> tuple[FloatArray, FloatArray]:
        """Cells as boxes of the unit cube.

        Args:
            paths: uint64[n].
            depth: bits of each path.

        Returns:
            Lower and upper corners, float64[n, d] each.

        Raises:
            ValueError: the attributes cannot be halved so often.
        """
        low = np.zeros((len(paths), self.dimension))
        side = np.ones(self.dimension)
        for place, position in enumerate(self.split_order(depth)):
            side[position] /= 2
            bit = (paths >> np.uint64(depth - 1 - place)) & np.uint64(1)
            low[:, position] += bit * side[position]
        return low, low + side

    def cells_along(self, depth: int) -> FloatArray:
        """Into how many cells paths divide each attribute.

        Args:
            depth: bits of the longest path.

        Returns:
            Numbers of cells for paths of 0 to `depth` bits, float64[depth + 1, d].

        Raises:
            ValueError: the attributes cannot be halved so often.
        """
        halved = np.eye(self.dimension)[list(self.split_order(depth))]
        return np.asarray(2.0 ** np.pad(np.cumsum(halved, axis=0), ((1, 0), (0, 0))))

    def from_unit(self, points: FloatArray) -> FloatArray:
        """Points of the unit cube, float64[n, d], as readings in real units."""
        columns = [a.from_unit(points[:, i]) for i, a in enumerate(self.attributes)]
        return np.stack(columns, axis=1)

    def interval(self, name: str, wanted: ranges.Wanted) -> ranges.Interval:
        """A range or a category of one attribute as a unit interval (intervals.py).

        Args:
            name: of the attribute.
            wanted: (low, high) in the attribute's unit, both ends included, or a category.

        Returns:
            (start, end) in [0, 1]. Around a circle a range may go past the end: then start > end.

        Raises:
            ValueError: the attribute or the category is unknown, or low > high and the attribute is
                not cyclic.
        """
        return ranges.interval(self.attributes[self.index(name)], wanted)

    def intervals(self, wanted: Mapping[str, ranges.Wanted]) -> dict[int, ranges.Interval]:
        """`interval` for several attributes.

        Args:
            wanted: a range or a category by the attribute's name.

        Returns:
            Unit intervals by the attribute's position.

        Raises:
            ValueError: as `interval`.
        """
        return {self.index(name): self.interval(name, value) for name, value in wanted.items()}
