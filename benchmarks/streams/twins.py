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

An even twin has the same counters exactly. Its readings of one attribute are spread over their
finest cells. An error that holds for a stream whose readings crowd inside them is too wide for it.
"""

from collections.abc import Iterator
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from benchmarks.datasets.small_streams import FloatArray, Stream
from benchmarks.error_bars.short_streams import exact, noisy
from benchmarks.harness.report import Watch
from benchmarks.harness.result import Row
from benchmarks.streams.coverage import AGES, LOWEST, Age, counted, model_of, streams
from pansketch import Attribute, Domain, ViewsSpec
from pansketch.generators import FittedModel, Partition, TooFewReadings

FLEETS, QUICK_FLEETS = 8, 2
KINDS = ("mean", "variance")
ASKED = np.arange(0.02, 1.0, 0.02)  # shares of the readings: up to there a `cdf` is compared
PARTS = (0.0, 0.03, *np.linspace(0.1, 1.0, 10).tolist())  # of the way from the mean to a bound
SOME = 20  # one in so many readings makes a change, to find by how much it changes the counters
EXACT = 1e3  # times as heavy as the counters: the constraint that a moment changes at all
MOST = 0.5  # of the readings may change
TINY = np.finfo(float).tiny
APART = 2 * NormalDist().inv_cdf(LOWEST)


def run(quick: bool, watch: Watch = iter) -> list[Row]:
    found = []
    for stream in watch(streams()):
        for age in (each for each in AGES if not each.learned):
            found += _rows(stream, age, QUICK_FLEETS if quick else FLEETS)
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
    return [*rows, *_even_rows(f"{stream.name}, {age.name}", spec, held, models[0], rng)]


def _even_rows(
    title: str, spec: ViewsSpec, held: FloatArray, model: FittedModel, rng: np.random.Generator
) -> Iterator[Row]:
    """Where an even twin is most of our standard errors from the stream, if it has its counters."""
    found, counters = [], exact(spec, held).counters
    for place, attribute in enumerate(spec.domain.attributes):
        if attribute.categories is not None or attribute.cyclic or attribute.atoms:
            continue
        stream, twin = held.copy(), held.copy()
        if attribute.lattice is not None:  # An agent counts readings at the nearest multiples.
            stream[:, place] = attribute.lattice.points(attribute.lattice.nearest(held[:, place]))
        twin[:, place] = evenly(spec, stream[:, place], place, rng)
        if (exact(spec, twin).counters != counters).any():
            continue
        column, even = np.sort(stream[:, place]), np.sort(twin[:, place])
        limits = np.unique(column[(ASKED * len(column)).astype(np.intp)])
        apart = [np.searchsorted(each, limits, "right") / len(column) for each in (column, even)]
        for limit, share in zip(limits.tolist(), np.abs(apart[0] - apart[1]), strict=True):
            try:
                error = model.cdf(attribute.name, limit).standard_error
            except TooFewReadings:
                break
            found.append((float(share) / max(error, TINY), float(share), attribute.name, limit))
    if found:
        times, share, name, limit = max(found)
        note = f"{share:.3f}, up to {limit:g} of {name}; no counter differs"
        yield Row(f"{title}: cdf of an even twin, in our s.e.", times, "x", note=note)


def evenly(spec: ViewsSpec, column: FloatArray, place: int, rng: np.random.Generator) -> FloatArray:
    """The readings of one attribute, float64[n], each anywhere in its finest cell."""
    attribute = spec.domain.attributes[place]
    views = (view for view in spec.views if attribute.name in view.names)
    many = 1 << max(view.bits[view.names.index(attribute.name)] for view in views)
    cells = np.minimum((attribute.scaling.positions(column) * many).astype(np.intp), many - 1)
    ends = np.arange(many + 1) / many
    return attribute.inside(ends[:-1], ends[1:], cells, rng.random(len(column)))


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
