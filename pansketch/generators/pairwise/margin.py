"""The model of one attribute of a release of views: what `pairwise` tells of it, without records.

Questions of one attribute, asked of hundreds of windows, need no particles. The boxes are the
margin's cells, which the particles of `pairwise` are weighted to follow.

Everything here reads released integers only, so it is post-processing and costs no privacy.

The density inside the cells of a number, sloped as the cells beside each one are.

Cells that noise bears are wide, and inside of them readings are rarely spread evenly. A line takes
the density from one cell to the next without a change of what either holds. Its slope is the mean
of the slopes to both neighbours, and at most twice the lesser of them (the monotonized central
limiter of van Leer, "Towards the ultimate conservative difference scheme IV", 1977). So the line
stays between the neighbours, is never negative, and is flat in every peak and dip. Noise makes
peaks and dips rather than slopes, and a value with mass of its own is a peak. A first or last cell
that stands out is no peak of a smooth density: its readings pile up at the bound, or near it. There
the density falls by the same factor over each width, that between the cell and the one beside it.

Cells of a learned scale are wide where readings are rare, and the density of the next cell may be
ten times as high. A line cannot follow that. The logarithm of their density has the slope instead.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import Attribute, Domain, FloatArray
from pansketch.estimate import Estimate
from pansketch.generators.pairwise.contingency_tables import (
    cells_of,
    domain_of,
    held_inside,
    tables_of,
    values_inside,
)
from pansketch.generators.pairwise.marginals import (
    REPLICATES,
    ROUGH,
    Margin,
    margin_of,
    margins_alike,
    resolutions_of,
)
from pansketch.generators.pairwise.multiresolution import TALLER, Resolution, folded, nested_fit
from pansketch.generators.partition.box_overlap import WHOLE, Cells, steepness, unevenness
from pansketch.generators.partition.partition import Partition
from pansketch.generators.significance import Fits, noise_of_sums
from pansketch.sketches.release_model import Release

PARTS = 8  # at most, into which a cell with a slope is divided
FINEST = 10  # bits of the finest parts: narrower cells need no slope
FINEST_AT_BOUND = 12  # bits of them where readings pile up at a bound
STEEPEST = 1e3  # times as dense as the cell beside it: noise hides more
FEWEST = 3  # cells

Places = npt.NDArray[np.intp]


def margin(release: Release, name: str) -> Partition:
    """The model of one attribute, from a release of views, merged or not.

    Args:
        release: of views.
        name: of the attribute.

    Returns:
        A partition of a domain of this attribute alone, with its error bars. It answers what the
        model of `pairwise` does, without records.

    Raises:
        ValueError: the release is of another family, or the attribute is unknown or in no view.
    """
    domain, tables = domain_of(release), tables_of(release)
    position = domain.index(name)
    if not any(position in table.axes for table in tables):
        raise ValueError(f"{name} is in no view, and nothing is known of it")
    attribute = domain.attributes[position]
    resolutions = resolutions_of(tables, position)
    # Public post-processing: seeded by the release, so that an answer repeats itself.
    seed = [*np.abs(release.counters[:4]), position]

    fitted = margin_of(attribute, resolutions)

    def replicate() -> list[Partition]:
        # As `likely_fits` does with whole tables: noise once more around what was released.
        noisy = _noisier(resolutions, np.random.default_rng(seed))
        fits: list[Margin | None] = []
        for part, rough in ((slice(ROUGH), True), (slice(ROUGH, None), False)):
            some = [replace(each, counts=each.counts[part]) for each in noisy]
            fits += margins_alike(attribute, some, rough=rough, like=fitted)
        return [_partition(attribute, resolutions[-1].bits, fit) for fit in fits]

    made = _partition(attribute, resolutions[-1].bits, fitted)
    variances = {0: nested_fit(resolutions).variances}
    noise = noise_of_sums(release.count, variances)
    return replace(made, replicate=replicate, noise=noise, fits=Fits(rough=ROUGH))


def readings_of(release: Release, name: str) -> Estimate:
    """`margin(release, name).readings`, without a margin: the tree's root."""
    tables, position = tables_of(release), domain_of(release).index(name)
    best = nested_fit(resolutions_of(tables, position))
    total = max(float(best.counts.sum()), 0.0)
    return Estimate(total, float(np.sqrt(best.variances[-1])))


def _noisier(released: Sequence[Resolution], generator: np.random.Generator) -> list[Resolution]:
    """What was released with as much noise again, REPLICATES times."""
    ends = np.cumsum([len(each.precision) for each in released])
    drawn = np.split(generator.normal(0, 1, (REPLICATES, ends[-1])), ends[:-1], axis=1)
    found = []
    for each, normal in zip(released, drawn, strict=True):
        deviation = np.sqrt(1 / np.where(each.precision > 0, each.precision, np.inf))
        counts = each.counts + normal * deviation
        found.append(replace(each, counts=counts, precision=each.precision / 2))
    return found


def _partition(attribute: Attribute, bits: int, fit: Margin | None) -> Partition:
    """A box for each cell, or each part of one with a slope; no readings where there is no fit."""
    domain = Domain([attribute])
    if fit is None:
        return Partition(domain, np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1))
    shares = shares_inside(attribute, bits, fit.counts)
    counts = fit.counts[:, None] * shares
    cells, parts = np.nonzero(counts > 0)
    low, high = (each / (1 << bits) for each in ends_of(shares, cells, parts))
    if attribute.categories is not None:
        np.minimum(high, attribute.codes / attribute.extent, out=high)
    held = {0: cells_told(attribute, fit)}
    return Partition(domain, low[:, None], high[:, None], counts[cells, parts], cells=held)


def shares_inside(attribute: Attribute, bits: int, counts: FloatArray) -> FloatArray:
    """Shares of equal parts of each cell, float64[cells, parts], rows that add up to 1; of a cell
    without a slope the first part has 1 and stands for all. One part where none has a slope.

    `counts`: in cells of so many bits. Of an attribute with a step only parts that hold a point of
    it have a share.
    """
    if attribute.categories is not None or attribute.placed is not None:
        return np.ones((len(counts), 1))
    low, high = values_inside(attribute, 1 << bits)
    width, middle = high - low, (low + high) / 2
    real = np.flatnonzero(width > 0)
    if len(real) < FEWEST:
        return np.ones((len(counts), 1))
    density = counts[real] / width[real]
    piled = {} if attribute.cyclic or attribute.knots else _piled(density)
    parts = min(PARTS, 1 << max(0, FINEST - bits))
    if piled:
        parts = max(parts, min(2 * PARTS, 1 << max(0, FINEST_AT_BOUND - bits)))
    whole = np.zeros((len(counts), parts))
    whole[:, 0] = 1.0
    if parts == 1:
        return whole
    slope = np.zeros(len(counts))
    starts, ends = (each.reshape(-1, parts) for each in values_inside(attribute, parts << bits))
    away = (starts + ends) / 2 - middle[:, None]
    if attribute.knots:
        logarithms = np.log(np.maximum(density, density.max() / STEEPEST**2))
        slope[real] = _limited(logarithms, density, middle[real])
        inside = (ends - starts) * np.exp(slope[:, None] * away)
    else:
        level = np.divide(counts, width, out=np.zeros_like(counts), where=width > 0)
        most = 2 * density / width[real]
        slope[real] = np.clip(_limited(density, density, middle[real]), -most, most)
        inside = np.maximum((ends - starts) * (level[:, None] + slope[:, None] * away), 0.0)
    sloped = slope != 0
    for end, falling in piled.items():
        cell = real[end]
        falls = np.exp(falling * away[cell] / width[cell] * (1 if end else -1))
        inside[cell], sloped[cell] = (ends - starts)[cell] * falls, True
    sums = inside.sum(axis=1, keepdims=True)
    sloped = (sloped[:, None] & (sums > 0)).repeat(parts, axis=1)
    return np.asarray(np.divide(inside, sums, out=whole, where=sloped))


def from_wider_cells(attribute: Attribute, bits: int, counts: FloatArray) -> FloatArray:
    """What cells twice as wide tell of these: float64[cells]. `counts`: see `shares_inside`; of an
    even number of cells."""
    wide = folded(counts, 1)
    shares = shares_inside(attribute, bits - 1, wide)
    first = shares[:, : shares.shape[1] // 2].sum(axis=1)
    first = np.where(shares[:, 0] == 1.0, _first_half(attribute, bits), first)
    return np.asarray((np.stack([first, 1 - first], axis=1) * wide[:, None]).reshape(-1))


def _first_half(attribute: Attribute, bits: int) -> FloatArray:
    """Which part of the readings of a cell is in its first half of so many bits, if they are spread
    evenly over what they can fill: float64[cells]."""
    low, high = held_inside(attribute, 1 << bits)
    width = (high - low).reshape(-1, 2)
    whole = width.sum(axis=1)
    half = np.full(len(whole), 0.5)
    return np.asarray(np.divide(width[:, 0], whole, out=half, where=whole > 0))


def cells_told(attribute: Attribute, margin: Margin) -> Cells:
    """The cells of a margin, and how uneven readings are inside of them.

    That is measured: cells twice as wide are halved as if these were unknown. By so much as the
    halves err more, or less, than the cells beside the wide ones tell, these do. Cells that stand
    out have errors of their own.
    """
    bits, counts = margin.bits, margin.counts
    if attribute.categories is not None or attribute.placed is not None or bits < 2:
        return Cells(bits, step=margin.step)
    wide, halves = folded(counts, 1), from_wider_cells(attribute, bits, counts)
    part = np.divide(halves[::2], wide, out=np.zeros_like(wide), where=wide > 0)
    below = np.concatenate([[0.0], np.cumsum(wide)])
    edges = np.arange(len(below)) / len(wide)
    smooth = steepness(edges, below / below[-1], pairs=True) == 0
    beside = unevenness(attribute, wide)
    told = wide * beside * np.sqrt(part * (1 - part) / 3)
    smooth &= beside < WHOLE
    shown, most = (np.linalg.norm(smooth * each) for each in (counts[::2] - halves[::2], told))
    return Cells(bits, float(shown / most) if most > 0 else 1.0, margin.step)


def refined(attribute: Attribute, margin: Margin, bits: int) -> FloatArray:
    """A margin in cells of as many bits or more, even in each of its own."""
    ways = 1 << (bits - margin.bits)
    return np.repeat(margin.counts / ways, ways)[: cells_of(attribute, bits)]


def share_at_top(attribute: Attribute, bits: int, counts: FloatArray) -> float:
    """Which part of the records of the last cell has the highest value; 0 without a step. `counts`:
    see `shares_inside`."""
    if attribute.lattice is None:
        return 0.0
    shares = shares_inside(attribute, bits, counts)[-1]
    part, many = int(np.flatnonzero(shares)[-1]), len(shares)
    whole = shares[0] == 1.0
    ends = np.array([len(counts) - (1.0 if whole else 1 - part / many), len(counts)]) / (1 << bits)
    start, end = (each.item() for each in attribute.lattice.sections(ends[:1], ends[1:]))
    return float(shares[part]) / max(end - start, 1.0)


def _piled(density: FloatArray) -> dict[int, float]:
    """The first cell, 0, and the last one, -1, that stand out from the cell beside them: the
    logarithm of how many times denser they are."""
    found = {}
    for end, beside in ((0, 1), (-1, -2)):
        if density[end] > TALLER * density[beside]:
            times = STEEPEST * density[beside] / density[end]
            found[end] = float(np.log(STEEPEST / max(times, 1.0)))
    return found


def _limited(heights: FloatArray, density: FloatArray, middle: FloatArray) -> FloatArray:
    """The slope of heights, densities or their logarithms, in each cell. The first and the last
    have one neighbour each, and no slope where they stand out from it, as a value at a bound with
    mass of its own does."""
    steps = np.diff(heights) / np.diff(middle)
    before, after = np.append(steps[0], steps), np.append(steps, steps[-1])
    least = 2 * np.minimum(np.abs(before), np.abs(after))
    slope = np.sign(before) * np.minimum(least, np.abs(before + after) / 2)
    for end, beside in ((0, 1), (-1, -2)):
        if density[end] > TALLER * density[beside]:
            slope[end] = 0.0
    return np.asarray(np.where(before * after > 0, slope, 0.0))


def placed_inside(shares: FloatArray, cells: Places, weights: FloatArray, seed: int) -> Places:
    """A part of its cell for each particle: intp[n].

    Particles of one cell take its parts in a random order, each part as much of their weight as its
    share, up to one particle.
    """
    order = np.random.default_rng(seed).permutation(len(cells))
    order = order[np.argsort(cells[order], kind="stable")]
    own, weighed = cells[order], weights[order]
    held = np.bincount(own, weighed, len(shares))
    before = np.cumsum(held) - held
    places = (np.cumsum(weighed) - weighed / 2 - before[own]) / np.maximum(held[own], 1e-300)
    edges = np.cumsum(shares, axis=1)
    edges[:, -1] = 1.0
    steps = (edges + np.arange(len(shares))[:, None]).reshape(-1)
    found = np.empty(len(cells), np.intp)
    columns = np.searchsorted(steps, np.clip(places, 0.0, 1 - 1e-9) + own, "right")
    found[order] = np.clip(columns - own * shares.shape[1], 0, shares.shape[1] - 1)
    return found


def ends_of(shares: FloatArray, cells: Places, parts: Places) -> tuple[FloatArray, FloatArray]:
    """In cells, where parts of cells begin and end: float64[n] each."""
    many = shares.shape[1]
    whole = shares[cells, 0] == 1.0
    ends = cells + np.where(whole, 1.0, (parts + 1) / many)
    return cells + parts / many, np.asarray(ends, np.float64)
