"""The features of public training points, and the three products that M2M needs of them."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import FloatArray
from pansketch.domain.fixed_point import Positions, positions_of
from pansketch.sketches.moments.fourier import Fourier
from pansketch.sketches.moments.one_hot import Histograms, Race, columns_of
from pansketch.sketches.moments.sketch import MomentsSpec

POINTS_AT_ONCE = 8192

Values = npt.NDArray[Any]  # Numbers or truth values of functions at the points.


class Design(Protocol):
    """A matrix Phi of `size` features at N points, float64[N, size], in one of two forms."""

    @property
    def size(self) -> int: ...

    def second_moments(self) -> FloatArray:
        """Means of the products of features, float64[size, size]."""
        ...

    def means_with(self, values: Values) -> FloatArray:
        """Means of features times functions: [N, k] -> float64[size, k]."""
        ...

    def combined(self, weights: FloatArray) -> FloatArray:
        """Weighted sums of the features of each point: float64[size] -> float64[N]."""
        ...


class Dense:
    """Features as they are: float32[N, size], which holds them exactly."""

    def __init__(self, values: npt.NDArray[np.float32]) -> None:
        self._values = values

    @property
    def size(self) -> int:
        return int(self._values.shape[1])

    def second_moments(self) -> FloatArray:
        return self._mean(lambda part, _: part)

    def means_with(self, values: Values) -> FloatArray:
        return self._mean(lambda _, index: values[index].astype(np.float64))

    def combined(self, weights: FloatArray) -> FloatArray:
        return np.concatenate([part @ weights for part, _ in self._parts()])

    def _parts(self) -> Iterator[tuple[FloatArray, slice]]:
        for start in range(0, len(self._values), POINTS_AT_ONCE):
            index = slice(start, start + POINTS_AT_ONCE)
            yield self._values[index].astype(np.float64), index

    def _mean(self, other: Any) -> FloatArray:
        total = sum(part.T @ other(part, index) for part, index in self._parts())
        return np.asarray(total / len(self._values))


class OneHot:
    """The one feature of each row that is 1: int32[rows, N], of rows with `lengths` features."""

    def __init__(self, columns: npt.NDArray[np.int32], lengths: tuple[int, ...]) -> None:
        self._lengths = lengths
        self._starts = np.cumsum((0, *lengths[:-1]))
        self._indices = columns - self._starts.astype(np.int32)[:, None]

    @property
    def size(self) -> int:
        return sum(self._lengths)

    def second_moments(self) -> FloatArray:
        found = np.diag(self.means_with(np.ones((self._indices.shape[1], 1)))[:, 0])
        for first, second in combinations(range(len(self._lengths)), 2):
            shape = self._lengths[first], self._lengths[second]
            cells = self._indices[first] * np.int32(shape[1]) + self._indices[second]
            joint = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape) / len(cells)
            (a, b), (p, q) = (self._starts[[first, second]], shape)
            found[a : a + p, b : b + q] = joint
            found[b : b + q, a : a + p] = joint.T
        return found

    def means_with(self, values: Values) -> FloatArray:
        return np.stack([self._means_with(column) for column in values.T], axis=1)

    def _means_with(self, values: Values) -> FloatArray:
        sums = [
            np.bincount(indices, weights=values, minlength=length)
            for indices, length in zip(self._indices, self._lengths, strict=True)
        ]
        return np.concatenate(sums) / len(values)

    def combined(self, weights: FloatArray) -> FloatArray:
        total = np.zeros(self._indices.shape[1])
        for indices, start in zip(self._indices, self._starts, strict=True):
            total += weights[start + indices]
        return total

    def row(self, row: int) -> "OneHot":
        """The features of one row alone."""
        return OneHot(self._indices[row : row + 1], self._lengths[row : row + 1])


def design_of(spec: MomentsSpec, rows: FloatArray) -> Dense | OneHot:
    """The features of public rows, float64[N, d] in real units. Raises ValueError for another shape
    and for values that are not finite."""
    positions = positions_of(spec.domain, rows)
    if isinstance(spec.map, Fourier):
        parts = [spec.map.values(part) for part in _blocks(positions)]
        return Dense(np.concatenate(parts))
    assert isinstance(spec.map, Race | Histograms)
    columns = [columns_of(spec.map, part) for part in _blocks(positions)]
    return OneHot(np.concatenate(columns, axis=1), spec.map.lengths)


def _blocks(positions: Positions) -> Iterator[Positions]:
    for start in range(0, positions.shape[1], POINTS_AT_ONCE):
        yield positions[:, start : start + POINTS_AT_ONCE]
