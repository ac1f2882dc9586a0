"""Readings clipped to the public bounds of their domain, before anything is computed from them.

No reading overflows an operation then, so none makes NumPy warn: a warning is a line in a log that
only this reading wrote. Everything happens in the caller's scratch.
"""

from sys import float_info

import numpy as np
import numpy.typing as npt

from pansketch.domain.atoms import AtomEncoder
from pansketch.domain.domain import Domain
from pansketch.erasable_arrays import block

FloatArray = npt.NDArray[np.float64]


def as_readings(readings: npt.ArrayLike, dimension: int) -> tuple[FloatArray, bool]:
    """Readings as float64[n, dimension], and whether that is a copy to be erased after use.

    A whole number beyond the largest float is infinite. Raises ValueError for another shape.
    """
    if isinstance(readings, np.ndarray) and readings.dtype == np.float64:
        given: FloatArray = readings
    else:
        given = _converted(readings)
    copied = given is not readings and not np.may_share_memory(given, readings)
    if given.ndim != 2 or given.shape[1] != dimension:
        shape = list(given.shape)
        if copied:
            given.fill(0)
        raise ValueError(f"readings must have shape [n, {dimension}], not {shape}")
    return given, copied


def _converted(readings: npt.ArrayLike) -> FloatArray:
    with np.errstate(all="ignore"):  # A longdouble beyond the largest float is infinite as well.
        try:
            return np.asarray(readings, np.float64)
        except OverflowError:
            whole = np.asarray(readings, object)
            return np.asarray(np.frompyfunc(_as_float, 1, 1)(whole), np.float64)


def _as_float(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:  # Its sign does not matter: the reading is left out.
        return np.inf


class Clipper:
    """Turns readings of a domain into their distances from `low`. Holds public numbers only, and
    the scratch of atoms: at most `size` readings at a time."""

    def __init__(self, domain: Domain, size: int) -> None:
        attributes = domain.attributes
        self.atoms = AtomEncoder(
            [
                (place, a.origin, a.atom_positions, a.placed)
                for place, a in enumerate(attributes)
                if a.atoms
            ],
            size,
        )
        self._fixed = [place for place, a in enumerate(attributes) if not a.varies]
        # On a circle values are wrapped, not clipped, but for those so far out that the distance
        # from `low` is no finite number.
        bounds = []
        for attribute in attributes:
            reach = float_info.max - abs(attribute.origin)
            low, high = attribute.origin, attribute.highest
            bounds.append((-reach, reach, low) if attribute.cyclic else (low, high, low))
            if not attribute.varies:
                bounds[-1] = (0.0, 0.0, 0.0)
        self._low, self._high, self._origin = np.array(bounds).T.copy()[:, :, None]
        self._turns = [(place, a.extent) for place, a in enumerate(attributes) if a.cyclic]

    def distances(
        self, readings: FloatArray, scratch: FloatArray, finite: npt.NDArray[np.bool_]
    ) -> FloatArray:
        """Distances of readings, float64[d, n], from each attribute's `low`: 0 to high - low, as a
        block of `scratch` (pansketch/erasable_arrays.py), float64[d, m], m <= n.

        Readings with a value that is not finite are left out, but for a NaN where `missing` is an
        atom; the columns of constants are 0. Atoms are marked in `atoms`. `finite`: scratch,
        bool[d, k], k >= n.
        """
        kept = block(scratch, readings.shape[1])
        np.copyto(kept, readings)
        self._erase_constants(kept)
        which = np.isfinite(kept, out=block(finite, readings.shape[1]))
        self.atoms.allow_missing(kept, which)
        if not which.all():
            kept = _copy_finite(readings, scratch, which)
            self._erase_constants(kept)
        self.atoms.mark(kept)
        np.maximum(kept, self._low, out=kept)
        np.minimum(kept, self._high, out=kept)
        np.subtract(kept, self._origin, out=kept)
        for place, turn in self._turns:
            # Exact, but for a value so little below `low` that it becomes `high`: the encoder
            # leaves it in the last cell, where it belongs.
            np.remainder(kept[place], turn, out=kept[place])
        return kept

    def _erase_constants(self, units: FloatArray) -> None:
        for place in self._fixed:
            units[place].fill(0)


def _copy_finite(
    readings: FloatArray, scratch: FloatArray, finite: npt.NDArray[np.bool_]
) -> FloatArray:
    """A block of `scratch` with the readings, float64[d, n], that are finite, bool[d, n].

    Finite readings beyond the block overwrite the others in it, because indexing by a mask would
    copy readings.
    """
    kept = finite[0]
    for row in finite[1:]:
        np.logical_and(kept, row, out=kept)
    count = int(np.count_nonzero(kept))
    units = block(scratch, count)
    np.copyto(units, readings[:, :count])
    beyond = np.flatnonzero(kept[count:])
    holes = np.flatnonzero(np.logical_not(kept[:count], out=kept[:count]))
    for hole, place in zip(holes, beyond, strict=True):
        units[:, hole] = readings[:, count + place]
    holes.fill(0)
    beyond.fill(0)
    return units
