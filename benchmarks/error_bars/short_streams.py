"""Streams at their beginning, whose noise outweighs their readings or nearly does.

Their windows are not sketched separately. The noise of so many releases is one number for each
counter, a difference of two negative binomials, which has the same law.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from pansketch import (
    Attribute,
    CellsSpec,
    Domain,
    Estimate,
    HierarchySpec,
    MomentsSpec,
    Privacy,
    Release,
    Spec,
    ViewsSpec,
    WindowId,
)
from pansketch.domain import FloatArray
from pansketch.generators import (
    Estimates,
    FittedModel,
    Training,
    density,
    kdtree,
    m2m,
    pairwise,
    privhp,
)
from pansketch.generators.moments.training_points import uniform as even
from pansketch.planning import Expected, plan_hierarchy, plan_views
from pansketch_audit.mechanisms.zero_noise import NoNoise

READINGS = 60  # of a window
# The default of a stream with windows of a minute: a month, its first window and its first day.
EXPECTED = Expected(READINGS, 10, 43_200, (1, 1440))
MEMORY = 1 << 15
PARTICLES, POINTS = 1 << 12, 10_000
BINS = 8

Shape = Callable[[int, int, np.random.Generator], tuple[Domain, FloatArray]]
Question = tuple[str, float, Callable[[FittedModel], Estimate]]


def _domain(count: int, low: float = 0, high: float = 100, log: bool = False) -> Domain:
    scale = {"scale": "log", "resolution": 5} if log else {}
    return Domain([Attribute(f"x{i}", low=low, high=high, **scale) for i in range(count)])  # type: ignore[arg-type]


def _related(count: int, rows: int, rng: np.random.Generator) -> FloatArray:
    """Normal numbers, each two of which have a correlation of 1/2."""
    return np.asarray((rng.normal(size=(rows, 1)) + rng.normal(size=(rows, count))) / np.sqrt(2))


def _within(domain: Domain, rows: FloatArray) -> tuple[Domain, FloatArray]:
    first = domain.attributes[0]
    return domain, np.clip(rows, first.origin, first.highest)


SHAPES: dict[str, Shape] = {
    "uniform": lambda d, n, rng: (_domain(d), 100 * rng.random((n, d))),
    "crowded": lambda d, n, rng: _within(_domain(d), 14 + _related(d, n, rng)),
    "heavy tail": lambda d, n, rng: _within(
        _domain(d, high=1000, log=True), 20 * np.exp(0.9 * _related(d, n, rng))
    ),
    "spike at a bound": lambda d, n, rng: _within(
        _domain(d), np.where(rng.random((n, d)) < 0.85, 0, rng.exponential(15, (n, d)))
    ),
    "loose bounds": lambda d, n, rng: _within(
        _domain(d, -1000, 1000), 15 + 5 * _related(d, n, rng)
    ),
    "near-duplicates": lambda d, n, rng: _within(
        _domain(d), 55 + 15 * rng.normal(size=(n, 1)) + rng.normal(size=(n, d))
    ),
}


@dataclass(frozen=True)
class Family:
    """A kind of sketch, of so many attributes, and what reads its releases."""

    attributes: int
    spec: Callable[[Domain], Spec]
    fit: Callable[[Release], FittedModel]


@cache
def _training(spec: MomentsSpec) -> Training:
    return Training(spec, even(spec.domain, POINTS, np.random.default_rng(0)))


def _m2m(release: Release) -> FittedModel:
    assert isinstance(release.spec, MomentsSpec)
    return m2m(release, _training(release.spec))


def _hierarchy(domain: Domain) -> HierarchySpec:
    return plan_hierarchy(domain, Privacy(1.0), MEMORY, EXPECTED).spec


def _views(domain: Domain) -> ViewsSpec:
    return plan_views(domain, Privacy(1.0), MEMORY, EXPECTED).spec


FAMILIES = {
    "privhp": Family(2, _hierarchy, privhp),
    "kdtree": Family(2, _hierarchy, lambda release: kdtree(release).partition),
    "density": Family(
        2, lambda d: CellsSpec(d, Privacy(1.0), depth=10), lambda r: density(r).partition
    ),
    "pairwise": Family(3, _views, lambda release: pairwise(release, particles=PARTICLES)),
    "m2m": Family(2, lambda d: MomentsSpec(d, Privacy(1.0), features="hist", bins=32), _m2m),
}


def exact(spec: Spec, rows: FloatArray) -> Release:
    """The release of one window with all readings and no noise."""
    sketch = spec.start(NoNoise())
    sketch.update_many(rows)
    return sketch.release(NoNoise(), WindowId("", "", 0))


def noisy(release: Release, windows: int, rng: np.random.Generator) -> Release:
    """The same readings from so many windows with noise."""
    spec, draws = release.spec, 2 * windows
    noise = []
    for scale, size in _scales(spec):
        chance = -np.expm1(-1 / scale)
        noise.append(np.subtract(*(rng.negative_binomial(draws, chance, size) for _ in "+-")))
    labels = tuple(WindowId("one", "s", number) for number in range(windows))
    return Release(spec, labels, draws, release.counters + np.concatenate(noise).astype(np.int64))


def _scales(spec: Spec) -> Iterator[tuple[float, int]]:
    """The Laplace scale of the noise on each block, and the block's size."""
    if isinstance(spec, HierarchySpec):
        return ((float(level.scale), level.size) for level in spec.levels)
    if isinstance(spec, ViewsSpec):
        return ((float(view.scale), view.size) for view in spec.views)
    if isinstance(spec, CellsSpec):
        scales = [spec.count_scale, *(table.scale for table in spec.tables)]
        return zip(map(float, scales), spec.blocks, strict=True)
    assert isinstance(spec, MomentsSpec)
    return zip(map(float, spec.scales), spec.blocks, strict=True)


def questions(domain: Domain, rows: FloatArray, boxes: bool) -> Iterator[Question]:
    """(kind, the truth, how to ask): of one attribute, and of two together."""
    (one, two), (x, y) = domain.names[:2], (rows[:, 0], rows[:, 1])
    yield "mean", float(x.mean()), lambda model: model.mean(one)
    low, high = (float(end) for end in (domain.attributes[0].origin, domain.attributes[0].highest))
    for part in (0.1337, 0.337, 0.6937):
        at = low + part * (high - low)
        yield "cdf", float((x <= at).mean()), partial(_cdf, name=one, at=at)
    cut, other = float(np.quantile(x, 0.3)) + 1e-7, float(np.quantile(y, 0.6)) + 1e-7
    single, both = f"{one} > {cut!r}", f"{one} > {cut!r} & {two} <= {other!r}"
    yield "count", float((x > cut).sum()), lambda model: model.count(single)
    yield "count of two", float(((x > cut) & (y <= other)).sum()), lambda model: model.count(both)
    together = np.cov(x, y, bias=True)
    for kind, place in (("variance", (0, 0)), ("covariance", (0, 1))):
        yield kind, float(together[place]), partial(_covariance, place=place)
    if not boxes:
        return
    for q in (0.25, 0.5, 0.9):
        yield "quantile", float(np.quantile(x, q)), partial(_quantile, name=one, q=q)
    inside = [
        (low + k * (high - low) / BINS, low + (k + 1) * (high - low) / BINS) for k in range(BINS)
    ]
    for start, end in inside[:3]:
        bins = [[f"{one} >= {start!r} & {one} < {end!r}"]]
        share = float(((x >= start) & (x < end)).mean())
        yield "histogram", share, partial(_bin, bins=bins)
        pair = [*bins, [f"{two} >= {start!r} & {two} < {end!r}"]]
        share = float(((x >= start) & (x < end) & (y >= start) & (y < end)).mean())
        yield "density", share, partial(_bin, bins=pair)


def _cdf(model: FittedModel, name: str, at: float) -> Estimate:
    return model.cdf(name, at)


def _quantile(model: FittedModel, name: str, q: float) -> Estimate:
    return model.quantile(name, q)


def _covariance(model: FittedModel, place: tuple[int, int]) -> Estimate:
    found = model.covariance(model.domain.names[:2])[place]
    assert not isinstance(found, Estimates)
    return found


def _bin(model: FittedModel, bins: list[list[str]]) -> Estimate:
    found = model.bin_shares(bins)
    value, error = found.value, found.standard_error
    return Estimate(value.item(), error.item())
