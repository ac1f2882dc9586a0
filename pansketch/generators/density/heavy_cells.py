"""The heaviest cells of a released density sketch, found in nothing but the release.

Up to 2**20 cells are all looked at. Beyond, a search descends: the heaviest cells of the coarsest
table, then the heaviest among their children in the next one, down to the finest.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Domain, FloatArray
from pansketch.generators.density.count_recovery import Paths, Recovery, ReleasedTable
from pansketch.sketches.cells import ENUMERABLE_BITS, GUIDE_STEP_BITS

MAX_CELLS = 1 << ENUMERABLE_BITS
MAX_CELLS_OF_A_DESCENT = MAX_CELLS >> (GUIDE_STEP_BITS - 2)  # Their children fit in memory.
MIN_DESCENDING = 4096  # Light cells that collide with a heavy one must not crowd others out.


def heaviest(
    tables: Sequence[ReleasedTable], domain: Domain, cells: int, *, recovery: Recovery
) -> tuple[Paths, FloatArray]:
    """At most `cells` cells of the last table and their counts, all positive, in order of path.

    Ties fall by path, so that every machine finds the same cells.
    """
    first = possible_cells(domain, tables[0].sketch.bits)
    wide = max(cells, MIN_DESCENDING) if len(tables) > 1 else cells
    found, counts = top(first, tables[0].counts(first, recovery), wide)
    for parent, child in pairwise(tables):
        step = child.sketch.bits - parent.sketch.bits
        suffixes = np.arange(1 << step, dtype=np.uint64)
        children = ((found << np.uint64(step))[:, None] | suffixes).ravel()
        children = children[_possible(domain, children, child.sketch.bits)]
        wide = cells if child is tables[-1] else wide
        found, counts = top(children, child.counts(children, recovery), wide)
    return found, counts


def possible_cells(domain: Domain, bits: int) -> Paths:
    """Every cell of `bits` bits but those beyond the last category of an attribute."""
    paths = np.arange(1 << bits, dtype=np.uint64)
    return paths[_possible(domain, paths, bits)]


def boxes(domain: Domain, paths: Paths, bits: int) -> tuple[FloatArray, FloatArray]:
    """Possible cells as boxes of the unit cube, without what lies beyond the last category."""
    low, high = domain.boxes(paths, bits)
    return low, np.minimum(high, _ceilings(domain))


def _ceilings(domain: Domain) -> FloatArray:
    """Where the values of each attribute end in the unit interval."""
    return np.array(
        [
            1.0 if attribute.categories is None else len(attribute.categories) / attribute.extent
            for attribute in domain.attributes
        ]
    )


def _possible(domain: Domain, paths: Paths, bits: int) -> npt.NDArray[np.bool_]:
    """Whether cells hold any value: codes beyond the last category do not exist."""
    held = np.ones(len(paths), np.bool_)
    order = domain.split_order(bits)
    for position, attribute in enumerate(domain.attributes):
        if attribute.categories is None:
            continue
        places = [place for place, owner in enumerate(order) if owner == position]
        first = np.zeros_like(paths)  # The first code of the cell, in cells of codes.
        for place in places:
            bit = (paths >> np.uint64(bits - 1 - place)) & np.uint64(1)
            first = (first << np.uint64(1)) | bit
        codes = first << np.uint64(attribute.max_bits - len(places))
        held &= codes < len(attribute.categories)
    return held


def top(paths: Paths, counts: FloatArray, cells: int) -> tuple[Paths, FloatArray]:
    """At most `cells` of these cells, those with the highest counts, all positive, in their
    order."""
    kept = np.flatnonzero(counts > 0)
    if len(kept) > cells:
        least = np.partition(counts[kept], -cells)[-cells]
        above, ties = (np.flatnonzero(test(counts, least)) for test in (np.greater, np.equal))
        kept = np.sort(np.concatenate([above, ties[: cells - len(above)]]))
    return paths[kept], counts[kept]
