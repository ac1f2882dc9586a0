"""Tables less their noise: dependence is kept as finely as the declared noise bears.

What a table has beyond independent attributes is split into resolutions, coarse to fine along each
axis, by orthonormal Haar wavelets, in which the noise stays white. Each resolution is shrunk as a
whole by the part of its energy that the noise explains: the positive-part estimator of James and
Stein ("Estimation with quadratic loss", 1961), whose variance here is known and not estimated.
"""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt

from pansketch.domain import FloatArray
from pansketch.generators.tables import Table

NEAREST = 1.0  # What is kept is as near to the truth as can be, and smoother than it.
LIKELY = 0.5  # What is kept has as much energy as the truth, and is as rough.


def shrunk(table: Table, expected: FloatArray, power: float = NEAREST) -> Table:
    """The table moved towards what is expected of independent attributes, float64 of its shape.

    `power`: NEAREST, or LIKELY for a table that stands for the truth in a simulation of noise.
    """
    shape = tuple(1 << bits for bits in table.bits)
    beyond = np.zeros(shape)
    beyond[tuple(slice(cells) for cells in table.counts.shape)] = table.counts - expected
    # Cells that do not exist have no noise: each coefficient has less of it, on average.
    variance = table.variance * table.counts.size / beyond.size
    for axis, bits in enumerate(table.bits):
        beyond = _along(_wavelets(bits), beyond, axis)
    _shrink(beyond, table.bits, variance, power)
    for axis, bits in enumerate(table.bits):
        beyond = _along(_wavelets(bits).T, beyond, axis)
    kept = beyond[tuple(slice(cells) for cells in table.counts.shape)]
    return replace(table, counts=expected + kept)


def _shrink(coefficients: FloatArray, bits: tuple[int, ...], variance: float, power: float) -> None:
    """Shrinks each resolution in place."""
    for resolution in product(*(_bands(each) for each in bits)):
        band = coefficients[resolution]
        energy = float(np.sum(band**2))
        noise = band.size * variance
        band *= (1 - noise / energy) ** power if energy > noise else 0.0


def _bands(bits: int) -> list[slice]:
    """Rows of the wavelets by resolution: their mean, then 1, 2, 4, ... of them."""
    return [slice(0, 1), *(slice(1 << level, 2 << level) for level in range(bits))]


@cache
def _wavelets(bits: int) -> FloatArray:
    """The orthonormal Haar wavelets of 2**bits cells, one a row, coarse ones first."""
    rows = np.ones((1, 1))
    for _ in range(bits):
        finest = np.kron(np.eye(len(rows)), [1.0, -1.0])
        rows = np.vstack([np.kron(rows, [1.0, 1.0]), finest]) / np.sqrt(2)
    return rows


def _along(matrix: FloatArray, table: npt.NDArray[np.float64], axis: int) -> FloatArray:
    turned = np.tensordot(matrix, table, axes=(1, axis))
    return np.asarray(np.moveaxis(turned, 0, axis))
