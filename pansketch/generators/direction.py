"""The mean of a cyclic attribute: the direction in which its values, as unit vectors, add up."""

import numpy as np

from pansketch.domain import Attribute, FloatArray

FULL = 2 * np.pi


def mean_direction(attribute: Attribute, edges: FloatArray, shares: FloatArray) -> float:
    """In the attribute's unit, from low to high; `shares` float64[m] of cells between `edges`."""
    turn = np.angle(_resultant(attribute, edges, shares)) / FULL % 1.0
    value = attribute.origin + float(turn) * attribute.extent
    return value if value < attribute.highest else attribute.origin


def apart(attribute: Attribute, value: float, other: float) -> float:
    """The way from one direction to another, the shorter way round."""
    half = attribute.extent / 2
    return (other - value + half) % attribute.extent - half


def resolution(attribute: Attribute, edges: FloatArray, shares: FloatArray) -> float:
    """Error of a mean direction for the width of the cells (delta method): it grows as the vectors
    cancel."""
    length = abs(_resultant(attribute, edges, shares))
    variances = attribute.cell_variances(edges[:-1], edges[1:])
    return float(np.sqrt(np.sum(shares**2 * variances)) / max(length, 1e-9))


def unknown(attribute: Attribute) -> float:
    """The error of a direction of which nothing is known."""
    return float(attribute.extent / np.sqrt(12))


def _resultant(attribute: Attribute, edges: FloatArray, shares: FloatArray) -> complex:
    """The mean unit vector, of values spread evenly in their cells or over a cell's points."""
    low, high = edges[:-1], edges[1:]
    lattice = attribute.lattice
    if lattice is None:
        lengths = np.sinc(high - low)
        middles = (low + high) / 2
    else:
        starts, ends = lattice.sections(low, high)
        middles = lattice.scaling.places((lattice.points(starts) + lattice.points(ends - 1)) / 2)
        step = float(lattice.step) / attribute.extent
        lengths = np.sinc((ends - starts) * step) / np.sinc(step)
    return complex(np.sum(shares * lengths * np.exp(1j * FULL * middles)))
