"""Predict the first answer about a stream: how many windows, before there is any reading.

Generators refuse a question until the readings exceed the noise WANTED times over
(generators/significance.py). The noise follows from the spec, and the number of readings is
expected. So the number of windows is public, and the programs state it at their start.
"""

from bisect import bisect_left
from collections import Counter
from math import sqrt

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
    attribute's cells. `counts`: of each grid the variance of the sum of all its cells, and its bits
    along the attribute.

    The grids are nested, and all cells of one have the same variance. So least squares is separate
    for each wavelet of Haar: a grid tells all wavelets that its cells resolve, and all alike.
    """
    most = min(max(bits for _, bits in counts), EIGHTHS.bit_length() - 1)
    cells = 1 << most
    # Of the whole sum, then of the wavelets of 1, 2, 4 ... pairs of halves.
    variances = [
        1 / sum(cells / whole for whole, bits in counts if min(bits, most) >= level)
        for level in range(most + 1)
    ]
    return max(
        sum(_share(end, cells, level) ** 2 * variance for level, variance in enumerate(variances))
        for end in range(1, cells + 1)
    )


def _share(end: int, cells: int, level: int) -> float:
    """The sum of the first `end` cells of one orthonormal wavelet: the one in which they end.

    Level 0 has the whole, and a further one 2**(level - 1) pairs of halves."""
    if level == 0:
        return end / sqrt(cells)
    width = cells >> (level - 1)
    inside = end % width
    return min(inside, width - inside) / sqrt(width)
