"""Answers with their error bars."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Estimate:
    """An estimated number and its standard error.

    Args:
        value: the estimate, in the unit of the question.
        standard_error: in the same unit: noise of the releases and width of the cells.
    """

    value: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.value:.6g} ± {self.standard_error:.2g}"


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimated numbers and their standard errors, as two arrays of one shape.

    Indexing gives an `Estimate`, or `Estimates` of the rest of the shape.

    Args:
        value: the estimates, float64[...], in the unit of the question.
        standard_error: float64[...] of the same shape and unit.
    """

    value: npt.NDArray[np.float64]
    standard_error: npt.NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, place: int | slice | tuple[int | slice, ...]) -> "Estimate | Estimates":
        value, error = self.value[place], self.standard_error[place]
        if np.ndim(value):
            return Estimates(value, error)
        return Estimate(float(value), float(error))
