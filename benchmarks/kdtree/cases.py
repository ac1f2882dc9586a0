"""The inputs of the KD-tree benchmark: data of a mixture, generators over it, their distance."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np
import numpy.typing as npt

from pansketch import (
    Attribute,
    CellsSpec,
    Domain,
    HierarchySpec,
    Privacy,
    Release,
    Spec,
    os_entropy,
)
from pansketch.generators import (
    EmptyModel,
    KdTree,
    density,
    kdtree,
    kdtree_points,
    median_bandwidth,
    privhp,
)

FloatArray = npt.NDArray[np.float64]
Weighted = tuple[FloatArray, FloatArray]

LOW, HIGH = 40.0, 160.0  # 100 -+ 4 sqrt(200 + 30), rounded.
FEATURES = 2048
AT_ONCE = 4096
# h', the finest cells of trees: 2**20 cells in 2 dimensions, 2**25 in 5, 2**30 in 10.
FINEST = {2: 20, 5: 25, 10: 30}
EQUAL_BINS = {2: (8, 10, 12, 20), 5: (10, 15, 20, 25), 10: (10, 20, 30)}
DENSITY_DEPTH = {2: 12, 5: 15, 10: 20}
FIRST_HEIGHT = {2: 8, 5: 15, 10: 20}
BARRED_EPSILONS = (0.1, 1.0, 10.0)
ADAPTIVE, PUBLISHED = "adaptive", "adaptive, as published"
FROM_HEIGHT = "adaptive, h > 0"


@dataclass(frozen=True)
class Data:
    """Readings of the mixture."""

    dimension: int
    covariance: float
    count: int

    def __str__(self) -> str:
        return f"{self.dimension}-d, covariance {self.covariance:g}, n {self.count:,}"

    @cached_property
    def points(self) -> FloatArray:
        """float64[count, dimension]; smaller samples are the beginning of larger ones."""
        generator = np.random.default_rng([self.dimension, 1])
        means = generator.normal(100, 200**0.5, (10, self.dimension))
        weights = 1 / np.arange(1, 11)
        which = generator.choice(10, 100_000, p=weights / weights.sum())
        noise = generator.standard_normal((100_000, self.dimension))
        points = means[which] + self.covariance**0.5 * noise
        return np.asarray(points[: self.count])

    @cached_property
    def domain(self) -> Domain:
        return Domain([Attribute(f"x{i}", low=LOW, high=HIGH) for i in range(self.dimension)])

    @cached_property
    def distance(self) -> "Distance":
        return Distance(self.points)


@dataclass(frozen=True)
class Case:
    """A generator at one epsilon."""

    data: Data
    epsilon: float
    method: str

    def __str__(self) -> str:
        return f"{self.data}, epsilon {self.epsilon:g}: {self.method}"

    def run(self) -> tuple[float, int]:
        """MMD to the data, and of how many points. Nothing at all counts as farthest."""
        privacy = Privacy(self.epsilon, intrusion="announced")
        try:
            points, weights = methods(self.data.dimension)[self.method](self.data, privacy)
        except EmptyModel:
            return 2**0.5, 0
        return self.data.distance(points, weights), len(weights)


class Distance:
    """MMD to raw points by random Fourier features of the kernel, the same ones for all.

    Rahimi, Recht, "Random features for large-scale kernel machines" (NIPS 2007). Exact MMD takes
    minutes for a hundred thousand points and as many leaves. A row of the report has the difference
    of the two.
    """

    def __init__(self, points: FloatArray) -> None:
        self.bandwidth = median_bandwidth(points, points)
        generator = np.random.default_rng(5)
        self._centre = points.mean(axis=0)
        self._waves = generator.normal(0, 1 / self.bandwidth, (points.shape[1], FEATURES))
        self._mean = self._embedding(points, np.ones(len(points)))

    def __call__(self, points: FloatArray, weights: FloatArray) -> float:
        apart = self._embedding(points, weights) - self._mean
        return float(np.sqrt(np.sum(apart**2) / FEATURES))

    def _embedding(self, points: FloatArray, weights: FloatArray) -> FloatArray:
        total = np.zeros(2 * FEATURES)
        for start in range(0, len(points), AT_ONCE):
            phases = (points[start : start + AT_ONCE] - self._centre) @ self._waves
            shares = weights[start : start + AT_ONCE]
            total += np.concatenate([shares @ np.cos(phases), shares @ np.sin(phases)])
        return np.asarray(total / weights.sum())


def methods(dimension: int) -> dict[str, Callable[[Data, Privacy], Weighted]]:
    """Every generator: data -> weighted points, private at an epsilon."""
    finest = FINEST[dimension]
    bins = {
        bins_name(depth): partial(tree_points, depth=depth, height=depth)
        for depth in EQUAL_BINS[dimension]
    }
    return bins | {
        ADAPTIVE: partial(tree_points, depth=finest),
        PUBLISHED: partial(tree_points, depth=finest, as_published=True),
        FROM_HEIGHT: partial(tree_points, depth=finest, height=FIRST_HEIGHT[dimension]),
        "KD-tree of a hierarchy": partial(_hierarchy, generator=kdtree),
        "PrivHP": partial(_hierarchy, generator=_privhp),
        "Density Sketch": _density,
    }


def bins_name(depth: int) -> str:
    return f"equal bins, 2^{depth}"


def tree_points(data: Data, privacy: Privacy, **options: int) -> Weighted:
    model = kdtree_points(data.points, data.domain, privacy, os_entropy(), **options)  # type: ignore[arg-type]
    return model.weighted_points()


def _hierarchy(data: Data, privacy: Privacy, generator: Callable[[Release], KdTree]) -> Weighted:
    spec = HierarchySpec(data.domain, privacy, depth=FINEST[data.dimension])
    return generator(_released(spec, data)).weighted_points()


def _privhp(release: Release) -> KdTree:
    return KdTree(privhp(release))


def _density(data: Data, privacy: Privacy) -> Weighted:
    spec = CellsSpec(data.domain, privacy, depth=DENSITY_DEPTH[data.dimension])
    return KdTree(density(_released(spec, data)).partition).weighted_points()


def _released(spec: Spec, data: Data) -> Release:
    rng = os_entropy()
    sketch = spec.start(rng)
    sketch.update_many(data.points)
    return sketch.release(rng)


def cases(quick: bool) -> list[Case]:
    """Epsilon varied in four panels, then the number of readings at epsilon 1."""
    most = 20_000 if quick else 100_000
    epsilons = BARRED_EPSILONS if quick else (0.1, 0.3, 1.0, 3.0, 10.0)
    panels = [
        data_of(2, 30, most),
        data_of(5, 30, most),
        data_of(10, 3, most),
        data_of(10, 30, most),
    ]
    found = [
        Case(data, epsilon, method)
        for data in panels
        for epsilon in epsilons
        for method in methods(data.dimension)
    ]
    sizes = [data_of(d, 30, count) for d in (2, 5) for count in sizes_of(quick)]
    found += [Case(data, 1.0, method) for data in sizes for method in (ADAPTIVE, "PrivHP")]
    return list(dict.fromkeys(found))


def sizes_of(quick: bool) -> tuple[int, ...]:
    return (1_000, 5_000, 20_000) if quick else (1_000, 10_000, 100_000)


@cache
def data_of(dimension: int, covariance: float, count: int) -> Data:
    """One object for all cases, so that its points are drawn and embedded once."""
    return Data(dimension, covariance, count)
