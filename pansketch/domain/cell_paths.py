"""Readings to cell paths, in scratch that is overwritten as soon as the paths are used.

A path is `depth` bits; bit l halves the attribute that `Domain.split_order` names. Readings
are clipped before anything else is computed from them (pansketch/domain/clipping.py).
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pansketch.domain.clipping import Clipper, as_readings
from pansketch.domain.domain import Domain
from pansketch.domain.scale import Warp
from pansketch.erasable_arrays import WIDE, Indices, block, erase

READINGS_AT_ONCE = 65536
BLOCK = 8192  # Readings transformed together: their scratch stays in the second-level cache.
TABLE_BITS = 12  # Bits of an attribute that one table spreads; such a table fits the first cache.


class PathEncoder:
    """Turns readings of a domain into paths of `depth` bits. Holds public tables and scratch.

    Raises ValueError for a domain with atoms.
    """

    def __init__(self, domain: Domain, depth: int) -> None:
        domain.refuse_atoms()
        order = domain.split_order(depth)
        attributes = domain.attributes
        bits = [order.count(position) for position in range(len(attributes))]
        self._dimension = len(attributes)
        self._clipper = Clipper(domain, BLOCK)
        self._warp = Warp([a.scaling for a in attributes], BLOCK)
        self._resolutions = [a.scaling.resolution or 0.0 for a in attributes]
        self._scale = _column([2.0**b / a.extent for a, b in zip(attributes, bits, strict=True)])
        self._last = _column(
            [
                2.0**b - 1 if a.categories is None else a.highest * 2.0**b / a.extent
                for a, b in zip(attributes, bits, strict=True)
            ]
        )
        self._tables = list(_spreading_tables(order, bits))
        self._units = np.zeros((self._dimension, BLOCK))
        self._narrow = np.zeros((self._dimension, BLOCK), np.int32)
        self._cells = np.zeros((self._dimension, BLOCK), np.intp)
        self._finite = np.zeros((self._dimension, BLOCK), np.bool_)
        self._part = np.zeros(BLOCK, np.int64)
        # The same memory where it can be, for the cache's sake.
        self._index = self._part.view(np.intp) if WIDE else np.zeros(BLOCK, np.intp)
        self._paths = np.zeros(READINGS_AT_ONCE, np.int64)

    def encode(self, readings: npt.NDArray[np.float64]) -> Iterator[npt.NDArray[np.uint64]]:
        """Paths of readings, float64[n, d] -> uint64[m], m <= n, some thousands at a time.

        Each array is scratch: it is zeroed when the next one is asked for. Readings with a value
        that is not finite are left out; the columns of constants do not count. Raises ValueError
        for any other shape than [n, d].
        """
        given, copied = as_readings(readings, self._dimension)
        try:
            for start in range(0, len(given), READINGS_AT_ONCE):
                try:
                    yield self._encode_some(given[start : start + READINGS_AT_ONCE])
                finally:
                    self._paths[: len(given) - start].fill(0)
        finally:
            if copied:
                given.fill(0)

    def _encode_some(self, readings: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
        kept = 0
        for start in range(0, len(readings), BLOCK):
            kept += self._encode_block(readings[start : start + BLOCK].T, self._paths[kept:])
        erase(len(readings), self._units, self._narrow, self._cells, self._finite)
        self._warp.erase(len(readings))
        for scratch in (self._part, self._index):
            scratch[: len(readings)].fill(0)
        return self._paths[:kept].view(np.uint64)

    def _encode_block(self, readings: npt.NDArray[np.float64], paths: npt.NDArray[np.int64]) -> int:
        """Paths of readings, float64[d, n], into the beginning of `paths`; how many there are."""
        units = self._clipper.distances(readings, self._units, self._finite)
        count = int(units.shape[1])
        for row, resolution in zip(units, self._resolutions, strict=True):
            if resolution:
                np.divide(row, resolution, out=row)
                np.add(row, 1.0, out=row)
                np.log(row, out=row)  # log1p's extra digits are far below a cell, and it is slow
        self._warp.apply(units)
        np.multiply(units, self._scale, out=units)
        np.minimum(units, self._last, out=units)
        narrow, cells = block(self._narrow, count), block(self._cells, count)
        # Truncation is floor, for nothing is negative. Two casts are faster than one.
        np.copyto(narrow, units, casting="unsafe")
        np.copyto(cells, narrow)
        self._interleave(cells, paths[:count])
        return count

    def _interleave(self, cells: Indices, paths: npt.NDArray[np.int64]) -> None:
        if self._dimension == 1:
            np.copyto(paths, cells[0])
            return
        part, turned = self._part[: len(paths)], self._index[: len(paths)]
        for place, (position, shift, mask, table) in enumerate(self._tables):
            index = cells[position]
            if shift or mask is not None:
                np.right_shift(index, shift, out=turned)
                if mask is not None:
                    np.bitwise_and(turned, mask, out=turned)
                index = turned
            # "clip" keeps numpy from taking into a buffer of its own.
            np.take(table, index, out=part if place else paths, mode="clip")
            if place:
                np.bitwise_or(paths, part, out=paths)


def _column(values: list[float]) -> npt.NDArray[np.float64]:
    return np.array(values, np.float64)[:, None]


def _spreading_tables(
    order: tuple[int, ...], bits: list[int]
) -> Iterator[tuple[int, int, int | None, npt.NDArray[np.int64]]]:
    """(attribute, shift, mask, table): the table spreads some bits of a cell's index over the
    path."""
    depth = len(order)
    for position, own_bits in enumerate(bits):
        places = [place for place, owner in enumerate(order) if owner == position][::-1]
        for shift in range(0, own_bits, TABLE_BITS):
            taken = places[shift : shift + TABLE_BITS]
            codes = np.arange(1 << len(taken), dtype=np.int64)
            table = np.zeros_like(codes)
            for bit, place in enumerate(taken):
                table |= (codes >> bit & 1) << (depth - 1 - place)
            mask = None if shift + len(taken) == own_bits else (1 << len(taken)) - 1
            yield position, shift, mask, table
