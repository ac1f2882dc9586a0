"""Pairs of streams that noise can't tell apart, and what they ask of the errors of moments.

A twin has more readings far away, so few that the released counters differ by APART standard
deviations of their noise. A test for the right one of both is then wrong about one of them in 7 %
of releases or more. Their means, or their variances, differ by D. With standard errors below D / 4
no answer is within two of them of both truths, so answers are such a test. Of one stream, then, 7 %
of the truths or more are farther from them (Le Cam, "Convergence of estimates under dimensionality
restrictions", 1973). Where D / 4 is more than the real error, more truths than 95 % must be within
two standard errors.

The number of readings is not released without noise either, so a twin may have more. They are in
parts of one attribute's bounds. In other attributes they are as readings are, or anywhere. A twin
may have fewer of the others too. Of all mixtures of these changes the twin has the largest D.

Other twins have the same counters exactly: same_release.py.
"""

from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from benchmarks.datasets.small_streams import FloatArray, Stream
from benchmarks.error_bars.short_streams import exact, noisy
from benchmarks.harness.report import Watch
from benchmarks.harness.result import Row
from benchmarks.streams import same_release
from benchmarks.streams.coverage import AGES, LOWEST, Age, counted, streams
from benchmarks.streams.streams import FACTOR, model_of
from pansketch import Attribute, Domain, ViewsSpec
from pansketch.generators import Partition, TooFewReadings

FLEETS, QUICK_FLEETS = 8, 2
KINDS = ("mean", "variance")
PARTS = (0.0, 0.03, *np.linspace(0.1, 1.0, 10).tolist())  # of the way from the mean to a bound
SOME = 20  # one in so many readings makes a change, to find by how much it changes the counters
EXACT = 1e3  # times as heavy as the counters: the constraint that a moment changes at all
MOST = 0.5  # of the readings may change
APART = 2 * NormalDist().inv_cdf(LOWEST)


def run(quick: bool, watch: Watch = iter) -> list[Row]:
    found = []
    for stream in watch(streams()):
        for age in (each for each in AGES if not each.learned):
            found += _rows(stream, age, QUICK_FLEETS if quick else FLEETS)
    errors = [row.value for row in found if row.name.endswith(same_release.ANY)]
    if errors:
        title = f"all streams and ages: any prediction of TV errs by more than {FACTOR:g}"
        share = float(np.mean(np.array(errors) > FACTOR))
        found.append(Row(title, share, "share", note=f"of {len(errors)}"))
    return found


def _rows(stream: Stream, age: Age, fleets: int) -> list[Row]:
    rng = np.random.default_rng([age.windows, age.thinned])
    held, told, releases = counted(stream, age, rng)
    spec = told.spec
    if not isinstance(spec, ViewsSpec):
        return []
    merged = [noisy(told, releases, rng) for _ in range(fleets)]
    models, draws = [model_of(each) for each in merged], merged[0].noise
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
    title = f"{stream.name}, {age.name}"
    return [*rows, *same_release.rows_of(title, merged[0], held, models[0], rng)]


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
    draws: float,
    rng: np.random.Generator,
) -> FloatArray:
    """By how much the mean and the variance of one attribute differ from those of twins at most:
    float64[2]. `held`: the readings of a window, float64[n, d]; `draws`: of noise on a counter."""
    there = np.flatnonzero(np.isfinite(held[:, place]))
    column, attribute = held[there, place], spec.domain.attributes[place]
    some = held[rng.permutation(there)[: max(1, len(held) // SOME)]]
    mean, variance, part = float(column.mean()), float(column.var()), len(some) / len(there)
    noise = np.repeat([view.noise_variance for view in spec.views], spec.blocks) * draws
    fewer = -exact(spec, some).counters
    found = np.zeros(2)
    for bound in (attribute.origin, attribute.highest):
        changes, moments = [fewer], [(0.0, 0.0)]
        for ends in pairwise(mean + np.array(PARTS) * (bound - mean)):
            values = _between(attribute, min(ends), max(ends), len(some), rng)
            for others in (some.copy(), _anywhere(spec.domain, len(some), rng)):
                others[:, place] = values
                changes.append(exact(spec, others).counters)
                away = values - mean
                moments.append((float(away.mean()), float(np.mean(away**2)) - variance))
        shown = windows * np.array(changes).T / np.sqrt(noise)[:, None]
        for goal in np.maximum(np.array(moments) * (np.sign(bound - mean), 1.0), 0.0).T:
            if goal.any():
                mixture = part * _least_shown(shown, goal)
                mixture *= min(1.0, MOST / mixture.sum())
                shift, squares = mixture @ moments / (1.0 - mixture[0] + mixture[1:].sum())
                found = np.maximum(found, (abs(shift), squares - shift**2))
    return found


def _least_shown(shown: FloatArray, goal: FloatArray) -> FloatArray:
    """How often each of m changes is made, so that counters differ by APART deviations and a moment
    by most: float64[m]. `shown`: by how many deviations each change does, float64[counters, m];
    `goal`: by how much it changes the moment, float64[m]."""
    weight = EXACT * float(np.linalg.norm(shown, axis=0).max() / goal.max())
    wanted = np.append(np.zeros(len(shown)), weight * goal.max())
    parts, _ = nnls(np.vstack([shown, weight * goal]), wanted)
    return np.asarray(parts * (APART / np.linalg.norm(shown @ parts)))


def _between(
    attribute: Attribute, low: float, high: float, many: int, rng: np.random.Generator
) -> FloatArray:
    values, lattice = rng.uniform(low, high, many), attribute.lattice
    return values if lattice is None else lattice.points(lattice.nearest(values))


def _anywhere(domain: Domain, many: int, rng: np.random.Generator) -> FloatArray:
    """Readings spread evenly over all scales: float64[many, d]."""
    ends = np.zeros((1, domain.dimension)), np.ones((1, domain.dimension))
    return rng.permutation(Partition(domain, *ends, np.ones(1)).sample(many, rng))
