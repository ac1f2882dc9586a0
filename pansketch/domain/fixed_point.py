"""Readings as positions: whole steps of 2**-16 along each attribute's unit interval, in scratch.

A category stands where its code begins: code / 2**bits. Positions are integers, so that what is
computed from them is exact and the same on every machine.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pansketch.domain.clipping import Clipper, as_readings
from pansketch.domain.domain import Domain
from pansketch.domain.scale import Warp
from pansketch.erasable_arrays import block, erase

POSITION_BITS = 16
MAX_POSITIONS = 1 << POSITION_BITS

Positions = npt.NDArray[np.uint32]


class PositionEncoder:
    """Turns readings of a domain into positions, at most `block` at a time. Holds scratch.

    Raises ValueError for an attribute with more categories than there are positions.
    """

    def __init__(self, domain: Domain, block: int) -> None:
        attributes = domain.attributes
        for attribute in attributes:
            if attribute.codes > MAX_POSITIONS:
                raise ValueError(f"{attribute.name}: at most {MAX_POSITIONS} categories")
        self._clipper = Clipper(domain, block)
        self._warp = Warp([a.scaling for a in attributes], block)
        self._resolutions = [a.scaling.resolution or 0.0 for a in attributes]
        self._scale = _column(
            [MAX_POSITIONS / a.extent if a.categories is None else 1.0 for a in attributes]
        )
        self._last = _column(
            [
                MAX_POSITIONS - float(a.placed is None) if a.categories is None else a.highest
                for a in attributes
            ]
        )
        # Powers of two, as `_scale` times an extent may not be: rounding would move an atom to the
        # cell before its own.
        self._factors = np.array(
            [MAX_POSITIONS if a.categories is None else a.extent for a in attributes], np.float64
        )
        shifts = [0 if a.categories is None else POSITION_BITS - a.max_bits for a in attributes]
        self._shifts = np.array(shifts, np.int32)[:, None]
        self._units = np.zeros((len(attributes), block))
        self._finite = np.zeros((len(attributes), block), np.bool_)
        self._positions = np.zeros((len(attributes), block), np.int32)

    def encode(self, readings: npt.NDArray[np.float64]) -> Iterator[Positions]:
        """Positions of readings, float64[n, d] -> uint32[d, m], m <= n, a block at a time.

        Each array is scratch: it is zeroed when the next one is asked for. Readings with a value
        that is not finite are left out, but for a NaN that is an atom (`Attribute`). Values out of
        bounds are clipped or, on a circle, wrapped; the columns of constants do not count. Raises
        ValueError for any other shape than [n, d].
        """
        dimension, block = self._units.shape
        given, copied = as_readings(readings, dimension)
        try:
            for start in range(0, len(given), block):
                try:
                    yield self._encode_block(given[start : start + block].T)
                finally:
                    erase(len(given) - start, self._units, self._finite, self._positions)
                    self._warp.erase(len(given) - start)
                    self._clipper.atoms.erase(len(given) - start)
        finally:
            if copied:
                given.fill(0)

    def _encode_block(self, readings: npt.NDArray[np.float64]) -> Positions:
        units = self._clipper.distances(readings, self._units, self._finite)
        for row, resolution in zip(units, self._resolutions, strict=True):
            if resolution:
                np.divide(row, resolution, out=row)
                np.log1p(row, out=row)
        self._warp.apply(units)
        np.multiply(units, self._scale, out=units)
        np.minimum(units, self._last, out=units)
        self._clipper.atoms.apply(units, self._factors)
        positions = block(self._positions, units.shape[1])
        np.copyto(positions, units, casting="unsafe")  # Truncation is floor: nothing is negative.
        np.left_shift(positions, self._shifts, out=positions)
        return positions.view(np.uint32)


def positions_of(domain: Domain, rows: npt.NDArray[np.float64]) -> Positions:
    """All positions of public rows, float64[n, d] -> uint32[d, n].

    Raises ValueError for another shape, or when a value is not finite.
    """
    if not np.isfinite(rows).all():
        raise ValueError("rows must hold finite numbers")
    blocks = [each.copy() for each in PositionEncoder(domain, 8192).encode(rows)]
    return np.concatenate([np.zeros((domain.dimension, 0), np.uint32), *blocks], axis=1)


def _column(values: list[float]) -> npt.NDArray[np.float64]:
    return np.array(values, np.float64)[:, None]
