"""Random projections of positions to angles, and the table of a circle: public, and integers alone.

An angle is a position times a Gaussian direction, in fractions of a turn that wrap around.
Directions derive from a public key. Their last digit depends on the platform's logarithm and
cosine. A spec's fingerprint covers the integers, so that maps which differ never merge.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import cos, log, pi, sin, sqrt

import numpy as np
import numpy.typing as npt

from pansketch.domain.fixed_point import POSITION_BITS, Positions
from pansketch.randomness.keyed_hash import derive_word

ONE = 1 << 16  # Steps of the number 1 in the circle's table.
TURN_BITS = 32
ANGLE_BITS = 18  # With fewer, a wide kernel's means err by the table and not by the features.


@dataclass(frozen=True, eq=False)
class Projections:
    """Angles of positions in 2**-32 turns: `directions` uint32[k, d], `offsets` uint32[k, 1].

    Sums wrap around as angles do.
    """

    directions: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.uint32]

    @classmethod
    def derive(
        cls, hash_key: int, label: str, count: int, dimension: int, sigma: float
    ) -> "Projections":
        """Directions with normal coordinates of deviation 1 / sigma radians a unit interval."""
        turns = (1 << TURN_BITS - POSITION_BITS) / (2 * pi * sigma)
        drawn = _normals(hash_key, f"{label}/direction", count * dimension)
        whole = np.array([round(each * turns) for each in drawn], np.int64)
        words = [derive_word(hash_key, f"{label}/offset/{row}") for row in range(count)]
        offsets = np.array(words, np.uint64) >> np.uint64(64 - TURN_BITS)
        directions = whole.astype(np.uint32).reshape(count, dimension)
        return cls(directions, offsets.astype(np.uint32)[:, None])

    @property
    def canonical(self) -> bytes:
        return self.directions.astype("<u4").tobytes() + self.offsets.astype("<u4").tobytes()

    def angles(self, positions: Positions, out: Positions, term: Positions) -> None:
        """uint32[d, n] -> uint32[k, n] in `out`; `term` is scratch of the same shape.

        Both are blocks: see pansketch/erasable_arrays.py.
        """
        np.copyto(out, self.offsets)
        for column, position in zip(self.directions.T, positions, strict=True):
            np.copyto(term, position)
            np.multiply(term, column[:, None], out=term)
            np.add(out, term, out=out)


@lru_cache(maxsize=1)
def circle() -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Cosines and sines of 2**18 angles, in the middle of equal parts of a turn, in steps.

    Rounded; no value is nearer than 2**-19 to the middle of two steps, so that all platforms round
    alike.
    """
    parts = 1 << ANGLE_BITS
    angles = [2 * pi * (place + 0.5) / parts for place in range(parts)]
    tables = [np.array([round(ONE * of(a)) for a in angles], np.int32) for of in (cos, sin)]
    for table in tables:
        table.flags.writeable = False
    return tables[0], tables[1]


def _normals(hash_key: int, label: str, count: int) -> list[float]:
    """Standard normal numbers, a fixed function of a key and a label (Box, Muller, 1958)."""
    found: list[float] = []
    for pair in range(-(-count // 2)):
        first, second = (derive_word(hash_key, f"{label}/{pair}/{half}") >> 11 for half in "ab")
        radius = sqrt(-2 * log((first + 1) / (1 << 53)))
        angle = 2 * pi * second / (1 << 53)
        found += [radius * cos(angle), radius * sin(angle)]
    return found[:count]
