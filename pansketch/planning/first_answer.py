"""Predict the first answer about a stream: how many windows, before there is any reading.

Generators refuse a question until the readings exceed the noise WANTED times over
(generators/significance.py). The noise follows from the spec, and the number of readings is
expected. So the number of windows is public, and the programs state it at their start.
"""

from bisect import bisect_left
from collections import Counter
from math import sqrt

import numpy as np

from pansketch.planning.selection import Expected, Shape, case_of
from pansketch.sketches.count_sketch import laplace_variance
from pansketch.sketches.hierarchy import HierarchySpec
from pansketch.sketches.linear_counters import LinearSpec
from pansketch.sketches.release_model import Spec
from pansketch.sketches.views import ViewsSpec

WANTED = 4.0  # readings, in standard deviations of the noise on what is asked of them
EIGHTHS = 8  # of an attribute's cells, up to whose ends a mean needs the number of readings
MAX_WINDOWS = 1 << 30  # a length of 32 bits


def windows_needed(spec: Spec, expected: Expected, first: float = 1.0) -> int:
    """About how many windows of all expected devices an answer needs: the mean of any attribute.

    Args:
        spec: of the sketch of every device.
        expected: the readings of a window, and the devices. Its own numbers of windows are not
            used.
        first: the part of the first window that is left for readings, in (0, 1].

    Returns:
        The number of windows, from 1 to MAX_WINDOWS. Of a blinded stream at least those of its
        shortest level.

    Raises:
        ValueError: the sketch counts keys: each window has an answer of its own.
    """
    if not isinstance(spec, LinearSpec):
        raise ValueError(f"a sketch of family {spec.family} has an answer for each window")
    variance = _variance(spec)
    missed = (1 - first) * expected.readings * expected.devices

    def enough(windows: int) -> bool:
        case = case_of(expected, spec.guarantee, Shape(), windows)
        return case.total - missed >= WANTED * sqrt(case.draws * variance)

    found = 1 + bisect_left(range(1, MAX_WINDOWS), True, key=enough)
    return found if expected.answering is None else max(found, expected.answering.shortest)


def _variance(spec: LinearSpec) -> float:
    """Variance of one draw of the noise on the number of readings below a value, of the attribute
    of which the sketch knows least. Other families than these two count all readings apart."""
    variances = [laplace_variance(scale) for scale in spec.scales]
    if isinstance(spec, ViewsSpec):
        sums = [(v.size, dict(zip(v.names, v.bits, strict=True))) for v in spec.views]
    elif isinstance(spec, HierarchySpec):
        order = [spec.domain.names[each] for each in spec.domain.split_order(spec.depth)]
        sums = [(level.size, Counter(order[: level.bits])) for level in spec.exact_levels]
    else:
        return variances[0]
    counts = [(s * variance, bits) for (s, bits), variance in zip(sums, variances, strict=False)]
    names = {name for _, bits in counts for name in bits}
    return max(
        (_below([(whole, bits.get(name, 0)) for whole, bits in counts]) for name in names),
        default=variances[0],
    )


def _below(counts: list[tuple[float, int]]) -> float:
    """The largest variance of the best estimates of running sums, up to the ends of eighths of an
    attribute's cells, by least squares. `counts`: of each grid the variance of the sum of all its
    cells, and its bits along the attribute."""
    most = min(max(bits for _, bits in counts), EIGHTHS.bit_length() - 1)
    cells = 1 << most
    # One grid after the other, the finest first. Their variances may differ by many powers of ten,
    # so a sum of their inverses may be singular.
    grids = sorted(((min(bits, most), whole) for whole, bits in counts), reverse=True)
    covariance = np.eye(cells) * grids[0][1] / cells
    for bits, whole in grids[1:]:
        part = np.repeat(np.eye(1 << bits), cells >> bits, axis=1)
        seen = part @ covariance @ part.T + np.eye(1 << bits) * whole / (1 << bits)
        gain = covariance @ part.T @ np.linalg.pinv(seen, hermitian=True)
        covariance = covariance - gain @ part @ covariance
    sums = np.tril(np.ones((cells, cells)))
    return float(np.diag(sums @ covariance @ sums.T).max())
