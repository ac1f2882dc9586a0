"""KD-trees: the bounds of Theorems 3, 5 and 6 beside measured errors, and Lemma 10's threshold.

Errors are the largest difference of two kernel densities, a Gaussian kernel of deviation 1. It is
between 0 and 1 everywhere, so a bound of 1 or more is vacuous. delta is 0.05. Noise is the paper's
own, of scale 2 / epsilon: half of epsilon here.
"""

from collections.abc import Iterator
from math import e, exp, log, pi, sqrt

import numpy as np

from benchmarks.harness.result import Row, at_least, at_most
from benchmarks.kdtree.cases import FINEST, Data, FloatArray, Weighted, data_of, tree_points
from pansketch import Attribute, Domain, Privacy, os_entropy
from pansketch.generators import kdtree_points

COUNT, EPSILON, DELTA = 100_000, 1.0, 0.05
DIMENSIONS = (1, 2, 5)
EDGE = 16.0  # of the public square that bounds two standard normal coordinates
DEPTH = 8
LEMMA_28 = 8.0  # The least ln(w / (sigma sqrt(2 pi))) that its proof allows.
GRID = 41
FIGURE_4 = (0.01, 0.03, 0.1, 0.3)
FARTHER = 3.0


def rows(quick: bool) -> Iterator[Row]:
    runs = 2 if quick else 10
    yield from _equal_bins(runs)
    yield from gaussian_bound(sqrt(2 * pi) * exp(LEMMA_28))
    yield _slope(runs)
    yield from _threshold(runs, 20_000 if quick else 100_000)


def gaussian_bound(narrowest: float) -> Iterator[Row]:
    """Theorem 6: its least value over all bin widths, as printed and where its proof holds, from
    the narrowest width on."""
    widths = np.geomspace(1e-2, 1e5, 4000)
    for dimension in DIMENSIONS:
        bound = np.array([_theorem_6(width, dimension) for width in widths])
        printed = np.array([_conditions(width, dimension) for width in widths])
        note = (
            f"over all widths of its printed conditions {bound[printed].min():.3g}; Lemma 28 has "
        )
        note += f"bins {narrowest:,.0f} sigma wide or more; vacuous: no error exceeds 1"
        name = f"KD-trees, Theorem 6: least bound where its proof holds, {dimension}-d, sigma 1"
        yield at_least(name, float(bound[widths >= narrowest].min()), "", 1.0, note)


def _theorem_6(width: float, dimension: int) -> float:
    """The bound for n = COUNT and sigma = 1."""
    noise = log(1 / DELTA)
    light = 8 * noise ** (1 / 3) * exp(-dimension / 3 * (log(width / sqrt(2 * pi)) - 2))
    heavy = 16 * noise * (12 / width) ** dimension * log(COUNT) ** (dimension / 2)
    rounding = width * sqrt(dimension) / (2 * sqrt(e))
    return float(light / (EPSILON * COUNT) ** (1 / 3) + heavy / (EPSILON * COUNT) + rounding)


def _conditions(width: float, dimension: int) -> bool:
    """Those that the theorem prints, the second with the exponent 2 that its proof has as d."""
    few = (width / sqrt(2 * pi)) ** dimension > COUNT
    small = COUNT / log(COUNT) ** (dimension / 2) < 16 * log(1 / DELTA) * (12 / width) ** 2
    return not (few or small)


def _equal_bins(runs: int) -> Iterator[Row]:
    """Theorems 3 and 5: Algorithm 1 on standard normal points of the plane."""
    noise, bins, width = log(1 / DELTA), 1 << DEPTH, EDGE / 2 ** (DEPTH / 2)
    for theorem in ("Theorem 3", "Theorem 5"):
        threshold = 0 if theorem == "Theorem 3" else round(8 / EPSILON * noise)
        errors, bounds = [], []
        for run in range(runs):
            points = np.random.default_rng([13, run]).standard_normal((COUNT, 2))
            errors.append(_largest_difference(_bins(points, threshold, EPSILON), points))
            if theorem == "Theorem 3":
                bound = 2 / (EPSILON * COUNT / (4 * bins * noise) - 1)
            else:
                bound = _theorem_5(points, threshold)
            bounds.append(bound + width / 2 * sqrt(2 / e))
        note = f"error {np.mean(errors):.3g}, bound {np.mean(bounds):.3g}; {bins} bins, {runs} runs"
        name = f"KD-trees, {theorem}: largest kernel density error over its bound, 2-d"
        yield at_most(name, float(max(np.array(errors) / bounds)), "x", 1.0, note)


def _theorem_5(points: FloatArray, threshold: int) -> float:
    """Without the rounding to centres."""
    edges = np.linspace(-EDGE / 2, EDGE / 2, 2 ** (DEPTH // 2) + 1)
    counts, _ = np.histogramdd(points, [edges, edges])
    light = float(counts[counts < 1.5 * threshold].sum())
    heavy = int((counts >= threshold / 2).sum())
    moved = EPSILON * light + 8 * heavy * log(1 / DELTA)
    left = EPSILON * COUNT - EPSILON * light - 4 * heavy * log(1 / DELTA)
    return moved / left + light / COUNT


def _bins(points: FloatArray, threshold: int, epsilon: float) -> Weighted:
    """Algorithm 1: bins whose noisy count exceeds the threshold, noise of scale 2 / epsilon."""
    domain = Domain([Attribute(name, low=-EDGE / 2, high=EDGE / 2) for name in ("x", "y")])
    privacy = Privacy(epsilon / 2, intrusion="announced")
    model = kdtree_points(
        points,
        domain,
        privacy,
        os_entropy(),
        depth=DEPTH,
        height=DEPTH,
        threshold=threshold,
        as_published=True,
    )
    return model.weighted_points()


def _largest_difference(found: Weighted, points: FloatArray) -> float:
    """Over a grid of points; the data's own density by the exact mean over a fine histogram."""
    edges = np.linspace(-EDGE / 2, EDGE / 2, 20 * GRID + 1)
    counts, _ = np.histogramdd(points, [edges, edges])
    middles, places = (edges[1:] + edges[:-1]) / 2, np.linspace(-4, 4, GRID)
    near = np.exp(-((places[:, None] - middles) ** 2) / 2)
    exact = near @ counts @ near.T / counts.sum()
    at, weights = found
    x, y = (np.exp(-((places[:, None] - column) ** 2) / 2) for column in at.T)
    return float(np.abs(exact - (x * weights) @ y.T / weights.sum()).max())


def _slope(runs: int) -> Row:
    """Figure 4: how the error falls with epsilon, against the bound's -1/3."""
    errors = []
    for epsilon in FIGURE_4:
        found = []
        for run in range(2 * runs):
            points = np.random.default_rng([14, run]).standard_normal((COUNT, 2))
            threshold = round(8 / epsilon * log(1 / DELTA))
            found.append(_largest_difference(_bins(points, threshold, epsilon), points))
        errors.append(np.mean(found))
    slope = float(np.polyfit(np.log(FIGURE_4), np.log(errors), 1)[0])
    note = f"errors {errors[0]:.3g} to {errors[-1]:.3g}, where rounding begins; Theorem 6 has -1/3"
    return Row("KD-trees, Figure 4: slope of log error in log epsilon", slope, "", note=note)


def _threshold(runs: int, count: int) -> Iterator[Row]:
    """Lemma 10's threshold beside the product's, with the same noise: MMD to the mixture."""
    for dimension in (2, 5):
        data, depth = data_of(dimension, 30, count), FINEST[dimension]
        # Two thirds of epsilon decide; h = 0.
        published = 2 * depth / (2 / 3 * EPSILON) * log(count * depth / DELTA)
        privacy = Privacy(EPSILON, intrusion="announced")
        ours, theirs = (
            float(np.mean([_distance(data, privacy, depth, tau) for _ in range(runs)]))
            for tau in (None, round(published))
        )
        note = f"tau {published:,.0f} by Lemma 10: MMD {theirs:.3g}, ours {ours:.3g}; n {count:,}"
        name = f"KD-trees, Lemma 10: MMD with its threshold over ours, {dimension}-d"
        yield at_least(name, theirs / ours, "x", FARTHER, note)


def _distance(data: Data, privacy: Privacy, depth: int, tau: int | None) -> float:
    options = {"depth": depth} | ({} if tau is None else {"tau": tau})
    return data.distance(*tree_points(data, privacy, **options))
