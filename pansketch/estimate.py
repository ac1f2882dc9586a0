"""An answer with its error bar."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """An estimated number and its standard error: noise of the releases and width of the cells."""

    value: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.value:.6g} ± {self.standard_error:.2g}"
