"""Pairs of streams that noise can't tell apart, and what they ask of the errors of moments.

A twin has some readings farther away, so few that the released counters differ by APART standard
deviations of their noise. A test for the right one of both is then wrong about one of them in 7 %
of releases or more. Their means, or their variances, differ by D. With standard errors below D / 4
no answer is within two of them of both truths, so answers are such a test. Of one stream, then, 7 %
of the truths or more are farther from them (Le Cam, "Convergence of estimates under dimensionality
restrictions", 1973). Where D / 4 is more than the real error, more truths than 95 % must be within
two standard errors.
"""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from benchmarks.datasets.small_streams import FloatArray, Stream
from benchmarks.error_bars.short_streams import exact, noisy
from benchmarks.harness.report import Watch
from benchmarks.harness.result import Row
from benchmarks.streams.coverage import AGES, LOWEST, Age, counted, model_of, streams
from pansketch import ViewsSpec
from pansketch.generators import TooFewReadings

FLEETS, QUICK_FLEETS = 8, 2
KINDS = ("mean", "variance")
PLACES = (0.0, 0.3, 0.6, 0.9)  # of the way from the mean to a bound: readings move beyond
MOVED = 20  # one reading in so many is moved, to find by how much each moves the counters
MOST = 0.5  # of the readings may move
APART = 2 * NormalDist().inv_cdf(LOWEST)


def run(quick: bool, watch: Watch = iter) -> list[Row]:
    found = []
    for stream in watch(streams()):
        for age in AGES:
            found += _rows(stream, age, QUICK_FLEETS if quick else FLEETS)
    return found


def _rows(stream: Stream, age: Age, fleets: int) -> list[Row]:
    rng = np.random.default_rng([age.windows, age.thinned])
    held, told, draws = counted(stream, age, rng)
    spec = told.spec
    if not isinstance(spec, ViewsSpec):
        return []
    models = [model_of(noisy(told, draws, rng)) for _ in range(fleets)]
    found = _Found([], [], [])
    for place, attribute in enumerate(stream.domain.attributes):
        if attribute.categories is not None or attribute.cyclic:
            continue
        name = attribute.name
        try:
            answers = [(each.mean(name), each.covariance((name,))[0, 0]) for each in models]
        except TooFewReadings:
            continue
        column = held[np.isfinite(held[:, place]), place]
        values, errors = (
            np.array([[getattr(each, part) for each in both] for both in answers])
            for part in ("value", "standard_error")
        )
        off = values - (column.mean(), column.var())
        found.real.append(np.sqrt(np.mean(off**2, axis=0)))
        found.ours.append(np.median(errors, axis=0))
        found.least.append(farthest(spec, held, place, age.windows, draws, rng) / 4)
    if not found.least:
        return []
    stated, needed = (
        np.median(np.divide(e, found.least), axis=0) for e in (found.ours, found.real)
    )
    rows = []
    for kind, ours, real in zip(KINDS, stated.tolist(), needed.tolist(), strict=True):
        within = 1 - 2 * NormalDist().cdf(-2 / real)
        note = (
            f"so {within:.3f} of truths are within two, if errors are normal; median of "
            f"{len(found.least)} attributes; ours is {ours:.1f} x that least one"
        )
        title = f"{stream.name}, {age.name}: least s.e. of a {kind} over the real error"
        rows.append(Row(title, 1 / real, "x", note=note))
    return rows


class _Found(NamedTuple):
    """Of each attribute, float64[2]: of its mean and of its variance."""

    least: list[FloatArray]
    real: list[FloatArray]
    ours: list[FloatArray]


def farthest(
    spec: ViewsSpec,
    held: FloatArray,
    place: int,
    windows: int,
    draws: int,
    rng: np.random.Generator,
) -> FloatArray:
    """By how much the mean and the variance of one attribute differ from those of twins at most:
    float64[2]. `held`: the readings of a window, float64[n, d]."""
    there = np.flatnonzero(np.isfinite(held[:, place]))
    column, attribute = held[there, place], spec.domain.attributes[place]
    moved = rng.permutation(there)[: max(1, len(held) // MOVED)]
    counters = exact(spec, held).counters
    noise = np.repeat([view.noise_variance for view in spec.views], spec.blocks) * draws
    mean, found = float(column.mean()), np.zeros(2)
    for bound in (attribute.origin, attribute.highest):
        for part in PLACES:
            other = held.copy()
            low, high = sorted((mean + part * (bound - mean), bound))
            values = rng.uniform(low, high, len(moved))
            if attribute.lattice is not None:
                values = attribute.lattice.points(attribute.lattice.nearest(values))
            other[moved, place] = values
            apart = windows * (exact(spec, other).counters - counters)
            shown = float(np.sqrt(np.sum(apart**2 / noise))) / APART
            share = len(moved) / shown / len(there)
            if share <= MOST:
                squares = (1 - share) * np.mean((column - mean) ** 2)
                squares += share * np.mean((other[moved, place] - mean) ** 2)
                shifted = share * float(np.mean(other[moved, place]) - mean)
                variance = float(squares - shifted**2 - column.var())
                found = np.maximum(found, (abs(shifted), variance))
    return found
