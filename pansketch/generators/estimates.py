"""Several estimates at once, in arrays."""

from dataclasses import dataclass

import numpy as np

from pansketch.domain import FloatArray
from pansketch.estimate import Estimate


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimated numbers and their standard errors, as two arrays of one shape.

    Indexing gives an `Estimate`, or `Estimates` of what is left of the shape.
    """

    value: FloatArray
    standard_error: FloatArray

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
