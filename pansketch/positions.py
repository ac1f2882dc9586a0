"""Readings as positions: whole steps of 2**-16 along each attribute's unit interval, in scratch.

A category stands where its code begins: code / 2**bits. Positions are integers, so that what is
computed from them is exact and the same on every machine.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pansketch.domain import Domain
from pansketch.paths import _drop_columns

POSITION_BITS = 16
MOST_POSITIONS = 1 << POSITION_BITS

Positions = npt.NDArray[np.uint32]


class PositionEncoder:
    """Turns readings of a domain into positions, at most `block` at a time. Holds scratch.

    Raises ValueError for an attribute with more categories than there are positions.
    """

    def __init__(self, domain: Domain, block: int) -> None:
        attributes = domain.attributes
        for attribute in attributes:
            if len(attribute.categories or ()) > MOST_POSITIONS:
                raise ValueError(f"{attribute.name}: at most {MOST_POSITIONS} categories")
        self._low = _column([a.origin for a in attributes])
        self._fixed = [place for place, a in enumerate(attributes) if not a.varies]
        self._resolutions = [a.scaling.resolution or 0.0 for a in attributes]
        self._turns = [a.extent if a.cyclic else 0.0 for a in attributes]
        self._scale = _column(
            [MOST_POSITIONS / a.extent if a.categories is None else 1.0 for a in attributes]
        )
        self._last = [
            MOST_POSITIONS - 1.0 if a.categories is None else a.highest for a in attributes
        ]
        shifts = [0 if a.categories is None else POSITION_BITS - a.most_bits for a in attributes]
        self._shifts = np.array(shifts, np.int32)[:, None]
        self._units = np.zeros((len(attributes), block))
        self._finite = np.zeros((len(attributes), block), np.bool_)
        self._positions = np.zeros((len(attributes), block), np.int32)

    def encode(self, readings: npt.NDArray[np.float64]) -> Iterator[Positions]:
        """Positions of readings, float64[n, d] -> uint32[d, m], m <= n, a block at a time.

        Each array is scratch: it is zeroed when the next one is asked for. Readings with a value
        that is not finite are left out, values out of bounds are clipped or, on a circle, wrapped;
        the columns of constants do not count. Raises ValueError for any other shape than [n, d].
        """
        dimension, block = self._units.shape
        given = np.asarray(readings, np.float64)
        try:
            if given.ndim != 2 or given.shape[1] != dimension:
                raise ValueError(
                    f"readings must have shape [n, {dimension}], not {list(given.shape)}"
                )
            for start in range(0, len(given), block):
                try:
                    yield self._encode_block(given[start : start + block].T)
                finally:
                    self._erase(len(given) - start)
        finally:
            if given is not readings and not np.may_share_memory(given, readings):
                given.fill(0)

    def _encode_block(self, readings: npt.NDArray[np.float64]) -> Positions:
        given = int(readings.shape[1])
        units, finite = self._units[:, :given], self._finite[:, :given]
        np.subtract(readings, self._low, out=units)
        for place in self._fixed:
            units[place].fill(0)
        np.isfinite(units, out=finite)
        if not finite.all():
            units = units[:, : _drop_columns(units, finite)]
        for row, resolution, turn in zip(units, self._resolutions, self._turns, strict=True):
            if turn:
                np.remainder(row, turn, out=row)  # What rounds up to `turn` is clipped below.
            if resolution:
                np.maximum(row, 0.0, out=row)
                np.divide(row, resolution, out=row)
                np.log1p(row, out=row)
        np.multiply(units, self._scale, out=units)
        for row, last in zip(units, self._last, strict=True):
            np.clip(row, 0.0, last, out=row)
        positions = self._positions[:, : units.shape[1]]
        np.copyto(positions, units, casting="unsafe")  # Truncation is floor: nothing is negative.
        np.left_shift(positions, self._shifts, out=positions)
        return positions.view(np.uint32)

    def _erase(self, used: int) -> None:
        for scratch in (self._units, self._finite, self._positions):
            scratch[:, :used].fill(0)


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
